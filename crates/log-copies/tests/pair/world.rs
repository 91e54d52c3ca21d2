//! A writer, some backups, and a coordinator, driven step by step.

use crate::disk::{Disk, RECORD_BYTES, Versions, record, records};
use sidle_log_copies::{
    Answer, Backup, BackupId, Copies, Event, OwnFiles, Reclaim, Record, Sent, Settings, Wanted,
};
use sidle_log_files::{CommitSteps, LogWriter, Step, Syncs, Taken};
use sidle_types::{CommitNumber, LogId, MonotonicUs, NodeId};
use sidle_wire::{Place, ToBackup, ToWriter};
use std::collections::{BTreeMap, VecDeque};

pub(crate) const LOG: LogId = LogId(*b"the log's number");
pub(crate) const REFUSES_AFTER_US: u64 = 10_000_000;
const SYNC_EVERY_US: u64 = 1_000_000;
const KEYS: u64 = 12;

/// A message on its way to a backup.
#[derive(Clone, Debug)]
enum OnItsWay {
    /// The first.
    Hello {
        epoch: u64,
    },
    Restart,
    Append {
        at: Place,
        bytes: Vec<u8>,
    },
    Forget {
        first: u64,
    },
    Epoch(u64),
    Beat(u64),
}

impl OnItsWay {
    fn message(&self) -> ToBackup<'_> {
        match self {
            OnItsWay::Hello { .. } => panic!("it opens a connection"),
            OnItsWay::Restart => ToBackup::Restart,
            OnItsWay::Append { at, bytes } => ToBackup::Append { at: *at, bytes },
            OnItsWay::Forget { first } => ToBackup::Forget { first: *first },
            OnItsWay::Epoch(epoch) => ToBackup::Epoch(*epoch),
            OnItsWay::Beat(number) => ToBackup::Beat(*number),
        }
    }
}

#[derive(Debug, Default)]
struct Wire {
    to_backup: VecDeque<OnItsWay>,
    to_writer: VecDeque<ToWriter<'static>>,
    /// The epoch of its last message.
    epoch: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: BackupId,
    pub(crate) disk: Disk,
    pub(crate) process: Option<Backup>,
}

impl Node {
    /// The copy has bytes that its log never had.
    pub(crate) fn append_garbage(&mut self) {
        let at = self.process.as_ref().and_then(Backup::tail).expect("it has a copy").end;
        let backup = self.process.as_mut().expect("it runs");
        assert!(backup.receive(MonotonicUs(0), backup.epoch(), ToBackup::Append { at, bytes: &[7; 64] }));
        while let Some(step) = backup.step() {
            self.disk.carry_out_copy(step);
            backup.done(MonotonicUs(0));
        }
        messages(backup).for_each(drop);
    }
}

#[derive(Debug)]
struct Writer {
    steps: CommitSteps,
    copies: Copies,
}

/// Who syncs before a commit is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncing {
    Nobody,
    /// The copies. The log itself only where it has none.
    Copies,
    All,
}

pub(crate) struct World {
    syncs: bool,
    own_syncs: bool,
    settings: Settings,
    pub(crate) now: MonotonicUs,
    own: Disk,
    writer: Option<Writer>,
    pub(crate) nodes: Vec<Node>,
    wires: BTreeMap<BackupId, Wire>,
    pub(crate) record: Record,
    /// What the writer has kept of the record: as it knows it, and a change that it proposed.
    kept: (Record, Option<Record>),
    proposals: VecDeque<Record>,
    decisions: VecDeque<Record>,
    /// By key: its newest version, and the newest that clients saw as safe.
    newest: Versions,
    committed: BTreeMap<u64, Versions>,
    safe_versions: Versions,
    pub(crate) safe: CommitNumber,
    /// Where the log ended when its writer began, and its first file then.
    begun_with: Option<(Place, u64)>,
    /// Where a writer that was stopped closed the log, as its folder keeps it.
    closed_at: Option<Place>,
    seed: u64,
}

pub(crate) fn node(number: usize) -> NodeId {
    NodeId::from_bytes([number as u8 + 1; 20])
}

