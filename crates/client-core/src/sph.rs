//! SPH, the sampling-pulled hashes (Fulva, section IV-B): positions that the target has an entry for although
//! the bulk of the migration has not reached them.

use sidle_types::Position;

/// How many positions share a set: one cache line of them.
const WAYS: usize = 8;
/// The fewest sets of a table.
const MIN_SETS: usize = 16;
/// How many sets one step of [`Sph::sweep`] visits.
const SWEEP_SETS: usize = 64;

/// A lossy, set-associative table of positions. It doubles when a set is full, so that a client that sees
/// little of a migration pays little for it. Its size is bounded: at its largest, a full set drops one of its
/// positions. That only costs a second request the next time.
#[derive(Debug)]
pub(crate) struct Sph {
    /// Empty until the first insertion. 0 marks a free place, so position 0 is never kept.
    sets: Vec<[u64; WAYS]>,
    /// The most sets: a power of two, or 0 for a table that keeps nothing.
    max_sets: usize,
    sweep_at: usize,
}

impl Sph {
    /// A table of at most `max_bytes`; nothing is allocated yet.
    pub(crate) fn new(max_bytes: usize) -> Sph {
        let sets = max_bytes / size_of::<[u64; WAYS]>();
        let max_sets = if sets < MIN_SETS { 0 } else { 1 << sets.ilog2() };
        Sph { sets: Vec::new(), max_sets, sweep_at: 0 }
    }

    /// The most bytes of the table.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_sets * size_of::<[u64; WAYS]>()
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[u64; WAYS]>()
    }

    #[inline]
    pub(crate) fn contains(&self, position: Position) -> bool {
        // The low bits of a position are bits of the key's hash: evenly spread.
        let Some(set) = self.sets.get(position.0 as usize & self.sets.len().wrapping_sub(1)) else {
            return false;
        };
        set.iter().fold(false, |found, &place| found | (place == position.0)) && position.0 != 0
    }

    /// Adds a position. When its set is full, a position that `is_stale` is dropped first; else the table
    /// grows, or any position is dropped.
    pub(crate) fn insert(&mut self, position: Position, is_stale: impl Fn(Position) -> bool) {
        if self.max_sets == 0 {
            return;
        }
        if self.sets.is_empty() {
            self.sets = vec![[0; WAYS]; MIN_SETS];
        }
        loop {
            let mask = self.sets.len() - 1;
            let set = &mut self.sets[position.0 as usize & mask];
            if set.contains(&position.0) {
                return;
            }
            let free = set.iter().position(|&place| place == 0 || is_stale(Position(place)));
            if free.is_none() && mask + 1 < self.max_sets {
                self.grow();
                continue;
            }
            set[free.unwrap_or((position.0 >> 40) as usize % WAYS)] = position.0;
            return;
        }
    }

    /// Doubles the table: each set's positions are divided between two.
    #[cold]
    fn grow(&mut self) {
        let sets = self.sets.len();
        let mut grown = vec![[0; WAYS]; 2 * sets];
        for (index, set) in self.sets.iter().enumerate() {
            for (place, &position) in set.iter().enumerate() {
                grown[index + (position as usize & sets)][place] = position;
            }
        }
        self.sets = grown;
    }

    /// Drops what `is_stale` in the next few sets; repeated calls go round the table.
    pub(crate) fn sweep(&mut self, is_stale: impl Fn(Position) -> bool) {
        for _ in 0..SWEEP_SETS.min(self.sets.len()) {
            for place in &mut self.sets[self.sweep_at] {
                if *place != 0 && is_stale(Position(*place)) {
                    *place = 0;
                }
            }
            self.sweep_at = (self.sweep_at + 1) % self.sets.len();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sets.iter().flatten().filter(|&&place| place != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
