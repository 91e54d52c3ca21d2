//! Recounting: what tests compare the store's own accounting with.
//!
//! Purpose: the store counts by adding and subtracting, so a mistake would grow unseen. Here every entry of
//! every slot is visited, and the sums must equal the counts: by slot, by segment, and in the budget.
//!
//! No other thread may use the store meanwhile: the counts would change in between.

use crate::address::Address;
use crate::bucket::Word;
use crate::data::Data;
use crate::large::chunk::{ChunkName, address_of, record_bytes};
use crate::large::registry::Published;
use crate::record::Record;
use crate::segment::State;
use sidle_outline::{Chunk, Order, Outline};
use sidle_types::{Position, PositionRange, Slot, ValueKind};
use std::collections::{BTreeMap, BTreeSet};

/// The sums of one slot, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    values: u64,
    hidden: u64,
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

/// Whether so many keys with something beside them are counted.
fn check_beside(data: &Data, found: u64) -> Result<(), String> {
    let counted = data.beside.len();
    match found == counted {
        true => Ok(()),
        false => Err(format!("{found} keys have something beside them, but {counted} are counted")),
    }
}

/// See [`Store::check_accounting`](crate::Store::check_accounting).
pub(crate) fn check_accounting(data: &Data) -> Result<(), String> {
    let mut in_log = InLog::default();
    let (mut large, mut locks) = (0, 0);
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
        let mut heads = Vec::new();
        each_word(data, whole, &mut |word, record| {
            found.values += u64::from(!word.kind().is_tombstone);
            locks += u64::from(!word.kind().is_tombstone && record.kind() == ValueKind::Locks);
            found.hidden += u64::from(!word.kind().is_tombstone && !record.kind().is_shown());
            found.tombstones += u64::from(word.kind().is_tombstone);
            found.expiring += u64::from(word.kind().has_deadline);
            found.bytes += record.live_bytes() as u64;
            in_log.runs.extend(record.run());
            if record.is_large() && !word.kind().is_tombstone {
                heads.push(word.address());
            }
            is_earlier |=
                !word.kind().is_tombstone && record.expires_at().is_some_and(|at| at < table.earliest());
            if data.log.is_large(word.address()) {
                in_log.runs.insert(word.address().offset());
                return;
            }
            let segment = in_log.segments.entry(word.address().offset() / segment_bytes).or_default();
            segment.live += record.in_log().len() as u64;
            segment.spare += if word.kind().is_tombstone { record.spare_bytes() as u64 } else { 0 };
        });
        large += heads.len();
        for address in heads {
            found.bytes += in_log.add_collection(data, slot, address)?;
        }
        let counted = Found {
            values: table.live(),
            hidden: table.hidden(),
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
    check_beside(data, locks)?;
    in_log.add_without_key(data, large)?;
    check_segments(data, &in_log.segments)?;
    check_runs(data, &in_log.runs)?;
    let index = data.index.recount(data.pin().pinned()) + data.collections.recount();
    let counted = data.log.segments.index_bytes();
    if index != counted {
        return Err(format!("the index takes {index} bytes, but counts {counted}"));
    }
    Ok(())
}

/// What is referenced in the log.
#[derive(Default)]
struct InLog {
    segments: BTreeMap<u64, InSegment>,
    runs: BTreeSet<u64>,
    chunks: BTreeSet<Address>,
}

fn chunks_of(outline: &Outline) -> impl Iterator<Item = (Order, &Chunk)> {
    let all = |order| outline.sequence(order).iter_from(0).map(move |chunk| (order, chunk));
    Order::ALL.into_iter().flat_map(all)
}

impl InLog {
    /// Adds a chunk.
    fn add_chunk(&mut self, data: &Data, chunk: &Chunk) {
        let address = address_of(chunk).expect("what is published is in the log");
        assert!(self.chunks.insert(address), "K3: a chunk is in two outlines");
        if data.log.is_large(address) {
            self.runs.insert(address.offset());
        } else {
            let number = address.offset() / data.log.segments.segment_bytes();
            self.segments.entry(number).or_default().live += record_bytes(chunk) as u64;
        }
    }

    /// Adds the chunks of collections that arrive, and of doomed ones. So many others have a head.
    fn add_without_key(&mut self, data: &Data, heads: usize) -> Result<(), String> {
        let mut left = heads as i64;
        let mut add = |outline: &Outline| {
            chunks_of(outline).for_each(|(_, chunk)| self.add_chunk(data, chunk));
        };
        data.collections.each(|state| match state.head {
            Some(_) => left -= 1,
            None => add(&state.outline),
        });
        data.collections.doomed.each(add);
        match left {
            0 => Ok(()),
            _ => Err(format!("{} collections have no head", -left)),
        }
    }

    /// Checks a head's collection, and adds its chunks; returns their bytes.
    fn add_collection(&mut self, data: &Data, slot: Slot, address: Address) -> Result<u64, String> {
        let guard = data.pin();
        let head = data.log.record(address, guard.pinned());
        let id = head.collection().expect("a head names its collection");
        let check = |state: &Published| {
            if (state.slot, state.head) != (slot, Some(address)) || state.version < head.version() {
                return Err(format!("{head:?} in slot {} is not the head of {state:?}", slot.number()));
            }
            let mut bytes = 0;
            for (order, chunk) in chunks_of(&state.outline) {
                let at = address_of(chunk).expect("what is published is in the log");
                let record = data.log.record(at, guard.pinned());
                let name = ChunkName { id, order, label: chunk.label };
                let is_it = record.is_chunk() && record.key() == name.to_key();
                if !is_it || record.value().len() != chunk.bytes as usize || record.version() > state.version
                {
                    return Err(format!("{name:?} is {record:?}"));
                }
                self.add_chunk(data, chunk);
                bytes += record.live_bytes() as u64;
            }
            match bytes == state.chunk_bytes {
                true => Ok(bytes),
                false => Err(format!("{id:?} has chunks of {bytes} bytes, and counts {}", state.chunk_bytes)),
            }
        };
        data.collections.read(id, check).unwrap_or_else(|| Err(format!("{head:?} has no collection")))
    }
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
    use sidle_types::{HashedKey, ValueKind, WallMs};

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
    fn check_accounting_sees_each_wrong_count_of_a_large_collection() {
        let (store, mut head) = store();
        let (key, mut outline) = (HashedKey::new(b"large"), Outline::new(0));
        (0..50).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 50])));
        let slot = store.lock_slot(key.slot());
        slot.put_large(&mut head, key, ValueKind::Set, outline, None).expect("there is room");
        let id = slot.get(key).value().and_then(|head| head.collection()).expect("a head");
        assert_eq!(store.check_accounting(), Ok(()));
        let wrong = |change: &dyn Fn(&mut Published), back: &dyn Fn(&mut Published), begins: &str| {
            store.data.collections.change(id, change);
            let wrong = store.check_accounting().expect_err(begins);
            assert!(wrong.contains(begins), "{wrong}");
            store.data.collections.change(id, back);
            assert_eq!(store.check_accounting(), Ok(()));
        };
        wrong(&|state| state.chunk_bytes += 8, &|state| state.chunk_bytes -= 8, "has chunks of");
        wrong(&|state| state.version.0 -= 1, &|state| state.version.0 += 1, "is not the head of");
        let slot_of = |state: &mut Published, slot| state.slot = slot;
        wrong(&|state| slot_of(state, Slot::LAST), &|state| slot_of(state, key.slot()), "is not the head");
        slot.table().count_bytes(8);
        assert!(store.check_accounting().expect_err("bytes too many").starts_with("slot"));
        slot.table().count_bytes(-8);
        let whole = store.data.collections.change(id, |state| {
            let whole = state.outline.clone();
            drop(state.outline.take_any());
            whole
        });
        let wrong = store.check_accounting().expect_err("a chunk is missing");
        assert!(wrong.contains("has chunks of"), "{wrong}");
        store.data.collections.change(id, |state| state.outline = whole);
        assert_eq!(store.check_accounting(), Ok(()));
        let address = store.data.collections.read(id, |state| state.head).flatten().expect("it has a head");
        store.data.collections.doom(id, address);
        let wrong = store.check_accounting().expect_err("a head without a collection");
        assert!(wrong.contains("has no collection"), "{wrong}");
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
            hidden: crate::hidden::Hidden::No,
            bytes: 0,
        };
        store.data.index.slot(Slot::of_key(b"key 1")).count(None, Some(word));
        let wrong = store.check_accounting().expect_err("a tombstone too many is counted");
        assert!(wrong.starts_with("slot"), "{wrong}");
    }
}
