//! Counting in ranges, and cutting a range into parts of about equal record count.

use crate::bucket::ENTRIES;
use crate::store::Store;
use crate::walk::lowest_hash;
use sidle_types::{KeyHash, Position, PositionRange, Slot};

impl Store {
    /// How many values a range has.
    pub fn len_in(&self, range: PositionRange) -> u64 {
        self.occupied_in(range).map(|slot| self.len_in_slot(slot, range)).sum()
    }

    /// Bytes of log that the records in a range take; where the range cuts a slot, in proportion to its
    /// positions.
    pub fn bytes_in(&self, range: PositionRange) -> u64 {
        self.occupied_in(range)
            .map(|slot| {
                let bytes = self.index.slot(slot).bytes();
                let whole = PositionRange::of_slots(slot, slot).expect("one slot");
                let part = whole.intersection(range).expect("a slot of the range");
                let width = |range: PositionRange| u128::from(range.last().0 - range.first().0) + 1;
                (u128::from(bytes) * width(part) / width(whole)) as u64
            })
            .sum()
    }

    fn len_in_slot(&self, slot: Slot, range: PositionRange) -> u64 {
        let whole = PositionRange::of_slots(slot, slot).expect("one slot");
        if range.covers(whole) {
            return self.count_in_slot(slot);
        }
        let part = whole.intersection(range).expect("a slot of the range");
        let mut count = 0;
        self.for_each_bucket(part, |_, values| {
            count += values;
            true
        });
        count
    }

    /// Calls `f` with the last position of each bucket of a part of one slot and how many values of it lie in
    /// the part, until `f` says no.
    fn for_each_bucket(&self, part: PositionRange, mut f: impl FnMut(Position, u64) -> bool) {
        let guard = self.pin();
        let pin = guard.pinned();
        let slot = part.first().slot();
        let mut at = Some(part.first());
        while let Some(from) = at {
            let Some(span) = self.index.slot(slot).span(lowest_hash(from), pin) else { return };
            let first = Position::new(slot, KeyHash(span.first));
            let last = Position::new(slot, KeyHash(span.last));
            // A table that shrank meanwhile may have what was counted already in the bucket at hand.
            let rest = PositionRange::new(from, part.last()).expect("inside the part");
            let inside = rest.contains(first) && rest.contains(last);
            let mut values = 0;
            for bucket in span.chain {
                for index in 0..ENTRIES {
                    let Some(word) = bucket.load(index, pin) else { continue };
                    let counts = !word.kind().is_tombstone
                        && (inside || rest.contains(self.log.record(word.address(), pin).position()));
                    values += u64::from(counts);
                }
            }
            if !f(last, values) {
                return;
            }
            at = last.next().filter(|&next| part.contains(next));
        }
    }

    /// Cuts a range into at most `n` parts that tile it and hold about equally many values: exact to a
    /// bucket.
    pub fn partition(&self, range: PositionRange, n: usize) -> Vec<PositionRange> {
        let total = self.len_in(range);
        let n = (n.max(1) as u64).min(total.max(1));
        let mut cuts: Vec<Position> = Vec::new();
        let mut before = 0;
        let target = |cuts: &Vec<Position>| total * (cuts.len() as u64 + 1) / n;
        for slot in self.slots_of(range) {
            if cuts.len() as u64 + 1 >= n {
                break;
            }
            let in_slot = self.len_in_slot(slot, range);
            if before + in_slot >= target(&cuts) {
                let whole = PositionRange::of_slots(slot, slot).expect("one slot");
                let part = whole.intersection(range).expect("a slot of the range");
                let mut seen = before;
                self.for_each_bucket(part, |last, values| {
                    seen += values;
                    if seen >= target(&cuts) && last < range.last() {
                        cuts.push(last);
                    }
                    (cuts.len() as u64 + 1) < n
                });
            }
            before += in_slot;
        }
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut first = range.first();
        for cut in cuts {
            parts.push(PositionRange::new(first, cut).expect("cuts ascend"));
            first = cut.next().expect("a cut lies before the end of the range");
        }
        parts.push(PositionRange::new(first, range.last()).expect("the last cut lies before the end"));
        parts
    }
}
