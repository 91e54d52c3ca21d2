//! One worker: everything that a serving thread needs to run commands.
//!
//! Purpose: binds a snapshot of the range table, an append head, the queues to the movers and the parked
//! commands to the thread that uses them.
//!
//! Call order, for whoever drives it: [`turn`](Worker::turn) whenever the thread was notified and at least
//! every few milliseconds; then [`poll_woken`](Worker::poll_woken) until `None`, each ticket's connection
//! being served again; [`serve`](Worker::serve) for every connection with input, which may be
//! [foreseen](Worker::foresee) before; [`poll_notify`](Worker::poll_notify) until `None` before the thread
//! sleeps. A control reply goes through [`answer`](Worker::answer); a connection that closes while it is
//! parked is reported with [`forget`](Worker::forget). After all of these comes
//! [`poll_forward`](Worker::poll_forward) until `None`; what becomes of connections to other nodes, and what
//! they bring, is reported as it happens.
//!
//! Invariants:
//! - W1 (D4, M2): the snapshot changes only in `turn` and at the start of `serve` and `execute`, never inside
//!   a command.
//! - W2: no method waits.
//!
//! Ownership: one thread for each worker.

use crate::current_table::CurrentTable;
use crate::execute::Executor;
use crate::forward::Channels;
use crate::now::Now;
use crate::observe::Lap;
use crate::parking::{ParkingLot, Ticket};
use crate::queue::{MoverIndex, ToMover, WorkerIndex, WorkerPort};
use crate::range_table::RangeTable;
use crate::shared::NodeShared;
use crate::table::{NodeExecutor, commands};
use sidle_commands::CommandTable;
use sidle_resp::Args;
use sidle_store::{ExpirySweep, Store};
use sidle_types::{Fill, KeyHash, MigrationId, Slot, fault};
use std::sync::Arc;

/// The most movers that a node may have: notifications are bits of one word.
pub const MAX_MOVERS: u16 = 64;

/// What a node's workers, movers and control thread have in common.
#[derive(Clone)]
pub struct NodeParts {
    /// The data.
    pub store: Arc<Store>,
    /// Configuration, clients, counters.
    pub shared: Arc<NodeShared>,
    /// The range table.
    pub published: Arc<CurrentTable>,
}

/// A serving thread's state.
pub struct Worker {
    pub(crate) index: WorkerIndex,
    /// Runs commands, and removes what has expired.
    pub(crate) executor: Executor,
    pub(crate) commands: &'static CommandTable<NodeExecutor>,
    published: Arc<CurrentTable>,
    seen: u64,
    ports: Vec<WorkerPort>,
    notify: u64,
    pub(crate) parking: ParkingLot,
    /// Requests to other nodes.
    pub(crate) lines: Channels,
    /// The requests that `serve` has read ahead; kept for their memory.
    pub(crate) read_ahead: Vec<Args>,
    /// Tells the time, in nanoseconds from any beginning on.
    pub(crate) stopwatch: Box<dyn Fn() -> u64 + Send>,
    pub(crate) lap: Lap,
    /// Keys of requests that were foreseen and whose slots are on their way.
    pub(crate) foreseen: Vec<(Slot, KeyHash)>,
    #[cfg(any(test, feature = "testing"))]
    pub(crate) hooks: crate::testing::Hooks,
}

impl Worker {
    /// A worker of the node made of `parts`. `ports`: its ends of the queues, by mover. `seed`: for sampling.
    ///
    /// # Panics
    /// If there are more than [`MAX_MOVERS`] movers, or the node has no counters for the worker.
    pub fn new(parts: &NodeParts, index: WorkerIndex, ports: Vec<WorkerPort>, seed: u64) -> Worker {
        assert!(ports.len() <= usize::from(MAX_MOVERS), "more than {MAX_MOVERS} movers");
        Worker {
            index,
            executor: Executor::new(parts, index, seed),
            commands: commands(),
            published: Arc::clone(&parts.published),
            seen: 0,
            ports,
            notify: 0,
            parking: ParkingLot::default(),
            lines: Channels::default(),
            read_ahead: Vec::new(),
            stopwatch: Box::new(|| 0),
            lap: Lap::default(),
            foreseen: Vec::new(),
            #[cfg(any(test, feature = "testing"))]
            hooks: crate::testing::Hooks::default(),
        }
    }

    /// Which worker it is.
    pub fn index(&self) -> WorkerIndex {
        self.index
    }

    /// From now on what commands take is measured, with a stopwatch that tells nanoseconds and costs little
    /// to read. [`Now::reading_ns`](crate::Now::reading_ns) has to come from the same.
    pub fn measure_with(&mut self, stopwatch: impl Fn() -> u64 + Send + 'static) {
        self.stopwatch = Box::new(stopwatch);
    }

