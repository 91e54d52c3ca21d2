//! The thread that takes over what dead nodes had: it reads this node's copies of their logs. A copy that it
//! does not have it fetches from another node, into a folder that goes when the takeover is over.

use super::copies::{BackupsInput, Fenced, FetchError, Fetched, Fetching, KnownOfCopies, remove_folder};
use super::requests::LogRequests;
use super::takeover::{TakeOver, TakeOverError, TakenOver, clear, take_over};
use crate::clock::Clock;
use crate::door::Door;
use crate::thread;
use sidle_cluster::{DeadLog, Takeover};
use sidle_node::{CopyToRead, NodeParts};
use sidle_types::words::counted;
use sidle_types::{LogId, NodeId, PositionRange};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// How many ranges the log names.
const SHOWN: usize = 3;
/// How often it looks whether the node ends.
const PATIENCE: Duration = Duration::from_secs(3);
/// The share of the node's memory that a copy is read into, and what that is at least.
const SCRATCH_SHARE: u64 = 4;
const LEAST_SCRATCH_BYTES: u64 = 256 << 20;
/// How often it looks whether the log has what it wrote.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the thread needs.
pub(crate) struct TakeoversSetup {
    /// Where the copies are.
    pub(crate) path: PathBuf,
    /// Where copies of others are put.
    pub(crate) fetched_path: PathBuf,
    /// How others are reached.
    pub(crate) door: Door,
    pub(crate) clock: Clock,
    pub(crate) parts: NodeParts,
    /// How many threads replay.
    pub(crate) threads: usize,
    /// The thread that keeps the copies.
    pub(crate) backups: UnboundedSender<BackupsInput>,
    /// The node's own log, if it has one.
    pub(crate) log: Option<Arc<LogRequests>>,
    /// Called with what is taken over, or cannot be for now, and why.
    pub(crate) report: Box<dyn Fn(Takeover, Result<(), String>) + Send>,
}

/// The running thread. When it is dropped, what it reads is given up: the next start reads it again.
pub(crate) struct TakeoversThread {
    inputs: Option<Sender<CopyToRead>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TakeoversThread {
    /// Starts it.
    pub(crate) fn start(setup: TakeoversSetup) -> io::Result<TakeoversThread> {
        let (inputs, queue) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::start("log-takeover".to_owned(), move || {
            thread::lower_priority();
            let (known, fetched) = (BTreeMap::new(), None);
            Takeovers { setup, stop: stopped, known, fetched }.run(&queue);
        })?;
        Ok(TakeoversThread { inputs: Some(inputs), stop, thread: Some(thread) })
    }

    /// Where its tasks go.
    pub(crate) fn inputs(&self) -> Sender<CopyToRead> {
        self.inputs.clone().expect("it is there until it is dropped")
    }
}

impl Drop for TakeoversThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        drop(self.inputs.take());
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}

/// How much memory a copy is read into, beside a store of this limit. What does not fit is read in parts.
fn scratch_bytes(limit: u64) -> u64 {
    (limit / SCRATCH_SHARE).max(LEAST_SCRATCH_BYTES).min(limit)
}

/// Why a range could not be taken over.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("there is no copy of its log here that can be used")]
    NoCopy,
    #[error("the copy of its log here does not end as it was written: its last file is damaged")]
    Damaged,
    #[error(transparent)]
    Fetching(FetchError),
    #[error(transparent)]
    Reading(#[from] TakeOverError),
    #[error("the node ends")]
    Stopped,
}

/// A copy that is ready to be read.
struct ReadyCopy {
    path: PathBuf,
    at: NodeId,
    /// Until when its writer may answer clients.
    promised_until: Instant,
}

struct Takeovers {
    setup: TakeoversSetup,
    stop: Arc<AtomicBool>,
    /// What is known of the copies of logs that are being taken over.
    known: BTreeMap<LogId, KnownOfCopies>,
    /// What lies in the folder of fetched copies.
    fetched: Option<(DeadLog, Fetched)>,
}

