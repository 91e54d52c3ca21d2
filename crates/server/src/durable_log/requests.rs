//! Asking the log writer for a commit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// How others ask for a commit.
#[derive(Debug, Default)]
pub(crate) struct LogRequests {
    thread: OnceLock<Thread>,
    is_asked: AtomicBool,
}

impl LogRequests {
    /// Somebody waits for a commit.
    pub(crate) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Something has ended that the log writer waits for.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Requests go to this thread.
    pub(super) fn go_to(&self, thread: Thread) {
        // There is one log writer.
        let _ = self.thread.set(thread);
    }

    /// Whether anybody has asked since the last [`take`](Self::take).
    pub(super) fn is_any(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// The next commit is for whoever has asked.
    pub(super) fn take(&self) {
        self.is_asked.store(false, Ordering::Release);
    }
}
