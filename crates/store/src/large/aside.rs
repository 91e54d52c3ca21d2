//! A large collection that is built aside, in several steps, before a key has it.
//!
//! As of one that [arrives](super::arrival), its chunks lie where they will stay, under a cell without a
//! head. [`SlotGuard::put_large`] with its outline makes it the key's value, in one step.

use crate::config::OutOfMemory;
use crate::large::publish::LargePut;
use crate::large::registry::Collections;
use crate::log::LogHead;
use crate::writer::SlotGuard;
use sidle_outline::{CollectionId, Outline};
use sidle_types::{HashedKey, ValueKind};
use std::sync::Arc;

/// A collection that is built aside. Dropped, it leaves nothing behind, unless a key has it.
pub struct Aside {
    collections: Arc<Collections>,
    id: CollectionId,
}

impl Aside {
    /// Begins with a new outline. The key is that which is to have the collection: its slot is locked.
    pub fn begin(
        slot: &SlotGuard<'_>,
        head: &mut LogHead,
        (key, kind): (HashedKey<'_>, ValueKind),
        outline: Outline,
    ) -> Result<Aside, OutOfMemory> {
        assert!(outline.id().is_none(), "it is another collection's");
        let id = write(slot, head, (key, kind), outline)?;
        Ok(Aside { collections: Arc::clone(&slot.data().collections), id })
    }

    /// What is built so far.
    pub fn outline(&self) -> Option<Outline> {
        self.collections.read(self.id, |state| state.outline.clone())
    }

    /// Goes on to this outline, which was made from [that](Self::outline) under the same lock.
    pub fn go_on(
        &self,
        slot: &SlotGuard<'_>,
        head: &mut LogHead,
        (key, kind): (HashedKey<'_>, ValueKind),
        outline: Outline,
    ) -> Result<(), OutOfMemory> {
        assert_eq!(outline.id(), Some(self.id), "it is another collection's");
        write(slot, head, (key, kind), outline).map(drop)
    }
}

fn write(
    slot: &SlotGuard<'_>,
    head: &mut LogHead,
    (key, kind): (HashedKey<'_>, ValueKind),
    outline: Outline,
) -> Result<CollectionId, OutOfMemory> {
    slot.admit(|| false)?;
    let mut put = LargePut::arriving(key, kind, outline, slot.next_version());
    put.carry_out(slot, head)?;
    head.all_published();
    Ok(put.id().expect("it was appended"))
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.collections.abandon_if_without_head(self.id);
    }
}

impl std::fmt::Debug for Aside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside").field("id", &self.id).finish_non_exhaustive()
    }
}
