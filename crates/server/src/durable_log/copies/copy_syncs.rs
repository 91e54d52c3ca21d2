//! Syncs of copies beside their writes, on a thread of their own, one after the other.

use crate::durable_log::folder::ToSync;
use crate::thread;
use sidle_types::LogId;
use std::io;
use std::sync::mpsc::{Sender, channel};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Which files of a log's copy are synced: a folder that was opened anew has another number.
pub(super) type Opened = (LogId, u64);

/// How each sync has ended, in order.
pub(super) type Ended = UnboundedReceiver<(Opened, io::Result<()>)>;

/// The thread. It ends when this is dropped.
pub(super) struct CopySyncs(Sender<(Opened, ToSync)>);

impl CopySyncs {
    /// Starts it.
    pub(super) fn start() -> io::Result<(CopySyncs, Ended)> {
        let (requests, queue) = channel::<(Opened, ToSync)>();
        let (results, ended) = unbounded_channel();
        thread::start("log-backup-sync".to_owned(), move || {
            for (opened, file) in queue {
                if results.send((opened, file.sync())).is_err() {
                    return;
                }
            }
        })?;
        Ok((CopySyncs(requests), ended))
    }

    /// Begins one.
    pub(super) fn begin(&self, opened: Opened, file: ToSync) -> io::Result<()> {
        self.0.send((opened, file)).map_err(|_| io::Error::other("the thread that syncs is gone"))
    }
}
