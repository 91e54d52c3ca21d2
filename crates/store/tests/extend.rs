//! Growing values: time and memory are proportional to what is added, and every reader sees a whole value.

#![expect(clippy::unwrap_used, reason = "tests may fail")]

use sidle_store::{CleanOutcome, Entry, Leave, LogHead, OutOfMemory, RecordBatch, Store, StoreConfig};
use sidle_types::{HashedKey, Position, PositionRange, Version, WallMs};
use std::sync::atomic::{AtomicBool, Ordering};

const LIMIT: u64 = 16 << 20;

fn store() -> (Store, LogHead) {
    let store = Store::new(StoreConfig { huge_pages: false, ..StoreConfig::with_memory(LIMIT) }).unwrap();
    let head = store.log_head();
    (store, head)
}

/// A growing value's byte at this place.
fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

fn stretch(from: usize, to: usize) -> Vec<u8> {
    (from..to).map(byte).collect()
}

fn put(store: &Store, head: &mut LogHead, key: &[u8], value: &[u8], deadline: Option<WallMs>) {
    let key = HashedKey::new(key);
    store.lock_slot(key.slot()).put(head, key, &[value], deadline).unwrap();
}

fn extend(store: &Store, head: &mut LogHead, key: &[u8], added: &[u8]) -> Result<Version, OutOfMemory> {
    let key = HashedKey::new(key);
    let (left, right) = added.split_at(added.len() / 2);
    store.lock_slot(key.slot()).extend(head, key, &[left, right])
}

fn remove(store: &Store, head: &mut LogHead, key: &[u8], leave: Leave) {
    let key = HashedKey::new(key);
    assert_eq!(store.lock_slot(key.slot()).remove(head, key, leave), Ok(true));
}

fn grown(store: &Store, head: &mut LogHead, key: &[u8], bytes: usize) {
    put(store, head, key, &stretch(0, 100), None);
    for from in (100..bytes).step_by(5_000) {
        extend(store, head, key, &stretch(from, bytes.min(from + 5_000))).unwrap();
    }
}

fn value_of(store: &Store, key: &[u8]) -> Vec<u8> {
    store.pin().get(HashedKey::new(key)).value().unwrap().value().to_vec()
}

fn clean_up(store: &Store) {
    let mut cleaner = store.cleaner();
    while cleaner.step(1 << 20) != CleanOutcome::Idle {}
}

#[test]
fn a_value_that_grows_is_copied_a_few_times_only() {
    let (store, mut head) = store();
    put(&store, &mut head, b"log", b"", Some(WallMs(77)));
    let (mut version, mut places) = (Version(0), Vec::new());
    for step in 0..20_000 {
        let next = extend(&store, &mut head, b"log", &stretch(step * 100, step * 100 + 100)).unwrap();
        assert!(next > version);
        version = next;
        let guard = store.pin();
        let record = guard.get(HashedKey::new(b"log")).value().unwrap();
        assert_eq!((record.version(), record.value().len()), (version, step * 100 + 100));
        assert_eq!(record.expires_at(), Some(WallMs(77)));
        if record.value().len() > 32 << 10 {
            places.push(record.value().as_ptr() as usize);
        }
    }
    places.dedup();
    assert!(places.len() < 8, "{} places", places.len());
    assert_eq!(value_of(&store, b"log"), stretch(0, 2_000_000));
    clean_up(&store);
    // It takes its pages, not room for as much again.
    assert!(store.memory().log_used < 2_000_000 + (1 << 20), "{:?}", store.memory());
    assert_eq!(store.check_accounting(), Ok(()));
}

