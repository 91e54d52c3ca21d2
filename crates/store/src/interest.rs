//! Who is told of changes of a key: one registry for everything that follows a key.
//!
//! Purpose: a transaction that watches a key learns that it changed, whoever changes it. What blocks for a key
//! or reports changes to clients takes the same way. A slot without an observed key costs its writers the test
//! of a bit in the lock word, which they have loaded.
//!
//! A change is a value set or removed: by a command, by expiry, by a flush. What a migration brings, a mark of
//! absence and a moved record are none: the key's value is what it was.
//!
//! Invariants:
//! - I1: a key is observed, and is no longer, under its slot's lock; a change is reported under the same. So
//!   whoever has the lock knows of every change so far.
//! - I2: the bit of a slot is set while any of its keys is observed.

use crate::writer::SlotGuard;
use sidle_types::{HashedKey, Position, Slot};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// Is told of changes.
pub trait Observer: fmt::Debug + Send + Sync {
    /// The key at this position has changed. The caller has its slot locked: neither wait here nor use the
    /// store.
    fn touched(&self, position: Position);
}

/// One observer of one key.
#[derive(Debug)]
struct Watcher {
    observer: Arc<dyn Observer>,
    /// The key had a value that had expired: to remove it is no change.
    had_expired: bool,
}

/// The observed keys of a store, by position.
#[derive(Debug)]
pub(crate) struct Interest {
    shards: [Mutex<BTreeMap<Position, Vec<Watcher>>>; SHARDS],
}

impl Default for Interest {
    fn default() -> Interest {
        Interest { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Interest {
    fn shard(&self, slot: Slot) -> MutexGuard<'_, BTreeMap<Position, Vec<Watcher>>> {
        // Every change of the map is one step.
        self.shards[slot.index() % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It has a new value, or a new deadline.
    Put,
    /// Its value is gone.
    Removed,
}

impl SlotGuard<'_> {
    /// From now on this observer is told of changes of the key. `had_expired`: its value had expired already.
    pub fn observe(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>, had_expired: bool) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        let watcher = Watcher { observer: Arc::clone(observer), had_expired };
        self.data().interest.shard(self.slot()).entry(key.position()).or_default().push(watcher);
        self.table().lock.set_interest(true);
    }

    /// This observer is told no more of the key.
    pub fn stop_observing(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        let mut shard = self.data().interest.shard(self.slot());
        if let Some(watchers) = shard.get_mut(&key.position()) {
            watchers.retain(|watcher| !Arc::ptr_eq(&watcher.observer, observer));
            if watchers.is_empty() {
                shard.remove(&key.position());
            }
        }
        let (first, last) = (Position::first_of(self.slot()), Position::last_of(self.slot()));
        if shard.range(first..=last).next().is_none() {
            self.table().lock.set_interest(false);
        }
    }

    /// Reports a change to the observers of the key, if there are any.
    #[inline]
    pub(crate) fn touch(&self, position: impl FnOnce() -> Position, touch: Touch) {
        if self.table().lock.has_interest() {
            self.report(position(), touch);
        }
    }

    #[cold]
    fn report(&self, position: Position, touch: Touch) {
        let mut shard = self.data().interest.shard(self.slot());
        for watcher in shard.get_mut(&position).into_iter().flatten() {
            if !(std::mem::take(&mut watcher.had_expired) && touch == Touch::Removed) {
                watcher.observer.touched(position);
            }
        }
    }
}