fn log_settings(syncs: bool) -> sidle_log_files::Settings {
    sidle_log_files::Settings {
        syncs: if syncs { Syncs::Always } else { Syncs::Every(SYNC_EVERY_US) },
        file_bytes: if syncs { 12_000 } else { 300 },
        least_bytes: if syncs { 30_000 } else { 800 },
        share_percent: 0,
        judged_bytes: 1 << 20,
    }
}

/// What commits up to this one have, the newest last.
fn upto(committed: &BTreeMap<u64, Versions>, last: CommitNumber) -> impl Iterator<Item = (u64, u64)> {
    committed
        .range(..=last.0)
        .flat_map(|(_, versions)| versions.iter().map(|(&key, &version)| (key, version)))
}

/// What a backup answers. Nobody reads a copy over a wire here.
fn messages(backup: &mut Backup) -> impl Iterator<Item = ToWriter<'static>> {
    std::iter::from_fn(|| backup.poll_answer()).map(|answer| match answer {
        Answer::Message(message) => message,
        Answer::BytesFrom(place) => panic!("nobody reads from {place:?}"),
    })
}

/// As its writer asks for.
fn begun(syncs: bool, mut backup: Backup) -> Backup {
    backup.set_syncs(syncs);
    backup
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, wanted: usize, syncing: Syncing) -> World {
        let (syncs, own_syncs) = (syncing != Syncing::Nobody, syncing == Syncing::All);
        let most_under_way = 1 + seed as usize % 4;
        let settings = Settings {
            wanted,
            syncs,
            patience_us: 250_000,
            rest_us: 400_000,
            refuses_after_us: REFUSES_AFTER_US,
            most_bytes: 500,
            takeover_after_ms: seed.is_multiple_of(2).then_some(1_000),
            most_under_way,
        };
        let nodes = (0..nodes).map(|number| Node {
            id: BackupId { node: node(number), incarnation: 1 },
            disk: Disk::default(),
            process: Some(begun(syncs, Backup::new(MonotonicUs(0), LOG, 1, 0, None, SYNC_EVERY_US))),
        });
        let mut world = World {
            syncs,
            own_syncs,
            settings,
            now: MonotonicUs(0),
            own: Disk::default(),
            writer: None,
            nodes: nodes.collect(),
            wires: BTreeMap::new(),
            record: Record::default(),
            kept: (Record::default(), None),
            proposals: VecDeque::new(),
            decisions: VecDeque::new(),
            newest: Versions::new(),
            committed: BTreeMap::new(),
            safe_versions: Versions::new(),
            safe: CommitNumber(0),
            begun_with: None,
            closed_at: None,
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        world.start([], CommitNumber(0));
        world
    }

    pub(crate) fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 33) as usize % below
    }

    fn start(&mut self, files: impl IntoIterator<Item = (u64, u64)>, last: CommitNumber) {
        let files: Vec<(u64, u64)> = files.into_iter().collect();
        let ends = files.first().zip(files.last());
        self.begun_with = ends.map(|(&(first, _), &(file, at))| (Place { file, at }, first));
        let own = OwnFiles::new(files.clone());
        let writer = LogWriter::new(log_settings(self.own_syncs), LOG, files, last, self.now);
        let steps = CommitSteps::new(writer, self.now);
        let copies = Copies::new(self.settings, own, last, self.kept.0.clone(), self.kept.1.clone());
        self.writer = Some(Writer { steps, copies });
        self.carry_out();
        self.introduce();
    }

    pub(crate) fn copies(&mut self) -> &mut Copies {
        &mut self.writer.as_mut().expect("the writer is there").copies
    }

    /// The writer learns which nodes there are.
    pub(crate) fn introduce(&mut self) {
        let there = self.nodes.iter().filter(|node| node.process.is_some());
        let ids: Vec<BackupId> = there.map(|node| node.id).collect();
        let now = self.now;
        if let Some(writer) = &mut self.writer {
            writer.copies.set_nodes(now, ids);
        }
    }

    /// The writer's log carries out what is to be done.
    fn carry_out(&mut self) {
        let Writer { steps, copies } = self.writer.as_mut().expect("the writer is there");
        while let Some(step) = steps.step() {
            let removed = if let Step::Remove(file) = step { Some(file) } else { None };
            let is_begun = matches!(step, Step::BeginSync);
            let wrote = self.own.carry_out(step);
            steps.done(self.now);
            if let Some((to, is_commit)) = wrote {
                let commit = is_commit.then(|| steps.writer().last_written());
                copies.written(self.now, to, commit);
            }
            if let Some(file) = removed {
                copies.removed(file);
            }
            if is_begun {
                self.own.carry_out(Step::Sync);
                assert_eq!(steps.sync_ended(true, self.now), None);
            }
        }
        let writer = steps.writer();
        copies.safe_here(self.now, writer.safe(), writer.last_synced());
        self.note_safe();
    }

    /// Clients see what is safe.
    fn note_safe(&mut self) {
        let Some(writer) = &self.writer else { return };
        let written = writer.steps.writer().last_written();
        assert!(!writer.copies.is_deposed(), "nobody else writes this log");
        let safe = writer.copies.safe().min(written);
        self.safe = self.safe.max(safe);
        self.safe_versions.extend(upto(&self.committed, safe));
        self.committed.retain(|&commit, _| commit > safe.0);
    }

    /// The log is synced if anything waits for that.
    fn sync_if_waited_for(&mut self) {
        let now = self.now;
        if let Some(Writer { steps, copies }) = &mut self.writer
            && copies.wanted_synced().is_some()
        {
            steps.sync(now, true, false);
            self.carry_out();
        }
    }

    /// A commit with these keys.
    pub(crate) fn commit(&mut self, keys: &[u64]) {
        let newest = self.newest.clone();
        let own = self.own.clone();
        let Writer { steps, .. } = self.writer.as_mut().expect("the writer is there");
        if let Some(file) = steps.file_to_read(|| 0) {
            steps.file_read(Ok(own.bytes_of(file))).expect("its own files can be read");
        }
        steps.clean(|bytes, _, kept| {
            for (key, version) in records(bytes) {
                if newest.get(&key) == Some(&version) {
                    kept.extend_from_slice(&record(key, version));
                }
            }
            bytes.len().next_multiple_of(RECORD_BYTES).min(bytes.len())
        });
        let commit = CommitNumber(steps.taken().0 + 1);
        steps.take(|into| {
            keys.iter().for_each(|&key| into.extend_from_slice(&record(key, commit.0)));
            Taken { commit, is_whole: true }
        });
        for &key in keys {
            self.newest.insert(key, commit.0);
            self.committed.entry(commit.0).or_default().insert(key, commit.0);
        }
        self.carry_out();
        let now = self.now;
        self.writer.as_mut().expect("it is there").steps.sync(now, false, false);
        self.carry_out();
        self.writer.as_mut().expect("it is there").steps.tidy(now, false);
        self.carry_out();
    }

    pub(crate) fn random_commit(&mut self) {
        let keys: Vec<u64> = (0..1 + self.random(3)).map(|_| self.random(KEYS as usize) as u64).collect();
        self.commit(&keys);
    }

    fn node_of(&mut self, id: BackupId) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id == id && node.process.is_some())
    }

    /// Carries out what the writer's copies want done; `refuses`: connections fail.
    pub(crate) fn follow_events(&mut self, refuses: bool) {
        while let Some(event) = self.copies().poll_event() {
            let now = self.now;
            match event {
                Event::Connect(id) => {
                    if refuses || self.node_of(id).is_none() {
                        self.copies().lost(now, id);
                    } else {
                        self.wires.insert(id, Wire::default());
                        self.copies().connected(id);
                    }
                }
                Event::Close(id) => drop(self.wires.remove(&id)),
                Event::Compare(id, tail) => {
                    let is_same = self.own.begins_with(tail.end, tail.check);
                    self.copies().compared(now, id, is_same);
                }
                Event::Propose(record) => {
                    self.kept = (self.copies().record().clone(), Some(record.clone()));
                    self.proposals.push_back(record);
                }
            }
        }
        self.note_safe();
    }

    /// Sends one message.
    pub(crate) fn transmit(&mut self) -> bool {
        let now = self.now;
        let Some((id, sent)) = self.copies().poll_transmit(now, |_| false) else { return false };
        let message = match sent {
            Sent::Hello { epoch } => OnItsWay::Hello { epoch },
            Sent::Restart => OnItsWay::Restart,
            Sent::Append { at, bytes } => OnItsWay::Append { at, bytes: self.own.read(at, bytes) },
            Sent::Forget { first } => OnItsWay::Forget { first },
            Sent::Epoch(epoch) => OnItsWay::Epoch(epoch),
            Sent::Beat(number) => OnItsWay::Beat(number),
        };
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.to_backup.push_back(message);
        }
        true
    }

    pub(crate) fn wired(&self) -> Vec<BackupId> {
        self.wires.keys().copied().collect()
    }

    /// A backup takes its next message. It dies after so many steps, if any are given.
    pub(crate) fn deliver(&mut self, id: BackupId, dies_after: Option<usize>) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        let Some(message) = wire.to_backup.pop_front() else { return false };
        if let OnItsWay::Hello { epoch } | OnItsWay::Epoch(epoch) = message {
            wire.epoch = epoch;
        }
        let epoch = wire.epoch;
        let (now, begun_with) = (self.now, self.begun_with);
        let counts = self.record.backups.contains(&id);
        let Some(node) = self.node_of(id) else { return false };
        let Node { disk, process, .. } = node;
        let backup = process.as_mut().expect("it runs");
        let synced = disk.synced();
        if let (OnItsWay::Append { at, .. }, Some((end, first))) = (&message, begun_with) {
            let is_forgotten = disk.first().is_none_or(|there| there >= first);
            assert!(*at < end || is_forgotten, "Y13: {at:?} comes before files up to {first} are forgotten");
        }
        let makes_sense = match message {
            OnItsWay::Hello { epoch } => backup.open(epoch),
            _ => backup.receive(now, epoch, message.message()),
        };
        let mut steps = 0;
        while let Some(step) = backup.step() {
            if Some(steps) == dies_after {
                self.kill(id);
                return true;
            }
            disk.carry_out_copy(step);
            backup.done(now);
            steps += 1;
        }
        if counts {
            let left = disk.synced();
            let is_left = |(key, version)| left.get(key).is_some_and(|left| left >= version);
            assert!(synced.iter().all(is_left), "Y4, Y5: what a copy has synced it does not lose");
        }
        let answers: Vec<ToWriter<'static>> = messages(backup).collect();
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.to_writer.extend(answers);
        }
        if !makes_sense {
            self.cut(id);
        }
        true
    }

    /// The writer receives an answer.
    pub(crate) fn answer(&mut self, id: BackupId) -> bool {
        let now = self.now;
        let Some(answer) = self.wires.get_mut(&id).and_then(|wire| wire.to_writer.pop_front()) else {
            return false;
        };
        if let Some(writer) = &mut self.writer {
            writer.copies.receive(now, id, answer);
            self.carry_out();
        }
        true
    }

    /// A connection breaks.
    pub(crate) fn cut(&mut self, id: BackupId) {
        let now = self.now;
        if self.wires.remove(&id).is_some()
            && let Some(writer) = &mut self.writer
        {
            writer.copies.lost(now, id);
        }
    }

    /// A backup's process dies.
    pub(crate) fn kill(&mut self, id: BackupId) {
        for node in self.nodes.iter_mut().filter(|node| node.id == id) {
            node.process = None;
            node.disk.forget_syncs();
        }
        self.cut(id);
    }

    /// Its machine loses its power.
    pub(crate) fn cut_power(&mut self, id: BackupId) {
        self.kill(id);
        let mut seed = self.seed;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        self.nodes.iter_mut().filter(|node| node.id == id).for_each(|node| node.disk.fail(&mut random));
    }

    /// A backup that died starts again.
    pub(crate) fn restart(&mut self, number: usize) {
        let (now, syncs) = (self.now, self.syncs);
        let Node { id, disk, process } = &mut self.nodes[number];
        if process.is_some() {
            return;
        }
        id.incarnation += 1;
        let backup = Backup::new(now, LOG, id.incarnation, disk.epoch, disk.found(), SYNC_EVERY_US);
        let mut backup = begun(syncs, backup);
        while let Some(step) = backup.step() {
            disk.carry_out_copy(step);
            backup.done(now);
        }
        messages(&mut backup).for_each(drop);
        *process = Some(backup);
        self.introduce();
    }

    /// The writer's machine loses its power, and starts again.
    pub(crate) fn cut_power_of_writer(&mut self, loses_all: bool) {
        // What no copy has, and is synced nowhere.
        if !self.syncs && self.record.backups.is_empty() {
            return;
        }
        self.lose_power(|world, below| if loses_all { 0 } else { world.random(below) });
        if self.random(3) == 0 {
            let ids: Vec<BackupId> = self.nodes.iter().map(|node| node.id).collect();
            ids.into_iter().for_each(|id| self.kill(id));
        }
        assert!(self.reclaim(), "Y15: a copy that counted began anew, as that of a later start");
        self.restart_writer();
    }

    fn lose_power(&mut self, random: impl Fn(&mut World, usize) -> usize) {
        let mut own = self.own.clone();
        own.fail(|below| random(self, below));
        self.own = own;
    }

    /// The writer is stopped, as an operator stops it. Then its machine may lose its power.
    pub(crate) fn stop_writer(&mut self) {
        let now = self.now;
        self.steps().sync(now, false, true);
        self.carry_out();
        self.steps().tidy(now, true);
        self.carry_out();
        let closed = self.steps().writer().closed_at();
        self.closed_at = closed.map(|(file, at)| Place { file, at });
        self.lose_power(World::random);
    }

    /// A stopped writer starts again. Nobody's answer is waited for.
    pub(crate) fn start_stopped(&mut self) {
        assert!(self.ask_copies(), "Y14: {:?} {:?}", self.closed_at, self.own.end(LOG));
        self.restart_writer();
    }

    fn steps(&mut self) -> &mut CommitSteps {
        &mut self.writer.as_mut().expect("the writer is there").steps
    }

    /// Takes from the copies what the log's own files lack (Y8), once there are enough of them. Whether there
    /// ever are.
    fn reclaim(&mut self) -> bool {
        self.writer = None;
        if self.random(2) == 0 {
            // It is removed by a start, or is there still: nothing depends on it.
            self.closed_at = None;
        }
        if self.ask_copies() {
            return true;
        }
        (0..self.nodes.len()).for_each(|number| self.restart(number));
        self.ask_copies()
    }

    /// Whether the log may go on, with what those have that run.
    fn ask_copies(&mut self) -> bool {
        let (decided, proposed) = &self.kept;
        let record = proposed.as_ref().unwrap_or(decided).clone();
        let mut reclaim = Reclaim::new(self.own.end(LOG), &record, self.syncs);
        if let Some(end) = self.closed_at {
            reclaim.closed_at(end);
        }
        while let Some(wanted) = reclaim.poll_wanted() {
            let (Wanted::Ask(id) | Wanted::Read(id, _)) = wanted;
            let node = self.nodes.iter().find(|node| node.id.node == id && node.process.is_some());
            let Some(node) = node else {
                reclaim.lost(id);
                continue;
            };
            match wanted {
                Wanted::Ask(_) => reclaim.has(node.id, node.process.as_ref().and_then(Backup::tail)),
                Wanted::Read(_, at) => {
                    let bytes = node.disk.bytes_of(at.file)[at.at as usize..].to_vec();
                    self.own.write(at, &bytes);
                    reclaim.read(bytes.len() as u64, true);
                }
            }
        }
        let outcome = reclaim.outcome().expect("everybody was asked");
        if outcome.from.is_some() {
            self.own.record_all(LOG);
        }
        outcome.is_settled()
    }

    /// The writer's process dies, and starts again from its own disk.
    pub(crate) fn restart_writer(&mut self) {
        self.writer = None;
        self.wires.clear();
        // What was proposed may still reach the coordinator.
        self.decisions.clear();
        let (files, last) = self.own.close(LOG);
        // What no commit had is gone.
        self.committed.retain(|&commit, _| commit <= last.0);
        self.newest = self.own.versions().expect("a log that was closed");
        self.start(files, last);
    }

    /// The coordinator decides on the next proposal.
    pub(crate) fn decide(&mut self) -> bool {
        let Some(proposal) = self.proposals.pop_front() else { return false };
        if proposal.epoch == self.record.epoch + 1 {
            self.record = proposal;
        }
        self.decisions.push_back(self.record.clone());
        true
    }

    /// The writer learns of the next decision.
    pub(crate) fn learn(&mut self) -> bool {
        let now = self.now;
        let Some(record) = self.decisions.pop_front() else { return false };
        self.copies().decided(now, record);
        self.carry_out();
        true
    }

    pub(crate) fn pass_time(&mut self, us: u64) {
        self.now = self.now.plus_us(us);
        let now = self.now;
        if self.writer.is_some() {
            self.copies().pass_time(now);
        }
        for index in 0..self.nodes.len() {
            let Node { id, disk, process } = &mut self.nodes[index];
            let Some(backup) = process else { continue };
            while disk.end_sync() {
                backup.sync_ended(now);
            }
            backup.pass_time(now);
            while let Some(step) = backup.step() {
                disk.carry_out_copy(step);
                backup.done(now);
            }
            if let Some(wire) = self.wires.get_mut(id) {
                wire.to_writer.extend(messages(backup));
            } else {
                messages(backup).for_each(drop);
            }
        }
    }

    /// Everything that is on its way arrives, until nothing happens.
    pub(crate) fn settle(&mut self) {
        self.settle_where(|_| true);
    }

    /// Everything but what is on its way from this backup.
    pub(crate) fn settle_but_for(&mut self, slow: BackupId) {
        self.settle_where(|id| id != slow);
    }

    fn settle_where(&mut self, answers: impl Fn(BackupId) -> bool) {
        for _ in 0..10_000 {
            self.sync_if_waited_for();
            self.follow_events(false);
            let mut happens = self.transmit();
            for id in self.wired().into_iter().filter(|id| answers(*id)) {
                happens |= self.deliver(id, None);
                happens |= self.answer(id);
            }
            happens |= self.decide();
            happens |= self.learn();
            if !happens {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Whoever the record names has everything that is safe, by itself, as it would be read after the death
    /// that the mode survives.
    pub(crate) fn check(&mut self) {
        for number in 0..self.nodes.len() {
            if !self.record.backups.contains(&self.nodes[number].id) {
                continue;
            }
            let disk = self.nodes[number].disk.clone();
            self.check_disk(disk, self.syncs, &format!("the copy at node {number}"));
        }
        self.check_lease();
        let stands_alone = self.syncs && self.record.backups.is_empty();
        self.check_disk(self.own.clone(), self.own_syncs || stands_alone, "the log");
    }

    /// Y10: while the writer's lease lasts, each copy of the record keeps its promise.
    fn check_lease(&self) {
        let Some(Writer { copies, .. }) = &self.writer else { return };
        let until = copies.lease_until();
        if until <= self.now || self.record.takeover_after_ms.is_none() {
            return;
        }
        for backup in &self.record.backups {
            let node = self.nodes.iter().find(|node| node.id.node == backup.node);
            let process = node.and_then(|node| node.process.as_ref());
            let promised = process.map_or(until, Backup::promised_until);
            assert!(promised >= until, "Y10: {backup:?} promised until {promised:?}, not until {until:?}");
        }
    }

    fn check_disk(&self, mut disk: Disk, syncs: bool, name: &str) {
        if syncs {
            disk.fail(|below| below / 2);
        }
        self.check_versions(&disk, name, &self.safe_versions);
    }

    fn check_versions(&self, disk: &Disk, name: &str, expected: &Versions) {
        let found = disk.versions().unwrap_or_else(|why| panic!("{name} cannot be read: {why}"));
        for (key, version) in expected {
            let known = found.get(key).copied().unwrap_or_default();
            assert!(
                known >= *version,
                "{name} has version {known} of key {key}, and {version} was safe by commit {}; {:?}",
                self.safe.0,
                self.record
            );
        }
    }
}
