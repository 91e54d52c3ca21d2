//! FLUSHALL at an import: what is here is removed, what has not arrived never comes.
//!
//! Each key is flushed at one instant. A key with an entry is removed, and leaves a tombstone (M6). Then the
//! machine flushes: what has no entry is absent from that instant on. A key that gets its entry in between
//! keeps it: it was written there, just after its flush. Nothing is replayed in between, since replay is on
//! this thread: such a record would outlive the flush. What transactions have at keys stays. All of it is
//! here (M37), and no key has voted.

use sidle_store::{Entry, Leave, LogHead, Store};
use sidle_types::{PositionRange, ValueKind};

/// How many records are collected before they are removed.
const BATCH_RECORDS: usize = 256;

/// Removes every key's value in the range, leaving tombstones.
pub(super) fn remove_all(store: &Store, head: &mut LogHead, range: PositionRange) {
    let mut from = Some(range.first());
    while let Some(position) = from {
        from = store.visit(position, range.last(), BATCH_RECORDS, &mut |record| {
            if record.kind() == ValueKind::Locks {
                return;
            }
            let key = record.hashed_key();
            let slot = store.lock_slot(key.slot());
            // A write that saw the old value may have replaced it since the visit. Then the new one is
            // removed, too, or the flush would be undone. An entry is visited once, so no key is flushed
            // twice.
            if matches!(slot.get(key), Entry::Value(_)) {
                slot.remove(head, key, Leave::Tombstone).expect("what has an entry can be removed");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_store::{LogHead, StoreConfig};
    use sidle_types::HashedKey;

    const KEYS: usize = 20_000;

    /// Adds one to the key's number, as INCR does; returns the sum.
    fn increment(store: &Store, head: &mut LogHead, name: &[u8]) -> u64 {
        let key = HashedKey::new(name);
        let slot = store.lock_slot(key.slot());
        let before = slot
            .get(key)
            .value()
            .map_or(0, |record| u64::from_le_bytes(record.value().try_into().expect("eight bytes")));
        slot.put(head, key, &[&(before + 1).to_le_bytes()], None).expect("there is room");
        before + 1
    }

    /// A command may change a key between the visit that finds it and its removal.
    #[test]
    fn each_key_is_flushed_once_while_others_write() {
        let config = StoreConfig { memory_bytes: 64 << 20, huge_pages: false, ..StoreConfig::default() };
        let store = Store::new(config).expect("a valid configuration");
        let names: Vec<String> = (0..KEYS).map(|number| format!("key {number}")).collect();
        let mut order: Vec<&String> = names.iter().collect();
        order.sort_unstable_by_key(|name| HashedKey::new(name.as_bytes()).position());
        let mut head = store.log_head();
        let mut sums = vec![0; KEYS];
        for (number, name) in order.iter().enumerate() {
            sums[number] = increment(&store, &mut head, name.as_bytes());
        }
        for _ in 0..3 {
            let resets = std::thread::scope(|scope| {
                // In the flush's order, pass by pass, so that the two meet.
                let writer = scope.spawn(|| {
                    let mut head = store.log_head();
                    let mut resets = vec![0; KEYS];
                    for _ in 0..10 {
                        for (number, name) in order.iter().enumerate() {
                            let sum = increment(&store, &mut head, name.as_bytes());
                            assert!(
                                sum == 1 || sum == sums[number] + 1,
                                "{name}: {sum} after {}",
                                sums[number]
                            );
                            resets[number] += u32::from(sum == 1);
                            sums[number] = sum;
                        }
                    }
                    resets
                });
                remove_all(&store, &mut head, PositionRange::ALL);
                writer.join().expect("the writer holds its assertions")
            });
            for (number, name) in order.iter().enumerate() {
                // The flush may have come after the key's last increment.
                let is_there = store.pin().get(HashedKey::new(name.as_bytes())).value().is_some();
                assert_eq!(resets[number] + u32::from(!is_there), 1, "{name}: the number of its flushes");
                sums[number] = if is_there { sums[number] } else { 0 };
            }
        }
    }
}
