//! Worker threads: each one current-thread runtime with its own listening socket.
//!
//! A connection stays on one worker. Nothing on a request's path wakes another thread, sets a timer,
//! locks or allocates. The runtime has no timer at all, except for experiments with movers on it;
//! periodic work is ticked from outside.
//!
//! Ownership: the thread owns its [`Engine`](engine::Engine); other threads hold a [`WorkerLink`].

mod accept;
mod connection;
mod engine;
mod forward;
mod waits;
mod watch;

pub(crate) use accept::KEEPALIVE;

use crate::clock::Clock;
use crate::control::ControlCall;
use crate::control::links::Lane;
use crate::durable_log::LogRequests;
use crate::limits::ClientLimits;
use crate::mover::{MoverLink, MoverSetup};
use crate::thread;
use sidle_node::{ForwardLink, NodeShared, Worker};
use sidle_wire::Forward;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc};

/// The control thread's input to a worker.
#[derive(Debug)]
pub(crate) enum WorkerInput {
    /// A connection that it requested, to forward requests over.
    LinkOpened(ForwardLink, std::net::TcpStream),
    /// Such a connection could not be opened.
    LinkFailed(ForwardLink),
    /// A connection over which another node forwards.
    Forwarded(Forward, Box<Lane>),
}

/// Other threads' handle of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerLink {
    notify: Notify,
    /// Input handed over and not yet taken.
    inbox: Mutex<Vec<WorkerInput>>,
    has_input: AtomicBool,
    stop: AtomicBool,
    /// Whether the next turn also does the periodic work.
    ticked: AtomicBool,
    /// Whether another thread waits for the worker to take a new range table.
    table_awaited: AtomicBool,
    /// Whether replies wait for a commit of the durable log.
    holds_replies: AtomicBool,
    /// When the worker was last probed, in microseconds; 0: it has answered.
    probed_at_us: AtomicU64,
    /// How long its last answer took.
    lag_us: AtomicU64,
}

impl WorkerLink {
    /// Makes the worker take its turn: it looks for a new range table and takes the movers' messages.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Hands something over.
    pub(crate) fn hand(&self, input: WorkerInput) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        self.has_input.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    fn take_inputs(&self) -> Vec<WorkerInput> {
        match self.has_input.swap(false, Ordering::AcqRel) {
            true => std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner)),
            false => Vec::new(),
        }
    }

    /// Makes the worker take its turn and do the periodic work.
    pub(crate) fn tick(&self) {
        self.ticked.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Makes the worker take a new range table, and report it.
    pub(crate) fn wake_for_table(&self) {
        self.table_awaited.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// A commit is safe, or the node's lease is renewed: whoever waits for that looks again.
    pub(crate) fn wake_if_held(&self) {
        if self.holds_replies.swap(false, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    /// Replies wait for a commit.
    fn hold_replies(&self) {
        self.holds_replies.store(true, Ordering::Release);
    }

    /// Ends the worker's thread, with all of its connections.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// The worker's lag: how long its last turn waited for the thread, or how long the present one has
    /// waited. Requests the next measurement.
    pub(crate) fn probe_lag_us(&self, now_us: u64) -> u64 {
        let unasked =
            self.probed_at_us.compare_exchange(0, now_us.max(1), Ordering::AcqRel, Ordering::Acquire);
        match unasked {
            Ok(_) => {
                self.wake();
                self.lag_us.load(Ordering::Acquire)
            }
            Err(asked_at_us) => self.lag_us.load(Ordering::Acquire).max(now_us.saturating_sub(asked_at_us)),
        }
    }

    fn give_sign_of_life(&self, now_us: u64) {
        let asked_at_us = self.probed_at_us.load(Ordering::Acquire);
        if asked_at_us != 0 {
            self.lag_us.store(now_us.saturating_sub(asked_at_us), Ordering::Release);
            self.probed_at_us.store(0, Ordering::Release);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The parts of a worker's thread.
pub(crate) struct WorkerSetup {
    /// The worker.
    pub(crate) worker: Worker,
    /// Its listening socket.
    pub(crate) listener: TcpListener,
    /// Other threads' handle of it.
    pub(crate) link: Arc<WorkerLink>,
    /// Notified when the worker has taken a range table that another thread waits for.
    pub(crate) table_taken: Arc<Notify>,
    /// The movers that it may have to wake.
    pub(crate) movers: Vec<Arc<MoverLink>>,
    /// Movers without threads of their own, in turns with this worker's clients.
    pub(crate) movers_here: Vec<MoverSetup>,
    /// All workers, this one among them.
    pub(crate) workers: Vec<Arc<WorkerLink>>,
    /// The state shared by the node's threads.
    pub(crate) shared: Arc<NodeShared>,
    /// What one client may use.
    pub(crate) limits: ClientLimits,
    /// Whom to ask for commits, on a node with a durable log.
    pub(crate) log: Option<Arc<LogRequests>>,
    /// Requests that only the control thread can answer.
    pub(crate) control: mpsc::UnboundedSender<ControlCall>,
    /// The process's clock.
    pub(crate) clock: Clock,
}

impl WorkerSetup {
    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<JoinHandle<()>> {
        let name = format!("worker-{}", self.worker.index().0);
        thread::start(name, move || self.run())
    }

    fn run(self) {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_all();
        let (sleep, movers) = (Arc::new(self.worker.sleep()), self.movers.clone());
        let awake = Arc::clone(&sleep);
        // No command is under way here: none waits (W2).
        runtime.on_thread_park(move || {
            if sleep.begin() {
                movers.iter().for_each(|mover| mover.wake());
            }
        });
        runtime.on_thread_unpark(move || awake.end());
        let runtime =
            runtime.build_local(LocalOptions::default()).expect("a runtime needs only an epoll descriptor");
        runtime.block_on(async move {
            let link = Arc::clone(&self.link);
            let listener = tokio::net::TcpListener::from_std(self.listener)
                .expect("the listener was made for a runtime");
            let ticked = Arc::new(Notify::new());
            for mover in self.movers_here {
                mover.start_beside_others();
            }
            let others = engine::OtherThreads {
                movers: self.movers,
                workers: self.workers,
                control: self.control,
                log: self.log,
            };
            let engine = engine::Engine::new(self.worker, others, self.shared, self.limits, self.clock);
            let accepts = accept::run(listener, std::rc::Rc::clone(&engine), Arc::clone(&ticked));
            thread::start_task("the listener for clients", accepts);
            while !link.is_stopped() {
                if engine.borrow().has_more_to_expire() {
                    // Connections run between two slices of expiry.
                    tokio::task::yield_now().await;
                } else {
                    let sleeps_for = engine.borrow_mut().sleeps_for();
                    match sleeps_for {
                        Some(time) => {
                            // Either is a reason for a turn.
                            let _ = tokio::time::timeout(time, link.notify.notified()).await;
                        }
                        None => link.notify.notified().await,
                    }
                }
                let is_awaited = link.table_awaited.swap(false, Ordering::AcqRel);
                let now = engine.borrow_mut().turn();
                link.give_sign_of_life(now.mono.0);
                if is_awaited {
                    self.table_taken.notify_one();
                }
                for input in link.take_inputs() {
                    forward::take_over(&engine, input);
                }
                if link.ticked.swap(false, Ordering::AcqRel) {
                    engine.borrow_mut().tick();
                    ticked.notify_waiters();
                }
                engine.borrow_mut().expire();
            }
        });
        // Dropping the runtime drops every connection.
    }
}
