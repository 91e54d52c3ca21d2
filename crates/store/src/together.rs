//! Reading several keys, or counting all of them, at one moment.
//!
//! Readers take no lock here either, if possible: a read counts if there was no write to any of the slots
//! meanwhile (X3 in `slot_lock`). After a few failures they take the locks, as a writer would; look-ups of
//! single keys continue meanwhile.
//!
//! - X4: the outline of a large collection is of the same moment as the other keys' entries: it is taken out
//!   of its cell within what X3 validates.
//!
//! A cell changes under the lock of its slot (K1), and a reader that finds a later outline than at its
//! look-up has seen that lock taken: the cell's own lock orders the two. So the second check of the locks
//! finds it taken, or released once more. A collection that another slot's key takes over has another head
//! from then on (K2): its outline is not found by the head that was looked up, and the read does not count.

use crate::data::{Data, Entry, Guard};
use crate::index::slots_of;
use crate::slot_lock::read_undisturbed;
use crate::writer::SlotGuard;
use sidle_outline::Outline;
use sidle_types::{HashedKey, PositionRange, Slot};
use smallvec::SmallVec;

/// How many attempts are made without locks.
const TRIES: usize = 3;
/// So many keys are read without an allocation.
const INLINE_KEYS: usize = 8;

/// The entries of several keys, in order.
pub type Entries<'g> = SmallVec<[Entry<'g>; INLINE_KEYS]>;

/// The same, with the outlines of large collections.
pub type WholeEntries<'g> = SmallVec<[(Entry<'g>, Option<Outline>); INLINE_KEYS]>;

impl Guard<'_> {
    /// Several keys' entries at one moment. A change of several of them
    /// ([`publish`](crate::SlotGuards::publish)) is seen whole or not at all. The calling thread has no slot
    /// locked. An outline that is asked for afterwards may be of a later moment: see
    /// [`get_whole_together`](Self::get_whole_together).
    pub fn get_together<'g>(&'g self, keys: &[HashedKey<'_>]) -> Entries<'g> {
        self.together(keys, |key| Some(self.data.look_up(key, self.pinned())))
    }

    /// As [`get_together`](Self::get_together), with the outlines of large collections, of the same moment.
    pub fn get_whole_together<'g>(&'g self, keys: &[HashedKey<'_>]) -> WholeEntries<'g> {
        self.together(keys, |key| {
            let entry = self.data.look_up(key, self.pinned());
            match entry.head() {
                Some(head) => Some((entry, Some(self.data.outline_of(head)?))),
                None => Some((entry, None)),
            }
        })
    }

    /// What `look_up` finds for each key, at one moment. It may find nothing where a writer is in the slot.
    fn together<T>(
        &self,
        keys: &[HashedKey<'_>],
        look_up: impl Fn(HashedKey<'_>) -> Option<T>,
    ) -> SmallVec<[T; INLINE_KEYS]> {
        let data = self.data;
        let all = || keys.iter().map(|&key| look_up(key)).collect();
        let locks = || keys.iter().map(|key| &data.index.slot(key.slot()).lock);
        for _ in 0..TRIES {
            if let Some(Some(found)) = read_undisturbed(locks, all) {
                return found;
            }
        }
        let mut slots: SmallVec<[Slot; INLINE_KEYS]> = keys.iter().map(|key| key.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        let _locks: SmallVec<[SlotGuard<'_>; INLINE_KEYS]> =
            slots.into_iter().map(|slot| SlotGuard::lock(data, slot)).collect();
        all().expect("X4: no writer is in the slots")
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
