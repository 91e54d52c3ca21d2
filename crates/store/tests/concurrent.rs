//! Readers, writers, growth and the cleaner at once. Values verify themselves; per-key versions never
//! decrease; a key that is only ever overwritten is never absent.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests have clocks and may fail")]

use sidle_store::{CleanOutcome, Entry, Leave, LogHead, Record, RecordBatch, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::{HashedKey, KeyHash, Position, PositionRange, Slot, Version};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SECONDS: u64 = 3;

/// A value that proves its key and its completeness.
fn value_for(key: &[u8], stamp: u64, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(16 + length);
    value.extend_from_slice(&stamp.to_le_bytes());
    value.extend_from_slice(&(KeyHash::of_key(key).0 ^ stamp.rotate_left(17)).to_le_bytes());
    value.resize(16 + length, stamp as u8);
    value
}

fn verify(record: Record<'_>) -> u64 {
    let value = record.value();
    let stamp = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, value_for(record.key(), stamp, value.len() - 16), "a torn value");
    stamp
}

struct Test {
    store: Store,
    stop: AtomicBool,
    operations: AtomicU64,
}

impl Test {
    fn new(memory_mib: u64) -> Test {
        let config = StoreConfig {
            memory_bytes: memory_mib << 20,
            segment_bytes: 64 << 10,
            huge_pages: false,
            ..StoreConfig::default()
        };
        Test {
            store: Store::new(config).unwrap(),
            stop: AtomicBool::new(false),
            operations: AtomicU64::new(0),
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn clean(&self) {
        let mut cleaner = self.store.cleaner();
        while self.goes_on() {
            if cleaner.step(16 << 10) != CleanOutcome::Progress {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Puts like a node. A writer delayed between the request for room and its use may be refused, since
    /// others took the room meanwhile; it then asks once more.
    fn put(&self, head: &mut LogHead, key: HashedKey<'_>, value: &[u8]) {
        let mut put = || self.store.lock_slot(key.slot()).put(head, key, &[value], None);
        if put().is_err() {
            assert!(self.store.has_room(value.len()), "no room for {} bytes", value.len());
            put().unwrap();
        }
    }

    /// Overwrites keys that always exist.
    fn overwrite(&self, key_of: impl Fn(u64) -> String, seed: u64, keys: std::ops::Range<u64>) {
        let mut head = self.store.log_head();
        let mut random = Random::new(seed);
        let mut stamp = 0;
        while self.goes_on() {
            let number = keys.start + random.below(keys.end - keys.start);
            let name = key_of(number);
            let key = HashedKey::new(name.as_bytes());
            stamp += 1;
            let value = value_for(key.bytes(), stamp, random.index(200));
            self.put(&mut head, key, &value);
            self.operations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads keys that always exist; versions and stamps never decrease.
    fn read(&self, key_of: impl Fn(u64) -> String, seed: u64, keys: u64) {
        let mut random = Random::new(seed);
        let mut seen = vec![(Version(0), 0); keys as usize];
        while self.goes_on() {
            let number = random.below(keys);
            let name = key_of(number);
            let guard = self.store.pin();
            match guard.get(HashedKey::new(name.as_bytes())) {
                Entry::Value(record) => {
                    let stamp = verify(record);
                    let last = &mut seen[number as usize];
                    assert!((record.version(), stamp) >= *last, "{name} went back");
                    *last = (record.version(), stamp);
                }
                other => panic!("{name} is {other:?}, though it is only ever overwritten"),
            }
            self.operations.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn run(&self, threads: Vec<Box<dyn FnOnce() + Send + '_>>) {
        struct Stop<'t>(&'t AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let started = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = threads
                .into_iter()
                .map(|thread| {
                    scope.spawn(|| {
                        // A thread that fails ends the others.
                        let _stop = Stop(&self.stop);
                        thread();
                    })
                })
                .collect();
            while started.elapsed() < Duration::from_secs(SECONDS) && self.goes_on() {
                std::thread::sleep(Duration::from_millis(10));
            }
            self.stop.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        println!("{} operations", self.operations.load(Ordering::Relaxed));
    }

    fn fill(&self, key_of: impl Fn(u64) -> String, keys: u64) {
        let mut head = self.store.log_head();
        for number in 0..keys {
            let name = key_of(number);
            let key = HashedKey::new(name.as_bytes());
            let value = value_for(key.bytes(), 0, 50);
            self.store.lock_slot(key.slot()).put(&mut head, key, &[&value], None).unwrap();
        }
    }
}

/// Keys of two writers each, in a few slots and in many.
fn key_of(number: u64) -> String {
    if number.is_multiple_of(2) { format!("{{tag{}}}{number}", number % 3) } else { format!("key {number}") }
}

#[test]
fn readers_never_miss_a_key_while_its_slot_grows_and_the_log_is_cleaned() {
    let test = Test::new(16);
    let keys = 20_000;
    test.fill(key_of, keys);
    // Growth and shrinking: thousands of other keys in the same slots appear and disappear.
    let churn = || {
        let mut head = test.store.log_head();
        let mut round = 0;
        while test.goes_on() {
            for leave in [None, Some(if round % 2 == 0 { Leave::Nothing } else { Leave::Tombstone })] {
                for number in 0..30_000u64 {
                    if !test.goes_on() {
                        return;
                    }
                    let name = format!("{{tag{}}}churn {number}", round % 3);
                    let key = HashedKey::new(name.as_bytes());
                    match leave {
                        None => test.put(&mut head, key, &value_for(key.bytes(), round, 8)),
                        Some(leave) => {
                            assert!(test.store.lock_slot(key.slot()).remove(&mut head, key, leave).unwrap());
                        }
                    }
                }
            }
            let mut at = Some(Position::FIRST);
            while let Some(from) = at {
                at = test.store.sweep_tombstones(from, Position::LAST, 100);
            }
            round += 1;
        }
    };
    test.run(vec![
        Box::new(|| test.clean()),
        Box::new(|| test.overwrite(key_of, 1, 0..keys / 2)),
        Box::new(|| test.overwrite(key_of, 2, keys / 2..keys)),
        Box::new(|| test.read(key_of, 3, keys)),
        Box::new(|| test.read(key_of, 4, keys)),
        Box::new(churn),
    ]);
    assert!(
        (0..keys).all(|number| {
            test.store.pin().get(HashedKey::new(key_of(number).as_bytes())).value().is_some()
        })
    );
}

#[test]
fn writers_wait_for_a_delayed_reader_instead_of_being_refused() {
    let test = Test::new(4);
    let keys = 2_000;
    test.fill(key_of, keys);
    // A reader delayed within a command, as on a machine with too few processors.
    let stalled = || {
        while test.goes_on() {
            let _guard = test.store.pin();
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    test.run(vec![
        Box::new(|| test.clean()),
        Box::new(|| test.overwrite(key_of, 1, 0..keys)),
        Box::new(|| test.overwrite(key_of, 2, 0..keys)),
        Box::new(stalled),
    ]);
}

#[test]
fn scans_see_every_lasting_key_once_while_writers_go_on() {
    let test = Test::new(16);
    let keys = 5_000;
    test.fill(key_of, keys);
    let scan = || {
        let mut batch = Vec::new();
        while test.goes_on() {
            let mut seen = 0u64;
            let mut from = Some(Position::FIRST);
            while let Some(at) = from {
                batch.clear();
                let end = test.store.scan(at, Position::LAST, 4000, &mut batch);
                let batch = RecordBatch::parse(&batch).unwrap();
                assert!(batch.iter().all(|record| record.position() >= at));
                seen += batch.iter().map(verify).count() as u64;
                from = end.next;
            }
            assert_eq!(seen, keys);
        }
    };
    let visit = || {
        while test.goes_on() {
            let mut seen = 0;
            let mut from = Some(Position::FIRST);
            while let Some(at) = from {
                from = test.store.visit(at, Position::LAST, 10, &mut |record| {
                    verify(record);
                    seen += 1;
                });
            }
            assert_eq!(seen, keys);
            assert_eq!(test.store.len(), keys);
        }
    };
    test.run(vec![
        Box::new(|| test.clean()),
        Box::new(|| test.overwrite(key_of, 1, 0..keys)),
        Box::new(|| test.overwrite(key_of, 2, 0..keys)),
        Box::new(scan),
        Box::new(visit),
    ]);
}

#[test]
fn replay_races_writers_and_never_overwrites_them() {
    let (source, test) = (Test::new(16), Test::new(16));
    let keys = 20_000;
    source.fill(key_of, keys);
    // The writer stamps from 1 on, the source's values are stamped 0: once written, a key never shows 0
    // again.
    let written: Vec<AtomicBool> = (0..keys).map(|_| AtomicBool::new(false)).collect();
    let write = || {
        let mut head = test.store.log_head();
        let mut random = Random::new(5);
        while test.goes_on() {
            let number = random.below(keys);
            let name = key_of(number);
            let key = HashedKey::new(name.as_bytes());
            if number.is_multiple_of(7) {
                test.store.lock_slot(key.slot()).remove(&mut head, key, Leave::Tombstone).unwrap();
            } else {
                let value = value_for(key.bytes(), 1, 20);
                test.store.lock_slot(key.slot()).put(&mut head, key, &[&value], None).unwrap();
            }
            written[number as usize].store(true, Ordering::Release);
        }
    };
    let read = || {
        let mut random = Random::new(6);
        while test.goes_on() {
            let number = random.below(keys);
            let name = key_of(number);
            let was_written = written[number as usize].load(Ordering::Acquire);
            match test.store.pin().get(HashedKey::new(name.as_bytes())) {
                Entry::Value(record) => {
                    assert!(!was_written || (verify(record) == 1 && !number.is_multiple_of(7)))
                }
                Entry::Tombstone(_) => assert_eq!(number % 7, 0),
                Entry::Absent => assert!(!was_written),
            }
        }
    };
    let replay = |first: u16, last: u16| {
        let mut head = test.store.log_head();
        let range = PositionRange::of_slots(Slot::new(first).unwrap(), Slot::new(last).unwrap()).unwrap();
        while test.goes_on() {
            let mut from = Some(range.first());
            while let Some(at) = from {
                let mut batch = Vec::new();
                let end = source.store.scan(at, range.last(), 8000, &mut batch);
                test.store.replay(&mut head, &RecordBatch::parse(&batch).unwrap(), range).unwrap();
                from = end.next;
            }
        }
    };
    test.run(vec![
        Box::new(|| test.clean()),
        Box::new(write),
        Box::new(read),
        Box::new(|| replay(0, 8191)),
        Box::new(|| replay(8192, 16383)),
    ]);
    assert_eq!(test.store.len() + test.store.tombstones_in(PositionRange::ALL), keys);
}
