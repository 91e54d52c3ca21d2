//! The waiting commands of one worker: their tickets and their ends.
//!
//! Ownership: a worker's dispatcher. An entry is there while its command is parked.

use crate::queue::Ticket;
use crate::waiters::WaiterId;
use sidle_types::{MonotonicUs, Position};
use std::collections::{BTreeMap, BTreeSet};

/// A parked command that waits for keys.
#[derive(Debug)]
struct Parked {
    ticket: Ticket,
    until: Option<MonotonicUs>,
    positions: Vec<Position>,
}

/// The parked commands that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    parked: BTreeMap<WaiterId, Parked>,
    ends: BTreeSet<(MonotonicUs, WaiterId)>,
}

impl Blocked {
    pub(crate) fn park(
        &mut self,
        id: WaiterId,
        ticket: Ticket,
        until: Option<MonotonicUs>,
        positions: impl Iterator<Item = Position>,
    ) {
        self.parked.insert(id, Parked { ticket, until, positions: positions.collect() });
        self.ends.extend(until.map(|until| (until, id)));
    }

    /// The command runs again, or its client is gone.
    pub(crate) fn remove(&mut self, id: WaiterId) {
        if let Some(Parked { until: Some(until), .. }) = self.parked.remove(&id) {
            self.ends.remove(&(until, id));
        }
    }

    /// The same, by its ticket.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        let found = self.parked.iter().find(|(_, parked)| parked.ticket == ticket);
        if let Some(id) = found.map(|(&id, _)| id) {
            self.remove(id);
        }
    }

    pub(crate) fn ticket(&self, id: WaiterId) -> Option<Ticket> {
        self.parked.get(&id).map(|parked| parked.ticket)
    }

    /// When the next one's time is over.
    pub(crate) fn next_end(&self) -> Option<MonotonicUs> {
        self.ends.first().map(|&(end, _)| end)
    }

    /// Those whose time is over.
    pub(crate) fn take_over(&mut self, now: MonotonicUs) -> Vec<Ticket> {
        let mut over = Vec::new();
        while let Some(&(end, id)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            over.extend(self.ticket(id));
        }
        over
    }

    /// Those that wait at a position of which this holds.
    pub(crate) fn at(&self, is_meant: impl Fn(Position) -> bool) -> Vec<Ticket> {
        let parked = self.parked.values().filter(|parked| parked.positions.iter().any(|&at| is_meant(at)));
        parked.map(|parked| parked.ticket).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.parked.len()
    }
}
