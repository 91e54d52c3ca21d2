//! A recovery needs no more memory than the data, whatever the log has beside it.

use sidle_outline::{Chunk, Order, Outline};
use sidle_store::{Entry, Leave, LogHead, Recovery, RecoveryError, Store, StoreConfig, WholeDiscard};
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, WallMs};
use std::collections::BTreeMap;
use std::sync::Arc;

const MEMORY_BYTES: u64 = 4 << 20;
const STRETCHES: [u16; 3] = [4, 32, 256];

fn store() -> Arc<Store> {
    let config = StoreConfig {
        memory_bytes: MEMORY_BYTES,
        segment_bytes: 32 << 10,
        is_durable: true,
        ..StoreConfig::default()
    };
    Arc::new(Store::new(config).expect("a valid configuration"))
}

/// A store that runs, and its log: of each commit the records.
struct Running {
    store: Arc<Store>,
    head: LogHead,
    commits: Vec<Vec<u8>>,
}

impl Running {
    fn new() -> Running {
        let store = store();
        let head = store.log_head();
        Running { store, head, commits: Vec::new() }
    }

    fn commit(&mut self) {
        let mut records = Vec::new();
        self.store.commits().expect("it is durable").take(&mut records);
        self.commits.push(records);
    }

    /// Whether there was room.
    fn put(&mut self, key: &str, value: &[u8], expires_at: Option<WallMs>) -> bool {
        let key = HashedKey::new(key.as_bytes());
        let slot = self.store.lock_slot(key.slot());
        slot.put(&mut self.head, key, &[value], expires_at).is_ok()
    }

    fn remove(&mut self, key: &str) {
        let key = HashedKey::new(key.as_bytes());
        let slot = self.store.lock_slot(key.slot());
        slot.remove(&mut self.head, key, Leave::Nothing).expect("it takes no memory");
    }

    /// Whether there was room.
    fn patch(&mut self, key: &str, change: impl FnOnce(&mut Outline)) -> bool {
        let key = HashedKey::new(key.as_bytes());
        let slot = self.store.lock_slot(key.slot());
        let mut outline = match slot.get(key) {
            Entry::Value(record) => slot.outline(record),
            _ => Outline::new(0),
        };
        change(&mut outline);
        slot.put_large(&mut self.head, key, ValueKind::Set, outline, None).is_ok()
    }

    /// Starts again with the memory that it ran with, and works on. Returns how often it took another try.
    fn restart(&self) -> usize {
        let fresh = store();
        let tries = recover(&fresh, &self.commits);
        assert_eq!(content(&fresh), content(&self.store));
        assert_eq!(fresh.check_accounting(), Ok(()));
        let mut again = Running { head: fresh.log_head(), store: fresh, commits: Vec::new() };
        let mut kept = content(&again.store);
        // The cleaner moves everything, more than once.
        for round in 0..3_000 {
            let key = format!("new {}", round % 20);
            if again.put(&key, &[7; 3_000], None) {
                kept.insert(key.into_bytes(), vec![7; 3_000]);
            }
        }
        assert_eq!(content(&again.store), kept);
        drop(again.head);
        assert_eq!(again.store.check_accounting(), Ok(()));
        tries
    }
}

/// Reads a log, the newest commit first, in more and more stretches. Returns after how many failures.
fn recover(store: &Store, commits: &[Vec<u8>]) -> usize {
    let mut recovery = Recovery::begin(store);
    let mut tries = 0;
    loop {
        let read = commits.iter().rev().try_for_each(|records| recovery.replay(records));
        match read {
            Ok(()) if recovery.reads_on() => {}
            Ok(()) => break,
            Err(error) => {
                assert!(matches!(error, RecoveryError::OutOfMemory(_)), "{error}");
                assert!(tries < STRETCHES.len(), "the data fitted while it ran: {:?}", store.memory());
                recovery.begin_again(STRETCHES[tries]);
                tries += 1;
            }
        }
    }
    recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
    tries
}

/// Reads what a log has at some positions into a quarter of the memory. Begun again in so many stretches, if
/// any are asked for.
fn recover_at(range: PositionRange, commits: &[Vec<u8>], stretches: Option<u16>) -> Store {
    let config =
        StoreConfig { memory_bytes: MEMORY_BYTES / 4, segment_bytes: 16 << 10, ..StoreConfig::default() };
    let store = Store::new(config).expect("a valid configuration");
    let mut recovery = Recovery::begin_at(&store, &[range]);
    let read = |recovery: &mut Recovery<'_>| {
        let mut newest_first = commits.iter().rev();
        newest_first.try_for_each(|records| recovery.replay(records)).expect("it fits");
    };
    if let Some(stretches) = stretches {
        read(&mut recovery);
        recovery.begin_again(stretches);
    }
    loop {
        read(&mut recovery);
        if !recovery.reads_on() {
            break;
        }
    }
    recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
    store
}

/// All values, by key: of a collection its chunks.
fn content(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut keys = Vec::new();
    store.each_entry(PositionRange::ALL, &mut |record, is_tombstone| {
        if !is_tombstone {
            keys.push(record.key().to_vec());
        }
    });
    let guard = store.pin();
    let value = |key: &Vec<u8>| {
        let (entry, outline) = guard.get_whole(HashedKey::new(key));
        let Some(outline) = outline else { return entry.value().expect("a value").value().to_vec() };
        let large = sidle_outline::Large::new(&outline, &guard);
        large
            .iter_from(Order::Main, 0)
            .flat_map(|(chunk, bytes)| [&[chunk.label as u8], bytes].concat())
            .collect()
    };
    keys.iter().map(|key| (key.clone(), value(key))).collect()
}

