//! The chunks that a recovery has found, until their collections get outlines. All threads share them: a
//! chunk that one has taken, another does not take in an older version.

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::large::chunk::ChunkName;
use crate::log::LogHead;
use crate::record::{Record, Shape};
use crate::segment::Purpose;
use crate::store::Store;
use sidle_outline::CollectionId;
use sidle_types::Version;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that take chunks of different collections seldom wait for each other.
const SHARDS: usize = 64;

/// The latest of a chunk: its version, and, if it is there, where its record is, and its elements' bytes.
type Latest = (Version, Option<(Address, u32)>);

/// The chunks of a collection, by sequence and label.
pub(crate) type Chunks = BTreeMap<(u8, u64), Latest>;

/// What a record of the log says of a chunk.
pub(crate) struct FoundChunk<'r> {
    id: u64,
    /// Its place among its collection's.
    place: (u8, u64),
    version: Version,
    /// None if it is gone.
    record: Option<Record<'r>>,
    /// Where it is in the log.
    logged_at: Range<usize>,
}

impl<'r> FoundChunk<'r> {
    pub(crate) fn new(
        name: ChunkName,
        version: Version,
        record: Option<Record<'r>>,
        logged_at: Range<usize>,
    ) -> FoundChunk<'r> {
        FoundChunk { id: name.id.0, place: (name.order as u8, name.label), version, record, logged_at }
    }
}

/// The chunks of all collections, by their number.
pub(crate) struct FoundChunks {
    shards: [Mutex<BTreeMap<u64, Chunks>>; SHARDS],
}

impl FoundChunks {
    pub(crate) fn new() -> FoundChunks {
        FoundChunks { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, BTreeMap<u64, Chunks>> {
        self.shards[id as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection has a key: its chunks are needed.
    pub(crate) fn expect(&self, id: CollectionId) {
        self.shard(id.0).entry(id.0).or_default();
    }

    /// Takes the latest of some chunks, in any sequence; of any collection, or of the expected ones only.
    /// Returns where those are that were taken before.
    pub(crate) fn take(
        &self,
        store: &Store,
        head: &mut LogHead,
        mut chunks: Vec<FoundChunk<'_>>,
        is_any_expected: bool,
    ) -> Result<Vec<Range<usize>>, OutOfMemory> {
        let mut repeated = Vec::new();
        // A hot chunk is in a commit many times: only the latest is written.
        chunks.sort_unstable_by_key(|chunk| {
            (chunk.id, chunk.place, Reverse(chunk.version), chunk.record.is_some())
        });
        chunks.dedup_by_key(|chunk| (chunk.id, chunk.place));
        for of_one in chunks.chunk_by(|one, next| one.id == next.id) {
            let id = of_one[0].id;
            let mut shard = self.shard(id);
            let known = match is_any_expected {
                true => Some(shard.entry(id).or_default()),
                false => shard.get_mut(&id),
            };
            let Some(known) = known else { continue };
            for chunk in of_one {
                if take_one(store, head, known, chunk)? {
                    repeated.push(chunk.logged_at.clone());
                }
            }
        }
        Ok(repeated)
    }

    /// Hands out a collection's chunks.
    pub(crate) fn remove(&self, id: CollectionId) -> Chunks {
        self.shard(id.0).remove(&id.0).unwrap_or_default()
    }

    /// Gives back all records that are left.
    pub(crate) fn bury(&self, store: &Store) {
        for shard in &self.shards {
            let left = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            left.values().flatten().for_each(|(_, latest)| bury(store, latest));
        }
    }
}

/// Takes a chunk if it is the latest; the record that it replaces is given back. Whether it was taken before.
fn take_one(
    store: &Store,
    head: &mut LogHead,
    known: &mut Chunks,
    chunk: &FoundChunk<'_>,
) -> Result<bool, OutOfMemory> {
    if let Some((version, place)) = known.get(&chunk.place) {
        let is_outdated = match chunk.record {
            None => chunk.version < *version,
            Some(_) => chunk.version <= *version,
        };
        if is_outdated {
            return Ok(chunk.record.is_some() && place.is_some() && chunk.version == *version);
        }
    }
    let place = match chunk.record {
        None => None,
        Some(record) => {
            let bytes = record.in_log();
            let address = head.append_copy(bytes, Purpose::Recovered).or_else(|OutOfMemory| {
                store.make_room(bytes.len());
                head.append_copy(bytes, Purpose::Recovered)
            })?;
            Some((address, record.value().len() as u32))
        }
    };
    if let Some(outdated) = known.insert(chunk.place, (chunk.version, place)) {
        bury(store, &outdated);
    }
    Ok(false)
}

fn bury(store: &Store, (_, place): &Latest) {
    if let Some((address, bytes)) = *place {
        let _pinned = store.pin();
        store.data.log.bury_chunk(address, Shape::chunk(bytes as usize).total_bytes());
    }
}
