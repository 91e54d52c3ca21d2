//! What a session watches (WATCH), until its next EXEC, DISCARD or UNWATCH.
//!
//! Purpose: an EXEC runs only if no watched key has changed. The store tells the session of changes
//! (`store/interest.rs`). It does not see two of them: a value that expires, and a range that has been
//! another node's meanwhile. So for an EXEC over nodes there is the state of each key, which is compared
//! where the key is then (`key_state`).
//!
//! Invariants:
//! - O1: an EXEC that runs has the locks of all watched slots, and none of its keys was changed since WATCH.
//! - O2: at every position of a watched key, this node was the owner throughout: the tablet's epoch is that
//!   of the WATCH. An epoch never names two owners, so a range that went and came back has another one.

use crate::key_state::{KeyState, state_of};
use crate::range_table::RangeTable;
use sidle_store::{Entry, Observer, Store};
use sidle_types::{HashedKey, TabletEpoch, WallMs, fault};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a watched key takes beyond its bytes.
const KEY_BYTES: usize = 128;

/// The watched keys of a session.
pub(crate) struct Watch {
    store: Arc<Store>,
    observer: Arc<dyn Observer>,
    keys: BTreeMap<Box<[u8]>, Seen>,
    bytes: usize,
}

/// A key at its WATCH.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// That of its tablet; none if another node was asked what the key is.
    epoch: Option<TabletEpoch>,
    /// When its value ends; none if it had none, or one without an end.
    ends_at: Option<WallMs>,
    /// What EXEC compares at the key's owner, if that may be another node by then.
    state: KeyState,
}

impl Watch {
    /// Watches nothing yet.
    pub(crate) fn new(store: &Arc<Store>, observer: Arc<dyn Observer>) -> Watch {
        Watch { store: Arc::clone(store), observer, keys: BTreeMap::new(), bytes: 0 }
    }

    /// Watches a key that this node owns, and that has arrived.
    pub(crate) fn add(&mut self, key: HashedKey<'_>, ranges: &RangeTable, now: WallMs) {
        if self.keys.contains_key(key.bytes()) {
            return;
        }
        let epoch = ranges.map().tablet_at(key.position()).epoch;
        let slot = self.store.lock_slot(key.slot());
        let (ends_at, had_expired) = match slot.get(key) {
            Entry::Value(record) if record.is_expired(now) => (None, true),
            Entry::Value(record) => (record.expires_at(), false),
            Entry::Tombstone(_) | Entry::Absent => (None, false),
        };
        let state = state_of(&slot, key, now);
        slot.observe(key, &self.observer, had_expired);
        drop(slot);
        self.note(key.bytes(), Seen { epoch: Some(epoch), ends_at, state });
    }

    /// Watches a key that was in this state, wherever it is.
    pub(crate) fn add_state(&mut self, key: &[u8], state: KeyState) {
        if !self.keys.contains_key(key) {
            self.note(key, Seen { epoch: None, ends_at: None, state });
        }
    }

    fn note(&mut self, key: &[u8], seen: Seen) {
        self.bytes += KEY_BYTES + key.len();
        self.keys.insert(key.into(), seen);
    }

    /// Whether a key is watched by its state only.
    pub(crate) fn has_states_only(&self) -> bool {
        self.keys.values().any(|seen| seen.epoch.is_none())
    }

    /// What each key was.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&[u8], KeyState)> {
        self.keys.iter().map(|(key, seen)| (&**key, seen.state))
    }

    /// Whether a key has expired since, or has been another node's. The slots of all keys are locked; the
    /// session knows of other changes ([`ClientRecord::is_touched`](crate::ClientRecord::is_touched)).
    pub(crate) fn has_lapsed(&self, ranges: &RangeTable, now: WallMs) -> bool {
        self.keys.iter().any(|(key, seen)| {
            let position = HashedKey::new(key).position();
            let is_past = !fault!(WatchOutlivesTheEnd) && seen.ends_at.is_some_and(|ends_at| ends_at < now);
            let epoch = ranges.map().tablet_at(position).epoch;
            is_past || !fault!(WatchOutlivesHandOver) && seen.epoch != Some(epoch)
        })
    }

    /// The keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = HashedKey<'_>> {
        self.keys.keys().map(|key| HashedKey::new(key))
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// The thread has no slot locked.
impl Drop for Watch {
    fn drop(&mut self) {
        for key in self.keys() {
            self.store.lock_slot(key.slot()).stop_observing(key, &self.observer);
        }
    }
}
