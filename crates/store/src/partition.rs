//! Counting in ranges, and cutting a range into parts with about equal record counts.

use crate::bucket::Word;
use crate::data::Data;
use crate::index::slots_of;
use crate::walk::{Reading, Walk};
use sidle_types::{Position, PositionRange, Slot};

/// See [`Store::len_in`](crate::Store::len_in).
pub(crate) fn len_in(data: &Data, range: PositionRange) -> u64 {
    data.index.occupied_in(range).map(|slot| len_in_slot(data, slot, range)).sum()
}

/// How many values of a range users do not see.
pub(crate) fn hidden_in(data: &Data, range: PositionRange) -> u64 {
    let has_hidden = |slot: &Slot| data.index.slot(*slot).hidden() != 0;
    data.index.occupied_in(range).filter(has_hidden).map(|slot| hidden_in_slot(data, slot, range)).sum()
}

fn hidden_in_slot(data: &Data, slot: Slot, range: PositionRange) -> u64 {
    let whole = PositionRange::of_slots(slot, slot).expect("one slot");
    if range.covers(whole) {
        return data.index.slot(slot).hidden();
    }
    let part = whole.intersection(range).expect("a slot of the range");
    let guard = data.pin();
    let walk = Walk::new(data, guard.pinned(), part, Reading::Keys, usize::MAX);
    walk.filter(|(_, record)| !record.kind().is_shown()).count() as u64
}

/// See [`Store::bytes_in`](crate::Store::bytes_in).
pub(crate) fn bytes_in(data: &Data, range: PositionRange) -> u64 {
    data.index
        .occupied_in(range)
        .map(|slot| {
            let bytes = data.index.slot(slot).bytes();
            let whole = PositionRange::of_slots(slot, slot).expect("one slot");
            let part = whole.intersection(range).expect("a slot of the range");
            let width = |range: PositionRange| u128::from(range.last().0 - range.first().0) + 1;
            (u128::from(bytes) * width(part) / width(whole)) as u64
        })
        .sum()
}

fn len_in_slot(data: &Data, slot: Slot, range: PositionRange) -> u64 {
    let whole = PositionRange::of_slots(slot, slot).expect("one slot");
    if range.covers(whole) {
        return data.index.slot(slot).live();
    }
    let part = whole.intersection(range).expect("a slot of the range");
    let mut count = 0;
    for_each_bucket(data, part, |_, values| {
        count += values;
        true
    });
    count
}

/// Calls `f` with the last position of each bucket of a part of one slot and its number of values in the
/// part, until `f` returns false.
fn for_each_bucket(data: &Data, part: PositionRange, mut f: impl FnMut(Position, u64) -> bool) {
    let guard = data.pin();
    let pin = guard.pinned();
    let mut at = Some(part.first());
    while let Some(from) = at {
        let Some((span, positions)) = data.index.bucket_at(from, pin) else { return };
        // A table that shrank meanwhile may have counted entries in the present bucket.
        let rest = PositionRange::new(from, part.last()).expect("inside the part");
        let inside = rest.covers(positions);
        let counts = |word: &Word<'_>| {
            !word.kind().is_tombstone
                && (inside || rest.contains(data.log.record(word.address(), pin).position()))
        };
        let values = span.entries(pin).filter(|(_, word)| counts(word)).count() as u64;
        if !f(positions.last(), values) {
            return;
        }
        at = positions.last().next().filter(|&next| part.contains(next));
    }
}

/// See [`Store::partition`](crate::Store::partition).
pub(crate) fn partition(data: &Data, range: PositionRange, n: usize) -> Vec<PositionRange> {
    let total = len_in(data, range);
    let n = (n.max(1) as u64).min(total.max(1));
    let mut cuts: Vec<Position> = Vec::new();
    let mut before = 0;
    let target = |cuts: &Vec<Position>| total * (cuts.len() as u64 + 1) / n;
    for slot in slots_of(range) {
        if cuts.len() as u64 + 1 >= n {
            break;
        }
        let in_slot = len_in_slot(data, slot, range);
        if before + in_slot >= target(&cuts) {
            let whole = PositionRange::of_slots(slot, slot).expect("one slot");
            let part = whole.intersection(range).expect("a slot of the range");
            let mut seen = before;
            for_each_bucket(data, part, |last, values| {
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
