//! FLUSHALL at an import: what is here goes, what has not arrived never comes.
//!
//! Each key has one instant at which it is flushed. A key with an entry is removed, and leaves a tombstone (M6). Then the
//! machine is told to flush: what has no entry is absent from that instant on. A key that is written in between has an
//! entry, and keeps it; its flush came before that write. Nothing is replayed in between, since replay belongs to this
//! thread: a record that arrived there would outlive the flush.

use sidle_store::{Entry, Leave, LogHead, OutOfMemory, Store};
use sidle_types::PositionRange;

/// How many records are collected before they are removed.
const BATCH_RECORDS: usize = 256;

/// Removes every value in the range, leaving tombstones.
pub(super) fn remove_all(store: &Store, head: &mut LogHead, range: PositionRange) -> Result<(), OutOfMemory> {
    let mut from = Some(range.first());
    while let Some(position) = from {
        let mut result = Ok(());
        from = store.visit(position, range.last(), BATCH_RECORDS, &mut |record| {
            let key = record.hashed_key();
            let mut slot = store.lock_slot(key.slot());
            // What was written since the visit found it is a later write than the flush.
            let is_it = matches!(slot.get(key), Entry::Value(now) if now.version() == record.version());
            if is_it && result.is_ok() {
                result = slot.remove(head, key, Leave::Tombstone).map(|_| ());
            }
        });
        result?;
    }
    Ok(())
}
