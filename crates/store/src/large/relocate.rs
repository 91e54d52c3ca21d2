//! What the cleaner does with chunks and heads.

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::data::Data;
use crate::large::chunk::ChunkName;
use crate::log::LogHead;
use crate::record::Record;
use crate::segment::Purpose;
use crate::writer::SlotGuard;

/// Moves a chunk to the cleaner's head, if it is published there (C1, C6); whether it was. The caller counts
/// the old copy as dead.
pub(crate) fn relocate_chunk(
    data: &Data,
    head: &mut LogHead,
    address: Address,
    record: Record<'_>,
) -> Result<bool, OutOfMemory> {
    let name = ChunkName::of_key(record.key());
    // An address that is in no outline never gets into one again: skipping dead chunks needs no lock.
    while let Some(slot) = data.collections.slot_of_chunk(name, address) {
        let _lock = SlotGuard::lock(data, slot);
        // A key of another slot may have taken the collection over.
        if data.collections.slot_of_chunk(name, address) == Some(slot) {
            let copy = head.append_copy(record.in_log(), Purpose::Survivor)?;
            let moved = data.collections.change_if_there(name.id, |state| {
                let (from, to) = (address.offset(), copy.offset());
                let moved = state.outline.move_chunk(name.order, name.label, from, to);
                assert!(moved, "C1: nobody changes an outline without the lock");
            });
            if moved.is_none() {
                // It was abandoned meanwhile: its outline names the old copy (K3).
                data.log.bury_chunk(copy, record.in_log().len());
            }
            return Ok(moved.is_some());
        }
    }
    Ok(false)
}

/// The cleaner has copied a head, and is about to point its entry to the copy, under the slot's lock.
pub(crate) fn head_moved(data: &Data, record: Record<'_>, from: Address, to: Address) {
    if let Some(id) = record.collection() {
        let moved = data.collections.change_if_there(id, |state| {
            assert!(state.head == Some(from), "K2: the head is the one in the index");
            state.head = Some(to);
        });
        // While a store is recovered: outlines are made at its end, for heads where they are by then.
        assert!(moved.is_some() || data.collections.is_unused(), "the collection is in its cell");
    }
}
