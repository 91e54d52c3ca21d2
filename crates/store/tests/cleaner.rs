//! Memory: the cleaner keeps up, the limit holds, and a full store still deletes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests have clocks and may fail")]

use sidle_store::{Change, CleanOutcome, Entry, Leave, LogHead, OutOfMemory, SlotGuards, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::{HashedKey, Position, PositionRange, Slot, ValueKind, Version, WallMs};
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;

fn store(memory_bytes: u64, segment_bytes: u32) -> Store {
    Store::new(StoreConfig { memory_bytes, segment_bytes, huge_pages: false, ..StoreConfig::default() })
        .unwrap()
}

fn put(store: &Store, head: &mut LogHead, key: &str, value: &[u8]) -> Result<(), OutOfMemory> {
    let key = HashedKey::new(key.as_bytes());
    store.lock_slot(key.slot()).put(head, key, &[value], None).map(|_| ())
}

fn remove(store: &Store, head: &mut LogHead, key: &str, leave: Leave) -> Result<bool, OutOfMemory> {
    let key = HashedKey::new(key.as_bytes());
    store.lock_slot(key.slot()).remove(head, key, leave)
}

fn has(store: &Store, key: &str) -> bool {
    matches!(store.pin().get(HashedKey::new(key.as_bytes())), Entry::Value(_))
}

fn version_of(store: &Store, key: &str) -> Version {
    store.pin().get(HashedKey::new(key.as_bytes())).value().unwrap().version()
}

fn clean_up(store: &Store) {
    let mut cleaner = store.cleaner();
    while cleaner.step(1 << 20) != CleanOutcome::Idle {}
}

/// Fills to the percentage of the limit with records of 136 bytes; returns how many.
fn fill_to(store: &Store, head: &mut LogHead, percent: u64) -> u64 {
    let mut count = 0;
    while store.memory().log_live + store.memory().index < store.memory().limit * percent / 100 {
        for _ in 0..500 {
            put(store, head, &format!("{count:016}"), &[count as u8; 100]).unwrap();
            count += 1;
        }
    }
    count
}

/// Overwrites at random, `times` the number of keys; every write must succeed.
fn overwrite(store: &Store, head: &mut LogHead, keys: u64, times: u64, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..keys * times {
        let key = random.below(keys);
        put(store, head, &format!("{key:016}"), &[key as u8; 100]).unwrap();
    }
}

#[test]
fn uniform_overwrites_at_85_percent_go_on_for_ever_with_a_cleaner_thread() {
    let store = store(64 * MIB, 256 << 10);
    let mut head = store.log_head();
    let keys = fill_to(&store, &mut head, 85);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cleaner = store.cleaner();
            while !stop.load(Ordering::Relaxed) {
                if cleaner.step(64 << 10) != CleanOutcome::Progress {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            }
        });
        overwrite(&store, &mut head, keys, 4, 1);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.len(), keys);
    let memory = store.memory();
    assert!(memory.log_used + memory.index <= memory.limit, "{memory:?}");
}

#[test]
fn uniform_overwrites_at_85_percent_go_on_for_ever_with_writers_helping() {
    let store = store(32 * MIB, 64 << 10);
    let mut head = store.log_head();
    let keys = fill_to(&store, &mut head, 85);
    overwrite(&store, &mut head, keys, 4, 2);
    assert_eq!(store.len(), keys);
}

#[test]
fn a_full_store_refuses_values_and_still_reads_deletes_and_recovers() {
    for leave in [Leave::Nothing, Leave::Tombstone] {
        let store = store(4 * MIB, 64 << 10);
        let mut head = store.log_head();
        let mut count = 0u64;
        while put(&store, &mut head, &format!("{count:016}"), &[1; 100]).is_ok() {
            count += 1;
        }
        assert!(count > 15_000, "{count}");
        assert_eq!(store.len(), count);
        assert!(!has(&store, &format!("{count:016}")));
        let before = store.memory();
        assert_eq!(put(&store, &mut head, "0000000000000000", &[2; 100]), Err(OutOfMemory));
        assert_eq!(store.memory().log_live, before.log_live);
        assert!(has(&store, "0000000000000000"));
        for i in 0..count / 2 {
            assert_eq!(
                remove(&store, &mut head, &format!("{i:016}"), leave),
                Ok(true),
                "{leave:?} {i} of {count}"
            );
        }
        clean_up(&store);
        for i in 0..count / 4 {
            put(&store, &mut head, &format!("{i:016}"), &[3; 100]).unwrap();
        }
        assert_eq!(store.len(), count - count / 2 + count / 4);
    }
}

