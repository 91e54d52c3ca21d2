//! The address space for large records: which pages of it are free, and which run of pages each record has.
//!
//! There is more of it than memory, and a free page takes none, so what fragments is addresses only. A run goes to the
//! shortest free stretch that holds it. Numbers are pages; who owns this decides whether there is memory for them.

use std::collections::{BTreeMap, BTreeSet};

/// The free stretches, neighbours joined, and the runs in use.
#[derive(Debug)]
pub(crate) struct Runs {
    /// First page to length.
    free: BTreeMap<u64, u64>,
    /// The same as (length, first page).
    by_length: BTreeSet<(u64, u64)>,
    /// First page to length.
    taken: BTreeMap<u64, u64>,
}

impl Runs {
    /// All of these pages are free.
    pub(crate) fn new(first: u64, pages: u64) -> Runs {
        let mut runs = Runs { free: BTreeMap::new(), by_length: BTreeSet::new(), taken: BTreeMap::new() };
        runs.put_free(first, pages);
        runs
    }

    fn put_free(&mut self, first: u64, pages: u64) {
        if pages != 0 {
            self.free.insert(first, pages);
            self.by_length.insert((pages, first));
        }
    }

    fn take_free(&mut self, first: u64) -> Option<u64> {
        let pages = self.free.remove(&first)?;
        self.by_length.remove(&(pages, first));
        Some(pages)
    }

    /// Takes a run; none where no free stretch is that long.
    pub(crate) fn allocate(&mut self, pages: u64) -> Option<u64> {
        let &(length, first) = self.by_length.range((pages, 0)..).next()?;
        self.take_free(first);
        self.put_free(first + pages, length - pages);
        self.taken.insert(first, pages);
        Some(first)
    }

    /// How many pages a run in use has.
    ///
    /// # Panics
    /// When no run in use starts there.
    pub(crate) fn pages(&self, first: u64) -> u64 {
        *self.taken.get(&first).expect("a run in use")
    }

    /// Frees a run.
    ///
    /// # Panics
    /// When no run in use starts there.
    pub(crate) fn release(&mut self, mut first: u64) {
        let mut pages = self.taken.remove(&first).expect("a run in use");
        pages += self.take_free(first + pages).unwrap_or(0);
        let before = self.free.range(..first).next_back().map(|(&before, &length)| (before, length));
        if let Some((before, length)) = before
            && before + length == first
        {
            self.take_free(before);
            first = before;
            pages += length;
        }
        self.put_free(first, pages);
    }

    /// First page and length of all runs in use.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn taken(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.taken.iter().map(|(&first, &pages)| (first, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_runs_are_joined_with_their_neighbours() {
        let mut runs = Runs::new(64, 256);
        let taken: Vec<u64> = (0..4).map(|_| runs.allocate(10).unwrap()).collect();
        assert_eq!(taken, [64, 74, 84, 94]);
        for first in [taken[2], taken[0], taken[1], taken[3]] {
            runs.release(first);
        }
        assert_eq!(runs.free, BTreeMap::from([(64, 256)]));
        assert_eq!(runs.by_length, BTreeSet::from([(256, 64)]));
        assert_eq!(runs.taken().count(), 0);
    }

    #[test]
    fn a_run_goes_to_the_shortest_stretch_that_holds_it() {
        let mut runs = Runs::new(0, 100);
        let taken: Vec<u64> =
            [30, 1, 10, 1, 20, 1].iter().map(|&pages| runs.allocate(pages).unwrap()).collect();
        for first in [taken[0], taken[2], taken[4]] {
            runs.release(first);
        }
        assert_eq!(runs.allocate(10), Some(taken[2]));
        assert_eq!(runs.allocate(11), Some(taken[4]));
        assert_eq!(runs.allocate(31), Some(63));
        assert_eq!(runs.allocate(31), None);
        assert_eq!(runs.pages(taken[4]), 11);
    }
}
