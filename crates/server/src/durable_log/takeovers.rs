//! The thread that takes over what dead nodes had: it reads this node's copies of their logs.

use super::copies::{BackupsInput, Fenced};
use super::requests::LogRequests;
use super::takeover::{TakeOver, TakeOverError, TakenOver, take_over};
use crate::thread;
use sidle_cluster::{DeadLog, Takeover};
use sidle_node::{CopyToRead, NodeParts};
use sidle_types::PositionRange;
use sidle_types::words::counted;
use std::collections::VecDeque;
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
            Takeovers { setup, stop: stopped }.run(&queue);
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
    Reading(#[from] TakeOverError),
    #[error("the node ends")]
    Stopped,
}

struct Takeovers {
    setup: TakeoversSetup,
    stop: Arc<AtomicBool>,
}

impl Takeovers {
    fn run(&self, inputs: &Receiver<CopyToRead>) {
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
            let Some(first) = tasks.pop_front() else { continue };
            let is_alike = |task: &CopyToRead| {
                task.takeover.dead == first.takeover.dead
                    && (task.keeps, task.imports()) == (first.keeps, first.imports())
            };
            let (mut of_it, others): (Vec<_>, Vec<_>) = tasks.drain(..).partition(is_alike);
            of_it.push(first);
            tasks.extend(others);
            match self.carry_out(&of_it) {
                Ok(()) => of_it.into_iter().for_each(|task| (self.setup.report)(task.takeover, Ok(()))),
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

    /// Takes over what is here of one log.
    fn carry_out(&self, tasks: &[CopyToRead]) -> Result<(), Failure> {
        let Some(task @ CopyToRead { takeover, keeps, .. }) = tasks.first() else { return Ok(()) };
        let &DeadLog { from, log, log_epoch, .. } = &takeover.dead;
        let ranges: Vec<PositionRange> = tasks.iter().flat_map(|task| task.ranges.iter().copied()).collect();
        let shown: Vec<String> = ranges.iter().take(SHOWN).map(ToString::to_string).collect();
        let shown = format!("{}{}", shown.join(", "), if ranges.len() > SHOWN { ", ..." } else { "" });
        let (answer, fenced) = oneshot::channel();
        let fence = BackupsInput::Fence(log, log_epoch, answer);
        self.setup.backups.send(fence).map_err(|_| Failure::Stopped)?;
        let promised_until = match fenced.blocking_recv() {
            Ok(Fenced::Done(promised)) => Instant::now() + promised,
            Ok(Fenced::NoCopy) => return Err(Failure::NoCopy),
            Ok(Fenced::Damaged) => return Err(Failure::Damaged),
            Err(_) => return Err(Failure::Stopped),
        };
        tracing::info!("taking {shown} over from node {from}, from the copy of its log {log}");
        let began = Instant::now();
        let (setup, store) = (&self.setup, &self.setup.parts.store);
        let progress = &setup.parts.shared.taking_over;
        progress.begin();
        let taken = take_over(TakeOver {
            path: &setup.path.join(log.to_string()),
            log,
            ranges: &ranges,
            keeps: *keeps,
            imports: task.imports(),
            live: store,
            head: store.log_head(),
            memory_bytes: scratch_bytes(store.memory().limit),
            threads: setup.threads,
            stop: &self.stop,
            progress,
        });
        progress.end();
        let TakenOver { keys, .. } = match taken {
            Err(TakeOverError::Stopped) => return Err(Failure::Stopped),
            taken => taken?,
        };
        self.await_safe()?;
        self.await_promises(promised_until)?;
        let (keys, ms) = (counted(keys as usize, "key"), began.elapsed().as_millis());
        tracing::info!("{shown} of node {from}: {keys} taken over in {ms} ms");
        Ok(())
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