/// Deletions that alternate with writes: a full node that could not delete would never have room again.
#[test]
fn a_store_that_is_kept_full_deletes() {
    let store = store(2 * MIB, 64 << 10);
    let mut heads = [store.log_head(), store.log_head()];
    let mut count = 0u64;
    let fill = |head: &mut LogHead, count: &mut u64| {
        for bytes in [10_000, 1] {
            while put(&store, head, &format!("{count:016}"), &vec![1; bytes]).is_ok() {
                *count += 1;
            }
        }
    };
    heads.iter_mut().for_each(|head| fill(head, &mut count));
    for i in 0..100u64 {
        let head = &mut heads[i as usize % 2];
        let removed = remove(&store, head, &format!("{i:016}"), Leave::Tombstone);
        assert_eq!(removed, Ok(true), "{i} of {count}");
        fill(head, &mut count);
    }
}

/// Values that leave some room at the end of each segment: copying them to other segments gains nothing.
#[test]
fn a_store_full_of_live_values_is_not_cleaned_in_vain() {
    let store = store(8 * MIB, 64 << 10);
    let mut head = store.log_head();
    let value = [7; 14_000];
    let count = (0..).take_while(|n| put(&store, &mut head, &format!("{n:04}"), &value).is_ok()).count();
    assert!(count > 450, "{count}: four fit into a segment");
    let mut cleaner = store.cleaner();
    // A pass over everything would be 128 steps.
    let steps = (0..128).take_while(|_| cleaner.step(64 << 10) != CleanOutcome::Idle).count();
    assert!(steps < 16, "{steps} steps for nothing");
}

/// Short-lived heads leave segments with much room: that room is used.
#[test]
fn segments_that_were_cut_short_are_cleaned() {
    let store = store(8 * MIB, 64 << 10);
    let value = [7; 14_000];
    for n in 0..100 {
        put(&store, &mut store.log_head(), &format!("{n:04}"), &value).unwrap();
    }
    let mut head = store.log_head();
    let count = (100..).take_while(|n| put(&store, &mut head, &format!("{n:04}"), &value).is_ok()).count();
    assert!(count > 350, "{count}");
}

/// Dead records are spread so thinly that no segment is worth cleaning at first: the values' own records
/// serve as tombstones.
#[test]
fn a_full_store_deletes_in_any_order() {
    let store = store(32 * MIB, 64 << 10);
    let mut head = store.log_head();
    let mut count = 0u64;
    while put(&store, &mut head, &format!("{count:016}"), &[1; 100]).is_ok() {
        count += 1;
    }
    // 7919 is a prime: every key comes once, and neighbours are far apart.
    for i in 0..count {
        let key = i * 7919 % count;
        let removed = remove(&store, &mut head, &format!("{key:016}"), Leave::Tombstone);
        assert_eq!(removed, Ok(true), "{i} of {count}");
    }
    assert_eq!(store.tombstones_in(PositionRange::ALL), count);
}

/// Without writers and cleaner every value's own record becomes its tombstone. The cleaner then keeps only a
/// tombstone's bytes, and so there is room for values again.
#[test]
fn values_are_struck_out_where_there_is_no_room_for_tombstones() {
    let store = store(4 * MIB, 64 << 10);
    let mut head = store.log_head();
    let name = |i: u64| format!("{i:016}");
    let count = (0..).take_while(|&i| put(&store, &mut head, &name(i), &[1; 100]).is_ok()).count() as u64;
    let (version, before) = (version_of(&store, &name(0)), store.memory());
    let mut removing = store.log_head();
    for i in 0..count {
        // Locked while pinned, the store does not clean first.
        let _pinned = store.pin();
        assert_eq!(remove(&store, &mut removing, &name(i), Leave::Tombstone), Ok(true), "{i} of {count}");
    }
    assert_eq!(store.memory(), before);
    assert_eq!((store.len(), store.tombstones_in(PositionRange::ALL)), (0, count));
    assert_eq!(store.check_accounting(), Ok(()));
    let is_removed = |i| matches!(store.pin().get(HashedKey::new(name(i).as_bytes())), Entry::Tombstone(_));
    assert!((0..count).all(is_removed));
    clean_up(&store);
    // 40 bytes of the 136.
    assert!(store.memory().log_live < before.log_live, "{:?}", store.memory());
    assert!((0..count).all(is_removed));
    for i in 0..count / 2 {
        put(&store, &mut head, &name(i), &[2; 100]).unwrap();
    }
    assert!(version_of(&store, &name(0)) > version);
    assert_eq!((store.len(), store.tombstones_in(PositionRange::ALL)), (count / 2, count - count / 2));
    assert_eq!(store.check_accounting(), Ok(()));
}

