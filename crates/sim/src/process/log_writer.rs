//! The thread that makes commits: it carries out the product's steps, each in its time.

use super::HostSetup;
use crate::durable::{DurableSetup, LogDisk, LogFolder, ReadLog, Resumed};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_log_copies::{Change, LogReport};
use sidle_log_files::{CommitSteps, Failed, LogWriter, Step, Taken};
use sidle_node::{NodeParts, NodeShared, Now};
use sidle_store::{Commits, Store, StoreConfig};
use sidle_testbed::SyncUnderWay;
use sidle_types::{MonotonicUs, PositionRange};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// How long it sleeps with nothing to do.
const IDLE_REST_US: u64 = 100_000;
/// How long it rests before a failed step is repeated.
const RETRY_REST_US: u64 = 100_000;

/// The part of a round whose steps are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A commit is to be taken.
    Rest,
    Commit,
    Sync,
    Tidy,
}

/// A step that takes its time.
#[derive(Debug)]
enum Pending {
    Ended(io::Result<()>),
    Syncing(SyncUnderWay),
}

/// The log writer.
pub(super) struct LogThread {
    setup: DurableSetup,
    log: LogDisk,
    store: Arc<Store>,
    shared: Arc<NodeShared>,
    config: StoreConfig,
    steps: CommitSteps,
    folder: LogFolder,
    part: Part,
    /// Whether the round had anything to write.
    wrote: bool,
    /// The step under way, and when it is over.
    pending: Option<Pending>,
    until_us: u64,
    /// A sync that writes do not wait for, and when it ends.
    beside: Option<(SyncUnderWay, u64)>,
    /// What its copies are to learn, if it has any: then a commit is safe when they have it.
    pub(super) reports: Option<VecDeque<LogReport>>,
    /// What the step under way is to them.
    carried_out: Change,
}

impl LogThread {
    /// Goes on behind what was read into the store.
    pub(super) fn begin(read: ReadLog, parts: &NodeParts, host: &HostSetup, now: MonotonicUs) -> LogThread {
        let ReadLog { setup, log, resumed, is_to_be_cleared } = read;
        let Resumed { folder, log: id, files, last, repeated } = resumed;
        let mut steps = CommitSteps::new(LogWriter::new(setup.settings, id, files, last, now), now);
        steps.skip(repeated);
        let reports = setup.copies.map(|_| VecDeque::new());
        let mut thread = LogThread {
            setup,
            log,
            store: Arc::clone(&parts.store),
            shared: Arc::clone(&parts.shared),
            config: host.store_config(),
            steps,
            folder,
            part: Part::Rest,
            wrote: false,
            pending: None,
            until_us: 0,
            beside: None,
            reports,
            carried_out: Change::Nothing,
        };
        if is_to_be_cleared {
            thread.clear(now);
        }
        thread.note_synced();
        thread
    }

    /// Removes everything, with the durable log's knowledge, before anybody else uses the store.
    fn clear(&mut self, now: MonotonicUs) {
        let store = Arc::clone(&self.store);
        let all = PositionRange::ALL;
        assert_eq!(store.discard(all.first(), all.last(), usize::MAX), None, "no end to it");
        self.carry_out_at_once(now);
        self.take(commits(&store));
        self.carry_out_at_once(now);
        self.steps.sync(now, false, true);
        self.carry_out_at_once(now);
        self.report(commits(&store));
    }

    /// A start waits for its disk, which is sound.
    fn carry_out_at_once(&mut self, now: MonotonicUs) {
        while let Some(step) = self.steps.step() {
            let what = Change::of(&step);
            self.folder.carry_out(step).expect("the disk works");
            self.steps.done(now);
            self.report_step(what);
        }
        self.log.disk().settle();
        self.log.disk().take_stall_us();
        self.note_synced();
    }

    /// It has a turn.
    pub(super) fn turn(&mut self, host: HostId, workers: usize, now: Now, world: &mut World) {
        let me = Actor::Thread(host, Thread::LogWriter);
        let store = Arc::clone(&self.store);
        while world.now_us >= self.until_us {
            if let Some(pending) = self.pending.take() {
                self.end_step(pending, now.mono, world);
            } else if !self.begin_step(world) && !self.go_on(commits(&store), now.mono, world) {
                if self.reports.is_some() {
                    world.wake(host, Thread::Copies);
                    break;
                }
                world.facts.push(Fact::Safe(host));
                (0..workers).for_each(|worker| world.wake(host, Thread::Worker(worker)));
                break;
            }
        }
        let at_us = match self.part {
            Part::Rest if !self.wrote => world.now_us + IDLE_REST_US,
            _ => self.until_us,
        };
        let beside_us = self.beside.as_ref().map_or(u64::MAX, |(_, until_us)| *until_us);
        world.turn_at(me, at_us.min(beside_us).max(world.now_us + 1).max(self.until_us));
    }

    /// Begins the next step, if there is one.
    fn begin_step(&mut self, world: &mut World) -> bool {
        self.carried_out = Change::Nothing;
        let Some(step) = self.steps.step() else { return false };
        let (pending, until_us) = match step {
            Step::BeginSync => match self.folder.begin_sync() {
                Ok(sync) => {
                    let until_us = world.now_us + sync.takes_us();
                    self.beside = Some((sync, until_us));
                    (Pending::Ended(Ok(())), 0)
                }
                Err(error) => (Pending::Ended(Err(error)), 0),
            },
            Step::EndSync => {
                let (sync, until_us) = self.beside.take().expect("a sync is under way");
                (Pending::Syncing(sync), until_us)
            }
            step => {
                self.carried_out = Change::of(&step);
                let is_write = matches!(step, Step::Write(_));
                let result = self.folder.carry_out(step);
                let write_us = if is_write { world.random.below(self.setup.write_us + 1) } else { 0 };
                (Pending::Ended(result), world.now_us + self.log.disk().take_stall_us() + write_us)
            }
        };
        self.pending = Some(pending);
        self.until_us = until_us.max(world.now_us);
        true
    }

