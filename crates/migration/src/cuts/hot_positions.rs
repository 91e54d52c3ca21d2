//! Positions that clients access often, noticed by the source's workers while it gives the range bit by bit.
//!
//! A worker notes its sampled accesses. A position that is noted twice, before another one takes its place,
//! is hot: it goes into a ring that the source machine empties. Nothing depends on it (M26): what several
//! workers note at one moment, or finds the ring full, may be lost, and is noted again if it is hot.
//!
//! Ownership: any worker notes, without a lock; the source machine takes.

use sidle_types::Position;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many positions are remembered: those of a fraction of a second under load.
const REMEMBERED: usize = 1 << 12;
/// How many hot ones wait at most.
const RING: usize = 1 << 10;
/// No position.
const NONE: u64 = 0;

/// Hot positions: see the module's header. Each entry is a position plus one.
#[derive(Debug)]
pub(crate) struct HotPositions {
    /// Noted last, by hash.
    remembered: Box<[AtomicU64]>,
    ring: Box<[AtomicU64]>,
    /// How many were put into the ring so far, and taken out of it.
    put: AtomicU64,
    taken: AtomicU64,
}

impl Default for HotPositions {
    fn default() -> HotPositions {
        let entries = |number| (0..number).map(|_| AtomicU64::new(NONE)).collect();
        HotPositions {
            remembered: entries(REMEMBERED),
            ring: entries(RING),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }
}

impl HotPositions {
    /// A sampled access to this position. Any worker's.
    pub(crate) fn note(&self, position: Position) {
        let entry = position.0.wrapping_add(1);
        let place = (entry.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % REMEMBERED;
        if self.remembered[place].load(Ordering::Relaxed) != entry {
            return self.remembered[place].store(entry, Ordering::Relaxed);
        }
        let number = self.put.fetch_add(1, Ordering::Relaxed);
        self.ring[number as usize % RING].store(entry, Ordering::Relaxed);
    }

    /// Takes the hot positions since the last call, the oldest first; a position may be among them several
    /// times. The source machine's.
    pub(crate) fn take(&self) -> Vec<Position> {
        let put = self.put.load(Ordering::Relaxed);
        let first = self.taken.swap(put, Ordering::Relaxed).max(put.saturating_sub(RING as u64));
        let take = |number: u64| self.ring[number as usize % RING].swap(NONE, Ordering::Relaxed);
        (first..put).map(take).filter(|&entry| entry != NONE).map(|entry| Position(entry - 1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(numbers: impl IntoIterator<Item = u64>) -> Vec<Position> {
        numbers.into_iter().map(Position).collect()
    }

    #[test]
    fn what_is_noted_twice_is_hot() {
        let hot = HotPositions::default();
        positions([5, 0, 7, 5, u64::MAX - 1, 0, 9]).into_iter().for_each(|position| hot.note(position));
        assert_eq!(hot.take(), positions([5, 0]));
        assert_eq!(hot.take(), []);
        (0..2).for_each(|_| hot.note(Position(9)));
        assert_eq!(hot.take(), positions([9, 9]), "it was noted once before");
    }

    #[test]
    fn the_ring_keeps_the_latest() {
        let hot = HotPositions::default();
        for position in 0..3_000 {
            (0..2).for_each(|_| hot.note(Position(position)));
        }
        assert_eq!(hot.take(), positions(3_000 - RING as u64..3_000));
        assert_eq!(hot.take(), []);
        (0..2).for_each(|_| hot.note(Position(3_000)));
        assert_eq!(hot.take(), positions([3_000]));
    }

    /// The last position of all has no place.
    #[test]
    fn the_last_position_is_never_hot() {
        let hot = HotPositions::default();
        (0..3).for_each(|_| hot.note(Position::LAST));
        assert_eq!(hot.take(), []);
    }
}
