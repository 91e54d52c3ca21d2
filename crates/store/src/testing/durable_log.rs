//! A durable log of few bytes: files of commits, of which the oldest go.

use super::collection::elements_of;
use crate::logged::{Meaning, logged_records};
use crate::{Recovery, Store, StoreConfig};
use std::collections::{BTreeSet, VecDeque};

/// A file is full from here on.
const FILE_BYTES: usize = 16 << 10;
/// The oldest file goes when all take more, and at least this many times what is live.
const LEAST_BYTES: usize = 64 << 10;
const SHARE: usize = 2;
/// What is recovered has room, however it lies.
const MEMORY_BYTES: u64 = 8 << 20;

/// The files of one store.
#[derive(Debug, Default)]
pub(super) struct DurableLog {
    files: VecDeque<Vec<u8>>,
    /// How many files went.
    pub(super) gone: usize,
}

impl DurableLog {
    /// Makes a commit, with what stays of a file that goes.
    pub(super) fn commit(&mut self, store: &Store) {
        let commits = store.commits().expect("the store is durable");
        let mut records = Vec::new();
        let total: usize = self.files.iter().map(Vec::len).sum();
        let live = store.memory().log_live as usize;
        if self.files.len() > 2 && total > LEAST_BYTES.max(SHARE * live) {
            let oldest = self.files.pop_front().expect("there are files");
            store.survivors_of(&oldest, usize::MAX, &mut records);
            self.gone += 1;
        }
        let number = commits.take(&mut records);
        commits.set_safe(number);
        match self.files.back_mut().filter(|file| file.len() < FILE_BYTES) {
            Some(file) => file.append(&mut records),
            None => self.files.push_back(records),
        }
    }

    /// Of each key, and of each chunk, one record is needed. `values`: how many keys have one.
    pub(super) fn check_needed(&self, store: &Store, values: usize) {
        let mut needed = Vec::new();
        for file in &self.files {
            store.survivors_of(file, usize::MAX, &mut needed);
        }
        let (mut keys, mut chunks) = (BTreeSet::new(), BTreeSet::new());
        for record in logged_records(&needed).map(|record| record.expect("it was written")) {
            match record.meaning() {
                Meaning::Value(record) => assert!(keys.insert(record.key()), "{record:?} is needed twice"),
                Meaning::Chunk(_, chunk) => assert!(chunks.insert(chunk.key()), "{chunk:?} is needed twice"),
                // While the store keeps its tombstone.
                Meaning::Removed(_) => {}
                other => panic!("{other:?} is needed"),
            }
        }
        assert_eq!(keys.len(), values);
    }

    /// The store that the files make, read in the order that the seed draws.
    pub(super) fn recover(&self, seed: usize) -> Store {
        let config =
            StoreConfig { memory_bytes: MEMORY_BYTES, segment_bytes: 4 << 10, ..StoreConfig::default() };
        let store = Store::new(config).expect("a valid configuration");
        let mut recovery = Recovery::begin(&store);
        let mut files: Vec<&Vec<u8>> = self.files.iter().collect();
        match seed % 3 {
            0 => {}
            1 => files.reverse(),
            _ => files.rotate_left(seed % self.files.len().max(1)),
        }
        let read = |recovery: &mut Recovery<'_>, files: &[&Vec<u8>]| {
            files.iter().for_each(|file| recovery.replay(file).expect("it was written, and fits"));
        };
        if seed.is_multiple_of(2) {
            read(&mut recovery, &files[..files.len() / 2]);
            recovery.begin_again(1 + (seed / 2 % 5) as u16);
        }
        loop {
            read(&mut recovery, &files);
            if !recovery.reads_on() {
                break;
            }
        }
        recovery.finish(&|_, _, label, _| Some(elements_of(label))).expect("it was written");
        assert_eq!(store.check_accounting(), Ok(()));
        store
    }
}