/// Counts of values and deadlines exclude struck-out values, and a large value's segments are freed.
#[test]
fn a_large_value_that_was_struck_out_is_cleaned() {
    let store = store(4 * MIB, 64 << 10);
    let mut head = store.log_head();
    let key = HashedKey::new(b"large");
    let deadline = Some(sidle_types::WallMs(1));
    store.lock_slot(key.slot()).put(&mut head, key, &[&[7; 1 << 20]], deadline).unwrap();
    let small = (0..).take_while(|i| put(&store, &mut head, &format!("{i:016}"), &[1; 100]).is_ok()).count();
    assert!(small > 10_000, "{small}");
    let used = store.memory().log_used;
    assert_eq!(remove(&store, &mut store.log_head(), "large", Leave::Tombstone), Ok(true));
    assert_eq!(store.memory().log_used, used);
    assert_eq!((store.expiring_len(), store.tombstones_in(PositionRange::ALL)), (0, 1));
    assert_eq!(store.check_accounting(), Ok(()));
    put(&store, &mut head, "another", &[1; 100]).unwrap();
    assert!(store.memory().log_used < used - MIB / 2, "{:?}", store.memory());
    assert_eq!(store.tombstones_in(PositionRange::ALL), 1);
    assert_eq!(store.check_accounting(), Ok(()));
}

