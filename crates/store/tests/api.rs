//! The store's guarantees one by one, in a single thread.

#![expect(clippy::unwrap_used, reason = "tests")]

use sidle_store::{
    Change, CleanOutcome, Entry, Leave, LogHead, RecordBatch, ReplayError, SlotGuards, Store, StoreConfig,
};
use sidle_types::{HashedKey, Position, PositionRange, Slot, ValueKind, Version, WallMs};

fn store() -> Store {
    Store::new(StoreConfig {
        memory_bytes: 64 << 20,
        segment_bytes: 64 << 10,
        huge_pages: false,
        ..StoreConfig::default()
    })
    .unwrap()
}

fn put(store: &Store, head: &mut LogHead, key: &[u8], value: &[u8]) -> Version {
    let key = HashedKey::new(key);
    store.lock_slot(key.slot()).put(head, key, &[value], None).unwrap()
}

fn value(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    let guard = store.pin();
    guard.get(HashedKey::new(key)).value().map(|record| record.value().to_vec())
}

fn fill(store: &Store, head: &mut LogHead, count: u32, name: impl Fn(u32) -> String) {
    for i in 0..count {
        put(store, head, name(i).as_bytes(), format!("value {i}").as_bytes());
    }
}

#[test]
fn put_then_get_then_remove() {
    let store = store();
    let mut head = store.log_head();
    let key = HashedKey::new(b"key");
    assert!(matches!(store.pin().get(key), Entry::Absent));
    let first = put(&store, &mut head, b"key", b"one");
    let second = put(&store, &mut head, b"key", b"two");
    assert!(second > first);
    assert_eq!(value(&store, b"key").unwrap(), b"two");
    assert_eq!(store.len(), 1);
    assert!(store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap());
    assert!(!store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap());
    assert!(matches!(store.pin().get(key), Entry::Absent));
    assert_eq!((store.len(), store.memory().log_live), (0, 0));
    assert!(put(&store, &mut head, b"key", b"three") > second);
}

#[test]
fn remove_leaves_a_tombstone_even_of_an_absent_key() {
    let store = store();
    let mut head = store.log_head();
    let key = HashedKey::new(b"key");
    assert!(!store.lock_slot(key.slot()).remove(&mut head, key, Leave::Tombstone).unwrap());
    assert!(matches!(store.pin().get(key), Entry::Tombstone(_)));
    assert_eq!((store.len(), store.tombstones_in(PositionRange::ALL)), (0, 1));
    assert_eq!(store.sweep_tombstones(Position::FIRST, Position::LAST, 1 << 20), None);
    assert!(matches!(store.pin().get(key), Entry::Absent));
    assert_eq!(store.memory().log_live, 0);
}

#[test]
fn many_keys_in_one_slot_are_all_found_and_scanned_in_order() {
    let store = store();
    let mut head = store.log_head();
    let count = 100_000;
    fill(&store, &mut head, count, |i| format!("{{tag}}{i}"));
    for i in 0..count {
        assert_eq!(value(&store, format!("{{tag}}{i}").as_bytes()).unwrap(), format!("value {i}").as_bytes());
    }
    let mut seen = Vec::new();
    let mut from = Some(Position::FIRST);
    while let Some(at) = from {
        from = store.visit(at, Position::LAST, 1000, &mut |record| seen.push(record.position()));
    }
    assert_eq!(seen.len(), count as usize);
    assert!(seen.is_sorted());
}

