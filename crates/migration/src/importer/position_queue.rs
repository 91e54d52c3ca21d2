//! Positions for the source, in batches: de-duplicated, one batch in flight, repeated until it is answered
//! (M10).

use crate::resend::Resend;
use crate::tuning::PRIORITY_RESEND_US;
use sidle_types::{MonotonicUs, Position};
use std::collections::{BTreeSet, VecDeque};

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most positions that wait; further ones are dropped.
    pub(super) waiting: usize,
    /// The most positions in one batch.
    pub(super) batch: usize,
    /// The minimum interval between batches.
    pub(super) interval_us: u64,
}

#[derive(Debug)]
struct InFlight {
    positions: Vec<Position>,
    resend: Resend,
}

/// Positions that wait, and those in flight.
#[derive(Debug)]
pub(super) struct PositionQueue {
    bounds: Bounds,
    /// In the order they came.
    waiting: VecDeque<Position>,
    /// Everything that is waiting or in flight.
    known: BTreeSet<Position>,
    sequence: u64,
    in_flight: Option<InFlight>,
    /// No batch is sent before this.
    rests_until: Option<MonotonicUs>,
}

impl PositionQueue {
    pub(super) fn new(bounds: Bounds) -> PositionQueue {
        let (waiting, known) = (VecDeque::new(), BTreeSet::new());
        PositionQueue { bounds, waiting, known, sequence: 0, in_flight: None, rests_until: None }
    }

    /// Adds a position, unless it is here or there is no room.
    pub(super) fn offer(&mut self, position: Position) {
        if self.waiting.len() < self.bounds.waiting && self.known.insert(position) {
            self.waiting.push_back(position);
        }
    }

    /// How many wait, and how many wait or are in flight; each with its limit.
    pub(super) fn lengths(&self) -> [(usize, usize); 2] {
        let Bounds { waiting, batch, .. } = self.bounds;
        [(self.waiting.len(), waiting), (self.known.len(), waiting + batch)]
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        if let Some(batch) = &mut self.in_flight {
            batch.resend.expire(now);
        }
        self.rests_until = self.rests_until.filter(|&until| until > now);
    }

    pub(super) fn reconnected(&mut self) {
        if let Some(batch) = &mut self.in_flight {
            batch.resend.reset();
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match &self.in_flight {
            Some(batch) => batch.resend.deadline(),
            None => self.rests_until.filter(|_| !self.waiting.is_empty()),
        }
    }

    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.known.clear();
        self.in_flight = None;
    }

    /// The batch to send now, if one is due, with its number. The next one is put in flight when none is;
    /// positions that are no longer wanted are left out.
    pub(super) fn due(
        &mut self,
        now: MonotonicUs,
        is_wanted: impl Fn(Position) -> bool,
    ) -> Option<(u64, &[Position])> {
        if self.in_flight.is_none() && self.rests_until.is_none_or(|until| until <= now) {
            self.fill(now, is_wanted);
        }
        let batch = self.in_flight.as_mut().filter(|batch| batch.resend.is_due())?;
        batch.resend.sent(now);
        Some((self.sequence, &batch.positions))
    }

    fn fill(&mut self, now: MonotonicUs, is_wanted: impl Fn(Position) -> bool) {
        let mut positions = Vec::new();
        while positions.len() < self.bounds.batch {
            let Some(position) = self.waiting.pop_front() else { break };
            if is_wanted(position) {
                positions.push(position);
            } else {
                self.known.remove(&position);
            }
        }
        if !positions.is_empty() {
            self.sequence += 1;
            self.rests_until = Some(now.plus_us(self.bounds.interval_us));
            self.in_flight = Some(InFlight { positions, resend: Resend::new(PRIORITY_RESEND_US) });
        }
    }

    /// Whether this is the number of the batch in flight.
    pub(super) fn is_awaited(&self, sequence: u64) -> bool {
        self.in_flight.is_some() && self.sequence == sequence
    }

    /// The batch in flight was answered; its positions.
    pub(super) fn returned(&mut self) -> Vec<Position> {
        let positions = self.in_flight.take().map(|batch| batch.positions).unwrap_or_default();
        positions.iter().for_each(|position| {
            self.known.remove(position);
        });
        positions
    }

    /// Whether nothing waits or is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.known.is_empty()
    }

    /// How many positions are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |batch| batch.positions.len())
    }
}
