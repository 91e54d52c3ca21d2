//! The thread that makes commits: the server's steps, each write and each sync with its time.

use super::HostSetup;
use super::log_cleaning::LogCleaning;
use crate::durable::{DurableSetup, LogDisk, LogFolder, ReadLog, Resumed};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_log_files::{LogWriter, Syncs};
use sidle_node::{NodeParts, NodeShared, Now};
use sidle_store::{Commits, Store, StoreConfig};
use sidle_testbed::SyncUnderWay;
use sidle_types::{CommitNumber, MonotonicUs, PositionRange};
use std::sync::Arc;

/// How long it sleeps with nothing to do.
const IDLE_REST_US: u64 = 100_000;

/// What the thread does, up to a certain time.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It sleeps.
    Idle,
    /// A commit is being written.
    Writing,
    /// All writes up to this commit are being synced, and it waits for that.
    Syncing(CommitNumber),
    /// A full file is being closed.
    Closing,
}

/// A sync that writes do not wait for, the commit that it covers, and when it ends.
type BesideSync = (SyncUnderWay, CommitNumber, u64);

/// The log writer.
pub(super) struct LogThread {
    setup: DurableSetup,
    log: LogDisk,
    store: Arc<Store>,
    shared: Arc<NodeShared>,
    config: StoreConfig,
    writer: LogWriter,
    folder: LogFolder,
    cleaning: LogCleaning,
    records: Vec<u8>,
    /// The last commit that was taken.
    taken: CommitNumber,
    /// The file of which nothing is needed any more once the present commit is synced.
    cleaned: Option<u64>,
    stage: Stage,
    until_us: u64,
    beside: Option<BesideSync>,
}

impl LogThread {
    /// Goes on behind what was read into the store.
    pub(super) fn begin(read: ReadLog, parts: &NodeParts, host: &HostSetup, now: MonotonicUs) -> LogThread {
        let ReadLog { setup, log, resumed, is_to_be_cleared } = read;
        let Resumed { folder, log: id, files, last } = resumed;
        let writer = LogWriter::new(setup.settings, id, files, last, now);
        let mut thread = LogThread {
            setup,
            log,
            store: Arc::clone(&parts.store),
            shared: Arc::clone(&parts.shared),
            config: host.store_config(),
            writer,
            folder,
            cleaning: LogCleaning::default(),
            records: Vec::new(),
            taken: last,
            cleaned: None,
            stage: Stage::Idle,
            until_us: 0,
            beside: None,
        };
        if is_to_be_cleared {
            thread.clear(now);
        }
        thread.tell_synced();
        thread
    }

    /// Everything up to this commit is synced.
    fn synced(&mut self, commit: CommitNumber, now: MonotonicUs) {
        self.writer.synced(commit, now);
        self.log.judge().synced(commit);
        self.tell_synced();
    }

    /// Without records a commit is as synced as the one before.
    fn tell_synced(&self) {
        let is_all = self.writer.last_synced() == self.writer.last_written();
        let synced = if is_all { self.taken } else { self.writer.last_synced() };
        self.shared.durability.note_synced(synced, 0);
    }

    /// Removes everything, with the durable log's knowledge, before anybody else uses the store.
    fn clear(&mut self, now: MonotonicUs) {
        let store = Arc::clone(&self.store);
        let all = PositionRange::ALL;
        assert_eq!(store.discard(all.first(), all.last(), usize::MAX), None, "no end to it");
        if !self.begin_commit(commits(&store)) {
            return;
        }
        self.writer.written();
        self.sync_folder();
        self.log.disk().settle();
        self.log.disk().take_stall_us();
        self.synced(self.writer.last_written(), now);
        self.report(commits(&store));
    }

    /// It has a turn.
    pub(super) fn turn(&mut self, host: HostId, workers: usize, now: Now, world: &mut World) {
        let me = Actor::Thread(host, Thread::LogWriter);
        self.end_sync_beside(now.mono, world.now_us);
        if world.now_us < self.until_us {
            let beside_us = self.beside.as_ref().map_or(u64::MAX, |(_, _, until_us)| *until_us);
            world.turn_at(me, self.until_us.min(beside_us.max(world.now_us + 1)));
            return;
        }
        let store = Arc::clone(&self.store);
        let commits = commits(&store);
        let rests = match self.stage {
            Stage::Idle => self.commit(commits, now.mono, world),
            Stage::Writing => {
                self.log.disk().settle();
                self.writer.written();
                self.sync(commits, now.mono, world)
            }
            Stage::Syncing(commit) => {
                self.log.disk().settle();
                self.synced(commit, now.mono);
                self.finish(commits, world)
            }
            Stage::Closing => {
                self.log.disk().settle();
                self.remove_files(world);
                false
            }
        };
        if matches!(self.stage, Stage::Idle) {
            self.report(commits);
            world.facts.push(Fact::Safe(host));
            (0..workers).for_each(|worker| world.wake(host, Thread::Worker(worker)));
        }
        let at_us = if rests { world.now_us + IDLE_REST_US } else { self.until_us.max(world.now_us + 1) };
        let beside_us = self.beside.as_ref().map_or(u64::MAX, |(_, _, until_us)| *until_us);
        world.turn_at(me, at_us.min(beside_us.max(world.now_us + 1)));
    }