    /// What the stopwatch says.
    #[inline]
    pub fn reading_ns(&self) -> u64 {
        (self.stopwatch)()
    }

    /// One turn of the loop: takes a new range table if there is one, hears what the movers said, sends what
    /// found its queue full. Returns whether the range table changed: opted-in connections are then due a
    /// push ([`write_pushes`](Worker::write_pushes)).
    pub fn turn(&mut self) -> bool {
        let changed = self.pass_boundary();
        for port in &mut self.ports {
            while let Ok(message) = port.from_mover.pop() {
                self.parking.handle(message);
            }
        }
        while let Some((mover, message)) = self.parking.poll_unsent() {
            if let Err(message) = self.try_send(mover, message) {
                self.parking.put_back(mover, message);
                break;
            }
        }
        self.executor.stats.parked.set(self.parking.len() as u64);
        changed
    }

    /// Looks at about `budget` values with a deadline, from where it ended the last time, and removes those
    /// that are past it. Ends at the last position; the next call begins at the first.
    pub fn expire(&mut self, now: Now, budget: usize) -> ExpirySweep {
        self.pass_boundary();
        self.executor.expire(now.wall, budget)
    }

    /// The next parked command that may run again.
    pub fn poll_woken(&mut self) -> Option<Ticket> {
        self.parking.poll_woken()
    }

    /// The next mover whose thread has to be woken, since its queue is not empty.
    pub fn poll_notify(&mut self) -> Option<MoverIndex> {
        if self.notify == 0 {
            return None;
        }
        let mover = self.notify.trailing_zeros();
        self.notify &= self.notify - 1;
        Some(MoverIndex(mover as u16))
    }

    /// Forgets a parked command: its connection is gone.
    pub fn forget(&mut self, ticket: Ticket) {
        self.parking.forget(ticket);
        self.lines.forget(ticket);
        self.executor.stats.parked.set(self.parking.len() as u64);
    }

    /// How many commands are parked here.
    pub fn parked(&self) -> usize {
        self.parking.len()
    }

    /// How full its queues are. `connections`: how many of its commands may wait at once: one a connection,
    /// and those that have stepped aside.
    pub fn queues(&self, connections: usize) -> impl Iterator<Item = Fill> {
        self.parking.queues(connections).into_iter().chain(self.lines.queues(connections))
    }

    /// What is in hand, in words, each with how many of it there are: nothing when no command waits.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let mut in_hand = self.parking.in_hand();
        if self.lines.len() > 0 {
            in_hand.push(("commands that wait for other nodes", self.lines.len()));
        }
        in_hand
    }

    /// Tells one range table from another.
    pub(crate) fn table_seen(&self) -> u64 {
        self.seen
    }

    /// The range table in use.
    pub fn ranges(&self) -> &Arc<RangeTable> {
        &self.executor.ranges
    }

    /// W1: the only place where the snapshot changes.
    #[inline]
    pub(crate) fn pass_boundary(&mut self) -> bool {
        self.executor.reply_bytes =
            usize::try_from(self.executor.shared.config.output_bytes()).unwrap_or(usize::MAX);
        let epoch = self.published.epoch();
        if epoch == self.seen {
            return false;
        }
        self.take_table(epoch);
        true
    }

    #[cold]
    fn take_table(&mut self, epoch: u64) {
        self.executor.ranges = self.published.table();
        self.seen = epoch;
        // Only now: from here on nothing on this thread refers to an older table.
        self.published.pass(self.index, epoch);
        // P3: whatever was waited for may have changed hands.
        if !fault!(NewTableWakesNobody) {
            self.parking.wake_everything();
            self.lines.table_changed(&self.executor.ranges, &mut self.parking);
        }
    }

    /// Sends a message that must not be lost.
    pub(crate) fn send(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        if let Err(message) = self.try_send(mover, message) {
            self.parking.keep(mover, message);
        }
    }

    /// Sends a message that may be lost.
    pub(crate) fn send_if_room(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        // A full queue means that the mover has more than enough to do.
        let _ = self.try_send(mover, message);
    }

    /// Leaves a message that may be lost and need not be heard at once: the mover is not woken for it.
    pub(crate) fn offer(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        // A full queue means that the mover has samples enough.
        let _ = self.ports[usize::from(mover.0)].to_mover.push(message);
    }

    fn mover_of(&self, migration: MigrationId) -> MoverIndex {
        MoverIndex::of(migration, self.ports.len())
    }

    fn try_send(&mut self, mover: MoverIndex, message: ToMover) -> Result<(), ToMover> {
        self.notify |= 1 << mover.0;
        let port = &mut self.ports[usize::from(mover.0)];
        port.to_mover.push(message).map_err(|rtrb::PushError::Full(message)| message)
    }
}
