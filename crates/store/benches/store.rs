//! Nanoseconds per operation and bytes per second of the store, alone on one core, data far larger than the
//! caches.
//!
//! `cargo bench -p sidle-store --bench store [-- <million keys>]`; 30-byte keys, 100-byte values. Times are
//! CPU times of one thread. Other load on the machine still takes cache and memory: compare only what one run
//! prints.

#![expect(clippy::unwrap_used, reason = "a benchmark may fail")]

use rustix::time::{ClockId, clock_gettime};
use sidle_store::{CleanOutcome, Entry, LogHead, RecordBatch, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::{HashedKey, Position, PositionRange};
use std::hint::black_box;

const KEY_BYTES: usize = 30;
const VALUE: [u8; 100] = [0x5A; 100];
const BATCH: usize = 16;
const PULL_BYTES: usize = 64 << 10;

type Key = [u8; KEY_BYTES];

fn key(number: u64) -> Key {
    let mut key = [b'k'; KEY_BYTES];
    let digits = format!("{number:020}");
    key[10..].copy_from_slice(digits.as_bytes());
    key
}

/// CPU time of this thread: other load then disturbs only the caches.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs `f`, which does `operations`, and prints its cost.
fn measure(name: &str, operations: u64, bytes: u64, f: impl FnOnce()) -> f64 {
    let started = cpu_seconds();
    f();
    let seconds = cpu_seconds() - started;
    let ns = seconds * 1e9 / operations as f64;
    match bytes {
        0 => println!("{name:<44} {ns:>8.1} ns"),
        _ => println!("{name:<44} {ns:>8.1} ns {:>8.2} GB/s", bytes as f64 / seconds / 1e9),
    }
    ns
}

/// The present cost of a cache miss: for loads that depend on each other, and for independent ones.
fn cache_misses() {
    const LINES: usize = 4 << 20;
    let mut memory = vec![[0u64; 8]; LINES];
    // A linear congruence with these properties visits every line once.
    let next = |line: usize| (line.wrapping_mul(0x5851_F42D) + 0x3C6E_F35F) % LINES;
    memory.iter_mut().enumerate().for_each(|(line, words)| words[0] = next(line) as u64);
    measure("for comparison: a dependent cache miss", 2_000_000, 0, || {
        let end = (0..2_000_000).fold(0, |line, _| memory[line][0] as usize);
        black_box(end);
    });
    let mut random = Random::new(1);
    let lines: Vec<usize> = (0..2_000_000).map(|_| random.index(LINES)).collect();
    measure("for comparison: an independent cache miss", 2_000_000, 0, || {
        black_box(lines.iter().fold(0, |sum: u64, &line| sum.wrapping_add(memory[line][0])));
    });
}

/// Backs the memory with pages, as in a store that has run for a while.
fn touch(store: &Store, bytes: u64) {
    let mut head = store.log_head();
    for number in 0..bytes / 200_000 {
        let name = key(number);
        let key = HashedKey::new(&name);
        store.lock_slot(key.slot()).put(&mut head, key, &[&vec![0; 200_000]], None).unwrap();
    }
    drop(head);
    store.discard(Position::FIRST, Position::LAST, usize::MAX);
    let share = store.memory().limit;
    for _ in 0..share >> 20 {
        store.cleaner().step(1 << 20);
    }
}

/// Random keys to work on, made beforehand.
fn sample(keys: u64, count: usize) -> Vec<Key> {
    let mut random = Random::new(1);
    (0..count).map(|_| key(random.below(keys))).collect()
}

fn put(store: &Store, head: &mut LogHead, key: HashedKey<'_>) {
    store.lock_slot(key.slot()).put(head, key, &[&VALUE], None).unwrap();
}

fn get_single(store: &Store, keys: &[Key]) {
    for key in keys {
        let guard = store.pin();
        let Entry::Value(record) = guard.get(HashedKey::new(key)) else { panic!("absent") };
        black_box(record.value()[50]);
    }
}

fn get_batched(store: &Store, keys: &[Key]) {
    for batch in keys.chunks_exact(BATCH) {
        let hashed: [HashedKey<'_>; BATCH] = std::array::from_fn(|i| HashedKey::new(&batch[i]));
        let guard = store.pin();
        hashed.iter().for_each(|key| store.prefetch_slot(key.slot()));
        hashed.iter().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
        hashed.iter().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
        for key in hashed {
            let Entry::Value(record) = guard.get(key) else { panic!("absent") };
            black_box(record.value()[50]);
        }
    }
}

fn set_batched(store: &Store, head: &mut LogHead, keys: &[Key]) {
    for batch in keys.chunks_exact(BATCH) {
        let hashed: [HashedKey<'_>; BATCH] = std::array::from_fn(|i| HashedKey::new(&batch[i]));
        {
            let guard = store.pin();
            hashed.iter().for_each(|key| store.prefetch_slot(key.slot()));
            hashed.iter().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
            hashed.iter().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
        }
        for key in hashed {
            put(store, head, key);
        }
    }
}

fn main() {
    let millions = std::env::args().filter_map(|argument| argument.parse::<f64>().ok()).next().unwrap_or(4.0);
    let keys = (millions * 1e6) as u64;
    let record_bytes = 152;
    let memory = StoreConfig::with_memory((keys * 400).max(64 << 20));
    let source = Store::new(memory.clone()).unwrap();
    touch(&source, keys * 300);
    let mut head = source.log_head();
    println!("{keys} keys of {KEY_BYTES} bytes, values of {} bytes", VALUE.len());

    measure("insert", keys, 0, || {
        (0..keys).for_each(|number| put(&source, &mut head, HashedKey::new(&key(number))));
    });
    while source.cleaner().step(1 << 20) != CleanOutcome::Idle {}
    let memory_use = source.memory();
    let payload = keys * (KEY_BYTES + VALUE.len()) as u64;
    let log = memory_use.log_live as f64 / 0.85;
    println!(
        "{:<44} {:>8.1} bytes (index {:.1})",
        "memory per key beyond it, log 85 % live",
        (log + memory_use.index as f64 - payload as f64) / keys as f64,
        memory_use.index as f64 / keys as f64
    );

    cache_misses();
    let chosen = sample(keys, 2_000_000);
    measure("pin and unpin", 10_000_000, 0, || (0..10_000_000).for_each(|_| drop(black_box(source.pin()))));
    measure("hash a key to slot and position", chosen.len() as u64, 0, || {
        chosen
            .iter()
            .for_each(|key| assert!(black_box(HashedKey::new(black_box(key)).position()) > Position::FIRST));
    });
    measure("GET hit, single", chosen.len() as u64, 0, || get_single(&source, &chosen));
    measure("GET hit, batch of 16", chosen.len() as u64, 0, || get_batched(&source, &chosen));
    measure("SET overwrite, batch of 16", chosen.len() as u64, 0, || {
        set_batched(&source, &mut head, &chosen);
    });

    let mut batches = Vec::new();
    let mut packed = 0;
    let bytes = keys * record_bytes;
    measure("scan and pack", keys, bytes, || {
        let mut from = Some(Position::FIRST);
        let mut batch = Vec::with_capacity(PULL_BYTES + 4096);
        while let Some(at) = from {
            batch.clear();
            let end = source.scan(at, Position::LAST, PULL_BYTES, &mut batch);
            packed += u64::from(end.records);
            from = end.next;
            black_box(&batch);
        }
    });
    assert_eq!(packed, keys);
    let mut from = Some(Position::FIRST);
    while let Some(at) = from {
        let mut batch = Vec::with_capacity(PULL_BYTES);
        from = source.scan(at, Position::LAST, PULL_BYTES, &mut batch).next;
        batches.push(batch);
    }
    measure("parse batches (structure and checksums)", keys, bytes, || {
        batches.iter().for_each(|batch| assert!(black_box(RecordBatch::parse(batch).unwrap().len()) > 0));
    });
    let target = Store::new(memory).unwrap();
    let mut target_head = target.log_head();
    let mut cleaner = target.cleaner();
    measure("replay, parsing and page faults included", keys, bytes, || {
        for batch in &batches {
            let batch = RecordBatch::parse(batch).unwrap();
            let replayed = target.replay(&mut target_head, &batch, PositionRange::ALL).unwrap();
            assert_eq!(replayed.present, 0);
        }
    });
    measure("discard", keys, bytes, || {
        assert_eq!(target.discard(Position::FIRST, Position::LAST, usize::MAX), None);
    });
    while cleaner.step(1 << 20) != CleanOutcome::Idle {}
    measure("clean the dead and replay into used memory", keys, bytes, || {
        for batch in &batches {
            let batch = RecordBatch::parse(batch).unwrap();
            target.replay(&mut target_head, &batch, PositionRange::ALL).unwrap();
        }
    });
    drop((batches, target_head, target));
    overwrite_at_85_percent(keys / 2);
}

/// The cost of cleaning in throughput: overwrites with plenty of room against overwrites at 85 % live,
/// the cleaner's work done by the writer itself.
fn overwrite_at_85_percent(keys: u64) {
    let record_bytes = 152;
    let live = keys * record_bytes + keys * 22;
    let mut costs = Vec::new();
    for percent in [30, 85] {
        let limit = live * 100 / percent;
        let store = Store::new(StoreConfig::with_memory(limit)).unwrap();
        touch(&store, limit * 85 / 100);
        let mut head = store.log_head();
        (0..keys).for_each(|number| put(&store, &mut head, HashedKey::new(&key(number))));
        while store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
        let memory = store.memory();
        let share = (memory.log_live + memory.index) * 100 / memory.limit;
        let chosen = sample(keys, 2 * keys as usize);
        set_batched(&store, &mut head, &chosen);
        costs.push(measure(&format!("SET overwrite, memory {share} % live"), 2 * keys, 0, || {
            set_batched(&store, &mut head, &chosen);
        }));
    }
    println!("{:<44} {:>8.1} ns per write", "cleaning costs", costs[1] - costs[0]);
}
