//! Commands that wait until positions of an import have arrived: walks over keys.
//!
//! Each gets one message: a wake when the positions are here, or the end of its patience. What waits at the
//! end of an import is woken by the range table without it.

use crate::queue::Ticket;
use crate::queue::{ToWorker, WorkerIndex};
use sidle_types::{Fill, MigrationId, MonotonicUs, PositionRange};

/// How many commands may wait; the patience of further ones ends at once.
const ARRIVALS_MAX: usize = 4096;

/// A waiting command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) migration: MigrationId,
    pub(super) range: PositionRange,
    pub(super) worker: WorkerIndex,
    pub(super) ticket: Ticket,
    /// Until when.
    pub(super) until: MonotonicUs,
}

/// The commands that wait at one mover.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Vec<Arrival>);

impl Arrivals {
    /// Adds a command; false when there is no room.
    pub(super) fn add(&mut self, arrival: Arrival) -> bool {
        let has_room = self.0.len() < ARRIVALS_MAX;
        if has_room {
            self.0.push(arrival);
        }
        has_room
    }

    /// Takes out commands whose wait is over, each with its message.
    pub(super) fn take_over(
        &mut self,
        now: MonotonicUs,
        has_arrived: impl Fn(MigrationId, PositionRange) -> bool,
    ) -> Vec<(WorkerIndex, ToWorker)> {
        let mut over = Vec::new();
        self.0.retain(|&Arrival { migration, range, worker, ticket, until }| {
            let message = if has_arrived(migration, range) {
                ToWorker::Wake { migration, ticket }
            } else if until <= now {
                ToWorker::WaitedOut(ticket)
            } else {
                return true;
            };
            over.push((worker, message));
            false
        });
        over
    }

    /// The import is over: the range table without it wakes who waits for it.
    pub(super) fn forget(&mut self, migration: MigrationId) {
        self.0.retain(|arrival| arrival.migration != migration);
    }

    /// When the first patience ends.
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.0.iter().map(|arrival| arrival.until).min()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Its fill.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("commands that wait for arrivals", self.0.len(), ARRIVALS_MAX)
    }
}
