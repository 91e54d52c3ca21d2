//! Who is told of changes of a key: one registry for everything that follows a key.
//!
//! Purpose: a transaction that watches a key learns that it changed, whoever changes it. What blocks for a
//! key, or reports changes to clients, can take the same way. A slot without an observed key costs its
//! writers the test of a bit in the lock word, which they have loaded.
//!
//! A change is a value set or removed: by a command, by expiry, by a flush. What a migration brings, a mark
//! of absence and a moved record are none: the key's value is what it was.
//!
//! Invariants:
//! - I1: a key is observed, and is no longer, under its slot's lock; a change is reported under the same. So
//!   whoever has the lock knows of every change so far.
//! - I2: the bit of a slot is set while any of its keys is observed.

use sidle_types::{Position, Slot};
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
    /// This observer is told of changes at the position. `had_expired`: the key's value had expired already.
    pub(crate) fn add(&self, position: Position, observer: &Arc<dyn Observer>, had_expired: bool) {
        let watcher = Watcher { observer: Arc::clone(observer), had_expired };
        self.shard(position.slot()).entry(position).or_default().push(watcher);
    }

    /// It is told no more; whether any key of the slot is still observed.
    pub(crate) fn remove(&self, position: Position, observer: &Arc<dyn Observer>) -> bool {
        let mut shard = self.shard(position.slot());
        if let Some(watchers) = shard.get_mut(&position) {
            watchers.retain(|watcher| !Arc::ptr_eq(&watcher.observer, observer));
            if watchers.is_empty() {
                shard.remove(&position);
            }
        }
        let (first, last) = (Position::first_of(position.slot()), Position::last_of(position.slot()));
        shard.range(first..=last).next().is_some()
    }

    /// Reports a change to the observers.
    #[cold]
    pub(crate) fn report(&self, position: Position, touch: Touch) {
        let mut shard = self.shard(position.slot());
        for watcher in shard.get_mut(&position).into_iter().flatten() {
            if !(std::mem::take(&mut watcher.had_expired) && touch == Touch::Removed) {
                watcher.observer.touched(position);
            }
        }
    }

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
