//! The thread that keeps the copies of other nodes' logs.

use super::Mailbox;
use crate::durable::{CopyDisks, CopyFolders};
use crate::network::{Side, Signal, StreamId};
use crate::world::{Actor, HostId, Thread, World};
use sidle_node::{Backups, CopyLink, Now};
use sidle_types::{LogId, MonotonicUs, ProtocolVersion};
use sidle_wire::{CopyHello, FrameReader};
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// The thread. Its connections have their streams' numbers.
pub(super) struct BackupsThread {
    backups: Backups,
    files: CopyFolders,
    streams: BTreeSet<StreamId>,
    /// Connections that the control thread passed on, with the bytes read from them.
    pub(super) handed_over: VecDeque<(StreamId, FrameReader, CopyHello)>,
    mail: Mailbox,
    /// Copies that are to be fenced, at these epochs.
    fences: VecDeque<(LogId, u64)>,
    /// The step under way, and when it is over.
    pending: Option<(LogId, io::Result<()>, u64)>,
}

impl BackupsThread {
    pub(super) fn new(incarnation: u64, disks: CopyDisks) -> BackupsThread {
        BackupsThread {
            backups: Backups::new(incarnation, 0),
            files: CopyFolders::on(disks),
            streams: BTreeSet::new(),
            handed_over: VecDeque::new(),
            mail: Mailbox::new(),
            fences: VecDeque::new(),
            pending: None,
        }
    }

    /// Nobody of an older epoch is to write this copy any more.
    pub(super) fn fence(&mut self, log: LogId, epoch: u64) {
        self.fences.push_back((log, epoch));
    }

    /// Once that is so: until when the copy has promised its writer that nobody takes the log over.
    pub(super) fn is_fenced(&self, log: LogId, epoch: u64) -> Option<MonotonicUs> {
        let is_at_work = self.pending.as_ref().is_some_and(|(at_work, ..)| *at_work == log);
        self.backups.is_fenced(log, epoch).filter(|_| !is_at_work)
    }

    /// Whether the copy ends as this process has written it.
    pub(super) fn has_its_end(&mut self, log: LogId) -> bool {
        self.backups.has_its_end(log, &mut self.files).unwrap_or(false)
    }

    /// Its connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.iter().copied()
    }

    /// It has a turn. `version`: the cluster's.
    pub(super) fn turn(
        &mut self,
        host: HostId,
        mail: Mailbox,
        version: ProtocolVersion,
        now: Now,
        world: &mut World,
    ) {
        self.backups.set_version(version);
        self.mail.extend(mail);
        loop {
            self.send(world);
            if self.is_at_work(now, world) {
                break;
            }
            if let Some((log, epoch)) = self.fences.pop_front() {
                world.meet("copies fenced", 1);
                self.backups.fence(now.mono, log, epoch, &mut self.files);
            } else if let Some((id, reader, hello)) = self.handed_over.pop_front() {
                world.meet("copies of a log opened", 1);
                self.streams.insert(id);
                self.backups.opened(now.mono, CopyLink(id.0), hello, reader, &mut self.files);
            } else if let Some((id, side, signal)) = self.mail.pop_front() {
                self.hear(id, side, signal, now, world);
            } else {
                self.backups.pass_time(now.mono);
                if self.backups.step().is_none() {
                    break;
                }
            }
        }
        let me = Actor::Thread(host, Thread::Backups);
        let due_us = self.pending.as_ref().map(|(_, _, until_us)| *until_us);
        if let Some(at_us) = due_us {
            world.turn_at(me, at_us.max(world.now_us + 1));
        }
    }

    /// Carries out the next step, if there is one and none is under way. Whether one is.
    fn is_at_work(&mut self, now: Now, world: &mut World) -> bool {
        loop {
            if let Some((_, _, until_us)) = &self.pending
                && *until_us > world.now_us
            {
                return true;
            }
            if let Some((log, result, _)) = self.pending.take() {
                match result {
                    Ok(()) => {
                        self.files.settle(log);
                        self.backups.done(now.mono, log, &mut self.files);
                    }
                    Err(error) => {
                        world.meet("copies of a log that could not be written", 1);
                        world.tell(|| format!("the copy of a log: {error}"));
                        self.backups.failed(log);
                    }
                }
                self.send(world);
            }
            let Some((log, step)) = self.backups.step() else { return false };
            let (result, stall_us) = self.files.carry_out(log, step);
            self.pending = Some((log, result, world.now_us + stall_us));
        }
    }

    fn hear(&mut self, id: StreamId, side: Side, signal: Signal, now: Now, world: &mut World) {
        match signal {
            Signal::Bytes(bytes) if self.streams.contains(&id) => {
                self.backups.received(now.mono, CopyLink(id.0), &bytes, &mut self.files);
            }
            Signal::Bytes(_) | Signal::Opened => world.close(id, side),
            Signal::Refused | Signal::Closed => {
                self.streams.remove(&id);
                world.close(id, side);
                self.backups.lost(CopyLink(id.0));
            }
        }
    }

    fn send(&mut self, world: &mut World) {
        while let Some((CopyLink(id), bytes)) = self.backups.poll_transmit() {
            if self.streams.contains(&StreamId(id)) {
                world.send(StreamId(id), Side::Acceptor, bytes);
            }
        }
        while let Some(CopyLink(id)) = self.backups.poll_close() {
            if self.streams.remove(&StreamId(id)) {
                world.close(StreamId(id), Side::Acceptor);
            }
        }
    }
}
