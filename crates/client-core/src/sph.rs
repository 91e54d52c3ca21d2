//! SPH, the sampling-pulled hashes (Fulva, section IV-B): positions that the target has an entry for although
//! the bulk of the migration has not reached them.

use crate::lossy_sets::LossySets;
use sidle_types::Position;

/// How many sets one step of [`Sph::sweep`] visits.
const SWEEP_SETS: usize = 64;

/// The positions. Their low bits are bits of the key's hash: evenly spread.
#[derive(Debug)]
pub(crate) struct Sph {
    /// 0 marks a free place, so position 0 is never kept.
    positions: LossySets<u64, 8>,
    sweep_at: usize,
}

impl Sph {
    /// A table of at most `max_bytes`; nothing is allocated yet.
    pub(crate) fn new(max_bytes: usize) -> Sph {
        Sph { positions: LossySets::new(max_bytes), sweep_at: 0 }
    }

    /// The most bytes of the table.
    pub(crate) fn max_bytes(&self) -> usize {
        self.positions.max_bytes()
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.positions.bytes()
    }

    #[inline]
    pub(crate) fn contains(&self, position: Position) -> bool {
        position.0 != 0 && self.positions.contains(position.0)
    }

    /// Adds a position. When its set is full, a position that `is_stale` is dropped first; else the table
    /// grows, or any position is dropped.
    pub(crate) fn insert(&mut self, position: Position, is_stale: impl Fn(Position) -> bool) {
        let victim = (position.0 >> 40) as usize;
        self.positions.insert(position.0, victim, |place| is_stale(Position(place)));
    }

    /// Drops what `is_stale` in the next few sets; repeated calls go round the table.
    pub(crate) fn sweep(&mut self, is_stale: impl Fn(Position) -> bool) {
        let sets = self.positions.sets_mut();
        for _ in 0..SWEEP_SETS.min(sets.len()) {
            for place in &mut sets[self.sweep_at] {
                if *place != 0 && is_stale(Position(*place)) {
                    *place = 0;
                }
            }
            self.sweep_at = (self.sweep_at + 1) % sets.len();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_sets::MIN_SETS;

    #[test]
    fn remembers_what_fits_and_forgets_the_rest() {
        let mut sph = Sph::new(64 * 16);
        assert_eq!((sph.bytes(), sph.max_bytes()), (0, 1024));
        assert!(!sph.contains(Position(5)));
        for position in 1..=1000 {
            sph.insert(Position(position), |_| false);
            assert!(sph.contains(Position(position)));
        }
        assert_eq!(sph.len(), 128);
        assert_eq!(sph.bytes(), 1024);
        assert!(!sph.contains(Position(0)));
    }

    #[test]
    fn grows_with_what_is_in_it_and_forgets_nothing_before_it_is_large() {
        let mut sph = Sph::new(1 << 20);
        let position = |n: u64| Position(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 20);
        let mut bytes = Vec::new();
        for n in 1..=20_000 {
            sph.insert(position(n), |_| false);
            bytes.push(sph.bytes());
        }
        assert!((1..=20_000).all(|n| sph.contains(position(n))));
        assert_eq!(bytes[0], MIN_SETS * 64);
        assert!(bytes.is_sorted() && bytes[19_999] <= sph.max_bytes());
    }

    #[test]
    fn stale_positions_go_first_and_are_swept() {
        let mut sph = Sph::new(64 * 16);
        for position in (16..).step_by(16).take(8) {
            sph.insert(Position(position), |_| false);
        }
        sph.insert(Position(1600), |position| position == Position(64));
        assert!(!sph.contains(Position(64)));
        assert!((16..=128).step_by(16).filter(|&p| p != 64).all(|p| sph.contains(Position(p))));
        sph.sweep(|position| position < Position(1000));
        assert_eq!(sph.len(), 1);
    }

    #[test]
    fn a_table_without_room_remembers_nothing() {
        let mut sph = Sph::new(500);
        sph.insert(Position(1), |_| false);
        assert!(!sph.contains(Position(1)));
        assert_eq!(sph.max_bytes(), 0);
    }
}
