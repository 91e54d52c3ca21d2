//! How much of the limit is usable: for values of any size, after any history.
//!
//! The measure: live bytes (keys, values, and the 20 bytes and padding of each record) and the index (64
//! bytes for every bucket of up to seven keys). Together they are at least nine tenths of the limit when a
//! value is refused, or would be with that value: room too small for another value counts as used. The rest
//! is the cleaner's reserve, heads' open segments, the ends of segments and pages, and garbage too thinly
//! spread to copy.

#![expect(clippy::unwrap_used, reason = "tests may fail")]

use sidle_store::{CleanOutcome, Leave, LogHead, OutOfMemory, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::HashedKey;

const LIMIT: u64 = 64 << 20;
/// From a word to ten megabytes, and just over the sizes at which records are placed differently.
const SIZES: [usize; 16] = [
    10, 33, 100, 300, 1_000, 3_000, 10_000, 30_000, 60_000, 66_000, 140_000, 262_200, 400_000, 1_050_000,
    4_000_000, 10_000_000,
];

fn store(limit: u64) -> (Store, LogHead) {
    let store = Store::new(StoreConfig { huge_pages: false, ..StoreConfig::with_memory(limit) }).unwrap();
    let head = store.log_head();
    (store, head)
}

/// Like a command, which knows its size.
fn put(store: &Store, head: &mut LogHead, number: u64, value: &[u8]) -> Result<(), OutOfMemory> {
    if value.len() >= 64 << 10 {
        store.make_room(value.len());
    }
    let name = number.to_string();
    let key = HashedKey::new(name.as_bytes());
    store.lock_slot(key.slot()).put(head, key, &[value], None).map(drop)
}

fn remove(store: &Store, head: &mut LogHead, number: u64) {
    let name = number.to_string();
    let key = HashedKey::new(name.as_bytes());
    assert_eq!(store.lock_slot(key.slot()).remove(head, key, Leave::Nothing), Ok(true));
}

fn used(store: &Store) -> u64 {
    store.memory().log_live + store.memory().index
}

/// Puts values of this size, from `first` on, until one is refused; returns how many.
fn fill(store: &Store, head: &mut LogHead, first: u64, bytes: usize) -> u64 {
    let value = vec![7; bytes];
    let mut refused = 0;
    let mut count = 0;
    // One refusal may come from a write ahead of the cleaner.
    while refused < 3 {
        match put(store, head, first + count, &value) {
            Ok(()) => count += 1,
            Err(OutOfMemory) => refused += 1,
        }
    }
    count
}

fn assert_full(store: &Store, bytes: usize, before: &str) {
    let memory = store.memory();
    let percent = used(store) * 100 / LIMIT;
    assert!(used(store) + bytes as u64 >= LIMIT / 10 * 9, "{bytes} {before}: {percent} %, {memory:?}");
    assert!(memory.log_used + memory.index <= LIMIT, "{memory:?}");
}

#[test]
fn nine_tenths_of_the_limit_hold_values_of_any_size() {
    for bytes in SIZES {
        let (store, mut head) = store(LIMIT);
        fill(&store, &mut head, 0, bytes);
        assert_full(&store, bytes, "at first");
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

/// Under a small limit, too, whose segments are small: values just over their record limit wasted a fifth.
#[test]
fn six_sevenths_of_a_small_limit_hold_values_of_any_size() {
    for limit in [16, 24, 32, 48] {
        let limit = limit << 20;
        for bytes in [100, 8_200, 16_500, 18_000, 20_000, 33_000, 37_000, 66_000] {
            let (store, mut head) = store(limit);
            fill(&store, &mut head, 0, bytes);
            let (used, memory) = (used(&store), store.memory());
            assert!(used + bytes as u64 >= limit / 7 * 6, "{bytes}: {} %, {memory:?}", used * 100 / limit);
            assert_eq!(store.check_accounting(), Ok(()));
        }
    }
}

/// Puts values of this size by all heads in turn until one of them is refused.
fn fill_by_heads(limit: u64, heads: u16, bytes: usize) -> Store {
    let config = StoreConfig::with_memory(limit).for_heads(heads);
    let store = Store::new(StoreConfig { huge_pages: false, ..config }).unwrap();
    let mut heads: Vec<LogHead> = (0..heads).map(|_| store.log_head()).collect();
    let value = vec![7; bytes];
    let (mut refused, mut number) = (0, 0);
    while refused < 3 {
        let at = number as usize % heads.len();
        match put(&store, &mut heads[at], number, &value) {
            Ok(()) => (number, refused) = (number + 1, 0),
            Err(OutOfMemory) => refused += 1,
        }
    }
    assert_eq!(store.check_accounting(), Ok(()));
    store
}

/// Each head has a segment open: with many of them segments are smaller.
#[test]
fn nine_tenths_of_the_limit_hold_values_that_several_heads_write() {
    for (limit, heads) in [(64, 8), (128, 16)] {
        let limit = limit << 20;
        for bytes in [100, 3_000, 30_000, 66_000, 70_000, 262_200, 1_050_000] {
            let store = fill_by_heads(limit, heads, bytes);
            let (used, memory) = (used(&store), store.memory());
            assert!(used + bytes as u64 >= limit / 10 * 9, "{heads}, {bytes}: {used}, {memory:?}");
        }
    }
}

/// With less than 8 MiB for each head it is less.
#[test]
fn three_quarters_of_a_limit_that_is_small_for_its_heads_hold_values() {
    for (heads, bytes) in [(16, 66_000), (32, 66_000), (64, 100), (64, 30_000), (64, 33_000), (64, 66_000)] {
        let store = fill_by_heads(LIMIT, heads, bytes);
        let (used, memory) = (used(&store), store.memory());
        assert!(used + bytes as u64 >= LIMIT / 4 * 3, "{heads}, {bytes}: {used}, {memory:?}");
    }
}

/// The rest is too little for one more: with large values that may be much.
#[test]
fn as_many_large_values_fit_as_nine_tenths_of_the_limit_hold() {
    for (bytes, fit) in [(4_000_000, 15), (10_000_000, 6), (25_000_000, 2)] {
        let (store, mut head) = store(LIMIT);
        let count = fill(&store, &mut head, 0, bytes);
        assert!(count >= fit, "{count} of {bytes}: {:?}", store.memory());
        assert_eq!(LIMIT / 10 * 9 / (bytes as u64 + 4_096), fit);
    }
}

/// Small after large and large after small: neither the index nor free pieces of another size get in the way.
#[test]
fn nine_tenths_of_the_limit_hold_values_of_any_size_after_others() {
    let (store, mut head) = store(LIMIT);
    let mut before = "at first".to_owned();
    for step in 0..=SIZES.len() {
        // 5 and 16 have no common divisor: every size comes once, the first one twice.
        let bytes = SIZES[step * 5 % SIZES.len()];
        let count = fill(&store, &mut head, 0, bytes);
        assert_full(&store, bytes, &before);
        before = format!("after {bytes}");
        (0..count).for_each(|number| remove(&store, &mut head, number));
    }
    assert_eq!(store.check_accounting(), Ok(()));
}

/// A few of the many stay, in every slot: tables shrink even when entries are left.
#[test]
fn an_index_that_was_large_makes_way_for_values() {
    for (few, bytes) in [(50, 1_000), (50, 262_200), (7, 100)] {
        let (store, mut head) = store(LIMIT);
        let count = fill(&store, &mut head, 0, 10);
        let index = store.memory().index;
        (0..count).filter(|number| number % few != 0).for_each(|number| remove(&store, &mut head, number));
        fill(&store, &mut head, count, bytes);
        assert_full(&store, bytes, &format!("one of {few} stays"));
        let (memory, most) = (store.memory(), 46 * store.len() + (1 << 20));
        assert!(memory.index < most, "{index} bytes of index before, {most} now at most: {memory:?}");
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

/// Overwritten at random, several times the limit in all, without a refusal.
#[test]
fn values_of_any_size_are_overwritten_for_ever_at_85_percent() {
    for bytes in SIZES {
        let limit = if bytes < 1_000 { LIMIT / 4 } else { LIMIT };
        let (store, mut head) = store(limit);
        let mut value = vec![1; bytes];
        let mut keys = 0;
        // Live bytes are counted slot by slot: not for each of the small ones.
        let together = (1_000 / bytes as u64).max(1);
        while keys % together != 0 || used(&store) + together * (bytes as u64 + 60) < limit / 100 * 85 {
            put(&store, &mut head, keys, &value).unwrap();
            keys += 1;
        }
        let mut random = Random::new(1);
        let writes = 3 * limit / (bytes as u64 + 60);
        for write in 0..writes {
            value[0] = write as u8;
            let put = put(&store, &mut head, random.below(keys), &value);
            assert_eq!(put, Ok(()), "{bytes}, write {write}: {:?}", store.memory());
        }
        assert_eq!(store.len(), keys);
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

/// Sizes that change all the time: one size's remains are used by another.
#[test]
fn values_of_mixed_sizes_are_overwritten_for_ever_at_85_percent() {
    let (store, mut head) = store(LIMIT);
    let mut random = Random::new(3);
    let mut written = 0;
    // The present sizes of the keys' values; none is over a megabyte, or it would be most of the free memory.
    let mut sizes: Vec<usize> = Vec::new();
    while written < 6 * LIMIT {
        let bytes = SIZES[random.index(13)] + random.index(1_000);
        let value = vec![5; bytes];
        let is_full = used(&store) + bytes as u64 > LIMIT / 100 * 85;
        let number = if is_full { random.index(sizes.len()) } else { sizes.len() };
        if is_full && sizes[number] < bytes {
            remove(&store, &mut head, number as u64);
            sizes.swap_remove(number);
            let last = sizes.len() as u64;
            if number < sizes.len() {
                remove(&store, &mut head, last);
                let moved = vec![6; sizes[number]];
                assert_eq!(put(&store, &mut head, number as u64, &moved), Ok(()), "{:?}", store.memory());
            }
            continue;
        }
        assert_eq!(put(&store, &mut head, number as u64, &value), Ok(()), "{bytes}: {:?}", store.memory());
        written += bytes as u64;
        if number < sizes.len() {
            sizes[number] = bytes;
        } else {
            sizes.push(bytes);
        }
    }
    let mut cleaner = store.cleaner();
    while cleaner.step(1 << 20) != CleanOutcome::Idle {}
    assert_eq!(store.check_accounting(), Ok(()));
}
