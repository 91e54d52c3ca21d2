//! Whether a record of the durable log is still what the store has: then it stays when its file goes.
//!
//! The log's files go in the order in which they were written. So a removal needs no record once its file is
//! the oldest: what it removed was in that file, or in older ones. For that, a record that stays is written
//! again before any removal of it: it is judged under its slot's lock, so a removal is over, and the record
//! outdated; or the removal has not begun, and is in this commit or a later one.

use crate::data::Data;
use crate::large::chunk::{ChunkName, address_of};
use crate::logged::{LoggedRecord, Meaning};
use crate::record::Record;
use crate::writer::SlotGuard;
use sidle_types::{Version, fault};

/// See [`Store::survivors_of`](crate::Store::survivors_of).
pub(crate) fn is_current(data: &Data, record: &LoggedRecord<'_>) -> bool {
    match record.meaning() {
        Meaning::Value(value) => is_value(data, value, record.order()),
        Meaning::Chunk(..) if fault!(ChunksGoWithTheirFile) => false,
        Meaning::Chunk(name, chunk) => is_chunk(data, name, chunk.version()),
        Meaning::Removed(removed) => is_removal(data, removed, record.order()),
        Meaning::NoChunk(..) | Meaning::Cleared(..) => false,
        Meaning::Import(note, _) => data.imports.is_current(&note),
    }
}

/// Where an import leaves tombstones, the log keeps them too: what they hide may be pulled again (M6). Of a
/// mark of absence nothing is hidden.
fn is_removal(data: &Data, removed: Record<'_>, order: Version) -> bool {
    let key = removed.hashed_key();
    if order == Version(0)
        || data.index.slot(key.slot()).tombstones() == 0
        || fault!(TombstonesGoWithTheirFile)
    {
        return false;
    }
    let guard = SlotGuard::lock(data, key.slot());
    let found = guard.find(key).filter(|(_, word)| word.kind().is_tombstone);
    found.is_some_and(|(_, word)| guard.record(word).version() <= order)
}

/// The order is the version of the store's own record, and no other record of the key has it. A record's own
/// version says nothing: what comes back after its range was given away has the same as before.
fn is_value(data: &Data, value: Record<'_>, order: Version) -> bool {
    let key = value.hashed_key();
    let guard = SlotGuard::lock(data, key.slot());
    let found = guard.find(key).filter(|(_, word)| !word.kind().is_tombstone);
    found.is_some_and(|(_, word)| guard.record(word).version() == order)
}

fn is_chunk(data: &Data, name: ChunkName, version: Version) -> bool {
    // A key of another slot may take the collection over meanwhile.
    while let Some(slot) = data.collections.read(name.id, |state| state.slot) {
        let guard = SlotGuard::lock(data, slot);
        let published = data.collections.read(name.id, |state| {
            let found = state.outline.sequence(name.order).labelled(name.label);
            (state.slot, found.and_then(|found| address_of(found.chunk)))
        });
        match published {
            Some((now, address)) if now == slot => {
                return address.is_some_and(|at| data.log.record(at, guard.pinned()).version() == version);
            }
            _ => continue,
        }
    }
    false
}
