//! A start that asks the copies of its log for what its own disk lost, before it reads it.

use super::{Mailbox, host_of};
use crate::durable::{LogDisk, LogFolder, end_of};
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_node::{Reclaimer, ReclaimerEvent};
use sidle_types::{NodeId, ProtocolVersion};
use std::collections::BTreeMap;

/// How long it rests before it asks again.
const REST_US: u64 = 300_000;

/// The thread, until the log is whole.
pub(super) struct ReclaimingThread {
    node: NodeId,
    log: LogDisk,
    folder: LogFolder,
    reclaimer: Reclaimer,
    streams: BTreeMap<NodeId, (StreamId, bool)>,
    rests_until_us: u64,
}

impl ReclaimingThread {
    /// Asks the copies that may count of this node's log.
    pub(super) fn begin(node: NodeId, log: &LogDisk) -> ReclaimingThread {
        let folder = LogFolder::on(log.disk());
        let reclaimer = reclaimer(node, &folder);
        let (log, streams) = (log.clone(), BTreeMap::new());
        ReclaimingThread { node, log, folder, reclaimer, streams, rests_until_us: 0 }
    }

    /// Its connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.values().map(|(id, _)| *id)
    }

    /// It has a turn. Whether the log is whole.
    pub(super) fn turn(&mut self, host: HostId, mail: Mailbox, world: &mut World) -> bool {
        let me = Actor::Thread(host, Thread::LogWriter);
        for (id, side, signal) in mail {
            self.hear(id, side, signal, world);
        }
        if !self.log.disk().is_sound() {
            // It cannot take anything.
            self.rests_until_us = self.rests_until_us.max(world.now_us + REST_US);
        }
        if world.now_us < self.rests_until_us {
            world.turn_at(me, self.rests_until_us);
            return false;
        }
        self.follow(me, world);
        if self.reclaimer.is_deposed() {
            // The process ends.
            world.facts.push(Fact::Deposed(host));
            return false;
        }
        let Some(outcome) = self.reclaimer.outcome() else { return false };
        for (id, _) in std::mem::take(&mut self.streams).into_values() {
            world.close(id, Side::Opener);
        }
        if outcome.is_settled() {
            world.meet("logs that took their end from a copy", u64::from(outcome.from.is_some()));
            world.tell(|| format!("the log goes on: {outcome:?}"));
            return true;
        }
        world.meet("starts that wait for a copy of their log", 1);
        self.reclaimer = reclaimer(self.node, &self.folder);
        self.rests_until_us = world.now_us + REST_US;
        world.turn_at(me, self.rests_until_us);
        false
    }

    fn follow(&mut self, me: Actor, world: &mut World) {
        while let Some(event) = self.reclaimer.poll_event() {
            match event {
                ReclaimerEvent::Connect(node) => {
                    let id = world.open(me, host_of(node), Port::Bus);
                    self.streams.insert(node, (id, false));
                }
                ReclaimerEvent::Close(node) => {
                    if let Some((id, _)) = self.streams.remove(&node) {
                        world.close(id, Side::Opener);
                    }
                }
                ReclaimerEvent::Take(file, bytes) => {
                    self.folder.replace(file, &bytes).expect("a start waits for its disk, which is sound");
                    self.folder.extend_record(file).expect("the disk works");
                    self.log.disk().settle();
                    self.log.disk().take_stall_us();
                }
            }
        }
        while let Some((node, bytes)) = self.reclaimer.poll_transmit() {
            if let Some((id, true)) = self.streams.get(&node) {
                world.send(*id, Side::Opener, bytes);
            }
        }
    }

    fn hear(&mut self, id: StreamId, side: Side, signal: Signal, world: &mut World) {
        let Some((&node, (_, is_open))) = self.streams.iter_mut().find(|(_, (other, _))| *other == id) else {
            world.close(id, side);
            return;
        };
        match signal {
            Signal::Opened => {
                *is_open = true;
                self.reclaimer.connected(node);
            }
            Signal::Bytes(bytes) => self.reclaimer.received(node, &bytes),
            Signal::Refused | Signal::Closed => {
                self.streams.remove(&node);
                world.close(id, side);
                self.reclaimer.lost(node);
            }
        }
    }
}

fn reclaimer(node: NodeId, folder: &LogFolder) -> Reclaimer {
    let (log, end) = end_of(folder).expect("a log that has copies has had a file");
    Reclaimer::new((node, log), end, &folder.known_copies(), ProtocolVersion::CURRENT)
}
