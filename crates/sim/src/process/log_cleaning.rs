//! Cleaning a durable log from its oldest end: the server's steps.

use crate::durable::LogFolder;
use sidle_log_files::{FileEnd, LogFile, LogWriter};
use sidle_store::{Store, logged_records};
use std::ops::Range;

/// What is cleaned.
#[derive(Debug, Default)]
pub(super) struct LogCleaning {
    judging: Option<Judging>,
    /// How many files there were when none was to be cleaned.
    looked_at: usize,
}

#[derive(Debug)]
struct Judging {
    file: u64,
    bytes: Vec<u8>,
    /// Records not judged yet, by block; the last is next.
    left: Vec<Range<usize>>,
}

impl LogCleaning {
    /// Judges about `most` bytes of records, and appends what the store still has of them. Returns the file
    /// of which nothing is left to judge.
    pub(super) fn step(
        &mut self,
        store: &Store,
        writer: &LogWriter,
        folder: &LogFolder,
        most: usize,
        records: &mut Vec<u8>,
    ) -> Option<u64> {
        let Some(judging) = &mut self.judging else {
            if self.looked_at != writer.file_count() {
                self.begin(store, writer, folder);
            }
            return None;
        };
        judging.step(store, most, records);
        let file = judging.file;
        judging.left.is_empty().then(|| {
            *self = LogCleaning::default();
            file
        })
    }

    fn begin(&mut self, store: &Store, writer: &LogWriter, folder: &LogFolder) {
        let Some(file) = writer.to_clean(store.memory().log_live) else {
            self.looked_at = writer.file_count();
            return;
        };
        let bytes = folder.read(file).expect("the file is there");
        let mut left = Vec::new();
        let open = LogFile::open(&bytes, file, None).expect("its head was synced");
        let end = open.blocks(|block| left.push(block.place()));
        assert_eq!(end, FileEnd::Closed, "a file follows one that was closed");
        left.reverse();
        self.judging = Some(Judging { file, bytes, left });
    }
}

impl Judging {
    fn step(&mut self, store: &Store, most: usize, records: &mut Vec<u8>) {
        let mut judged = 0;
        while let Some(block) = self.left.last_mut().filter(|_| judged < most) {
            for record in logged_records(&self.bytes[block.clone()]) {
                let record = record.expect("the block's checksum was right");
                if store.is_current(&record) {
                    records.extend_from_slice(record.bytes());
                }
                block.start += record.bytes().len();
                judged += record.bytes().len();
                if judged >= most {
                    break;
                }
            }
            if block.start >= block.end {
                self.left.pop();
            }
        }
    }
}
