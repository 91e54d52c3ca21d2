//! The thread that has the copies of the node's log follow it.

use super::{Mailbox, host_of};
use crate::durable::{CopyDisks, LogDisk, LogFolder, find_copy, recover};
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_cluster::LogCopies;
use sidle_log_copies::{BackupId, LogReport, OwnFiles, Settings};
use sidle_node::{CopiesEvent, CopiesRecord, CopySender, HeldUp, NodeParts, Now, ReadLog};
use sidle_store::{Store, StoreConfig};
use sidle_types::{CommitNumber, LogId, MapEpoch, MonotonicUs, NodeId};
use sidle_wire::Place;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How long it rests before it tries again to keep that.
const RETRY_REST_US: u64 = 100_000;

impl ReadLog for LogFolder {
    fn read(&mut self, at: Place, bytes: u64) -> Option<Vec<u8>> {
        let file = LogFolder::read(self, at.file).ok()?;
        file.get(at.at as usize..(at.at + bytes) as usize).map(<[u8]>::to_vec)
    }
}

/// The thread.
pub(super) struct CopiesThread {
    log: LogDisk,
    name: LogId,
    config: StoreConfig,
    looks_permille: u64,
    folder: LogFolder,
    sender: CopySender,
    streams: BTreeMap<BackupId, (StreamId, bool)>,
    map: Option<MapEpoch>,
    /// What the log's writer has reported.
    pub(super) reports: VecDeque<LogReport>,
    /// What the coordinator has decided.
    pub(super) decisions: VecDeque<Option<LogCopies>>,
    /// What is to be kept before it is proposed, and when that is tried again.
    to_keep: Option<(CopiesRecord, u64)>,
    /// The last commit that was reported as safe.
    told: CommitNumber,
    /// Until when replies may be sent, as last reported.
    lease: MonotonicUs,
}

/// A log that this thread goes on with.
pub(super) struct Followed<'r> {
    pub(super) log: &'r LogDisk,
    pub(super) name: LogId,
    pub(super) files: Vec<(u64, u64)>,
    pub(super) last: CommitNumber,
}

impl CopiesThread {
    pub(super) fn new(
        now: MonotonicUs,
        node: NodeId,
        followed: Followed<'_>,
        (settings, looks_permille): (Settings, u64),
        config: StoreConfig,
    ) -> CopiesThread {
        let Followed { log, name, files, last } = followed;
        let folder = LogFolder::on(log.disk());
        let kept = folder.known_copies();
        let sender = CopySender::new(now, (node, name), settings, OwnFiles::new(files), last, &kept);
        CopiesThread {
            log: log.clone(),
            name,
            config,
            looks_permille,
            folder,
            lease: sender.lease_until(),
            sender,
            streams: BTreeMap::new(),
            map: None,
            reports: VecDeque::new(),
            decisions: VecDeque::new(),
            to_keep: None,
            told: CommitNumber(0),
        }
    }

    /// Until when replies may be sent.
    pub(super) fn lease(&self) -> MonotonicUs {
        self.lease
    }

