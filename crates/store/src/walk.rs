//! Walking the index in the order of positions, without locks: the basis of scans, packs, visits and counts.
//! Of each bucket a walk sees what a look-up would see (X2).

use crate::bucket::{ENTRIES, Word};
use crate::data::Data;
use crate::epoch::Pinned;
use crate::record::Record;
use sidle_types::{KeyHash, Position, PositionRange};

/// Buckets whose records are loaded together.
const BUCKETS_TOGETHER: usize = 8;

/// The parts of records that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Keys, as visits do.
    Keys,
    /// Everything, as packing does.
    Records,
}

/// Values in the order of their positions, loaded some buckets at a time.
pub(crate) struct Walk<'p> {
    data: &'p Data,
    pin: Pinned<'p>,
    range: PositionRange,
    reading: Reading,
    /// Where the search continues; none at the end of the range.
    next: Option<Position>,
    /// Entries of the present buckets, before their records are read, and the first position still to be
    /// returned. A table that shrank meanwhile may have returned entries in the same bucket.
    words: Vec<(Position, Word<'p>)>,
    /// Values found, in order; those before `given` have been returned.
    found: Vec<(Position, Record<'p>)>,
    given: usize,
    /// Buckets that may still be visited.
    buckets_left: usize,
}

impl<'p> Walk<'p> {
    /// The values in `range`. After `most_buckets` the walk ends early; see [`rest`](Self::rest).
    pub(crate) fn new(
        data: &'p Data,
        pin: Pinned<'p>,
        range: PositionRange,
        reading: Reading,
        most_buckets: usize,
    ) -> Walk<'p> {
        Walk {
            data,
            pin,
            range,
            reading,
            next: Some(range.first()),
            words: Vec::with_capacity(BUCKETS_TOGETHER * ENTRIES),
            found: Vec::with_capacity(BUCKETS_TOGETHER * ENTRIES),
            given: 0,
            buckets_left: most_buckets,
        }
    }

    /// Where to continue after the walk has ended: none at the end of the range.
    pub(crate) fn rest(&self) -> Option<Position> {
        self.next
    }

    /// The next value without taking it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(Position, Record<'p>)> {
        while self.given == self.found.len() {
            if self.next.is_none() || self.buckets_left == 0 {
                return None;
            }
            self.load_entries();
            self.read_records();
        }
        Some(self.found[self.given])
    }

    /// Collects the entries of the next buckets and starts loading their records.
    fn load_entries(&mut self) {
        self.words.clear();
        for _ in 0..BUCKETS_TOGETHER.min(self.buckets_left) {
            let inside = |position: &Position| *position <= self.range.last();
            let Some(from) = self.next.and_then(|next| self.data.index.skip_empty(next)).filter(inside)
            else {
                self.next = None;
                return;
            };
            self.data.index.slot(from.slot()).lock.await_turn();
            let bucket = self.data.index.bucket_at(from, self.pin);
            let entries = bucket.iter().flat_map(|(span, _)| span.entries(self.pin));
            for (_, word) in entries.filter(|(_, word)| !word.kind().is_tombstone) {
                self.data.log.prefetch(word.address());
                self.words.push((from, word));
            }
            let last = bucket.map_or(Position::last_of(from.slot()), |(_, positions)| positions.last());
            self.buckets_left -= 1;
            self.next = last.next().filter(inside);
        }
    }

    /// Reads the records of the collected entries and sorts them. They are nearly sorted: buckets are in
    /// order.
    fn read_records(&mut self) {
        self.found.clear();
        self.given = 0;
        for &(from, word) in &self.words {
            let record = self.data.log.record(word.address(), self.pin);
            if self.reading == Reading::Records {
                self.data.log.prefetch_rest(word.address(), record);
            }
            let position = Position::new(from.slot(), KeyHash::of_key(record.key()));
            if position >= from && position <= self.range.last() {
                self.found.push((position, record));
            }
        }
        for end in 1..self.found.len() {
            let mut at = end;
            while at > 0 && self.found[at - 1].0 > self.found[at].0 {
                self.found.swap(at - 1, at);
                at -= 1;
            }
        }
    }
}

impl<'p> Iterator for Walk<'p> {
    type Item = (Position, Record<'p>);

    #[inline]
    fn next(&mut self) -> Option<(Position, Record<'p>)> {
        let found = self.peek()?;
        self.given += 1;
        Some(found)
    }
}