    /// The step is over.
    fn end_step(&mut self, pending: Pending, now: MonotonicUs, world: &mut World) {
        let result = match pending {
            Pending::Ended(result) => result,
            Pending::Syncing(sync) => sync.end(),
        };
        match result {
            Ok(()) => {
                self.log.disk().settle();
                self.steps.done(now);
                let what = std::mem::take(&mut self.carried_out);
                self.report_step(what);
                if !self.steps.fails() && self.shared.durability.fails() {
                    self.shared.durability.set_failure(None);
                }
            }
            Err(error) => {
                let follows = self.steps.failed();
                self.fail(follows, &error, world);
            }
        }
        self.note_synced();
    }

    fn fail(&mut self, follows: Failed, error: &io::Error, world: &mut World) {
        world.tell(|| format!("the durable log: {error}, {follows:?}"));
        match follows {
            Failed::Repeats => {
                world.meet("failed writes of the log repeated", 1);
                self.shared.durability.set_failure(Some(&error.to_string()));
                self.until_us = world.now_us + RETRY_REST_US;
            }
            Failed::BeginsAnew => world.meet("log files given up", 1),
            Failed::PutOff => world.meet("removals of log files put off", 1),
        }
    }

    /// Goes to the round's next part; false at its end.
    fn go_on(&mut self, commits: &Commits, now: MonotonicUs, world: &mut World) -> bool {
        self.part = match self.part {
            Part::Rest => {
                self.wrote = self.take(commits);
                world.meet("commits", u64::from(self.wrote));
                Part::Commit
            }
            Part::Commit => {
                if !self.end_sync_beside(now, world) {
                    // What may be lost is written again first.
                    return true;
                }
                let is_wanted = self.shared.durability.is_sync_wanted();
                self.steps.sync(now, is_wanted, false);
                Part::Sync
            }
            Part::Sync => {
                self.note_synced();
                self.report(commits);
                self.look(world);
                self.tidy(now, world);
                Part::Tidy
            }
            Part::Tidy => Part::Rest,
        };
        self.part != Part::Rest
    }

    /// Takes what was written to the store since the last commit; whether there was anything.
    fn take(&mut self, commits: &Commits) -> bool {
        let store = Arc::clone(&self.store);
        self.read_to_clean();
        // Before the commit is taken: see `Store::survivors_of`.
        let has_cleaned = self.steps.clean(|records, most, into| store.survivors_of(records, most, into));
        let is_any = self.steps.take(|records| {
            let commit = commits.take(records);
            Taken { commit, is_whole: commits.is_whole(commit) }
        });
        let written = (!is_any).then(|| self.steps.writer().last_written());
        self.log.judge().taken(self.steps.taken(), written, &store);
        is_any || has_cleaned
    }

    fn read_to_clean(&mut self) {
        if let Some(file) = self.steps.file_to_read(|| self.store.memory().log_live) {
            let bytes = self.folder.read(file).map_err(|error| error.to_string());
            self.steps.file_read(bytes).expect("a file follows one that was synced");
        }
    }

    /// Whether the sync that writes do not wait for has not failed.
    fn end_sync_beside(&mut self, now: MonotonicUs, world: &mut World) -> bool {
        let Some((sync, _)) = self.beside.take_if(|(_, until_us)| *until_us <= world.now_us) else {
            return true;
        };
        let result = sync.end();
        let follows = self.steps.sync_ended(result.is_ok(), now);
        self.note_synced();
        if let (Some(follows), Err(error)) = (follows, result) {
            self.fail(follows, &error, world);
            return false;
        }
        true
    }

    fn look(&mut self, world: &mut World) {
        if self.wrote && world.random.permille(self.setup.looks_permille) {
            world.meet("logs read beside their writers", 1);
            let seen = self.log.look(&self.config);
            world.checks.note_log(seen);
        }
    }

    fn tidy(&mut self, now: MonotonicUs, world: &mut World) {
        self.steps.tidy(now, false);
        match self.steps.step() {
            Some(Step::Write(_)) => world.meet("log files closed", 1),
            Some(Step::Record(_)) => world.meet("log files removed", 1),
            _ => {}
        }
    }

    /// Reports a step to the copies.
    fn report_step(&mut self, what: Change) {
        if let Some(reports) = &mut self.reports {
            reports.extend(what.report(self.steps.writer().last_written()));
        }
    }

    /// Without records a commit is as safe as the one before.
    fn report(&mut self, commits: &Commits) {
        if let Some(reports) = &mut self.reports {
            let (commit, synced) = (self.steps.taken(), self.steps.synced());
            reports.push_back(LogReport::SafeHere { commit, synced });
        } else if commits.set_safe(self.steps.taken()) {
            self.log.judge().safe(self.steps.taken());
        }
    }

    fn note_synced(&mut self) {
        self.log.judge().synced(self.steps.writer().last_synced());
        self.shared.durability.note_synced(self.steps.synced(), 0);
    }
}

fn commits(store: &Store) -> &Commits {
    store.commits().expect("a durable store has commits")
}
