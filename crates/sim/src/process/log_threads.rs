//! The threads around a node's durable log: its writer, the one that has its copies follow it, and the one
//! that keeps the copies of others. Before them, the start that asks the copies.

use super::backups::BackupsThread;
use super::copies::{CopiesThread, Followed};
use super::log_writer::LogThread;
use super::reclaiming::ReclaimingThread;
use super::{HostSetup, Process, node_id};
use crate::durable::{LogDisk, ReadLog};
use crate::network::StreamId;
use crate::world::{HostId, Thread, World};
use sidle_cluster::LogCopies;
use sidle_node::{NodeParts, Now};
use sidle_types::NodeId;
use sidle_wire::{CopyHello, FrameReader};

/// How a process begins with its durable log.
pub enum BegunLog {
    /// It is read.
    Read(Box<ReadLog>),
    /// Its copies are asked first.
    Reclaims(Box<ReclaimingLog>),
}

/// A log whose copies are asked.
pub struct ReclaimingLog {
    log: LogDisk,
    thread: ReclaimingThread,
}

impl BegunLog {
    /// A start that asks the log's copies, if any may count.
    pub(crate) fn reclaims(node: NodeId, log: &LogDisk) -> Option<BegunLog> {
        let thread = ReclaimingThread::begin(node, log)?;
        Some(BegunLog::Reclaims(Box::new(ReclaimingLog { log: log.clone(), thread })))
    }
}

/// The thread that has the log.
enum Holder {
    Writer(Box<LogThread>),
    Reclaims(Box<ReclaimingLog>),
}

/// The threads.
pub(super) struct LogThreads {
    holder: Holder,
    copies: Option<CopiesThread>,
    backups: Option<BackupsThread>,
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
            BegunLog::Reclaims(reclaims) => {
                parts.shared.loading.begin(0);
                (Holder::Reclaims(reclaims), None)
            }
        };
        LogThreads { holder, copies, backups }
    }

    /// Whether the log is read.
    pub(super) fn has_read(&self) -> bool {
        matches!(self.holder, Holder::Writer(_))
    }

    /// All of them.
    pub(super) fn threads(&self) -> impl Iterator<Item = Thread> {
        // The copies' thread begins later, if the log is not read.
        let copies = self.backups.iter().flat_map(|_| [Thread::Copies, Thread::Backups]);
        [Thread::LogWriter].into_iter().chain(copies)
    }

    fn streams(&self) -> Vec<StreamId> {
        let copies = self.copies.iter().flat_map(CopiesThread::streams);
        let backups = self.backups.iter().flat_map(BackupsThread::streams);
        let reclaims = match &self.holder {
            Holder::Reclaims(reclaims) => reclaims.thread.streams().collect(),
            Holder::Writer(_) => Vec::new(),
        };
        copies.chain(backups).chain(reclaims).collect()
    }
}

fn begin_to_write(
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
        CopiesThread::new(now.mono, node_id(host), followed, settings, setup.store_config())
    });
    (Box::new(LogThread::begin(read, parts, setup, now.mono)), copies)
}

impl Process {
    pub(super) fn log_writer_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::LogWriter));
        let (host, workers) = (self.host, self.workers.len());
        let Some(LogThreads { holder, copies, .. }) = &mut self.log else { return };
        match holder {
            Holder::Writer(log) => {
                mail.into_iter().for_each(|(id, side, _)| world.close(id, side));
                log.turn(host, workers, now, world);
                if let (Some(reports), Some(copies)) = (&mut log.reports, copies) {
                    copies.reports.append(reports);
                }
            }
            Holder::Reclaims(reclaims) => {
                if reclaims.thread.turn(host, mail, world) {
                    self.read_log(now, world);
                }
            }
        }
    }

    /// The log is whole: it is read, and the node takes part.
    fn read_log(&mut self, now: Now, world: &mut World) {
        let Some(LogThreads { holder, copies, .. }) = &mut self.log else { return };
        let (Holder::Reclaims(reclaims), Some(durable)) = (&*holder, &self.setup.durable) else { return };
        let read = match reclaims.log.open(durable, &self.parts.store) {
            Ok(read) => read,
            Err(why) => {
                world.checks.note_log(Err(why));
                world.facts.push(crate::world::Fact::Safe(self.host));
                return;
            }
        };
        let (writer, its_copies) = begin_to_write(read, self.host, &self.parts, &self.setup, now);
        (*holder, *copies) = (Holder::Writer(writer), its_copies);
        self.parts.shared.loading.end();
        self.control.take_part(now.mono);
        for thread in [Thread::LogWriter, Thread::Copies, Thread::Control] {
            world.wake(self.host, thread);
        }
    }

    pub(super) fn copies_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::Copies));
        let parts = (&self.parts, self.workers.len());
        let Some(copies) = self.log.as_mut().and_then(|log| log.copies.as_mut()) else { return };
        let proposals = copies.turn(self.host, mail, parts, now, world);
        if !proposals.is_empty() {
            self.control.proposals.extend(proposals);
            world.wake(self.host, Thread::Control);
        }
    }

    pub(super) fn backups_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::Backups));
        let version = self.control.control.version();
        if let Some(backups) = self.log.as_mut().and_then(|log| log.backups.as_mut()) {
            backups.turn(self.host, mail, version, now, world);
        }
    }

    /// Another node opens a connection to the copy of its log.
    pub(super) fn take_copied(
        &mut self,
        id: StreamId,
        hello: CopyHello,
        reader: FrameReader,
        world: &mut World,
    ) {
        let backups = self.log.as_mut().and_then(|log| log.backups.as_mut());
        backups.expect("all nodes have copies, or none").handed_over.push_back((id, reader, hello));
        self.hand_over(id, Thread::Backups, world);
    }

    /// The coordinator has decided on the copies of the node's log.
    pub(super) fn copies_decided(&mut self, decided: Option<LogCopies>, world: &mut World) {
        if let Some(copies) = self.log.as_mut().and_then(|log| log.copies.as_mut()) {
            copies.decisions.push_back(decided);
            world.wake(self.host, Thread::Copies);
        }
    }

    /// The cluster has changed.
    pub(super) fn wake_copies(&mut self, world: &mut World) {
        if self.log.as_ref().is_some_and(|log| log.copies.is_some()) {
            world.wake(self.host, Thread::Copies);
        }
    }

    /// The connections of copies.
    pub(crate) fn copy_streams(&self) -> Vec<StreamId> {
        self.log.as_ref().map_or_else(Vec::new, LogThreads::streams)
    }
}
