//! The address space for large records: its free pages, and each record's run of pages.
//!
//! There is more of it than memory, and an unbacked page takes none, so only addresses fragment. A run goes
//! to the shortest free stretch that holds it. Its front pages are backed; the others are for its growth.
//! Numbers are pages; the owner decides whether there is memory for them.

use std::collections::{BTreeMap, BTreeSet};

/// A run in use.
#[derive(Clone, Copy, Debug)]
struct Taken {
    pages: u64,
    backed: u64,
}

/// The free stretches, neighbours joined, and the used runs.
#[derive(Debug)]
pub(crate) struct Runs {
    /// First page to length.
    free: BTreeMap<u64, u64>,
    /// The same as (length, first page).
    by_length: BTreeSet<(u64, u64)>,
    /// First page to the run.
    taken: BTreeMap<u64, Taken>,
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

    /// Takes a run with so many pages backed, and room to grow to `room` if possible; none if no free stretch
    /// holds the backed ones.
    pub(crate) fn allocate(&mut self, backed: u64, room: u64) -> Option<u64> {
        let shortest = |pages: u64| self.by_length.range((pages, 0)..).next().map(|&found| (found, pages));
        let ((length, first), pages) = shortest(room.max(backed)).or_else(|| shortest(backed))?;
        self.take_free(first);
        self.put_free(first + pages, length - pages);
        self.taken.insert(first, Taken { pages, backed });
        Some(first)
    }

    /// Backs a run up to so many pages, with free ones behind it; false, and nothing changed, if the run
    /// would have to move.
    ///
    /// # Panics
    /// When no used run starts there.
    pub(crate) fn extend(&mut self, first: u64, backed: u64) -> bool {
        let run = self.taken[&first];
        let behind = first + run.pages;
        let mut pages = run.pages;
        if backed > pages {
            match self.free.get(&behind).copied() {
                Some(length) if pages + length >= backed => {
                    self.take_free(behind);
                    let added = length.min(backed);
                    self.put_free(behind + added, length - added);
                    pages += added;
                }
                _ => return false,
            }
        }
        self.taken.insert(first, Taken { pages, backed: run.backed.max(backed) });
        true
    }

    /// How many pages of a used run are backed.
    ///
    /// # Panics
    /// When no used run starts there.
    pub(crate) fn backed(&self, first: u64) -> u64 {
        self.taken[&first].backed
    }

    /// Frees a run.
    ///
    /// # Panics
    /// When no used run starts there.
    pub(crate) fn release(&mut self, mut first: u64) {
        let mut pages = self.taken.remove(&first).expect("a run in use").pages;
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

    /// First page of all used runs, and how many of their pages are backed.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn taken(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.taken.iter().map(|(&first, run)| (first, run.backed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_runs_are_joined_with_their_neighbours() {
        let mut runs = Runs::new(64, 256);
        let taken: Vec<u64> = (0..4).map(|_| runs.allocate(10, 0).unwrap()).collect();
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
            [30, 1, 10, 1, 20, 1].iter().map(|&pages| runs.allocate(pages, 0).unwrap()).collect();
        for first in [taken[0], taken[2], taken[4]] {
            runs.release(first);
        }
        assert_eq!(runs.allocate(10, 0), Some(taken[2]));
        assert_eq!(runs.allocate(11, 0), Some(taken[4]));
        assert_eq!(runs.allocate(31, 0), Some(63));
        assert_eq!(runs.allocate(31, 0), None);
        assert_eq!(runs.backed(taken[4]), 11);
    }

    #[test]
    fn a_run_grows_into_its_room_then_into_what_is_free_behind_it() {
        let mut runs = Runs::new(0, 100);
        let (one, two) = (runs.allocate(10, 20).unwrap(), runs.allocate(10, 0).unwrap());
        assert_eq!((one, two), (0, 20));
        assert!(runs.extend(one, 20) && !runs.extend(one, 21));
        assert_eq!(runs.backed(one), 20);
        assert!(runs.extend(two, 11), "and takes room for as much again");
        assert_eq!(runs.free, BTreeMap::from([(41, 59)]));
        assert!(runs.extend(two, 80) && !runs.extend(two, 81));
        assert!(runs.extend(two, 5), "what is backed stays");
        assert_eq!(runs.backed(two), 80);
        runs.release(two);
        // Enough room for the value, but not to grow.
        assert_eq!(runs.allocate(50, 100), Some(20));
        runs.release(20);
        runs.release(one);
        assert_eq!(runs.free, BTreeMap::from([(0, 100)]));
    }
}
