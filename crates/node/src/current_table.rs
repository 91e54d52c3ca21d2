//! The current range table, and the barrier that shows when no worker uses an older one.
//!
//! Purpose: a worker takes a new table only between two turns of its loop, so a command sees one table from
//! its first look to its last (D4). Once every worker has passed such a boundary after a publication, nothing
//! on the node can still act on the previous table. That freezes a range (M2).
//!
//! Call order: the control thread calls [`CurrentTable::publish`] and keeps the ticket. Each worker calls
//! [`Worker::turn`](crate::Worker::turn), at least when notified. The control thread checks whether the
//! ticket has passed, and hands the proof on.
//!
//! Ownership: only the control thread publishes.

use crate::queue::WorkerIndex;
use crate::range_table::RangeTable;
use arc_swap::ArcSwap;
use sidle_migration::{BarrierTicket, RangeBarrier};
use std::sync::Arc;

/// The range table that workers take next.
pub struct CurrentTable {
    table: ArcSwap<RangeTable>,
    barrier: RangeBarrier,
    /// Steps of exports that are given bit by bit: apart from tables, which joint commands hold up.
    steps: RangeBarrier,
}

impl CurrentTable {
    /// Starts with the table that workers are created with.
    pub fn new(workers: u16, first: Arc<RangeTable>) -> CurrentTable {
        let barrier = || RangeBarrier::new(usize::from(workers));
        CurrentTable { table: ArcSwap::new(first), barrier: barrier(), steps: barrier() }
    }

    /// Publishes a table. Notify every worker; the ticket passes when the last of them took it.
    pub fn publish(&self, table: Arc<RangeTable>) -> BarrierTicket {
        // The table first: a worker that sees the barrier's new epoch must find this table or a newer one.
        self.table.store(table);
        self.barrier.publish()
    }

    /// Publishes a step of an export, which `write` makes visible from its number on. Any mover may. Notify
    /// the workers that are awaited; the ticket passes when the last of them uses it or sleeps.
    pub fn publish_step(&self, write: impl FnOnce(u64)) -> BarrierTicket {
        self.steps.publish_with(write)
    }

    /// The number of the latest step.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.steps.published()
    }

    /// Notes that a worker uses this step.
    pub(crate) fn pass_step(&self, worker: WorkerIndex, step: u64) {
        self.steps.pass(usize::from(worker.0), step);
    }

    /// The step that a worker uses.
    pub(crate) fn step_of(&self, worker: WorkerIndex) -> u64 {
        self.steps.used_by(usize::from(worker.0))
    }

    /// The number of the latest publication.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.barrier.published()
    }

    /// The table of `epoch` or a newer one.
    pub fn table(&self) -> Arc<RangeTable> {
        self.table.load_full()
    }

    /// Notes that a worker uses the table of this epoch or a newer one, and no older one.
    pub(crate) fn pass(&self, worker: WorkerIndex, epoch: u64) {
        self.barrier.pass(usize::from(worker.0), epoch);
    }
}

/// Tells the movers when a worker's thread sleeps: it counts as past every step, which many small cuts need.
/// It does not count as past tables, since joint commands refer to them while the thread sleeps.
pub struct Sleep {
    published: Arc<CurrentTable>,
    worker: usize,
}

impl Sleep {
    pub(crate) fn new(published: Arc<CurrentTable>, worker: WorkerIndex) -> Sleep {
        Sleep { published, worker: usize::from(worker.0) }
    }

    /// The thread is about to sleep. Returns whether a mover may wait for that: then wake all of them.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.published.steps.sleep(self.worker)
    }

    /// The thread has woken up, and calls no method of its worker before this.
    pub fn end(&self) {
        self.published.steps.wake(self.worker);
    }
}
