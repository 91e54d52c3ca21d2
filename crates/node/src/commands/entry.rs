//! Entries as commands see them: a record whose time is over is as absent as one that never was.

use crate::call::{Call, ReplyError};
use sidle_store::{Entry, Record, SlotGuard};
use sidle_types::{HashedKey, WallMs};

/// The record, if there is one and its time is not over.
#[inline]
pub(crate) fn live(entry: Entry<'_>, now: WallMs) -> Option<Record<'_>> {
    match entry {
        Entry::Value(record) if !record.is_expired(now) => Some(record),
        _ => None,
    }
}

/// Removes a record whose time is over, for a writer that found one and writes nothing in its place.
pub(super) fn remove_if_expired(
    call: &mut Call<'_>,
    slot: &mut SlotGuard<'_>,
    key_index: usize,
    entry: &Entry<'_>,
) -> Result<(), ReplyError> {
    if let Entry::Value(record) = entry
        && record.is_expired(call.now)
    {
        remove(call, slot, key_index)?;
        call.stats.expired.add(1);
    }
    Ok(())
}

/// Removes a key, leaving behind what its range needs.
pub(super) fn remove(
    call: &mut Call<'_>,
    slot: &mut SlotGuard<'_>,
    key_index: usize,
) -> Result<bool, ReplyError> {
    let key: HashedKey<'_> = call.keys[key_index];
    Ok(slot.remove(call.head, key, call.leave[key_index])?)
}
