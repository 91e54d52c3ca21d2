//! Cleaning: what the store still has of the oldest file is written again, so that the file can go.

use super::folder::Folder;
use crate::thread;
use sidle_log_files::{FileEnd, LogFile, LogWriter};
use sidle_store::{Store, logged_records};
use sidle_types::CommitNumber;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// How much of a file is judged for one commit, at least; more where commits are longer.
const STEP_BYTES: usize = 256 << 10;
/// So many times what a commit has.
const STEP_SHARE: usize = 2;

/// What is cleaned.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    state: State,
    /// The bytes of the last commit.
    last_commit: usize,
    /// How many files there were when none was to be cleaned.
    looked_at: usize,
    /// A file that cannot be cleaned: nothing behind it is.
    spoilt: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Reading(u64, Receiver<io::Result<Vec<u8>>>),
    Judging(Judging),
}

#[derive(Debug)]
struct Judging {
    file: u64,
    bytes: Vec<u8>,
    /// Records not judged yet, by block; the last is next.
    left: Vec<Range<usize>>,
}

impl Cleaning {
    /// So many bytes were committed.
    pub(super) fn note_commit(&mut self, bytes: usize) {
        self.last_commit = bytes;
    }

    /// Judges a few records, and appends what the store still has of them. Returns the file of which nothing
    /// is left to judge.
    pub(super) fn step(
        &mut self,
        store: &Store,
        writer: &LogWriter,
        folder: &Folder,
        records: &mut Vec<u8>,
    ) -> Option<u64> {
        match &mut self.state {
            State::Idle => {
                if !self.spoilt && self.looked_at != writer.file_count() {
                    self.begin(store, writer, folder);
                }
                None
            }
            State::Reading(file, read) => {
                let file = *file;
                match read.try_recv() {
                    Err(TryRecvError::Empty) => {}
                    Ok(Ok(bytes)) => self.read(file, bytes, writer.given_up_behind(file)),
                    Ok(Err(error)) => self.spoil(file, &error.to_string()),
                    Err(TryRecvError::Disconnected) => self.spoil(file, "its reader is gone"),
                }
                None
            }
            State::Judging(judging) => {
                judging.step(store, STEP_BYTES.max(STEP_SHARE * self.last_commit), records);
                let file = judging.file;
                let is_over = judging.left.is_empty();
                is_over.then(|| {
                    self.state = State::Idle;
                    self.looked_at = 0;
                    file
                })
            }
        }
    }

    fn begin(&mut self, store: &Store, writer: &LogWriter, folder: &Folder) {
        let Some(file) = writer.to_clean(store.memory().log_live) else {
            self.looked_at = writer.file_count();
            return;
        };
        match read_aside(folder.path_of(file)) {
            Ok(read) => self.state = State::Reading(file, read),
            Err(error) => self.spoil(file, &error.to_string()),
        }
    }

    /// `behind`: the commit behind which the next file has everything again.
    fn read(&mut self, file: u64, bytes: Vec<u8>, behind: Option<CommitNumber>) {
        let open = match LogFile::open(&bytes, file, None) {
            Ok(open) => open,
            Err(error) => return self.spoil(file, &error.to_string()),
        };
        let (mut left, mut last) = (Vec::new(), CommitNumber(open.first().0.saturating_sub(1)));
        let end = open.blocks(|block| {
            left.push(block.place());
            last = block.commit;
        });
        if end != FileEnd::Closed && behind.is_none_or(|behind| last < behind) {
            return self.spoil(file, "not all of it can be read");
        }
        left.reverse();
        self.state = State::Judging(Judging { file, bytes, left });
    }

    /// What is needed of a file cannot be read, though the store has it: the file stays.
    fn spoil(&mut self, file: u64, why: &str) {
        tracing::error!(
            "file {file} of the durable log cannot be cleaned: {why}. It is kept, and the log grows; what it had is \
             in memory. Restart the node when convenient"
        );
        self.state = State::Idle;
        self.spoilt = true;
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

/// Reads a file on another thread: commits do not wait for it.
fn read_aside(path: PathBuf) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = channel();
    thread::start("log-reader".to_owned(), move || {
        thread::lower_priority();
        // Nobody waits for it if the node ends.
        let _ = sender.send(std::fs::read(path));
    })?;
    Ok(receiver)
}