/// However they are removed, and while others are cleaned around them.
#[test]
fn the_memory_of_values_that_grew_comes_back() {
    let (store, mut head) = store();
    let keys: Vec<Vec<u8>> = (0..40).map(|i| format!("key {i}").into_bytes()).collect();
    for round in 0..6 {
        for (i, key) in keys.iter().enumerate() {
            grown(&store, &mut head, key, 40_000 + i * 5_000);
        }
        assert_eq!(store.check_accounting(), Ok(()));
        for (i, key) in keys.iter().enumerate() {
            match (i + round) % 4 {
                0 => remove(&store, &mut head, key, Leave::Nothing),
                1 => remove(&store, &mut head, key, Leave::Tombstone),
                2 => put(&store, &mut head, key, &[1; 100_000], None),
                _ => assert_eq!(value_of(&store, key), stretch(0, 40_000 + i * 5_000)),
            }
        }
    }
    store.discard(Position::FIRST, Position::LAST, usize::MAX);
    clean_up(&store);
    drop(head);
    assert!(store.memory().log_used <= 1 << 20, "{:?}", store.memory());
    assert_eq!(store.check_accounting(), Ok(()));
}

#[test]
fn a_store_without_room_leaves_the_value_as_it_was_and_strikes_it_out() {
    let (store, mut head) = store();
    grown(&store, &mut head, b"one", 100_000);
    let mut bytes = 100_000;
    while extend(&store, &mut head, b"one", &stretch(bytes, bytes + 3_000)).is_ok() {
        bytes += 3_000;
    }
    assert!(bytes as u64 > LIMIT / 10 * 9 / 3 * 2, "{bytes}: it may have to be copied");
    assert_eq!(value_of(&store, b"one"), stretch(0, bytes));
    while {
        let name = store.len().to_string();
        let key = HashedKey::new(name.as_bytes());
        store.lock_slot(key.slot()).put(&mut head, key, &[&[1; 3_000]], None).is_ok()
    } {}
    assert_eq!(extend(&store, &mut store.log_head(), b"one", &[1; 100_000]), Err(OutOfMemory));
    assert_eq!(value_of(&store, b"one"), stretch(0, bytes));
    let used = store.memory().log_used;
    remove(&store, &mut store.log_head(), b"one", Leave::Tombstone);
    assert!(matches!(store.pin().get(HashedKey::new(b"one")), Entry::Tombstone(_)));
    assert_eq!(store.check_accounting(), Ok(()));
    clean_up(&store);
    assert!(store.memory().log_used < used - bytes as u64 / 2, "{:?}", store.memory());
    assert_eq!(store.check_accounting(), Ok(()));
}

#[test]
fn a_value_that_grew_is_moved_like_any_other() {
    let ((source, mut head), (target, mut other)) = (store(), store());
    grown(&source, &mut head, b"moved", 300_000);
    let mut batch = Vec::new();
    source.scan(Position::FIRST, Position::LAST, usize::MAX, &mut batch);
    assert!(batch.len() as u64 <= source.bytes_in(PositionRange::ALL), "as much as was announced, or less");
    let parsed = RecordBatch::parse(&batch).expect("its checksum is right");
    target.replay(&mut other, &parsed, PositionRange::ALL).unwrap();
    assert_eq!(value_of(&target, b"moved"), stretch(0, 300_000));
    extend(&target, &mut other, b"moved", &stretch(300_000, 300_001)).unwrap();
    assert_eq!(value_of(&target, b"moved"), stretch(0, 300_001));
    assert_eq!(target.check_accounting(), Ok(()));
}

/// Nine tenths of the limit again, minus half a page for each value.
#[test]
fn values_that_grew_fill_the_limit() {
    let (store, mut head) = store();
    let mut keys = 0;
    'fill: loop {
        let key = format!("{keys}").into_bytes();
        put(&store, &mut head, &key, b"", None);
        for from in (0..60_000).step_by(10_000) {
            if extend(&store, &mut head, &key, &stretch(from, from + 10_000)).is_err() {
                break 'fill;
            }
        }
        keys += 1;
    }
    let memory = store.memory();
    assert!((memory.log_live + memory.index) * 100 > LIMIT * 85, "{memory:?}");
    for i in 0..2_000usize {
        let key = format!("{}", i % (keys * 8 / 10)).into_bytes();
        put(&store, &mut head, &key, b"", None);
        grown(&store, &mut head, &key, 30_000 + i % 30_000);
    }
    assert_eq!(store.check_accounting(), Ok(()));
}