#[test]
fn removals_take_no_memory_beyond_a_stretch() {
    let mut running = Running::new();
    for round in 0..1_500 {
        let keys: Vec<String> = (0..100).map(|at| format!("session {round} {at}")).collect();
        keys.iter().for_each(|key| assert!(running.put(key, b"x", None)));
        keys.iter().for_each(|key| running.remove(key));
        running.commit();
    }
    assert!(running.store.is_empty());
    assert_eq!(running.restart(), 1, "all removals at once are too many, and an eighth is not");
}

#[test]
fn one_commit_writes_what_it_has_many_times_once() {
    let mut running = Running::new();
    for round in 0..8_000_u32 {
        assert!(running.put("hot", &[round as u8; 1_000], None));
        assert!(running.patch("large", |outline| {
            outline.put(Order::Main, Chunk::new(u64::from(round % 3), 1, &[round as u8; 900]));
        }));
    }
    running.commit();
    assert!(running.commits[0].len() as u64 > 3 * MEMORY_BYTES);
    assert_eq!(running.restart(), 0);
}

#[test]
fn chunks_of_collections_that_are_gone_take_no_memory() {
    let mut running = Running::new();
    for round in 0..300 {
        let key = format!("large {}", round % 30);
        running.remove(&key);
        assert!(running.patch(&key, |outline| {
            (0..60).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[round as u8; 900])));
        }));
        running.commit();
    }
    assert_eq!(running.restart(), 1);
}

#[test]
fn values_that_a_flush_covers_take_no_memory() {
    let mut running = Running::new();
    for round in 0..5 {
        for key in 0..3_000 {
            assert!(running.put(&format!("key {round} {key}"), &[round; 1_000], None));
        }
        running.commit();
        if round < 4 {
            let all = PositionRange::ALL;
            let store = Arc::clone(&running.store);
            assert_eq!(
                WholeDiscard::begin(&store).discard(all.first(), all.last(), usize::MAX, &mut Vec::new()),
                None
            );
            running.commit();
        }
    }
    assert!(running.restart() > 0);
}

/// Fills the memory until a write is refused, removes a third of the keys, and so on.
fn full(mut write: impl FnMut(&mut Running, u32) -> Option<String>) {
    let mut running = Running::new();
    let (mut keys, mut number) = (Vec::new(), 0_u32);
    for round in 0..5 {
        loop {
            number += 1;
            let Some(key) = write(&mut running, number) else { break };
            keys.push(key);
            if number.is_multiple_of(50) {
                running.commit();
            }
        }
        if round < 4 {
            let (gone, stay) =
                keys.into_iter().enumerate().partition::<Vec<_>, _>(|(at, _)| at % 3 == round % 3);
            gone.iter().for_each(|(_, key)| running.remove(key));
            keys = stay.into_iter().map(|(_, key)| key).collect();
            running.commit();
        }
    }
    running.commit();
    running.restart();
}

#[test]
fn a_full_memory_of_values_starts_again() {
    for bytes in [[10, 10, 10], [100, 700, 3_000], [6_000, 7_500, 9_000], [9_000, 40_000, 300_000]] {
        full(|running, number| {
            let key = format!("key {number}");
            let value = vec![number as u8; bytes[number as usize % 3]];
            let deadline = number.is_multiple_of(2).then_some(WallMs(1 << 40));
            running.put(&key, &value, deadline).then_some(key)
        });
    }
}

#[test]
fn a_full_memory_of_collections_starts_again() {
    for chunks in [3, 40] {
        full(|running, number| {
            let key = format!("large {number}");
            let fill = |outline: &mut Outline| {
                (0..chunks).for_each(|label| {
                    outline.put(Order::Main, Chunk::new(label, 1, &[number as u8; 500]));
                });
            };
            let is_there = running.patch(&key, fill);
            let change = |outline: &mut Outline| {
                outline.put(Order::Main, Chunk::new(1, 1, &[number as u8; 600]));
                outline.remove(Order::Main, 2);
            };
            (is_there && running.patch(&key, change)).then_some(key)
        });
    }
}

#[test]
fn what_lies_at_other_positions_takes_no_memory() {
    let mut running = Running::new();
    for round in 0..1_500 {
        let key = format!("string {round}");
        assert!(running.put(&key, &[round as u8; 1_000], None));
        let key = format!("set {}", round % 60);
        let chunk = |outline: &mut Outline| {
            let bytes = [round as u8; 1_000];
            outline.put(Order::Main, Chunk::new(round / 60, 1, &bytes));
        };
        assert!(running.patch(&key, chunk));
        let session = format!("session {round}");
        assert!(running.put(&session, b"x", None));
        running.remove(&session);
        if round % 10 == 9 {
            running.remove(&format!("string {}", round - 5));
            running.commit();
        }
    }
    let last = Position(u64::MAX / 8);
    let range = PositionRange::new(Position::FIRST, last).expect("in order");
    let mut kept = content(&running.store);
    kept.retain(|key, _| range.contains(HashedKey::new(key).position()));
    assert!(kept.len() > 100, "{}", kept.len());
    for stretches in [None, Some(1), Some(4)] {
        let store = recover_at(range, &running.commits, stretches);
        assert_eq!(content(&store), kept);
        assert_eq!(store.check_accounting(), Ok(()));
    }
}
