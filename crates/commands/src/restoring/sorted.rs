//! Where the elements of a payload begin, in an order that is not the payload's.
//!
//! Some elements at a time are sorted: a run. All runs are merged, by a heap of their first elements. Only
//! places are kept, four bytes each. What elements are compared by is read from the payload again.
//!
//! A run that stands before the one in front of it goes on with that one. So a payload in descending order is
//! one run: DUMP writes sorted sets so, as Redis does.

use sidle_rdb::{Element, RestoreError, Slices};
use sidle_types::KeyHash;
use std::cell::Cell;
use std::cmp::Ordering;

/// What elements are ordered by; those that are equal by it, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The hash of the name.
    Hash,
    /// The score. Zeros of both signs are equal.
    Score,
}

impl By {
    fn key(self, element: &Element<'_>) -> u64 {
        match (self, element) {
            (By::Score, Element::Scored(_, score)) => in_order(*score),
            _ => KeyHash::of_key(element.name().map_or(&[], |name| name)).0,
        }
    }
}

/// Bits that are ordered as numbers are.
fn in_order(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// A payload that elements are read from.
pub(super) struct Source<'p> {
    pub(super) slices: &'p Slices,
    pub(super) payload: &'p [u8],
    /// How many bytes of names were compared.
    pub(super) compared_bytes: Cell<usize>,
}

impl<'p> Source<'p> {
    pub(super) fn element(&self, at: u32) -> Result<Element<'p>, RestoreError> {
        self.slices.read_again(self.payload, at as usize)
    }

    fn compare(&self, one: First, other: First) -> Result<Ordering, RestoreError> {
        if one.key != other.key {
            return Ok(one.key.cmp(&other.key));
        }
        let (one, other) = (self.element(one.at)?, self.element(other.at)?);
        self.compared_bytes.set(self.compared_bytes.get() + one.bytes() + other.bytes());
        Ok(one.name().cmp(&other.name()))
    }
}

/// Places of elements, sorted.
#[derive(Debug)]
pub(super) struct Sorted {
    by: By,
    runs: Vec<Run>,
    /// The first of each run that does not go on another one. It is a heap: what is at `n` stands before what
    /// is at `2n + 1` and at `2n + 2`.
    firsts: Vec<First>,
    /// The first of the last run, which may be a part of the next one.
    last: Option<First>,
    places: usize,
}

#[derive(Debug)]
struct Run {
    /// Where its elements begin, the last one first.
    places: Vec<u32>,
    /// Whether the run in front of this one is the rest of it.
    goes_on: bool,
}

/// The first element of a run.
#[derive(Clone, Copy, Debug)]
struct First {
    key: u64,
    at: u32,
    run: u32,
}

impl Sorted {
    pub(super) fn new(by: By) -> Sorted {
        Sorted { by, runs: Vec::new(), firsts: Vec::new(), last: None, places: 0 }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places * size_of::<u32>()
            + self.runs.capacity() * size_of::<Run>()
            + self.firsts.capacity() * size_of::<First>()
    }

    /// Adds a run of elements, with where they begin.
    pub(super) fn add(
        &mut self,
        elements: &[(u32, Element<'_>)],
        source: &Source<'_>,
    ) -> Result<(), RestoreError> {
        let mut run: Vec<_> =
            elements.iter().map(|(at, element)| (self.by.key(element), element.name(), *at)).collect();
        run.sort_unstable_by(|one, other| other.cmp(one));
        let number = self.runs.len() as u32;
        let first =
            |of: Option<&(u64, _, u32)>| of.map(|(key, _, at)| First { key: *key, at: *at, run: number });
        let (Some(least), Some(greatest)) = (first(run.last()), first(run.first())) else { return Ok(()) };
        let goes_on = match self.last {
            Some(last) => source.compare(greatest, last)?.is_lt(),
            None => false,
        };
        if !goes_on {
            self.end(source)?;
        }
        self.last = Some(least);
        self.places += run.len();
        self.runs.push(Run { places: run.iter().map(|(_, _, at)| *at).collect(), goes_on });
        Ok(())
    }

    /// There are no more elements, or the next run is one by itself.
    pub(super) fn end(&mut self, source: &Source<'_>) -> Result<(), RestoreError> {
        let Some(first) = self.last.take() else { return Ok(()) };
        self.firsts.push(first);
        let mut at = self.firsts.len() - 1;
        while at > 0 && source.compare(self.firsts[at], self.firsts[(at - 1) / 2])?.is_lt() {
            self.firsts.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        Ok(())
    }

    /// Whether all elements were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.places == 0
    }

    /// Takes the next place.
    pub(super) fn take(&mut self, source: &Source<'_>) -> Result<Option<u32>, RestoreError> {
        let Some(First { at, run, .. }) = self.firsts.first().copied() else { return Ok(None) };
        let mut of = run as usize;
        let taken = self.runs[of].places.pop();
        debug_assert_eq!(taken, Some(at), "the first of a run");
        self.places -= 1;
        if self.runs[of].places.is_empty() {
            self.runs[of].places = Vec::new();
            of -= usize::from(self.runs[of].goes_on);
        }
        match self.runs[of].places.last() {
            Some(&at) => {
                self.firsts[0] = First { key: self.by.key(&source.element(at)?), at, run: of as u32 };
            }
            None => drop(self.firsts.swap_remove(0)),
        }
        self.sink(source)?;
        Ok(Some(at))
    }

    /// Moves the element at the top to where it belongs.
    fn sink(&mut self, source: &Source<'_>) -> Result<(), RestoreError> {
        let mut at = 0;
        while let Some(&one) = self.firsts.get(2 * at + 1) {
            let mut least = (2 * at + 1, one);
            if let Some(&other) = self.firsts.get(2 * at + 2)
                && source.compare(other, one)?.is_lt()
            {
                least = (2 * at + 2, other);
            }
            if source.compare(self.firsts[at], least.1)?.is_le() {
                break;
            }
            self.firsts.swap(at, least.0);
            at = least.0;
        }
        Ok(())
    }
}