/// A reader without a lock sees some length and all of its bytes, never an older one than before. So does a
/// scan, by the checksums.
#[test]
fn readers_see_whole_values_while_they_grow_and_are_cleaned() {
    let (store, mut head) = store();
    let stop = AtomicBool::new(false);
    put(&store, &mut head, b"log", &stretch(0, 40_000), None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cleaner = store.cleaner();
            while !stop.load(Ordering::Relaxed) {
                cleaner.step(64 << 10);
            }
        });
        scope.spawn(|| {
            let mut last = Version(0);
            while !stop.load(Ordering::Relaxed) {
                let guard = store.pin();
                let record = guard.get(HashedKey::new(b"log")).value().unwrap();
                let value = record.value();
                assert!(record.version() >= last && (value.len() - 40_000).is_multiple_of(1_003));
                last = record.version();
                assert!((0..value.len()).rev().step_by(97).all(|at| value[at] == byte(at)));
            }
        });
        scope.spawn(|| {
            let mut batch = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                batch.clear();
                store.scan(Position::FIRST, Position::LAST, usize::MAX, &mut batch);
                RecordBatch::parse(&batch).expect("every checksum is right");
            }
        });
        for _ in 0..30 {
            put(&store, &mut head, b"log", &stretch(0, 40_000), None);
            for from in (40_000..400_000).step_by(1_003) {
                extend(&store, &mut head, b"log", &stretch(from, from + 1_003)).unwrap();
                put(&store, &mut head, format!("{}", from % 1_000).as_bytes(), &[1; 500], None);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.check_accounting(), Ok(()));
}

/// EXPIRE and PERSIST of a value of any length write a small record: the value needs no room again.
#[test]
fn a_deadline_changes_without_the_value_being_copied() {
    let (store, mut head) = store();
    let mut bytes = 100_000;
    grown(&store, &mut head, b"one", bytes);
    while (bytes as u64) < LIMIT / 10 * 6 {
        extend(&store, &mut head, b"one", &stretch(bytes, bytes + 100_000)).unwrap();
        bytes += 100_000;
    }
    let key = HashedKey::new(b"one");
    let place = || {
        let guard = store.pin();
        let record = guard.get(key).value().unwrap();
        (record.value().as_ptr() as usize, record.value().len(), record.version(), record.expires_at())
    };
    let (lies_at, _, mut version, _) = place();
    for round in 0..1_000 {
        for deadline in [Some(WallMs(1_000 + round)), None] {
            let next = store.lock_slot(key.slot()).set_deadline(&mut head, key, deadline).unwrap();
            assert!(next > version);
            version = next;
            assert_eq!(place(), (lies_at, bytes, version, deadline));
        }
    }
    store.lock_slot(key.slot()).set_deadline(&mut head, key, Some(WallMs(5))).unwrap();
    assert_eq!(store.check_accounting(), Ok(()));
    extend(&store, &mut head, b"one", &stretch(bytes, bytes + 10)).unwrap();
    assert_eq!(
        (place().0, place().3),
        (lies_at, Some(WallMs(5))),
        "it grows where it is, until the same time"
    );
    assert_eq!(value_of(&store, b"one"), stretch(0, bytes + 10));
    clean_up(&store);
    assert_eq!(store.check_accounting(), Ok(()));
    remove(&store, &mut head, b"one", Leave::Nothing);
    clean_up(&store);
    assert_eq!(store.check_accounting(), Ok(()));
    assert!(store.memory().log_used <= 1 << 20, "{:?}", store.memory());
}

/// A value inside its record is copied with it, as by any write.
#[test]
fn a_deadline_of_a_short_value_changes_too() {
    let (store, mut head) = store();
    put(&store, &mut head, b"short", b"value", None);
    let key = HashedKey::new(b"short");
    for deadline in [Some(WallMs(9)), Some(WallMs(7)), None] {
        store.lock_slot(key.slot()).set_deadline(&mut head, key, deadline).unwrap();
        let guard = store.pin();
        let record = guard.get(key).value().unwrap();
        assert_eq!((record.value(), record.expires_at()), (&b"value"[..], deadline));
    }
    assert_eq!(store.check_accounting(), Ok(()));
}
