//! SPH, the sampling-pulled hashes (Fulva, section IV-B): positions that the target has an entry for although the bulk of
//! the migration has not reached them.

use sidle_types::Position;

/// How many positions share a set: one cache line of them.
const WAYS: usize = 8;
/// The fewest sets that are worth a table.
const MIN_SETS: usize = 16;
/// How many sets one step of [`Sph::sweep`] looks at.
const SWEEP_SETS: usize = 64;

/// A lossy, set-associative table of positions. Of bounded size: a full set forgets one of its positions, which costs a
/// second request the next time and nothing else.
#[derive(Debug)]
pub(crate) struct Sph {
    /// Empty until the first insertion. 0 marks a free place, so position 0 is never remembered.
    sets: Vec<[u64; WAYS]>,
    /// A power of two, or 0 for a table that remembers nothing.
    set_count: usize,
    sweep_at: usize,
}

impl Sph {
    /// A table of at most `max_bytes`; nothing is allocated yet.
    pub(crate) fn new(max_bytes: usize) -> Sph {
        let sets = max_bytes / size_of::<[u64; WAYS]>();
        let set_count = if sets < MIN_SETS { 0 } else { 1 << sets.ilog2() };
        Sph { sets: Vec::new(), set_count, sweep_at: 0 }
    }

    /// The bytes that the table takes, or would take once something is in it.
    pub(crate) fn max_bytes(&self) -> usize {
        self.set_count * size_of::<[u64; WAYS]>()
    }

    /// The bytes that the table takes.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[u64; WAYS]>()
    }

    #[inline]
    pub(crate) fn contains(&self, position: Position) -> bool {
        // The low bits of a position are bits of the key's hash: they spread by themselves.
        let Some(set) = self.sets.get(position.0 as usize & self.set_count.wrapping_sub(1)) else {
            return false;
        };
        set.iter().fold(false, |found, &place| found | (place == position.0)) && position.0 != 0
    }

    /// Remembers a position. When its set is full, a position that `is_stale` goes first, else any.
    pub(crate) fn insert(&mut self, position: Position, is_stale: impl Fn(Position) -> bool) {
        if self.set_count == 0 {
            return;
        }
        if self.sets.is_empty() {
            self.sets = vec![[0; WAYS]; self.set_count];
        }
        let set = &mut self.sets[position.0 as usize & (self.set_count - 1)];
        if set.contains(&position.0) {
            return;
        }
        let free = set.iter().position(|&place| place == 0 || is_stale(Position(place)));
        let place = free.unwrap_or((position.0 >> 40) as usize % WAYS);
        set[place] = position.0;
    }

    /// Forgets what `is_stale` in the next few sets; called again and again it goes round the table.
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
