//! Deadlines, and operations that wait for anything but an answer.

use crate::operation::{Operations, Place};
use sidle_types::MonotonicUs;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many deadlines, of ended operations too, are kept for each operation in progress.
const DEADLINES_PER_OPERATION: usize = 4;
/// Added to the operations in progress: for fewer deadlines, tidying up is not worth it.
const MIN_DEADLINES: usize = 256;

/// Operations by time, each with its serial number: ended ones are skipped.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Deadlines in the order of submission, which is their order since all operations have the same timeout.
    deadlines: VecDeque<(MonotonicUs, Place, u64)>,
    /// Operations that wait before the next attempt.
    resting: BinaryHeap<Reverse<(MonotonicUs, Place, u64)>>,
    /// Operations that wait for the first map.
    unrouted: Vec<(Place, u64)>,
}

impl Timers {
    /// An operation has started that must end by then.
    #[inline]
    pub(crate) fn start(&mut self, deadline: MonotonicUs, place: Place, operations: &Operations) {
        if self.deadlines.len() > DEADLINES_PER_OPERATION * (operations.len() + MIN_DEADLINES) {
            // One operation without an answer holds up the deadlines of all that ended after it.
            self.deadlines.retain(|&(_, place, serial)| operations.is_current(place, serial));
        }
        self.deadlines.push_back((deadline, place, operations[place].serial));
    }

    /// Delays an operation until then, or until the map changes.
    pub(crate) fn rest(&mut self, until: MonotonicUs, place: Place, operations: &Operations) {
        self.resting.push(Reverse((until, place, operations[place].serial)));
    }

    /// Delays an operation until the map changes.
    pub(crate) fn wait_for_map(&mut self, place: Place, operations: &Operations) {
        self.unrouted.push((place, operations[place].serial));
    }

    /// When the next timer is due.
    pub(crate) fn timeout(&mut self, operations: &Operations) -> Option<MonotonicUs> {
        // Ended operations leave their deadlines behind: the first one is nearly always such.
        while let Some(&(_, place, serial)) = self.deadlines.front()
            && !operations.is_current(place, serial)
        {
            self.deadlines.pop_front();
        }
        let deadline = self.deadlines.front().map(|&(at, ..)| at);
        let resting = self.resting.peek().map(|&Reverse((at, ..))| at);
        deadline.into_iter().chain(resting).min()
    }

    /// The next operation past its deadline.
    pub(crate) fn poll_expired(&mut self, now: MonotonicUs, operations: &Operations) -> Option<Place> {
        while let Some(&(deadline, place, serial)) = self.deadlines.front() {
            let is_current = operations.is_current(place, serial);
            if is_current && deadline > now {
                return None;
            }
            self.deadlines.pop_front();
            if is_current {
                return Some(place);
            }
        }
        None
    }

    /// The next operation due for its next attempt.
    pub(crate) fn poll_rested(&mut self, now: MonotonicUs, operations: &Operations) -> Option<Place> {
        while let Some(&Reverse((at, place, serial))) = self.resting.peek()
            && at <= now
        {
            self.resting.pop();
            if operations.is_current(place, serial) {
                return Some(place);
            }
        }
        None
    }

    /// Takes all operations that wait for anything but an answer. Some may have ended.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Place, u64)> + use<> {
        let resting = std::mem::take(&mut self.resting).into_iter();
        let resting = resting.map(|Reverse((_, place, serial))| (place, serial));
        std::mem::take(&mut self.unrouted).into_iter().chain(resting)
    }
}