#[test]
fn scan_and_replay_copy_a_range() {
    let (source, target) = (store(), store());
    let mut head = source.log_head();
    fill(&source, &mut head, 20_000, |i| format!("key {i}"));
    let deleted = HashedKey::new(b"key 17");
    let mut target_head = target.log_head();
    put(&target, &mut target_head, b"key 16", b"newer");
    target.lock_slot(deleted.slot()).remove(&mut target_head, deleted, Leave::Tombstone).unwrap();
    let (mut from, mut batches, mut inserted, mut present) = (Some(Position::FIRST), 0, 0, 0);
    while let Some(at) = from {
        let mut batch = Vec::new();
        let end = source.scan(at, Position::LAST, 10_000, &mut batch);
        assert!(batch.len() <= 10_000);
        let parsed = RecordBatch::parse(&batch).unwrap();
        assert_eq!(parsed.len(), end.records as usize);
        for _ in 0..2 {
            let replayed = target.replay(&mut target_head, &parsed, PositionRange::ALL).unwrap();
            inserted += replayed.inserted;
            present += replayed.present;
        }
        from = end.next;
        batches += 1;
    }
    assert!(batches > 50);
    assert_eq!((inserted, present), (19_998, 20_002));
    assert_eq!(value(&target, b"key 16").unwrap(), b"newer");
    assert_eq!(value(&target, b"key 17"), None);
    assert_eq!(value(&target, b"key 18").unwrap(), b"value 18");
    assert_eq!(source.discard(Position::FIRST, Position::LAST, usize::MAX), None);
    assert_eq!((source.len(), source.memory().log_live), (0, 0));
}

#[test]
fn a_preallocated_store_holds_as_much_as_another() {
    let records_that_fit = |preallocate: bool| {
        let config = StoreConfig {
            memory_bytes: 4 << 20,
            segment_bytes: 64 << 10,
            huge_pages: false,
            preallocate,
            ..StoreConfig::default()
        };
        let store = Store::new(config).unwrap();
        let mut head = store.log_head();
        let mut put = |n: u32| {
            let key = n.to_le_bytes();
            let key = HashedKey::new(&key);
            store.lock_slot(key.slot()).put(&mut head, key, &[&[7; 1000]], None).is_ok()
        };
        let fitted = (0..).take_while(|&n| put(n)).count();
        let guard = store.pin();
        let is_there = |n: usize| guard.get(HashedKey::new(&(n as u32).to_le_bytes())).value().is_some();
        assert!((0..fitted).all(is_there));
        fitted
    };
    let fitted = records_that_fit(true);
    assert!(fitted > 1000);
    assert_eq!(fitted, records_that_fit(false));
}

/// Records in hash order do not grow a table step by step, through chains on its first buckets.
#[test]
fn replay_gives_a_slot_a_table_of_the_right_size_at_once() {
    const BUCKET_BYTES: u64 = 64;
    let (source, target) = (store(), store());
    fill(&source, &mut source.log_head(), 183, |i| format!("{{tag}}{i}"));
    let mut batch = Vec::new();
    assert_eq!(source.scan(Position::FIRST, Position::LAST, usize::MAX, &mut batch).next, None);
    let empty = target.memory().index;
    let parsed = RecordBatch::parse(&batch).unwrap();
    target.replay(&mut target.log_head(), &parsed, PositionRange::ALL).unwrap();
    // 32 buckets have room for 179. A bucket or two of the 64 has a link; nothing smaller waits to be freed.
    let buckets = (target.memory().index - empty) / BUCKET_BYTES;
    assert!((64..70).contains(&buckets), "{buckets} buckets");
}

#[test]
fn replay_refuses_a_record_outside_the_range() {
    let (source, target) = (store(), store());
    let mut head = source.log_head();
    fill(&source, &mut head, 100, |i| format!("key {i}"));
    let mut batch = Vec::new();
    source.scan(Position::FIRST, Position::LAST, usize::MAX, &mut batch);
    let parsed = RecordBatch::parse(&batch).unwrap();
    let half = PositionRange::new(Position::FIRST, Position(u64::MAX / 2)).unwrap();
    let refused = target.replay(&mut target.log_head(), &parsed, half);
    assert!(matches!(refused, Err(ReplayError::OutsideRange(_))));
    assert_eq!(target.len(), 0);
}

