//! Observing a key, and reporting its changes, under its slot's lock (I1, I2).

use crate::interest::{Observer, Touch};
use crate::record::{HEADER_BYTES, Record};
use crate::writer::SlotGuard;
use sidle_types::{HashedKey, Position};
use std::sync::Arc;

impl SlotGuard<'_> {
    /// From now on this observer is told of changes of the key. `had_expired`: its value had expired already.
    pub fn observe(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>, had_expired: bool) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        self.data().interest.add(key.position(), observer, had_expired);
        self.table().lock.set_interest(true);
    }

    /// This observer is told no more of the key.
    pub fn stop_observing(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        let is_observed = self.data().interest.remove(key.position(), observer);
        self.table().lock.set_interest(is_observed);
    }

    /// The state of a key's value, which this record is: every change of the key has another one. It goes to
    /// other nodes with the record, unless that gets a new version there.
    pub fn state(&self, record: Record<'_>) -> u64 {
        // The head of a large collection stays while its chunks change.
        let version = record
            .collection()
            .and_then(|id| self.data().collections.read(id, |collection| collection.version));
        let mut bytes = [0; HEADER_BYTES + size_of::<u64>()];
        bytes[..HEADER_BYTES].copy_from_slice(record.head());
        bytes[HEADER_BYTES..].copy_from_slice(&version.map_or(0, |version| version.0).to_le_bytes());
        HashedKey::new(&bytes).hash().0
    }

    /// Reports a change to the observers of the key, if there are any.
    #[inline]
    pub(crate) fn touch(&self, position: impl FnOnce() -> Position, touch: Touch) {
        if self.table().lock.has_interest() {
            self.data().interest.report(position(), touch);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Change, Leave, SlotGuards, Store, StoreConfig};
    use sidle_outline::{Chunk, Order, Outline};
    use sidle_types::{PositionRange, ValueKind, WallMs};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl Observer for Count {
        fn touched(&self, _: Position) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A store with a value of "seen", and one of "{seen}other", in the same slot.
    fn store() -> Store {
        let store = Store::new(StoreConfig::with_memory(16 << 20)).expect("a good configuration");
        let mut head = store.log_head();
        for key in [b"seen".as_slice(), b"{seen}other"] {
            let key = HashedKey::new(key);
            store.lock_slot(key.slot()).put(&mut head, key, &[b"v"], None).expect("there is room");
        }
        store
    }

    /// How often an observer of "seen" is told of what `change` does to the store.
    fn told(has_value: bool, had_expired: bool, change: impl Fn(&Store, HashedKey<'static>)) -> usize {
        let (store, key) = (store(), HashedKey::new(b"seen"));
        if !has_value {
            let removed = store.lock_slot(key.slot()).remove(&mut store.log_head(), key, Leave::Nothing);
            removed.expect("it can be removed");
        }
        let count = Arc::new(Count::default());
        let observer: Arc<dyn Observer> = Arc::<Count>::clone(&count);
        store.lock_slot(key.slot()).observe(key, &observer, had_expired);
        change(&store, key);
        let times = count.0.load(Relaxed);
        store.lock_slot(key.slot()).stop_observing(key, &observer);
        assert!(!store.lock_slot(key.slot()).table().lock.has_interest(), "I2: nobody is left");
        change(&store, key);
        assert_eq!(count.0.load(Relaxed), times, "told after the end");
        times
    }

    fn put(store: &Store, key: HashedKey<'_>, value: &[u8]) {
        store.lock_slot(key.slot()).put(&mut store.log_head(), key, &[value], None).expect("there is room");
    }

    fn remove(store: &Store, key: HashedKey<'_>, leave: Leave) {
        store.lock_slot(key.slot()).remove(&mut store.log_head(), key, leave).expect("there is room");
    }

    #[test]
    fn every_change_of_the_value_is_told() {
        assert_eq!(told(true, false, |store, key| put(store, key, b"v")), 1, "the same value again");
        assert_eq!(told(false, false, |store, key| put(store, key, b"v")), 1);
        for leave in [Leave::Nothing, Leave::Tombstone] {
            assert_eq!(told(true, false, |store, key| remove(store, key, leave)), 1, "{leave:?}");
        }
        let made_and_removed = |store: &Store, key| {
            put(store, key, b"v");
            remove(store, key, Leave::Nothing);
        };
        assert_eq!(told(false, false, made_and_removed), 2);
        let all = PositionRange::ALL;
        let discard = |store: &Store, _| assert_eq!(store.discard(all.first(), all.last(), 100), None);
        assert_eq!(told(true, false, discard), 1);
        let publish = |store: &Store, key: HashedKey<'static>, change| {
            let slots = SlotGuards::lock(store, &[key.slot()]);
            slots
                .publish(&mut store.log_head(), WallMs(0), [(key, change)].into_iter())
                .expect("there is room");
        };
        let set = Change::Put(ValueKind::String, b"w", None);
        assert_eq!(told(true, false, |store, key| publish(store, key, set)), 1);
        assert_eq!(told(true, false, |store, key| publish(store, key, Change::Remove(Leave::Nothing))), 1);
    }

    #[test]
    fn appending_and_deadlines_are_told_of_values_of_any_size() {
        for bytes in [1, 100 << 10] {
            let grow = |store: &Store, key: HashedKey<'static>| {
                let (mut head, slot) = (store.log_head(), store.lock_slot(key.slot()));
                slot.extend(&mut head, key, &[&vec![0; bytes]]).expect("there is room");
                slot.set_deadline(&mut head, key, Some(WallMs(1 << 40))).expect("there is room");
            };
            assert_eq!(told(true, false, grow), 2, "{bytes}");
        }
    }

    #[test]
    fn every_change_of_a_large_collection_is_told_and_no_move_of_its_chunks() {
        let change = |store: &Store, key: HashedKey<'static>, labels: std::ops::Range<u64>| {
            let slot = store.lock_slot(key.slot());
            let old = slot.get(key).value().filter(Record::is_large);
            let mut outline = old.map_or(Outline::new(0), |record| slot.outline(record));
            labels.for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 100])));
            slot.put_large(&mut store.log_head(), key, ValueKind::Set, outline, None).expect("there is room");
        };
        assert_eq!(told(true, false, |store, key| change(store, key, 0..9)), 1, "a new head");
        let twice = |store: &Store, key: HashedKey<'static>| {
            change(store, key, 0..9);
            change(store, key, 3..4);
        };
        assert_eq!(told(false, false, twice), 2, "the same head");
        let removed = |store: &Store, key: HashedKey<'static>| {
            change(store, key, 0..9);
            remove(store, key, Leave::Nothing);
        };
        assert_eq!(told(false, false, removed), 2);
        let rewritten = |store: &Store, key: HashedKey<'static>| {
            (0..2000).for_each(|_| change(store, key, 0..100));
            while store.cleaner().step(1 << 20) == crate::CleanOutcome::Progress {}
        };
        assert_eq!(told(true, false, rewritten), 2000);
    }

    #[test]
    fn what_leaves_the_value_as_it_is_is_not_told() {
        let other = HashedKey::new(b"{seen}other");
        assert_eq!(told(true, false, |store, _| put(store, other, b"w")), 0, "another key of the slot");
        assert_eq!(told(true, false, |store, _| remove(store, other, Leave::Nothing)), 0);
        for leave in [Leave::Nothing, Leave::Tombstone] {
            assert_eq!(told(false, false, |store, key| remove(store, key, leave)), 0, "nothing is removed");
        }
        let mark = |store: &Store, key: HashedKey<'static>| {
            store.lock_slot(key.slot()).mark_absent(&mut store.log_head(), key).expect("there is room");
        };
        assert_eq!(told(false, false, mark), 0);
    }

    /// Of a string, of a longer one, of a large collection whose head stays.
    #[test]
    fn every_change_is_another_state_and_what_changes_nothing_is_none() {
        let (store, key) = (store(), HashedKey::new(b"seen"));
        let mut head = store.log_head();
        let state = || {
            let slot = store.lock_slot(key.slot());
            slot.state(slot.get(key).value().expect("it has a value"))
        };
        let mut states = vec![state()];
        let mut note = |what: &str, is_change: bool| {
            let now = state();
            assert_eq!(is_change, !states.contains(&now), "{what}");
            states.push(now);
        };
        put(&store, key, b"v");
        note("the same value", true);
        put(&store, HashedKey::new(b"{seen}other"), b"w");
        note("another key", false);
        store.lock_slot(key.slot()).extend(&mut head, key, &[&[0; 100_000]]).expect("there is room");
        note("a longer value", true);
        store.lock_slot(key.slot()).extend(&mut head, key, &[b"+"]).expect("there is room");
        note("one byte more", true);
        let deadline = Some(WallMs(1 << 40));
        store.lock_slot(key.slot()).set_deadline(&mut head, key, deadline).expect("there is room");
        note("a deadline", true);
        for labels in [0..9, 3..4, 3..4] {
            let slot = store.lock_slot(key.slot());
            let old = slot.get(key).value().filter(Record::is_large);
            let mut outline = old.map_or(Outline::new(0), |record| slot.outline(record));
            labels.for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 100])));
            slot.put_large(&mut head, key, ValueKind::Set, outline, None).expect("there is room");
            drop(slot);
            note("chunks", true);
        }
        while store.cleaner().step(1 << 20) == crate::CleanOutcome::Progress {}
        note("it was moved", false);
    }

    /// As if it had been absent: what had expired may go, and what comes after is a change.
    #[test]
    fn the_end_of_what_had_expired_is_not_told() {
        assert_eq!(told(true, true, |store, key| remove(store, key, Leave::Nothing)), 0);
        assert_eq!(told(true, true, |store, key| put(store, key, b"w")), 1);
        let removed_and_set = |store: &Store, key| {
            remove(store, key, Leave::Nothing);
            put(store, key, b"w");
        };
        assert_eq!(told(true, true, removed_and_set), 1);
    }
}