    /// Its connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.values().map(|(id, _)| *id)
    }

    /// It has a turn. What is to be proposed.
    pub(super) fn turn(
        &mut self,
        host: HostId,
        mail: Mailbox,
        (parts, workers): (&NodeParts, usize),
        now: Now,
        world: &mut World,
    ) -> Vec<LogCopies> {
        let me = Actor::Thread(host, Thread::Copies);
        let table = parts.published.table();
        if self.map != Some(table.map().epoch()) {
            self.map = Some(table.map().epoch());
            self.sender.set_map(now.mono, table.map(), &mut self.folder);
        }
        for report in std::mem::take(&mut self.reports) {
            self.sender.report(now.mono, report, &mut self.folder);
        }
        for decided in std::mem::take(&mut self.decisions) {
            self.sender.decided(now.mono, decided.as_ref());
        }
        for (id, side, signal) in mail {
            self.hear(id, side, signal, now, world);
        }
        self.sender.pass_time(now.mono);
        // Before a change is proposed that shortens it.
        self.note_lease(host, (parts, workers), now.mono, world);
        if self.sender.is_deposed() {
            // The process ends.
            world.facts.push(Fact::Deposed(host));
            return Vec::new();
        }
        let proposals = self.follow(me, world);
        self.transmit(now, world);
        // What could not be read.
        let more = self.follow(me, world);
        self.note_lease(host, (parts, workers), now.mono, world);
        self.note_safe(host, workers, &parts.store, world);
        if let Some(HeldUp::Begins(_)) = self.sender.show_held_up(parts) {
            world.meet("logs nothing in which became safe", 1);
        }
        let durability = &parts.shared.durability;
        if let Some(commit) = self.sender.wanted_synced().filter(|_| !durability.is_sync_wanted()) {
            durability.want_synced(commit);
            world.wake(host, Thread::LogWriter);
        }
        if let Some(due) = self.sender.poll_timeout() {
            world.turn_at(me, (world.now_us + due.0.saturating_sub(now.mono.0)).max(world.now_us + 1));
        }
        if let Some((_, at_us)) = &self.to_keep {
            world.turn_at(me, *at_us);
        }
        proposals.into_iter().chain(more).collect()
    }

    fn hear(&mut self, id: StreamId, side: Side, signal: Signal, now: Now, world: &mut World) {
        let Some((&backup, (_, is_open))) = self.streams.iter_mut().find(|(_, (other, _))| *other == id)
        else {
            world.close(id, side);
            return;
        };
        match signal {
            Signal::Opened => {
                *is_open = true;
                self.sender.connected(now.mono, backup);
            }
            Signal::Bytes(bytes) => self.sender.received(now.mono, backup, &bytes, &mut self.folder),
            Signal::Refused | Signal::Closed => {
                self.streams.remove(&backup);
                world.close(id, side);
                self.sender.lost(now.mono, backup);
            }
        }
    }

    /// Carries out what is to be done. What is to be proposed.
    fn follow(&mut self, me: Actor, world: &mut World) -> Vec<LogCopies> {
        let mut proposals = Vec::new();
        while let Some(event) = self.sender.poll_event() {
            match event {
                CopiesEvent::Connect(backup) => {
                    let id = world.open(me, host_of(backup.node), Port::Bus);
                    self.streams.insert(backup, (id, false));
                }
                CopiesEvent::Close(backup) => {
                    if let Some((id, _)) = self.streams.remove(&backup) {
                        world.close(id, Side::Opener);
                    }
                }
                CopiesEvent::Propose(record) => self.to_keep = Some((record, 0)),
            }
        }
        if let Some((record, _)) = self.to_keep.take_if(|(_, at_us)| *at_us <= world.now_us) {
            if self.folder.keep_copies(&record).is_err() {
                self.to_keep = Some((record, world.now_us + RETRY_REST_US));
            } else {
                self.log.disk().settle();
                world.meet("changes of a log's copies proposed", 1);
                world.tell(|| format!("the copies of a log are to be {:?}", record.proposed));
                proposals.extend(record.proposed);
            }
        }
        proposals
    }

    fn transmit(&mut self, now: Now, world: &mut World) {
        let mut out = Vec::new();
        loop {
            let (streams, network) = (&self.streams, &world.network);
            let is_full = |backup: BackupId| {
                streams
                    .get(&backup)
                    .is_none_or(|(id, is_open)| !is_open || network.is_full(*id, Side::Opener))
            };
            let Some(backup) = self.sender.poll_transmit(now.mono, &mut self.folder, is_full, &mut out)
            else {
                return;
            };
            let (id, _) = self.streams[&backup];
            world.send(id, Side::Opener, std::mem::take(&mut out));
        }
    }

    /// Until when replies may be sent.
    fn note_lease(
        &mut self,
        host: HostId,
        (parts, workers): (&NodeParts, usize),
        now: MonotonicUs,
        world: &mut World,
    ) {
        let until = self.sender.lease_until();
        let former = std::mem::replace(&mut self.lease, until);
        if until != former {
            world.meet("leases renewed", 1);
            parts.shared.durability.lease.set(until);
        }
        if former <= now && until > now {
            world.meet("leases renewed that were over", 1);
            (0..workers).for_each(|worker| world.wake(host, Thread::Worker(worker)));
        }
    }

    fn note_safe(&mut self, host: HostId, workers: usize, store: &Arc<Store>, world: &mut World) {
        let safe = self.sender.safe();
        let commits = store.commits().expect("a durable store has commits");
        if safe <= self.told || !commits.set_safe(safe) {
            return;
        }
        self.told = safe;
        self.log.judge().safe(safe);
        world.facts.push(Fact::Safe(host));
        (0..workers).for_each(|worker| world.wake(host, Thread::Worker(worker)));
        if world.random.permille(self.looks_permille) {
            self.look(world);
        }
    }

    /// Every copy that counts has everything that is safe, for good.
    fn look(&self, world: &mut World) {
        for backup in self.sender.backups() {
            world.meet("copies of a log read beside it", 1);
            let disks: &CopyDisks = &world.copies[host_of(backup.node).0];
            let disk = disks.of(self.name).map(|disk| disk.image_without_power(&mut world.random));
            let seen = disk.ok_or("it is not there".to_owned()).and_then(|disk| {
                // As a process that starts there.
                find_copy(&mut LogFolder::on(&disk)).map_err(|error| error.to_string())?;
                let store = Store::new(self.config.clone()).expect("a good configuration");
                let last = recover(&disk, self.name, &store)?.last;
                self.log.judge().check_copy(last, &store)
            });
            let seen = seen.map_err(|why| format!("the copy at node {}: {why}", host_of(backup.node).0));
            world.checks.note_log(seen);
        }
    }
}