#[test]
fn scan_takes_a_record_that_is_larger_than_the_batch() {
    let store = store();
    let mut head = store.log_head();
    let large = vec![7; 1 << 20];
    put(&store, &mut head, b"large", &large);
    let mut batch = Vec::new();
    let end = store.scan(Position::FIRST, Position::LAST, 100, &mut batch);
    assert_eq!(end.records, 1);
    assert_eq!(RecordBatch::parse(&batch).unwrap().iter().next().unwrap().value(), large);
    assert!(store.pack(HashedKey::new(b"large"), &mut batch));
    assert!(!store.pack(HashedKey::new(b"small"), &mut batch));
    let position = Position::of_key(b"large");
    assert_eq!(store.scan(position, position, usize::MAX, &mut batch).records, 1);
}

#[test]
fn partition_tiles_the_range_in_equal_parts() {
    let store = store();
    let mut head = store.log_head();
    fill(&store, &mut head, 40_000, |i| if i % 2 == 0 { format!("{{tag}}{i}") } else { format!("{i}") });
    for n in [1, 2, 3, 8, 64] {
        let parts = store.partition(PositionRange::ALL, n);
        assert_eq!(parts.len(), n);
        assert_eq!((parts[0].first(), parts[n - 1].last()), (Position::FIRST, Position::LAST));
        for pair in parts.windows(2) {
            assert_eq!(pair[0].last().next(), Some(pair[1].first()));
        }
        let counts: Vec<u64> = parts.iter().map(|&part| store.len_in(part)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 40_000);
        let fair = 40_000 / n as u64;
        assert!(counts.iter().all(|&count| count.abs_diff(fair) < 50), "{counts:?}");
    }
    assert_eq!(store.partition(PositionRange::of_slots(Slot::LAST, Slot::LAST).unwrap(), 8).len().max(1), 1);
}

#[test]
fn random_record_reaches_every_key() {
    let store = store();
    let mut head = store.log_head();
    assert!(store.pin().random_record(5).is_none());
    fill(&store, &mut head, 30, |i| format!("key {i}"));
    let mut seen = std::collections::BTreeSet::new();
    let guard = store.pin();
    for i in 0..2000u64 {
        seen.insert(guard.random_record(i.wrapping_mul(0x2545_F491_4F6C_DD1D)).unwrap().key().to_vec());
    }
    assert_eq!(seen.len(), 30);
}

#[test]
fn version_floor_is_respected() {
    let store = store();
    let mut head = store.log_head();
    store.raise_version_floor(PositionRange::ALL, Version(1000));
    assert_eq!(store.highest_version(PositionRange::ALL), Version(1000));
    assert_eq!(put(&store, &mut head, b"key", b""), Version(1001));
    store.raise_version_floor(PositionRange::ALL, Version(5));
    assert_eq!(put(&store, &mut head, b"key", b""), Version(1002));
}

