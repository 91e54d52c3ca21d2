//! Changes of several keys beside readers, other writers and the cleaner: no reader sees half of one.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests have clocks and may fail")]

use sidle_store::{Change, CleanOutcome, Leave, LogHead, SlotGuards, Store, StoreConfig};
use sidle_types::{HashedKey, Slot, ValueKind, WallMs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(2);
const KEYS: usize = 8;

fn store() -> Store {
    let config = StoreConfig {
        memory_bytes: 4 << 20,
        segment_bytes: 64 << 10,
        huge_pages: false,
        ..StoreConfig::default()
    };
    Store::new(config).unwrap()
}

/// Keys of four slots.
fn names() -> Vec<String> {
    (0..KEYS).map(|number| format!("{{{}}}{number}", number % 4)).collect()
}

fn hashed(names: &[String]) -> Vec<HashedKey<'_>> {
    names.iter().map(|name| HashedKey::new(name.as_bytes())).collect()
}

fn slots_of(keys: &[HashedKey<'_>]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot()).collect();
    slots.sort();
    slots.dedup();
    slots
}

/// A value of several kilobytes, so that one change sometimes fills more than a segment.
fn value_of(stamp: u64, number: usize) -> Vec<u8> {
    let mut value = stamp.to_le_bytes().to_vec();
    value.resize(8 + 3_000 * (number % 5), stamp as u8);
    value
}

fn stamp_of(value: &[u8]) -> u64 {
    assert!(value[8..].iter().all(|&byte| byte == value[0]), "a value whose memory was reused");
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Runs `write` and the cleaner beside `read` for a while.
fn beside(store: &Store, mut write: impl FnMut(&mut LogHead) + Send, mut read: impl FnMut()) {
    let stop = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut head = store.log_head();
            while goes_on() {
                write(&mut head);
            }
        });
        scope.spawn(|| {
            let mut cleaner = store.cleaner();
            while goes_on() {
                if cleaner.step(64 << 10) != CleanOutcome::Progress {
                    std::thread::yield_now();
                }
            }
        });
        let until = Instant::now() + FOR;
        while Instant::now() < until {
            read();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn values_that_are_set_together_are_read_together_while_the_log_is_cleaned() {
    let (store, names) = (store(), names());
    let keys = hashed(&names);
    let slots = slots_of(&keys);
    let put = |head: &mut LogHead, stamp: u64| {
        let values: Vec<Vec<u8>> = (0..KEYS).map(|number| value_of(stamp, number)).collect();
        let changes =
            keys.iter().copied().zip(values.iter().map(|value| Change::Put(ValueKind::String, value, None)));
        // A delayed reader keeps memory from being freed.
        while SlotGuards::lock(&store, &slots).publish(head, WallMs(0), changes.clone()).is_err() {
            std::thread::yield_now();
        }
    };
    put(&mut store.log_head(), 1);
    let mut stamp = 1;
    let mut reads = 0usize;
    let write = |head: &mut LogHead| {
        stamp += 1;
        put(head, stamp);
    };
    beside(&store, write, || {
        let guard = store.pin();
        let found = guard.get_together(&keys);
        let stamps: Vec<u64> =
            found.into_iter().map(|entry| stamp_of(entry.value().unwrap().value())).collect();
        assert!(stamps.iter().all(|stamp| *stamp == stamps[0]), "torn: {stamps:?}");
        let mut seen = stamps[0];
        for step in 0..KEYS {
            let entry = guard.get(keys[(reads + 3 * step) % KEYS]);
            let stamp = stamp_of(entry.value().unwrap().value());
            assert!(stamp >= seen, "after {seen} was seen a key still had {stamp}");
            seen = stamp;
        }
        reads += 1;
    });
    assert!(stamp > 100 && reads > 100, "{stamp} changes, {reads} reads");
}

#[test]
fn a_count_is_of_one_moment() {
    let (store, names) = (store(), names());
    let keys = hashed(&names);
    let slots = slots_of(&keys);
    let write = |head: &mut LogHead| {
        for change in [Change::Put(ValueKind::String, b"v", None), Change::Remove(Leave::Nothing)] {
            let changes = keys.iter().map(|&key| (key, change));
            SlotGuards::lock(&store, &slots).publish(head, WallMs(0), changes).unwrap();
        }
        // One at a time: there is always at least one of the two, and never more than both.
        let put = |head: &mut LogHead, key: HashedKey<'_>| {
            store.lock_slot(key.slot()).put(head, key, &[b"v"], None).unwrap();
        };
        let remove = |head: &mut LogHead, key: HashedKey<'_>| {
            assert!(store.lock_slot(key.slot()).remove(head, key, Leave::Nothing).unwrap());
        };
        put(head, keys[0]);
        for _ in 0..20 {
            put(head, keys[1]);
            remove(head, keys[0]);
            put(head, keys[0]);
            remove(head, keys[1]);
        }
        remove(head, keys[0]);
    };
    let mut counts = 0;
    beside(&store, write, || {
        let count = store.at_one_moment(|| store.len());
        assert!(count <= 2 || count == KEYS as u64, "{count}");
        counts += 1;
    });
    assert!(counts > 100, "{counts} counts");
}

/// A walk during which a key is put before another one is removed never finds neither.
#[test]
fn a_count_never_misses_what_changes_its_slot() {
    let (store, names) = (store(), names());
    let keys = hashed(&names);
    let put = |head: &mut LogHead, key: HashedKey<'_>| {
        store.lock_slot(key.slot()).put(head, key, &[b"v"], None).unwrap();
    };
    put(&mut store.log_head(), keys[0]);
    let mut at = 0;
    let write = |head: &mut LogHead| {
        let (here, next) = (keys[at % KEYS], keys[(at + 1) % KEYS]);
        at += 1;
        put(head, next);
        assert!(store.lock_slot(here.slot()).remove(head, here, Leave::Nothing).unwrap());
    };
    beside(&store, write, || {
        let count = store.at_one_moment(|| store.len());
        assert!((1..=2).contains(&count), "{count}");
    });
}
