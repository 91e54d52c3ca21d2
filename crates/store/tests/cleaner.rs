//! Memory: the cleaner keeps up, the limit holds, and a full store still deletes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests have clocks and may fail")]

use sidle_store::{CleanOutcome, Entry, Leave, LogHead, OutOfMemory, Store, StoreConfig};
use sidle_types::{HashedKey, Position, Slot};
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

fn clean_up(store: &Store) {
    let mut cleaner = store.cleaner();
    while cleaner.step(1 << 20) != CleanOutcome::Idle {}
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Fills to the share of the limit with records of 136 bytes; how many.
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
    let mut state = seed;
    for _ in 0..keys * times {
        let key = xorshift(&mut state) % keys;
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

/// Deletions that alternate with writes: had values filled up the segments that tombstones opened from their reserve, then
/// a node without room could not even delete, and would never have room again.
#[test]
fn values_leave_tombstones_their_reserve() {
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
    for i in 0..40u64 {
        let head = &mut heads[i as usize % 2];
        let removed = remove(&store, head, &format!("{i:016}"), Leave::Tombstone);
        assert_eq!(removed, Ok(true), "{i} of {count}");
        fill(head, &mut count);
    }
}

#[test]
fn large_values_take_segments_of_their_own_and_give_them_back() {
    let store = store(64 * MIB, 256 << 10);
    let mut head = store.log_head();
    for round in 0..50u8 {
        // Of differing sizes, so that the free runs are of differing sizes.
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
        // A large value needs many segments at once: cleaning has to get ahead of it.
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