    /// Takes what was written to the store since the last commit, and begins to write it; whether there was
    /// nothing.
    fn commit(&mut self, commits: &Commits, now: MonotonicUs, world: &mut World) -> bool {
        if !self.begin_commit(commits) {
            return self.sync(commits, now, world);
        }
        world.meet("commits", 1);
        self.wait_for_disk(Stage::Writing, world);
        self.until_us += world.random.below(self.setup.write_us + 1);
        false
    }

    /// Whether there is anything to write.
    fn begin_commit(&mut self, commits: &Commits) -> bool {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        // Before the commit is taken: see `Store::is_current`.
        let (store, writer) = (&self.store, &self.writer);
        if self.cleaned.is_none() {
            let judged = self.setup.judged_bytes;
            self.cleaned = self.cleaning.step(store, writer, &self.folder, judged, &mut records);
        }
        self.taken = commits.take(&mut records);
        let is_any = !records.is_empty();
        let written = (!is_any).then(|| self.writer.last_written());
        self.log.judge().taken(self.taken, written, store);
        if is_any {
            if let Some(head) = self.writer.open() {
                self.folder.write(&head).expect("the disk has room");
                self.sync_folder();
                self.folder.sync_names().expect("the disk works");
            }
            let write = self.writer.begin(self.taken, &records);
            self.folder.write(&write).expect("the disk has room");
        }
        self.records = records;
        is_any
    }

    /// Syncs if it is time; whether there is nothing else to do.
    fn sync(&mut self, commits: &Commits, now: MonotonicUs, world: &mut World) -> bool {
        if let Some(file) = self.cleaned.take_if(|_| commits.is_whole(self.taken)) {
            self.writer.cleaned(file, self.writer.last_written());
        }
        let wanted = self.shared.durability.is_sync_wanted().then(|| self.writer.last_written());
        let due = self.writer.is_sync_due(now).or(wanted);
        if due == Some(self.writer.last_synced()) {
            self.tell_synced();
            return self.finish(commits, world);
        }
        let waits = self.setup.settings.syncs == Syncs::Always || self.writer.is_full();
        match due {
            Some(commit) if waits => {
                self.sync_folder();
                self.wait_for_disk(Stage::Syncing(commit), world);
                false
            }
            Some(commit) if self.beside.is_none() => {
                let sync = self.folder.begin_sync().expect("the disk works");
                let until_us = world.now_us + sync.takes_us();
                self.beside = Some((sync, commit, until_us));
                self.finish(commits, world)
            }
            _ => self.finish(commits, world),
        }
    }

    /// The commit is safe; whether there is nothing else to do.
    fn finish(&mut self, commits: &Commits, world: &mut World) -> bool {
        self.report(commits);
        if world.random.permille(self.setup.looks_permille) {
            world.meet("logs read beside their writers", 1);
            let seen = self.log.look(&self.config);
            world.checks.note_log(seen);
        }
        if let Some(end) = self.writer.close() {
            world.meet("log files closed", 1);
            self.folder.write(&end).expect("the disk has room");
            self.sync_folder();
            self.wait_for_disk(Stage::Closing, world);
            return false;
        }
        self.remove_files(world);
        self.records.is_empty()
    }

    /// Without records a commit is as safe as the one before.
    fn report(&mut self, commits: &Commits) {
        if commits.set_safe(self.taken) {
            self.log.judge().safe(self.taken);
        }
    }

    fn remove_files(&mut self, world: &mut World) {
        while let Some(file) = self.writer.to_remove() {
            world.meet("log files removed", 1);
            self.folder.remove(file).expect("the disk works");
            self.writer.removed(file);
        }
        self.log.disk().settle();
        self.stage = Stage::Idle;
    }

    fn sync_folder(&self) {
        self.folder.sync().expect("the disk works");
    }

    /// The disk takes its time for all that was begun.
    fn wait_for_disk(&mut self, stage: Stage, world: &World) {
        self.stage = stage;
        self.until_us = world.now_us + self.log.disk().take_stall_us();
    }

    fn end_sync_beside(&mut self, now: MonotonicUs, now_us: u64) {
        if let Some((sync, commit, _)) = self.beside.take_if(|(_, _, until_us)| *until_us <= now_us) {
            sync.end().expect("the disk works");
            self.synced(commit, now);
        }
    }
}

fn commits(store: &Store) -> &Commits {
    store.commits().expect("a durable store has commits")
}
