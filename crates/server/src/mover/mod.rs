//! Mover threads: migrations' connections to other nodes, on a runtime of their own.
//!
//! The mover itself is pure and sits in a [`Driver`]. One task per connection reads frames into it; a
//! main task brings it commands, worker messages and the time. Each caller takes its output at once.
//!
//! For comparison the tasks can run on a worker's runtime instead, in turns with its clients
//! (Fulva, VI-C: without offloading).
//!
//! Ownership: the thread owns everything here; other threads hold a [`MoverLink`] and a [`MoverInbox`].

mod connection;
mod driver;
mod spare_cores;

use crate::bus::LargeFrames;
use crate::clock::Clock;
use crate::control::links::Lane;
use crate::door::Door;
use crate::thread;
use crate::worker::WorkerLink;
use connection::Around;
use driver::Driver;
use sidle_node::{Mover, MoverCommand, MoverReport, NodeParts};
use sidle_pacing::OwnTime;
use sidle_types::MigrationId;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

/// Other threads' handle of a mover, to wake it.
#[derive(Debug, Default)]
pub(crate) struct MoverLink {
    notify: Notify,
    stop: AtomicBool,
}

impl MoverLink {
    /// Makes the mover look at its queues.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Ends the mover's thread, with all of its connections.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

/// The control thread's input to a mover.
#[derive(Debug)]
pub(crate) enum MoverInput {
    /// A command.
    Command(MoverCommand),
    /// A connection opened by another node for a migration of this mover.
    Lane(sidle_wire::Hello, Box<Lane>),
}

/// The control thread's end of a mover's input.
pub(crate) type MoverInbox = mpsc::UnboundedSender<MoverInput>;

/// The movers' end of their reports to the control thread.
pub(crate) type MoverReports = mpsc::UnboundedSender<(MigrationId, MoverReport)>;

/// The parts of a mover's thread.
pub(crate) struct MoverSetup {
    /// The mover.
    pub(crate) mover: Mover,
    /// What the node's threads share.
    pub(crate) parts: NodeParts,
    /// Other threads' handle of it.
    pub(crate) link: Arc<MoverLink>,
    /// The control thread's input.
    pub(crate) inbox: mpsc::UnboundedReceiver<MoverInput>,
    /// Its reports to the control thread.
    pub(crate) reports: MoverReports,
    /// Where both ends prove that they belong to the cluster.
    pub(crate) door: Door,
    /// The room for large frames of all movers together.
    pub(crate) large_frames: LargeFrames,
    /// The workers that it may have to wake.
    pub(crate) workers: Vec<Arc<WorkerLink>>,
    /// The process's clock.
    pub(crate) clock: Clock,
}

impl MoverSetup {
    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<JoinHandle<()>> {
        thread::start(self.name(), move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
                .expect("a runtime needs only an epoll descriptor");
            runtime.block_on(self.run(OwnTime::of_thread()));
        })
    }

    /// Starts on the calling thread's runtime, which does other work too. It needs a timer.
    pub(crate) fn start_beside_others(self) {
        thread::start_task(self.name(), self.run(OwnTime::of_turns()));
    }

    fn name(&self) -> String {
        format!("mover-{}", self.mover.index().0)
    }

    async fn run(mut self, own_time: OwnTime) {
        let clock = self.clock;
        let is_shared = own_time.is_of_turns();
        let driver = Driver::new(self.mover, self.parts, self.workers, self.reports, own_time, clock);
        let around = Around { driver: Rc::clone(&driver), door: self.door, large_frames: self.large_frames };
        let wanted_added = Rc::clone(&driver.borrow().wanted_added);
        while !self.link.stop.load(Ordering::Acquire) {
            let due = driver.borrow().due().map(|at| Instant::from_std(clock.instant(at)));
            tokio::select! {
                () = self.link.notify.notified() => {}
                () = wanted_added.notified() => {}
                input = self.inbox.recv() => match input {
                    Some(MoverInput::Command(command)) => driver.borrow_mut().command(command),
                    Some(MoverInput::Lane(hello, lane)) => {
                        if let Err(error) = connection::take_over(&around, &hello, *lane) {
                            tracing::debug!("lost a lane of migration {}: {error}", hello.scope.migration);
                        }
                    }
                    // The control thread is gone: the process ends.
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    driver.borrow_mut().measure_again();
                }
            }
            driver.borrow_mut().turn();
            connection::follow_events(&around);
            if is_shared {
                tokio::task::yield_now().await;
            }
        }
    }
}