impl Takeovers {
    fn run(&mut self, inputs: &Receiver<CopyToRead>) {
        // What an earlier process fetched: it is fetched again.
        self.remove_fetched();
        let mut tasks: VecDeque<CopyToRead> = VecDeque::new();
        while !self.stop.load(Ordering::Acquire) {
            let wait = if tasks.is_empty() { PATIENCE } else { Duration::ZERO };
            match inputs.recv_timeout(wait) {
                Ok(task) => {
                    tasks.push_back(task);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The control has ended, or never gave one.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // All of one log at once: each reading is of the whole copy.
            let Some(first) = tasks.pop_front() else {
                self.forget_unneeded();
                continue;
            };
            let is_alike = |task: &CopyToRead| {
                task.takeover.dead == first.takeover.dead
                    && (task.keeps, task.imports()) == (first.keeps, first.imports())
            };
            let (mut of_it, others): (Vec<_>, Vec<_>) = tasks.drain(..).partition(is_alike);
            of_it.push(first);
            tasks.extend(others);
            match self.carry_out(&of_it) {
                Ok(()) => {
                    let log = of_it[0].takeover.dead.log;
                    if !tasks.iter().any(|task| task.takeover.dead.log == log) {
                        self.forget(log);
                    }
                    of_it.into_iter().for_each(|task| (self.setup.report)(task.takeover, Ok(())));
                }
                Err(Failure::Stopped) => return,
                Err(error) => {
                    let from = of_it[0].takeover.dead.from;
                    tracing::error!("what node {from} had cannot be taken over for now: {error}");
                    let report =
                        |task: CopyToRead| (self.setup.report)(task.takeover, Err(error.to_string()));
                    of_it.into_iter().for_each(report);
                }
            }
        }
    }

    /// Takes over what is due of one log.
    fn carry_out(&mut self, tasks: &[CopyToRead]) -> Result<(), Failure> {
        let Some(task) = tasks.first() else { return Ok(()) };
        let shared = Arc::clone(&self.setup.parts.shared);
        let log = task.takeover.dead.log;
        shared.taking_over.begin(log, self.known.get(&log).and_then(|known| known.failed_at));
        let taken = match self.find_copy(task) {
            Ok(copy) => self.read(tasks, &copy),
            Err(Failure::Stopped) => Err(Failure::Stopped),
            Err(error) => {
                let store = &self.setup.parts.store;
                // Another node may do it next, and an earlier process may have begun to.
                tasks.iter().filter(|task| !task.keeps).for_each(|task| clear(store, &task.ranges));
                Err(error)
            }
        };
        let how_far = shared.taking_over.end();
        if taken.is_err() {
            self.known.entry(log).or_default().failed_at = Some(how_far);
        }
        taken
    }

    /// This node's copy, if it had one that counted; or one that is fetched. Where only this node can take
    /// over, a copy of its own that is damaged is not the end of it.
    fn find_copy(&mut self, task: &CopyToRead) -> Result<ReadyCopy, Failure> {
        let dead = &task.takeover.dead;
        let me = self.setup.parts.published.table().node();
        let is_there = |others: bool| dead.backups.iter().any(|backup| (backup.node != me) == others);
        let has_failed = self.known.get(&dead.log).is_some_and(|known| known.damaged.contains(&me));
        let may_fetch = task.keeps && is_there(true);
        if !is_there(false) || may_fetch && has_failed {
            return self.fetch(dead);
        }
        match self.own_copy(dead, me) {
            Err(error @ (Failure::NoCopy | Failure::Damaged)) if may_fetch => {
                tracing::warn!("{error}: another one is fetched");
                self.known.entry(dead.log).or_default().damaged.insert(me);
                self.fetch(dead)
            }
            found => found,
        }
    }

    /// This node's copy, which is fenced.
    fn own_copy(&self, dead: &DeadLog, me: NodeId) -> Result<ReadyCopy, Failure> {
        let (answer, fenced) = oneshot::channel();
        let fence = BackupsInput::Fence(dead.log, dead.log_epoch, answer);
        self.setup.backups.send(fence).map_err(|_| Failure::Stopped)?;
        match fenced.blocking_recv() {
            Ok(Fenced::Done(promised)) => {
                let path = self.setup.path.join(dead.log.to_string());
                Ok(ReadyCopy { path, at: me, promised_until: Instant::now() + promised })
            }
            Ok(Fenced::NoCopy) => Err(Failure::NoCopy),
            Ok(Fenced::Damaged) => Err(Failure::Damaged),
            Err(_) => Err(Failure::Stopped),
        }
    }

    /// A copy of another node, which that has fenced before it gave anything of it.
    fn fetch(&mut self, dead: &DeadLog) -> Result<ReadyCopy, Failure> {
        let path = self.setup.fetched_path.join(dead.log.to_string());
        let fetched = match &self.fetched {
            Some((of, fetched)) if of == dead => *fetched,
            _ => {
                self.remove_fetched();
                let TakeoversSetup { door, parts, clock, .. } = &self.setup;
                let fetching = Fetching { path: &path, door, parts, clock: *clock, stop: &self.stop };
                let fetched = fetching.run(dead, self.known.entry(dead.log).or_default());
                if fetched.is_err() {
                    self.remove_fetched();
                }
                let fetched = fetched.map_err(|error| match error {
                    FetchError::Stopped => Failure::Stopped,
                    error => Failure::Fetching(error),
                })?;
                self.fetched = Some((dead.clone(), fetched));
                fetched
            }
        };
        Ok(ReadyCopy { path, at: fetched.from, promised_until: fetched.promised_until })
    }

    /// Reads a copy, and puts in what it has.
    fn read(&mut self, tasks: &[CopyToRead], copy: &ReadyCopy) -> Result<(), Failure> {
        let Some(task @ CopyToRead { takeover, keeps, .. }) = tasks.first() else { return Ok(()) };
        let &DeadLog { from, log, .. } = &takeover.dead;
        let ranges: Vec<PositionRange> = tasks.iter().flat_map(|task| task.ranges.iter().copied()).collect();
        let shown: Vec<String> = ranges.iter().take(SHOWN).map(ToString::to_string).collect();
        let shown = format!("{}{}", shown.join(", "), if ranges.len() > SHOWN { ", ..." } else { "" });
        tracing::info!("taking {shown} over from node {from}, from the copy of its log {log}");
        let began = Instant::now();
        let (setup, store) = (&self.setup, &self.setup.parts.store);
        let taken = take_over(TakeOver {
            path: &copy.path,
            log,
            ranges: &ranges,
            keeps: *keeps,
            imports: task.imports(),
            live: store,
            head: store.log_head(),
            memory_bytes: scratch_bytes(store.memory().limit),
            threads: setup.threads,
            stop: &self.stop,
            progress: &setup.parts.shared.taking_over,
        });
        let keys = match taken {
            Ok(TakenOver { keys, .. }) => keys,
            Err(TakeOverError::Stopped) => return Err(Failure::Stopped),
            Err(error) => {
                if error.is_of_the_copy() {
                    self.known.entry(log).or_default().damaged.insert(copy.at);
                    self.remove_fetched();
                }
                return Err(error.into());
            }
        };
        self.await_safe()?;
        self.await_promises(copy.promised_until)?;
        let (keys, ms) = (counted(keys as usize, "key"), began.elapsed().as_millis());
        tracing::info!("{shown} of node {from}: {keys} taken over in {ms} ms");
        Ok(())
    }

    /// Nothing of this log is to be read any more.
    fn forget(&mut self, log: LogId) {
        self.known.remove(&log);
        if self.fetched.as_ref().is_some_and(|(dead, _)| dead.log == log) {
            self.remove_fetched();
        }
    }

    /// The same, where another node does it by now.
    fn forget_unneeded(&mut self) {
        let table = self.setup.parts.published.table();
        let (map, me) = (table.map(), table.node());
        let is_read = |log: LogId| {
            let takes = |takeover: &Takeover| takeover.owner == me && takeover.dead.log == log;
            let rest = |dead: &Option<DeadLog>| dead.as_ref().is_some_and(|dead| dead.log == log);
            map.takeovers().iter().any(takes)
                || map.migrations().iter().any(|record| record.target == me && rest(&record.source_log))
        };
        let unneeded: Vec<LogId> = self.known.keys().copied().filter(|log| !is_read(*log)).collect();
        unneeded.into_iter().for_each(|log| self.forget(log));
    }

    fn remove_fetched(&mut self) {
        self.fetched = None;
        if let Err(error) = remove_folder(&self.setup.fetched_path) {
            tracing::warn!("{} cannot be removed: {error}", self.setup.fetched_path.display());
        }
    }

    /// Waits until the copy's writer, should it live after all, answers no reads any more.
    fn await_promises(&self, until: Instant) -> Result<(), Failure> {
        while Instant::now() < until {
            if self.stop.load(Ordering::Acquire) {
                return Err(Failure::Stopped);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    /// Waits until this node's own log, and its copies, have everything that was written.
    fn await_safe(&self) -> Result<(), Failure> {
        let (Some(commits), Some(log)) = (self.setup.parts.store.commits(), &self.setup.log) else {
            return Ok(());
        };
        let wanted = commits.open();
        while commits.safe() < wanted {
            if self.stop.load(Ordering::Acquire) {
                return Err(Failure::Stopped);
            }
            log.ask();
            std::thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }
}