/// It was written again, or its tombstone swept, before the cleaner visited it.
#[test]
fn a_large_value_that_was_struck_out_may_be_gone_before_it_is_cleaned() {
    for is_swept in [false, true] {
        let store = store(4 * MIB, 64 << 10);
        let mut head = store.log_head();
        put(&store, &mut head, "large", &[7; 1 << 20]).unwrap();
        put(&store, &mut head, "opens a segment", b"with room").unwrap();
        let small = |i: &u64| put(&store, &mut store.log_head(), &format!("{i:016}"), &[1; 20_000]).is_ok();
        let small = (0..).take_while(small).count();
        assert!(small > 40, "{small}");
        assert_eq!(remove(&store, &mut store.log_head(), "large", Leave::Tombstone), Ok(true));
        {
            let _pinned = store.pin();
            match is_swept {
                true => drop(store.sweep_tombstones(Position::FIRST, Position::LAST, usize::MAX)),
                false => put(&store, &mut head, "large", b"small").unwrap(),
            }
        }
        clean_up(&store);
        assert_eq!((has(&store, "large"), store.tombstones_in(PositionRange::ALL)), (!is_swept, 0));
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

#[test]
fn removing_what_is_removed_takes_no_memory() {
    let store = store(4 * MIB, 64 << 10);
    let mut head = store.log_head();
    put(&store, &mut head, "key", b"value").unwrap();
    assert_eq!(remove(&store, &mut head, "key", Leave::Tombstone), Ok(true));
    let before = store.memory();
    for _ in 0..200_000 {
        assert_eq!(remove(&store, &mut head, "key", Leave::Tombstone), Ok(false));
    }
    assert_eq!(store.memory(), before);
}

/// Questions about absent keys must not fill a node: marks of absence make way for values.
#[test]
fn marks_of_absence_make_way_for_values() {
    let store = store(8 * MIB, 64 << 10);
    let mut head = store.log_head();
    let mut marks = 0u64;
    let mut mark = |head: &mut LogHead| {
        let name = format!("nobody {marks:057}");
        let key = HashedKey::new(name.as_bytes());
        marks += 1;
        store.lock_slot(key.slot()).mark_absent(head, key).map(|()| name)
    };
    for i in 0..20_000u64 {
        put(&store, &mut head, &format!("{i:016}"), &[1; 100]).unwrap();
        for _ in 0..8 {
            let name = mark(&mut head).unwrap();
            assert!(matches!(store.pin().get(HashedKey::new(name.as_bytes())), Entry::Tombstone(Version(0))));
        }
    }
    assert_eq!(store.len(), 20_000);
    assert_eq!(store.check_accounting(), Ok(()));
    // A mark changes nothing for a key with an entry, and a value replaces a mark.
    let key = HashedKey::new(b"0000000000000000");
    store.lock_slot(key.slot()).mark_absent(&mut head, key).unwrap();
    assert!(has(&store, "0000000000000000"));
    let name = mark(&mut head).unwrap();
    put(&store, &mut head, &name, b"value").unwrap();
    assert!(has(&store, &name));
    assert_eq!(store.check_accounting(), Ok(()));
}

/// Marks are optional: a store that is full of them deletes like any other.
#[test]
fn marks_of_absence_are_in_no_deletions_way() {
    let store = store(4 * MIB, 64 << 10);
    let mut head = store.log_head();
    let mut count = 0u64;
    while put(&store, &mut head, &format!("{count:016}"), &[1; 100]).is_ok() {
        count += 1;
    }
    for i in 0..100_000u64 {
        let name = format!("nobody {i}");
        let key = HashedKey::new(name.as_bytes());
        let _ = store.lock_slot(key.slot()).mark_absent(&mut head, key);
    }
    for i in 0..count {
        assert_eq!(
            remove(&store, &mut head, &format!("{i:016}"), Leave::Tombstone),
            Ok(true),
            "{i} of {count}"
        );
    }
}

#[test]
fn large_values_take_segments_of_their_own_and_give_them_back() {
    let store = store(64 * MIB, 256 << 10);
    let mut head = store.log_head();
    for round in 0..50u8 {
        // Of different sizes, so that the free runs differ as well.
        for i in 0..5u8 {
            let bytes = (1 + usize::from(i) + usize::from(round % 5)) << 20;
            put(&store, &mut head, &format!("large {i}"), &vec![round; bytes]).unwrap();
        }
        for i in 0..5u8 {
            if (i + round) % 3 == 0 {
                assert!(remove(&store, &mut head, &format!("large {i}"), Leave::Nothing).unwrap());
            }
        }
    }
    assert_eq!(put(&store, &mut head, "too large", &vec![0; 64 << 20]), Err(OutOfMemory));
    store.discard(Position::FIRST, Position::LAST, usize::MAX);
    clean_up(&store);
    assert!(store.memory().log_used <= MIB, "{:?}", store.memory());
    put(&store, &mut head, "most of it", &vec![0; 48 << 20]).unwrap();
    assert!(has(&store, "most of it"));
}

#[test]
fn small_and_large_values_share_the_limit() {
    let store = store(16 * MIB, 64 << 10);
    let mut head = store.log_head();
    let mut count = 0u64;
    while put(&store, &mut head, &format!("{count:016}"), &[1; 100]).is_ok() {
        count += 1;
    }
    assert_eq!(put(&store, &mut head, "large", &vec![0; 1 << 20]), Err(OutOfMemory));
    for i in 0..count / 2 {
        remove(&store, &mut head, &format!("{i:016}"), Leave::Nothing).unwrap();
    }
    let mut made = 0;
    for i in 0..12 {
        // A large value needs many segments at once: cleaning has to run ahead of it.
        assert!(store.make_room(512 << 10) || i > 8);
        made += usize::from(put(&store, &mut head, &format!("large {i}"), &vec![0; 512 << 10]).is_ok());
    }
    assert!(made >= 8, "{made}");
    assert!(store.memory().log_used + store.memory().index <= store.memory().limit);
}

#[test]
fn discard_gives_the_memory_of_a_range_back() {
    let store = store(32 * MIB, 64 << 10);
    let mut head = store.log_head();
    let keys = fill_to(&store, &mut head, 80);
    let middle = Position::first_of(Slot::new(8192).unwrap());
    let mut from = Some(Position::FIRST);
    let mut slices = 0;
    while let Some(at) = from {
        from = store.discard(at, middle.previous().unwrap(), 500);
        slices += 1;
    }
    assert!(slices > 100);
    let left = store.len();
    assert!(left.abs_diff(keys / 2) < keys / 20, "{left} of {keys}");
    for i in 0..keys / 3 {
        put(&store, &mut head, &format!("new {i:012}"), &[9; 100]).unwrap();
    }
    assert_eq!(store.len(), left + keys / 3);
}

/// Locks the slots of these keys, and writes all of them at once.
fn put_all(store: &Store, head: &mut LogHead, pairs: &[(String, Vec<u8>)]) -> Result<(), OutOfMemory> {
    let mut slots: Vec<Slot> = pairs.iter().map(|(key, _)| Slot::of_key(key.as_bytes())).collect();
    slots.sort_unstable();
    slots.dedup();
    let changes = pairs.iter().map(|(key, value)| {
        (HashedKey::new(key.as_bytes()), Change::Put(ValueKind::String, value.as_slice(), None))
    });
    SlotGuards::lock(store, &slots).publish(head, WallMs(0), changes).map(drop)
}

/// Wherever memory ends: in an open segment, at the next one, at a large value, between small ones.
#[test]
fn several_values_are_put_all_or_none() {
    for sizes in [vec![100; 3000], vec![100, 1 << 20, 100], vec![10_000; 100], vec![1 << 20, 1 << 20, 7]] {
        let store = store(4 * MIB, 64 << 10);
        let mut head = store.log_head();
        let pairs: Vec<(String, Vec<u8>)> =
            sizes.iter().enumerate().map(|(i, &bytes)| (format!("together {i}"), vec![2; bytes])).collect();
        put_all(&store, &mut head, &pairs).unwrap();
        assert!(pairs.iter().all(|(key, _)| has(&store, key)));
        assert_eq!(store.check_accounting(), Ok(()));
        for (key, _) in &pairs {
            assert_eq!(remove(&store, &mut head, key, Leave::Nothing), Ok(true));
        }
        clean_up(&store);
        // From nearly enough room to none.
        let mut refused = 0;
        for count in 0.. {
            let before = store.memory();
            match put_all(&store, &mut head, &pairs) {
                Ok(()) => {
                    for (key, _) in &pairs {
                        assert_eq!(remove(&store, &mut head, key, Leave::Nothing), Ok(true));
                    }
                }
                Err(OutOfMemory) => {
                    assert_eq!(store.memory().log_live, before.log_live);
                    assert!(store.memory().log_used <= before.log_used);
                    assert!(!pairs.iter().any(|(key, _)| has(&store, key)), "{count}");
                    refused += 1;
                }
            }
            if put(&store, &mut head, &format!("{count:016}"), &[1; 10_000]).is_err() {
                break;
            }
        }
        assert!(refused > 10, "{refused}");
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

/// New keys take memory of the index as well, and must leave the cleaner's.
#[test]
fn many_new_keys_at_once_leave_the_cleaner_its_reserve() {
    let pairs: Vec<(String, Vec<u8>)> = (0..8_000).map(|i| (format!("together {i}"), Vec::new())).collect();
    let (mut put, mut refused) = (0, 0);
    for segments in 30..60 {
        let store = store(4 * MIB, 64 << 10);
        let mut head = store.log_head();
        let value = vec![0; (segments << 16) - 100];
        if self::put(&store, &mut head, "large", &value).is_err() {
            break;
        }
        match put_all(&store, &mut head, &pairs) {
            Ok(()) => put += 1,
            Err(OutOfMemory) => refused += 1,
        }
        let memory = store.memory();
        assert!(memory.log_used + memory.index + (2 << 16) <= memory.limit, "{segments}: {memory:?}");
    }
    assert!(put > 5 && refused > 5, "{put} {refused}");
}

/// The index takes the cleaner's reserve: then only existing keys may be written.
#[test]
fn new_keys_are_refused_together_as_they_are_alone() {
    let store = store(4 * MIB, 64 << 10);
    let (mut head, mut filling) = (store.log_head(), store.log_head());
    put(&store, &mut head, "first", b"").unwrap();
    let filled = |i: &u64| put(&store, &mut filling, &format!("{i:016}"), &[1; 100]).is_ok();
    assert!((0..).take_while(filled).count() > 1000);
    let small = (0..).take_while(|i| put(&store, &mut head, &format!("small {i}"), b"").is_ok()).count();
    assert!((1..1500).contains(&small), "{small}: there is room for 2000 in the segment");
    let pairs = |names: &[&str]| -> Vec<(String, Vec<u8>)> {
        names.iter().map(|&name| (name.to_owned(), b"together".to_vec())).collect()
    };
    assert_eq!(put_all(&store, &mut head, &pairs(&["first", "new"])), Err(OutOfMemory));
    assert!(!has(&store, "new"));
    assert_eq!(put_all(&store, &mut head, &pairs(&["first", "small 0"])), Ok(()));
}

#[test]
fn what_is_removed_from_a_full_store_makes_room_for_the_next_write_at_once() {
    let store = store(16 * MIB, 64 << 10);
    let mut head = store.log_head();
    let mut count = 0u64;
    while put(&store, &mut head, &format!("{count:016}"), &[1; 100]).is_ok() {
        count += 1;
    }
    // Helpers have found nothing worth cleaning.
    (0..200).for_each(|_| assert!(put(&store, &mut head, "more", &[1; 100]).is_err()));
    for key in (0..count).step_by(2) {
        assert!(remove(&store, &mut head, &format!("{key:016}"), Leave::Nothing).unwrap());
    }
    let refused = (0..count / 4).find(|key| put(&store, &mut head, &format!("new{key}"), &[1; 100]).is_err());
    assert_eq!(refused, None, "half of {count} records are gone");
}
