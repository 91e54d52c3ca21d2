//! How far the node has read what it takes over from dead nodes.

use sidle_cluster::TakeoverProgress;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The same, while it is read. The default is a node that takes nothing over.
#[derive(Debug, Default)]
pub struct TakingOver {
    is_on: AtomicBool,
    fetched_bytes: AtomicU64,
    read_bytes: AtomicU64,
    copy_bytes: AtomicU64,
    put_bytes: AtomicU64,
    found_bytes: AtomicU64,
    /// What earlier ones have put in.
    put_before: AtomicU64,
}

impl TakingOver {
    /// A copy is fetched, or is read where that is here already.
    pub fn begin(&self) {
        let all =
            [&self.fetched_bytes, &self.read_bytes, &self.copy_bytes, &self.put_bytes, &self.found_bytes];
        all.into_iter().for_each(|bytes| bytes.store(0, Ordering::Relaxed));
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// So many bytes of the copy have been fetched, in all.
    pub fn note_fetched(&self, bytes: u64) {
        self.fetched_bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes more are to be read, beyond those that have been.
    pub fn note_left(&self, bytes: u64) {
        self.copy_bytes.store(self.read_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// So many more bytes have been read.
    pub fn note_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many more bytes were found, and are to be put in.
    pub fn note_found(&self, bytes: u64) {
        self.found_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes have been put in, in all.
    pub fn note_put(&self, bytes: u64) {
        self.put_bytes.store(bytes, Ordering::Relaxed);
    }

    /// It is over.
    pub fn end(&self) {
        self.put_before.fetch_add(self.put_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Bytes that have been put in since the node started.
    pub fn put_in_all(&self) -> u64 {
        self.put_before.load(Ordering::Relaxed) + self.put_bytes.load(Ordering::Relaxed)
    }

    /// How far it is, if anything is taken over.
    pub fn progress(&self) -> Option<TakeoverProgress> {
        let bytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        self.is_on.load(Ordering::Relaxed).then(|| TakeoverProgress {
            fetched_bytes: bytes(&self.fetched_bytes),
            read_bytes: bytes(&self.read_bytes),
            copy_bytes: bytes(&self.copy_bytes),
            put_bytes: bytes(&self.put_bytes),
            found_bytes: bytes(&self.found_bytes),
        })
    }
}
