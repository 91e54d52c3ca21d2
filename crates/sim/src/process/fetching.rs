//! A copy of a dead node's log that is fetched from another machine, to take over what the node had.

use super::{Mailbox, host_of};
use crate::durable::LogFolder;
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, HostId, Thread, World};
use sidle_cluster::DeadLog;
use sidle_log_copies::BackupId;
use sidle_log_files::FileSet;
use sidle_node::{Fetcher, FetcherEvent};
use sidle_testbed::{Disk, Random};
use sidle_types::{LogId, MonotonicUs, NodeId, ProtocolVersion};
use sidle_wire::Tail;
use std::collections::BTreeMap;

/// Who has not answered for so long is not waited for.
const SILENCE_US: u64 = 3_000_000;

/// The copy, as far as it is here.
pub(super) struct Fetching {
    log: LogId,
    fetcher: Fetcher,
    /// Nothing of it is needed after a death.
    disk: Disk,
    folder: LogFolder,
    streams: BTreeMap<NodeId, (StreamId, bool)>,
    heard_at_us: u64,
}

/// A copy that is here, and until when its writer may answer clients.
pub(super) type FetchedDisk = (Disk, MonotonicUs);

impl Fetching {
    /// Begins to ask the backups. `known`: how copies end that have everything.
    pub(super) fn begin(
        node: NodeId,
        dead: &DeadLog,
        known: BTreeMap<NodeId, Tail>,
        now_us: u64,
    ) -> Fetching {
        let backup = |named: &sidle_cluster::LogBackup| BackupId {
            node: named.node,
            incarnation: named.incarnation.0,
        };
        let (of, version) = ((dead.log, dead.log_epoch), ProtocolVersion::CURRENT);
        let fetcher = Fetcher::new(node, of, dead.backups.iter().map(backup), known, version);
        let disk = Disk::new(0, Random::new(0xfe_7c4e_d000));
        let folder = LogFolder::on(&disk);
        Fetching { log: dead.log, fetcher, disk, folder, streams: BTreeMap::new(), heard_at_us: now_us }
    }

    /// Its connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.values().map(|(id, _)| *id)
    }

    /// How copies end that have everything.
    pub(super) fn known(&self) -> &BTreeMap<NodeId, Tail> {
        self.fetcher.known()
    }

    /// It has a turn. The copy, or why there is none; once.
    pub(super) fn turn(
        &mut self,
        host: HostId,
        mail: Mailbox,
        (now, world): (MonotonicUs, &mut World),
    ) -> Option<Result<FetchedDisk, String>> {
        for (id, side, signal) in mail {
            self.hear(id, side, signal, (now, world));
        }
        if world.now_us.saturating_sub(self.heard_at_us) > SILENCE_US {
            let silent: Vec<NodeId> = self.streams.keys().copied().collect();
            silent.into_iter().for_each(|node| self.lose(node, world));
            self.heard_at_us = world.now_us;
        }
        self.follow(Actor::Thread(host, Thread::Takeovers), world);
        let outcome = self.fetcher.outcome()?;
        for (id, _) in std::mem::take(&mut self.streams).into_values() {
            world.close(id, Side::Opener);
        }
        let Some((fetched, promised_until)) = outcome else {
            return Some(Err("no copy can be fetched".to_owned()));
        };
        let (first, last) = (fetched.copy.first, fetched.copy.tail.end.file);
        self.record(FileSet { log: self.log, first, last });
        world.meet("copies fetched", 1);
        world.meet("copies fetched that may lack their end", u64::from(!fetched.is_sure));
        Some(Ok((self.disk.clone(), promised_until)))
    }

    fn lose(&mut self, node: NodeId, world: &mut World) {
        if let Some((id, _)) = self.streams.remove(&node) {
            world.close(id, Side::Opener);
        }
        world.meet("backups lost while a copy was fetched", 1);
        self.fetcher.lost(node);
    }

    fn hear(&mut self, id: StreamId, side: Side, signal: Signal, (now, world): (MonotonicUs, &mut World)) {
        let Some((&node, (_, is_open))) = self.streams.iter_mut().find(|(_, (other, _))| *other == id) else {
            world.close(id, side);
            return;
        };
        self.heard_at_us = world.now_us;
        match signal {
            Signal::Opened => {
                *is_open = true;
                self.fetcher.connected(node);
            }
            Signal::Bytes(bytes) => self.fetcher.received(now, node, &bytes),
            Signal::Refused | Signal::Closed => self.lose(node, world),
        }
    }

    fn follow(&mut self, me: Actor, world: &mut World) {
        while let Some(event) = self.fetcher.poll_event() {
            match event {
                FetcherEvent::Connect(node) => {
                    let id = world.open(me, host_of(node), Port::Bus);
                    self.streams.insert(node, (id, false));
                }
                FetcherEvent::Close(node) => {
                    if let Some((id, _)) = self.streams.remove(&node) {
                        world.close(id, Side::Opener);
                    }
                }
                FetcherEvent::Begin => {
                    self.disk = Disk::new(0, Random::new(0xfe_7c4e_d000));
                    self.folder = LogFolder::on(&self.disk);
                }
                FetcherEvent::Write(at, bytes) => {
                    self.folder.write_bytes(at.file, at.at as usize, &bytes).expect("its disk is sound");
                }
            }
        }
        while let Some((node, bytes)) = self.fetcher.poll_transmit() {
            if let Some((id, true)) = self.streams.get(&node) {
                world.send(*id, Side::Opener, bytes);
            }
        }
    }

    /// Which files the copy has.
    fn record(&mut self, set: FileSet) {
        self.folder.record(set).expect("its disk is sound");
        self.disk.settle();
        self.disk.take_stall_us();
    }
}
