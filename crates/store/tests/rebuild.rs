//! Building the index anew: nothing is lost, and readers notice nothing.

use sidle_outline::{Chunk, Order, Outline};
use sidle_store::{Entry, Leave, Store, StoreConfig};
use sidle_types::{HashedKey, Slot, ValueKind, WallMs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const KEYS: usize = 30_000;
const SLOTS: usize = 20;

fn key(number: usize) -> String {
    format!("{{{}}}{number}", number % SLOTS)
}

/// A key of every kind: strings, some that expire, large collections, removed ones with and without a trace.
fn filled() -> Store {
    let store = Store::new(StoreConfig::with_memory(64 << 20)).expect("a good configuration");
    let mut head = store.log_head();
    for number in 0..KEYS {
        let name = key(number);
        let key = HashedKey::new(name.as_bytes());
        let slot = store.lock_slot(key.slot());
        let expires_at = number.is_multiple_of(5).then_some(WallMs(1 << 40));
        if number.is_multiple_of(7) {
            let mut outline = Outline::new(1);
            outline.put(Order::Main, Chunk::new(0, 1, name.as_bytes()));
            slot.put_large(&mut head, key, ValueKind::Hash, outline, expires_at).expect("there is room");
        } else {
            slot.put(&mut head, key, &[name.as_bytes()], expires_at).expect("there is room");
        }
        match number % 11 {
            0 => drop(slot.remove(&mut head, key, Leave::Nothing).expect("it can be removed")),
            1 => drop(slot.remove(&mut head, key, Leave::Tombstone).expect("there is room")),
            _ => {}
        }
    }
    store
}

fn check(store: &Store, number: usize) {
    let name = key(number);
    let guard = store.pin();
    let (entry, outline) = guard.get_whole(HashedKey::new(name.as_bytes()));
    match (number % 11, entry) {
        (0, Entry::Absent) | (1, Entry::Tombstone(_)) => {}
        (2.., Entry::Value(record)) => {
            assert_eq!(record.expires_at().is_some(), number.is_multiple_of(5), "{number}");
            match outline {
                Some(outline) => assert_eq!((outline.len(), number % 7), (1, 0)),
                None => assert_eq!(record.value(), name.as_bytes()),
            }
        }
        (_, entry) => panic!("key {number}: {entry:?}"),
    }
}

#[test]
fn nothing_is_lost_and_nobody_notices() {
    let store = filled();
    let slots: Vec<Slot> = (0..SLOTS).map(|number| HashedKey::new(key(number).as_bytes()).slot()).collect();
    let (live, used) = (store.len(), store.memory().log_live);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Relaxed) {
                check(&store, number % KEYS);
                number += 7919;
            }
            number
        });
        for _ in 0..20 {
            let entries: usize = slots.iter().map(|&slot| store.rebuild(slot)).sum();
            assert!(entries as u64 >= live, "tombstones are entries, too");
        }
        is_over.store(true, Relaxed);
        assert!(reader.join().expect("the reader finds what is there") > 0);
    });
    (0..KEYS).for_each(|number| check(&store, number));
    assert_eq!((store.len(), store.memory().log_live), (live, used));
    store.check_accounting().expect("the accounts are right");
}
