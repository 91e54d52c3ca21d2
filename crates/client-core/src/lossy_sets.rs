//! A lossy, set-associative table of words. It doubles when a set is full, so that a client that sees little
//! of a migration pays little for it. Its size is bounded: at its largest, a full set drops one word. That
//! only costs a second request the next time.

/// The fewest sets of a table.
pub(crate) const MIN_SETS: usize = 16;

/// What a table holds: it lies in the set that its low bits number. The default marks a free place.
pub(crate) trait Word: Copy + Default + PartialEq {
    fn low_bits(self) -> usize;
}

impl Word for u32 {
    fn low_bits(self) -> usize {
        self as usize
    }
}

impl Word for u64 {
    fn low_bits(self) -> usize {
        self as usize
    }
}

/// The table; `WAYS` words share a set, one cache line of them.
#[derive(Debug)]
pub(crate) struct LossySets<W, const WAYS: usize> {
    /// Empty until the first insertion.
    sets: Vec<[W; WAYS]>,
    /// The most sets: a power of two, or 0 for a table that keeps nothing.
    max_sets: usize,
}

impl<W: Word, const WAYS: usize> LossySets<W, WAYS> {
    /// A table of at most `max_bytes`; nothing is allocated yet.
    pub(crate) fn new(max_bytes: usize) -> LossySets<W, WAYS> {
        let sets = max_bytes / size_of::<[W; WAYS]>();
        let max_sets = if sets < MIN_SETS { 0 } else { 1 << sets.ilog2() };
        LossySets { sets: Vec::new(), max_sets }
    }

    /// The most bytes of the table.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_sets * size_of::<[W; WAYS]>()
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[W; WAYS]>()
    }

    /// Whether the word is there; it is not the default.
    #[inline]
    pub(crate) fn contains(&self, word: W) -> bool {
        let set = self.sets.get(word.low_bits() & self.sets.len().wrapping_sub(1));
        set.is_some_and(|set| set.iter().fold(false, |found, &place| found | (place == word)))
    }

    /// Adds a word; whether it was new. In a full set a word that `is_stale` is dropped first; else the table
    /// grows, or the place `victim` (modulo the places) is taken.
    pub(crate) fn insert(&mut self, word: W, victim: usize, is_stale: impl Fn(W) -> bool) -> bool {
        if self.max_sets == 0 {
            return false;
        }
        if self.sets.is_empty() {
            self.sets = vec![[W::default(); WAYS]; MIN_SETS];
        }
        loop {
            let mask = self.sets.len() - 1;
            let set = &mut self.sets[word.low_bits() & mask];
            if set.contains(&word) {
                return false;
            }
            let free = set.iter().position(|&place| place == W::default() || is_stale(place));
            if free.is_none() && mask + 1 < self.max_sets {
                self.grow();
                continue;
            }
            set[free.unwrap_or(victim % WAYS)] = word;
            return true;
        }
    }

    /// Doubles the table: each set's words are divided between two.
    #[cold]
    fn grow(&mut self) {
        let sets = self.sets.len();
        let mut grown = vec![[W::default(); WAYS]; 2 * sets];
        for (index, set) in self.sets.iter().enumerate() {
            for (place, &word) in set.iter().enumerate() {
                grown[index + (word.low_bits() & sets)][place] = word;
            }
        }
        self.sets = grown;
    }

    /// The sets, for who visits them one by one.
    pub(crate) fn sets_mut(&mut self) -> &mut [[W; WAYS]] {
        &mut self.sets
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sets.iter().flatten().filter(|&&place| place != W::default()).count()
    }
}
