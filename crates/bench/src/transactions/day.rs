//! What all threads of a run share.

use crate::timeline::Part;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A run: its parts, its clock, and how much was done.
#[derive(Debug)]
pub(crate) struct Day {
    node: String,
    part: AtomicU8,
    is_over: AtomicBool,
    started: Instant,
    committed: AtomicU64,
    /// When the last transaction was committed.
    last_ns: AtomicU64,
    /// The longest time without one while data moved.
    gap_ns: AtomicU64,
}

impl Day {
    /// On the cluster of this node.
    pub(crate) fn new(node: &str) -> Day {
        Day {
            node: node.to_owned(),
            part: AtomicU8::new(Part::Before as u8),
            is_over: AtomicBool::new(false),
            started: Instant::now(),
            committed: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(0),
        }
    }

    /// A node that knows the others.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Starts this part of the run; when.
    pub(crate) fn enter(&self, part: Part) -> u64 {
        let now_ns = self.now_ns();
        if part == Part::After {
            // What is not over yet counts until now.
            self.note_gap(self.last_ns.load(Relaxed), now_ns);
        }
        self.part.store(part as u8, Relaxed);
        now_ns
    }

    pub(crate) fn part(&self) -> Part {
        match self.part.load(Relaxed) {
            0 => Part::Before,
            1 => Part::During,
            _ => Part::After,
        }
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// A transaction was committed.
    pub(crate) fn note_committed(&self, now_ns: u64) {
        self.committed.fetch_add(1, Relaxed);
        self.note_gap(self.last_ns.fetch_max(now_ns, Relaxed), now_ns);
    }

    fn note_gap(&self, from_ns: u64, to_ns: u64) {
        if self.part() == Part::During {
            self.gap_ns.fetch_max(to_ns.saturating_sub(from_ns), Relaxed);
        }
    }

    /// The longest time without a commit while data moved; what of it was before counts too.
    pub(crate) fn longest_gap_ms(&self) -> f64 {
        self.gap_ns.load(Relaxed) as f64 / 1e6
    }

    /// Transactions that were committed so far.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_of_the_time_in_which_data_moves() {
        let day = Day::new("127.0.0.1:1");
        day.note_committed(10_000_000);
        day.note_committed(90_000_000);
        day.enter(Part::During);
        assert_eq!(day.longest_gap_ms(), 0.0, "that was before");
        day.note_committed(102_000_000);
        day.note_committed(105_000_000);
        day.note_committed(104_000_000);
        assert_eq!(day.longest_gap_ms(), 12.0);
        day.enter(Part::After);
        day.note_committed(900_000_000);
        assert_eq!(day.longest_gap_ms(), 12.0, "that was after");
    }
}
