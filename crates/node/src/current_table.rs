//! The current range table, and the barrier that tells when no worker uses an older one.
//!
//! Purpose: a worker takes a new table only between two turns of its loop, so a command sees one table from
//! its first look to its last (D4). Once every worker has passed such a boundary since a table was published,
//! nothing anywhere on the node can still act on the table before: that is what freezes a range (M2).
//!
//! Call order: the control thread calls [`CurrentTable::publish`] and keeps the ticket; each worker calls
//! [`Worker::turn`](crate::Worker::turn), at least when it is notified; the control thread asks the ticket
//! whether it passed, and hands the proof on.
//!
//! Ownership: publishing belongs to the control thread alone.

use crate::queue::WorkerIndex;
use crate::range_table::RangeTable;
use arc_swap::ArcSwap;
use sidle_migration::{BarrierTicket, RangeBarrier};
use std::sync::Arc;

/// The range table that workers are to take next.
pub struct CurrentTable {
    table: ArcSwap<RangeTable>,
    barrier: RangeBarrier,
}

impl CurrentTable {
    /// Starts with the table that workers are created with.
    pub fn new(workers: u16, first: Arc<RangeTable>) -> CurrentTable {
        CurrentTable { table: ArcSwap::new(first), barrier: RangeBarrier::new(usize::from(workers)) }
    }

    /// Publishes a table. Every worker has to be notified; the ticket passes when the last of them took it.
    pub fn publish(&self, table: Arc<RangeTable>) -> BarrierTicket {
        // The table first: a worker that sees the barrier's new epoch must find this table or a later one.
        self.table.store(table);
        self.barrier.publish()
    }

    /// The number of the latest publication.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.barrier.published()
    }

    /// The latest table, or a later one than `epoch` called for.
    pub fn table(&self) -> Arc<RangeTable> {
        self.table.load_full()
    }

    /// Notes that a worker uses the table of this epoch or a later one, and none before.
    pub(crate) fn pass(&self, worker: WorkerIndex, epoch: u64) {
        self.barrier.pass(usize::from(worker.0), epoch);
    }
}
