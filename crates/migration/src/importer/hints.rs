//! Hot positions that the source names: the next cuts take them, behind those that commands wait for.
//!
//! M26: a hint only shows what to take first. It is not answered and not repeated; what was given since, or
//! is given by the same cut anyway, is dropped, and so is what finds the queue full.

use crate::ImportView;
use crate::tuning::{HINTED_CUT_US, HINTED_LEAST, HINTS_REST_US, HINTS_WAITING_MAX};
use sidle_types::{Fill, MonotonicUs, Position};
use std::collections::{BTreeSet, VecDeque};

/// Hints that wait for a cut.
#[derive(Debug)]
pub(super) struct Hints {
    /// In the order they came: the hottest first.
    waiting: VecDeque<Position>,
    known: BTreeSet<Position>,
    /// How many the next cut takes.
    at_once: usize,
    most_at_once: usize,
    /// No cut is requested for them before this.
    rests_until: Option<MonotonicUs>,
}

impl Hints {
    /// None yet. `most`: as many as a cut gives out of turn.
    pub(super) fn new(most: usize) -> Hints {
        let (waiting, known) = (VecDeque::new(), BTreeSet::new());
        Hints { waiting, known, at_once: most, most_at_once: most, rests_until: None }
    }

    /// Adds hints of positions of the range.
    pub(super) fn offer(&mut self, positions: impl Iterator<Item = Position>, view: &ImportView) {
        for position in positions {
            let is_wanted = self.waiting.len() < HINTS_WAITING_MAX && !view.has_arrived(position);
            if is_wanted && self.known.insert(position) {
                self.waiting.push_back(position);
            }
        }
    }

    /// How full the queue is.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("hot positions to be taken", self.waiting.len(), HINTS_WAITING_MAX)
    }

    /// How many positions the next cut takes at most.
    pub(super) fn due(&self, now: MonotonicUs) -> usize {
        let rests = self.rests_until.is_some_and(|until| until > now);
        if rests { 0 } else { self.at_once.min(self.waiting.len()) }
    }

    /// Takes those for the next cut, at most so many.
    pub(super) fn take(&mut self, most: usize, is_wanted: impl Fn(Position) -> bool) -> Vec<Position> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(position) = self.waiting.pop_front() else { break };
            self.known.remove(&position);
            if is_wanted(position) {
                taken.push(position);
            }
        }
        taken
    }

    /// There is no room for them here: they stay where they are.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.known.clear();
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.rests_until = self.rests_until.filter(|&until| until > now);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.rests_until.filter(|_| !self.waiting.is_empty())
    }

    /// A cut took so many, and so long. Nobody serves hot positions meanwhile: the next one takes fewer if
    /// that was long, and more if it was short.
    pub(super) fn given(&mut self, now: MonotonicUs, hinted: usize, took_us: u64, period_us: u64) {
        self.rests_until = Some(now.plus_us(HINTS_REST_US.min(period_us)));
        if hinted > 0 && took_us > HINTED_CUT_US {
            self.at_once = (self.at_once / 2).max(HINTED_LEAST).min(self.most_at_once);
        } else if hinted == self.at_once && took_us < HINTED_CUT_US / 2 {
            self.at_once = (self.at_once * 2).min(self.most_at_once);
        }
    }
}