/// The slots of keys, in order, each once.
fn slots_of(keys: &[HashedKey<'_>]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot()).collect();
    slots.sort();
    slots.dedup();
    slots
}

#[test]
fn several_keys_are_written_read_and_removed_together() {
    let store = store();
    let mut head = store.log_head();
    let keys = [HashedKey::new(b"a"), HashedKey::new(b"b"), HashedKey::new(b"{a}c")];
    let slots = slots_of(&keys);
    let put = keys.iter().map(|key| (*key, Change::Put(ValueKind::String, key.bytes(), None)));
    SlotGuards::lock(&store, &slots).publish(&mut head, WallMs(0), put).unwrap();
    assert_eq!(value(&store, b"{a}c").unwrap(), b"{a}c");
    assert_eq!(store.at_one_moment(|| store.len()), 3);
    {
        let guard = store.pin();
        let asked = [keys[2], HashedKey::new(b"{a}none"), keys[1], keys[2]];
        let found = guard.get_together(&asked);
        let values: Vec<Option<&[u8]>> =
            found.into_iter().map(|entry| entry.value().map(|record| record.value())).collect();
        assert_eq!(values, [Some(&b"{a}c"[..]), None, Some(b"b"), Some(b"{a}c")]);
    }
    let locked = SlotGuards::lock(&store, &slots);
    assert!(locked.get(keys[0]).value().is_some() && store.pin().get(keys[0]).value().is_some());
    // One is changed twice: in order, as one.
    let changes = [
        (keys[0], Change::Remove(Leave::Nothing)),
        (keys[1], Change::Put(ValueKind::String, b"between", None)),
        (keys[1], Change::Remove(Leave::Nothing)),
        (keys[2], Change::Remove(Leave::Nothing)),
        (keys[2], Change::Put(ValueKind::String, b"after", Some(WallMs(1 << 50)))),
    ];
    locked.publish(&mut head, WallMs(0), changes.into_iter()).unwrap();
    drop(locked);
    assert_eq!(value(&store, b"{a}c").unwrap(), b"after");
    assert_eq!(store.at_one_moment(|| store.len()), 1);
    assert!(store.pin().get(keys[0]).value().is_none());
}

#[test]
fn what_had_expired_when_several_keys_were_written_is_counted_once() {
    const NOW: WallMs = WallMs(1_000);
    let names: [&[u8]; 6] = [b"replaced", b"removed", b"hidden", b"lives", b"endless", b"new"];
    let keys = names.map(HashedKey::new);
    let deadlines = [Some(WallMs(999)), Some(WallMs(999)), Some(WallMs(999)), Some(NOW), None];
    let store = store();
    let mut head = store.log_head();
    for (key, deadline) in keys.into_iter().zip(deadlines) {
        store.lock_slot(key.slot()).put(&mut head, key, &[b"v"], deadline).unwrap();
    }
    let changes = [
        Change::Put(ValueKind::String, b"w", None),
        Change::Remove(Leave::Nothing),
        Change::Remove(Leave::Tombstone),
        Change::Put(ValueKind::String, b"w", None),
        Change::Put(ValueKind::String, b"w", None),
        Change::Put(ValueKind::String, b"w", None),
    ];
    let mut publish = || {
        let changes = keys.into_iter().zip(changes);
        let twice = changes.clone().chain(changes);
        SlotGuards::lock(&store, &slots_of(&keys)).publish(&mut head, NOW, twice).unwrap()
    };
    assert_eq!(publish(), 3, "each of these three keys");
    assert_eq!(publish(), 0, "nothing has a deadline any more");
}

/// A table that shrinks under a walk may have returned entries in the present bucket: they are not returned
/// again.
#[test]
fn a_walk_over_a_table_that_shrinks_gives_every_lasting_key_once_and_in_order() {
    for shrinks_after in [1, 300, 700, 1990] {
        let store = store();
        let mut head = store.log_head();
        let name = |i: usize| format!("{{tag}}{i}");
        for i in 0..2000 {
            let name = name(i);
            let key = HashedKey::new(name.as_bytes());
            store.lock_slot(key.slot()).put(&mut head, key, &[b"v"], None).unwrap();
        }
        let mut visited: Vec<(Position, Vec<u8>)> = Vec::new();
        let rest = store.visit(Position::FIRST, Position::LAST, usize::MAX, &mut |record| {
            visited.push((record.position(), record.key().to_vec()));
            if visited.len() == shrinks_after {
                for i in (0..2000).filter(|i| i % 50 != 0) {
                    let name = name(i);
                    let key = HashedKey::new(name.as_bytes());
                    assert!(store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap());
                }
            }
        });
        assert_eq!(rest, None);
        assert!(visited.is_sorted_by(|a, b| a.0 < b.0), "in order, each once");
        let lasting = (0..2000).step_by(50).map(|i| name(i).into_bytes());
        assert!(lasting.into_iter().all(|key| visited.iter().any(|(_, visited)| *visited == key)));
        // Its own table is removed, and those between.
        while store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
        assert!(store.memory().index < 64 * 40, "{:?}", store.memory());
        assert_eq!(store.check_accounting(), Ok(()));
    }
}
