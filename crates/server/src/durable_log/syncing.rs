//! Syncs on a thread of its own, so that writes go on meanwhile.

use super::folder::ToSync;
use crate::thread;
use sidle_types::CommitNumber;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A sync that has ended: the commit that was written last when it began, and how it ended.
pub(super) type Ended = (CommitNumber, io::Result<()>);

/// The thread, and what is under way on it: one sync at a time.
pub(super) struct Syncing {
    requests: Sender<(CommitNumber, ToSync)>,
    results: Receiver<Ended>,
    is_under_way: bool,
}

impl Syncing {
    /// Starts the thread. It ends when this is dropped.
    pub(super) fn start() -> io::Result<Syncing> {
        let (requests, queue) = channel::<(CommitNumber, ToSync)>();
        let (sender, results) = channel();
        thread::start("log-sync".to_owned(), move || {
            for (commit, file) in queue {
                if sender.send((commit, file.sync())).is_err() {
                    return;
                }
            }
        })?;
        Ok(Syncing { requests, results, is_under_way: false })
    }

    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Begins one.
    pub(super) fn begin(&mut self, commit: CommitNumber, file: ToSync) {
        self.is_under_way = self.requests.send((commit, file)).is_ok();
    }

    /// The one that has ended since the last call.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let result = self.results.try_recv().ok()?;
        self.is_under_way = false;
        Some(result)
    }

    /// Waits for the one under way. The system reports an error of a file once: whoever syncs it besides
    /// might not learn of it.
    pub(super) fn wait(&mut self) -> Option<Ended> {
        match std::mem::take(&mut self.is_under_way) {
            true => self.results.recv().ok(),
            false => None,
        }
    }
}
