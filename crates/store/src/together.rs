//! Reading several keys, or counting all of them, at one moment.
//!
//! Readers take no lock here either, if possible: a read counts if there was no write to any of the slots
//! meanwhile (X3 in `slot_lock`). After a few failures they take the locks, as a writer would; look-ups of
//! single keys continue meanwhile.

use crate::data::{Data, Entry, Guard};
use crate::index::slots_of;
use crate::slot_lock::read_undisturbed;
use crate::writer::SlotGuard;
use sidle_types::{HashedKey, PositionRange, Slot};
use smallvec::SmallVec;

/// How many attempts are made without locks.
const TRIES: usize = 3;
/// So many keys are read without an allocation.
const INLINE_KEYS: usize = 8;

/// The entries of several keys, in order.
pub type Entries<'g> = SmallVec<[Entry<'g>; INLINE_KEYS]>;

impl Guard<'_> {
    /// Several keys' entries at one moment. A change of several of them
    /// ([`publish`](crate::SlotGuards::publish)) is seen whole or not at all. The calling thread has no slot
    /// locked.
    pub fn get_together<'g>(&'g self, keys: &[HashedKey<'_>]) -> Entries<'g> {
        let data = self.data;
        let mut entries = Entries::new();
        let mut look_up = || {
            entries.clear();
            entries.extend(keys.iter().map(|&key| data.look_up(key, self.pinned())));
        };
        let locks = || keys.iter().map(|key| &data.index.slot(key.slot()).lock);
        for _ in 0..TRIES {
            if read_undisturbed(locks, &mut look_up).is_some() {
                return entries;
            }
        }
        let mut slots: SmallVec<[Slot; INLINE_KEYS]> = keys.iter().map(|key| key.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        let _locks: SmallVec<[SlotGuard<'_>; INLINE_KEYS]> =
            slots.into_iter().map(|slot| SlotGuard::lock(data, slot)).collect();
        look_up();
        entries
    }
}

/// See [`Store::at_one_moment`](crate::Store::at_one_moment).
pub(crate) fn at_one_moment<T>(data: &Data, count: impl Fn() -> T) -> T {
    let occupancy = &data.index.occupancy;
    let locks = || data.index.occupied_tables().map(|table| &table.lock);
    for _ in 0..TRIES {
        // Slots without entries are skipped, so none may get or lose entries.
        let changes = occupancy.changes();
        let counted = read_undisturbed(locks, &count);
        if let Some(counted) = counted
            && occupancy.changes() == changes
        {
            return counted;
        }
    }
    let _locks: Vec<SlotGuard<'_>> =
        slots_of(PositionRange::ALL).map(|slot| SlotGuard::lock(data, slot)).collect();
    count()
}
