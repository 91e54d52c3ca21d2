//! Changes of several keys, which everybody else sees whole or not at all.
//!
//! First there is memory for all of them, or nothing happens. Then the records are written, while readers go
//! on; then, for a moment in which the slots' readers wait, the entries are published (X1 in `slot_lock`).

use crate::config::OutOfMemory;
use crate::log::LogHead;
use crate::record::Draft;
use crate::segment::Purpose;
use crate::store::{Entry, Store};
use crate::writer::{Leave, SlotGuard};
use sidle_types::{HashedKey, Slot, Version, WallMs};

/// What a new key may take of the index without asking for room: a bucket, and one for what makes way as its
/// table grows.
const INDEX_BYTES_PER_KEY: u64 = 128;

/// What becomes of one key in a change of several.
#[derive(Clone, Copy, Debug)]
pub enum Change<'p> {
    /// It gets a value, with a deadline or none.
    Put(&'p [u8], Option<WallMs>),
    /// It is removed, as by [`SlotGuard::remove`].
    Remove(Leave),
}

/// The locks of several slots, for a change of several keys in one step. Readers go on.
#[derive(Debug)]
pub struct SlotGuards<'s> {
    guards: Vec<SlotGuard<'s>>,
}

impl<'s> SlotGuards<'s> {
    /// Locks several slots.
    ///
    /// # Panics
    /// When the slots are not strictly ascending: that order is what keeps two writers from waiting for each
    /// other.
    pub fn lock(store: &'s Store, sorted_unique: &[Slot]) -> SlotGuards<'s> {
        assert!(sorted_unique.is_sorted_by(|a, b| a < b), "slots are locked in ascending order, each once");
        SlotGuards { guards: sorted_unique.iter().map(|&slot| store.lock_slot(slot)).collect() }
    }

    /// The lock of one of the slots.
    fn slot(&self, slot: Slot) -> &SlotGuard<'s> {
        let index = self.guards.binary_search_by_key(&slot, |guard| guard.slot());
        &self.guards[index.expect("one of the slots that were locked")]
    }

    /// What a key of one of the slots has.
    ///
    /// # Panics
    /// When its slot is not one of those locked.
    pub fn get(&self, key: HashedKey<'_>) -> Entry<'_> {
        self.slot(key.slot()).get(key)
    }

    /// Makes all changes in one step, in their order where a key has several; none of them where there is no
    /// memory for all. Nothing else publishes more than one word that belong together, so that nobody sees
    /// half of a change. Readers wait while the entries are published and until the locks are given back, not
    /// while the values are copied.
    ///
    /// # Panics
    /// When a key's slot is not one of those locked.
    pub fn publish<'p>(
        &self,
        head: &mut LogHead,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)> + Clone,
    ) -> Result<(), OutOfMemory> {
        self.prepare(head, changes.clone())?;
        head.hold_back();
        let mut written = Vec::with_capacity(changes.size_hint().0);
        for (key, change) in changes.clone() {
            let slot = self.slot(key.slot());
            let record = change.needs_record(slot, key).then(|| {
                let version = slot.next_version();
                slot.table().raise_version(version.0);
                let append = |draft: &Draft<'_>| head.append(draft, Purpose::Value);
                (version, change.drafted(key, version, append).expect("there is room for all"))
            });
            written.push(record);
        }
        self.guards.iter().for_each(|guard| guard.table().lock.make_exclusive());
        for ((key, change), record) in changes.zip(written) {
            let slot = self.slot(key.slot());
            match (record, change) {
                (Some((version, address)), _) => {
                    change.drafted(key, version, |draft| slot.publish(key, draft, address));
                }
                // Nothing is left, or a tombstone of what has an entry.
                (None, Change::Remove(leave)) => {
                    slot.remove(head, key, leave).expect("this removal takes no memory that may be missing");
                }
                (None, Change::Put(..)) => unreachable!("a value has a record"),
            }
        }
        head.all_published();
        Ok(())
    }

    /// Makes sure that there is memory for these changes.
    fn prepare<'p>(
        &self,
        head: &mut LogHead,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)> + Clone,
    ) -> Result<(), OutOfMemory> {
        let Some(store) = self.guards.first().map(SlotGuard::store) else { return Ok(()) };
        let records = changes.filter(|(key, change)| change.needs_record(self.slot(key.slot()), *key));
        for (key, _) in records.clone() {
            let slot = self.slot(key.slot());
            slot.check(head, key);
            slot.admit(|| slot.find(key).is_some())?;
        }
        // Nobody is asked for the few pieces of index that come with few keys.
        let index_bytes = |keys: usize| keys as u64 * INDEX_BYTES_PER_KEY;
        let beside = match index_bytes(records.clone().count()) {
            few if few < store.log.segments.segment_bytes() => 0,
            _ => index_bytes(
                records.clone().filter(|(key, _)| self.slot(key.slot()).find(*key).is_none()).count(),
            ),
        };
        let sizes =
            records.map(|(key, change)| change.drafted(key, Version(0), |draft| draft.shape().total_bytes()));
        head.prepare(sizes, beside)
    }
}

impl Change<'_> {
    /// Whether it is a record of its own that has to be there before it is published.
    fn needs_record(&self, slot: &SlotGuard<'_>, key: HashedKey<'_>) -> bool {
        match self {
            Change::Put(..) => true,
            Change::Remove(Leave::Nothing) => false,
            // What has an entry can always be removed, with or without memory.
            Change::Remove(Leave::Tombstone) => slot.find(key).is_none(),
        }
    }

    /// Lends the record to be.
    fn drafted<T>(&self, key: HashedKey<'_>, version: Version, f: impl FnOnce(&Draft<'_>) -> T) -> T {
        match *self {
            Change::Put(value, expires_at) => f(&Draft::value(key.bytes(), &[value], version, expires_at)),
            Change::Remove(_) => f(&Draft::tombstone(key.bytes(), version)),
        }
    }
}
