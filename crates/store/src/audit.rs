//! Recounting: what tests compare the store's own accounting with.
//!
//! Purpose: the store counts by adding and subtracting, so a mistake would grow unseen. Here every entry of
//! every slot is visited, and the sums must equal the counts: by slot, by segment, and in the budget.
//!
//! No other thread may use the store meanwhile: the counts would change in between.

use crate::bucket::Word;
use crate::data::Data;
use crate::record::Record;
use crate::segment::State;
use sidle_types::{Position, PositionRange, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The sums of one slot, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    values: u64,
    tombstones: u64,
    expiring: u64,
    bytes: u64,
}

/// Referenced bytes of one segment, and how many of them are not worth keeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InSegment {
    live: u64,
    spare: u64,
}

/// See [`Store::each_entry`](crate::Store::each_entry).
pub(crate) fn each_entry(data: &Data, range: PositionRange, f: &mut dyn FnMut(Record<'_>, bool)) {
    each_word(data, range, &mut |word, record| f(record, word.kind().is_tombstone));
}

/// See [`Store::check_accounting`](crate::Store::check_accounting).
pub(crate) fn check_accounting(data: &Data) -> Result<(), String> {
    let mut by_segment: BTreeMap<u64, InSegment> = BTreeMap::new();
    let mut runs = BTreeSet::new();
    let segment_bytes = data.log.segments.segment_bytes();
    for slot in Slot::all() {
        let table = data.index.slot(slot);
        let (entries, is_marked) = (table.entries(), data.index.occupancy.has(slot));
        if is_marked != (entries != 0) {
            let mark = if is_marked { "occupied" } else { "empty" };
            return Err(format!("slot {} has {entries} entries, but is marked {mark}", slot.number()));
        }
        if table.is_untouched() {
            continue;
        }
        let whole = PositionRange::of_slots(slot, slot).expect("one slot");
        let mut found = Found::default();
        let mut is_earlier = false;
        each_word(data, whole, &mut |word, record| {
            found.values += u64::from(!word.kind().is_tombstone);
            found.tombstones += u64::from(word.kind().is_tombstone);
            found.expiring += u64::from(word.kind().has_deadline);
            found.bytes += record.live_bytes() as u64;
            runs.extend(record.run());
            is_earlier |=
                !word.kind().is_tombstone && record.expires_at().is_some_and(|at| at < table.earliest());
            if data.log.is_large(word.address()) {
                runs.insert(word.address().offset());
                return;
            }
            let segment = by_segment.entry(word.address().offset() / segment_bytes).or_default();
            segment.live += record.in_log().len() as u64;
            segment.spare += if word.kind().is_tombstone { record.spare_bytes() as u64 } else { 0 };
        });
        let counted = Found {
            values: table.live(),
            tombstones: table.tombstones(),
            expiring: table.expiring(),
            bytes: table.bytes(),
        };
        if counted != found {
            return Err(format!("slot {} holds {found:?}, but counts {counted:?}", slot.number()));
        }
        if is_earlier {
            return Err(format!("slot {} has a deadline before the earliest that it knows", slot.number()));
        }
    }
    check_segments(data, &by_segment)?;
    check_runs(data, &runs)?;
    let (index, counted) = (data.index.recount(data.pin().pinned()), data.log.segments.index_bytes());
    if index != counted {
        return Err(format!("the index takes {index} bytes, but counts {counted}"));
    }
    Ok(())
}

fn check_segments(data: &Data, found: &BTreeMap<u64, InSegment>) -> Result<(), String> {
    let segments = &data.log.segments;
    let (taken, counted) = (segments.recount(), segments.taken_bytes());
    if taken != counted {
        return Err(format!("segments and runs of {taken} bytes are in use, but {counted} are counted"));
    }
    let states = (0..segments.ordinary()).map(|number| (number, segments.at(number)));
    for (number, segment) in states {
        let InSegment { live, spare } = found.get(&number).copied().unwrap_or_default();
        let fits = match segment.state() {
            State::Free => live == 0,
            // Only its head knows its fill.
            State::Open => live <= segments.segment_bytes() && segment.spare_bytes() == spare,
            State::Closed | State::Leaving => segment.live_bytes() == live && segment.spare_bytes() == spare,
        };
        if !fits {
            let (state, counted) = (segment.state(), segment.live_bytes());
            let counted_spare = segment.spare_bytes();
            return Err(format!(
                "segment {number} is {state:?}, holds {live} live bytes, {spare} of them to spare, and counts {counted}, \
                 {counted_spare} to spare"
            ));
        }
    }
    Ok(())
}

/// Every large record has a run. Every run is a record's, unless it waits for readers or for more of its
/// bytes.
fn check_runs(data: &Data, found: &BTreeSet<u64>) -> Result<(), String> {
    let mut runs: BTreeSet<u64> = data.log.segments.runs().into_iter().collect();
    data.log.each_in_limbo(|piece| {
        runs.remove(&piece);
    });
    data.log.each_begun(|run| {
        runs.remove(run);
    });
    match runs.symmetric_difference(found).next() {
        Some(run) if runs.contains(run) => Err(format!("the run at {run} is in use, but no record's")),
        Some(run) => Err(format!("a record lies at {run}, where no run is in use")),
        None => Ok(()),
    }
}

fn each_word(data: &Data, range: PositionRange, f: &mut dyn FnMut(Word<'_>, Record<'_>)) {
    let guard = data.pin();
    let pin = guard.pinned();
    let mut at = Some(range.first());
    while let Some(from) = at {
        let inside = |from: &Position| range.contains(*from);
        let Some(from) = data.index.skip_empty(from).filter(inside) else { return };
        let bucket = data.index.bucket_at(from, pin);
        for (_, word) in bucket.iter().flat_map(|(span, _)| span.entries(pin)) {
            let record = data.log.record(word.address(), pin);
            if range.contains(record.position()) {
                f(word, record);
            }
        }
        at = bucket.map_or(Position::last_of(from.slot()), |(_, positions)| positions.last()).next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Leave, LogHead, Store, StoreConfig};
    use sidle_types::{HashedKey, WallMs};

    fn store() -> (Store, LogHead) {
        let config = StoreConfig { memory_bytes: 1 << 20, segment_bytes: 4 << 10, ..StoreConfig::default() };
        let store = Store::new(config).expect("a valid configuration");
        let mut head = store.log_head();
        for number in 0..100u32 {
            let (key, deadline) = (format!("key {number}"), (number % 3 == 0).then_some(WallMs(1)));
            put(&store, &mut head, key.as_bytes(), &[7; 50], deadline);
        }
        let gone = HashedKey::new(b"key 5");
        store.lock_slot(gone.slot()).remove(&mut head, gone, Leave::Tombstone).expect("there is room");
        (store, head)
    }

    fn put(store: &Store, head: &mut LogHead, key: &[u8], value: &[u8], deadline: Option<WallMs>) {
        let key = HashedKey::new(key);
        store.lock_slot(key.slot()).put(head, key, &[value], deadline).expect("there is room");
    }

    #[test]
    fn each_entry_gives_values_and_tombstones_of_the_range() {
        let (store, _head) = store();
        let mut found = (0, 0);
        store.each_entry(PositionRange::ALL, &mut |_, is_tombstone| {
            found = (found.0 + u64::from(!is_tombstone), found.1 + u64::from(is_tombstone));
        });
        assert_eq!(found, (99, 1));
        let one = Position::of_key(b"key 5");
        let mut keys = Vec::new();
        store.each_entry(PositionRange::only(one), &mut |record, _| keys.push(record.key().to_vec()));
        assert_eq!(keys, [b"key 5"]);
    }

    #[test]
    fn check_accounting_passes_what_is_right_and_sees_each_wrong_count() {
        let (store, mut head) = store();
        put(&store, &mut head, b"large", &[1; 2000], None);
        assert_eq!(store.check_accounting(), Ok(()));
        let slot = Slot::of_key(b"key 0");
        store.data.index.occupancy.empty(slot);
        let wrong = store.check_accounting().expect_err("a slot is marked empty");
        assert!(wrong.ends_with("is marked empty"), "{wrong}");
        store.data.index.occupancy.fill(slot);
        store.data.log.segments.index_grew(64);
        let wrong = store.check_accounting().expect_err("the index count is too large");
        assert!(wrong.starts_with("the index takes"), "{wrong}");
        store.data.log.segments.index_grew(-64);
        head.close();
        let mut closed =
            (0..store.data.log.segments.ordinary()).map(|number| store.data.log.segments.at(number));
        let closed = closed.rfind(|segment| segment.state() == State::Closed);
        closed.expect("a head was closed").add_dead(8);
        let wrong = store.check_accounting().expect_err("a record is counted dead");
        assert!(wrong.starts_with("segment"), "{wrong}");
        let word = crate::slot_table::Counted {
            kind: crate::bucket::EntryKind { is_tombstone: true, has_deadline: false },
            bytes: 0,
        };
        store.data.index.slot(Slot::of_key(b"key 1")).count(None, Some(word));
        let wrong = store.check_accounting().expect_err("a tombstone too many is counted");
        assert!(wrong.starts_with("slot"), "{wrong}");
    }
}
