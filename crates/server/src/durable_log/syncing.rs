//! Syncs on a thread of its own, so that writes go on meanwhile.

use super::folder::ToSync;
use crate::thread;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The thread, and what is under way on it: one sync at a time.
pub(super) struct Syncing {
    requests: Sender<ToSync>,
    results: Receiver<io::Result<()>>,
}

impl Syncing {
    /// Starts the thread, which calls `wake` at the end of each. It ends when this is dropped.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Syncing> {
        let (requests, queue) = channel::<ToSync>();
        let (sender, results) = channel();
        thread::start("log-sync".to_owned(), move || {
            for file in queue {
                if sender.send(file.sync()).is_err() {
                    return;
                }
                wake();
            }
        })?;
        Ok(Syncing { requests, results })
    }

    /// Begins one.
    pub(super) fn begin(&mut self, file: ToSync) -> io::Result<()> {
        self.requests.send(file).map_err(|_| gone())
    }

    /// How the one has ended that was under way.
    pub(super) fn ended(&mut self) -> Option<io::Result<()>> {
        self.results.try_recv().ok()
    }

    /// Waits for the one under way.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.results.recv().unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that syncs is gone")
}
