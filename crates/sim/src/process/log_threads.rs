//! The threads around a node's durable log: its writer, the one that has its copies follow it, and the one
//! that keeps the copies of others. Before them, the start that asks the copies.

use super::backups::BackupsThread;
use super::copies::{CopiesThread, Followed};
use super::log_writer::LogThread;
use super::reclaiming::ReclaimingThread;
use super::takeovers::TakeoversThread;
use super::{HostSetup, node_id};
use crate::durable::{BegunLog, LogDisk, ReadLog};
use crate::network::StreamId;
use crate::world::{HostId, Thread, World};
use sidle_node::{NodeParts, Now};

/// A log whose copies are asked.
pub(super) struct ReclaimingLog {
    pub(super) log: LogDisk,
    pub(super) thread: ReclaimingThread,
}

/// The thread that has the log.
pub(super) enum Holder {
    Writer(Box<LogThread>),
    Reclaims(Box<ReclaimingLog>),
}

/// The threads.
pub(super) struct LogThreads {
    pub(super) holder: Holder,
    pub(super) copies: Option<CopiesThread>,
    pub(super) backups: Option<BackupsThread>,
    pub(super) takeovers: Option<TakeoversThread>,
}

impl LogThreads {
    /// Those of a process, of this incarnation.
    pub(super) fn begin(
        begun: BegunLog,
        (host, incarnation): (HostId, u64),
        parts: &NodeParts,
        setup: &HostSetup,
        (now, world): (Now, &mut World),
    ) -> LogThreads {
        let has_copies = setup.durable.as_ref().is_some_and(|durable| durable.copies.is_some());
        let backups = has_copies.then(|| BackupsThread::new(incarnation, world.copies[host.0].clone()));
        let (holder, copies) = match begun {
            BegunLog::Read(read) => {
                let (writer, copies) = begin_to_write(*read, host, parts, setup, now);
                (Holder::Writer(writer), copies)
            }
            BegunLog::Reclaims(log) => {
                parts.shared.loading.begin(0);
                let thread = ReclaimingThread::begin(node_id(host), &log);
                (Holder::Reclaims(Box::new(ReclaimingLog { log, thread })), None)
            }
        };
        let config = setup.store_config();
        let takeovers =
            has_copies.then(|| TakeoversThread::new(world.copies[host.0].clone(), config, &parts.store));
        LogThreads { holder, copies, backups, takeovers }
    }

    /// Whether the log is read.
    pub(super) fn has_read(&self) -> bool {
        matches!(self.holder, Holder::Writer(_))
    }

    /// All of them.
    pub(super) fn threads(&self) -> impl Iterator<Item = Thread> {
        // The copies' thread begins later, if the log is not read.
        let copies = self.backups.iter().flat_map(|_| [Thread::Copies, Thread::Backups, Thread::Takeovers]);
        [Thread::LogWriter].into_iter().chain(copies)
    }

    pub(super) fn streams(&self) -> Vec<StreamId> {
        let copies = self.copies.iter().flat_map(CopiesThread::streams);
        let backups = self.backups.iter().flat_map(BackupsThread::streams);
        let reclaims = match &self.holder {
            Holder::Reclaims(reclaims) => reclaims.thread.streams().collect(),
            Holder::Writer(_) => Vec::new(),
        };
        let takeovers = self.takeovers.iter().flat_map(TakeoversThread::streams);
        copies.chain(backups).chain(reclaims).chain(takeovers).collect()
    }
}

pub(super) fn begin_to_write(
    read: ReadLog,
    host: HostId,
    parts: &NodeParts,
    setup: &HostSetup,
    now: Now,
) -> (Box<LogThread>, Option<CopiesThread>) {
    let copies = read.setup.copies.map(|settings| {
        let followed = Followed {
            log: &read.log,
            name: read.resumed.log,
            files: read.resumed.files.clone(),
            last: read.resumed.last,
        };
        let settings = (settings, read.setup.looks_permille);
        let copies = CopiesThread::new(now.mono, node_id(host), followed, settings, setup.store_config());
        // Before anybody is answered.
        parts.shared.durability.lease.set(copies.lease());
        copies
    });
    (Box::new(LogThread::begin(read, parts, setup, now.mono)), copies)
}
