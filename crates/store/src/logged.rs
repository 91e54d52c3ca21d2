//! The records of a durable log, and what they mean.
//!
//! A commit is a sequence of records, in no order that matters: of two records of one key, or of one chunk,
//! that with the higher **order** counts; of two with the same, the one that removes. The order is the
//! record's version, unless it is written before it: a tombstone may have the version of what it removes.
//! Orders grow within a slot as versions do, of which they are some.
//!
//! The order of a value is the version of the store's own record, also of a value that another node wrote: it
//! gets one here, since its own says nothing of what happened here before it came. A log of an earlier build
//! has such a value as it came, behind its order.
//!
//! | record | means |
//! |---|---|
//! | a value | the key's, if it is the latest |
//! | a head | the key has a large collection of this number |
//! | a tombstone | the key has lost its value of this version, or an earlier one |
//! | a chunk | some elements of a large collection, at this label |
//! | no chunk | the collection has no chunk at this label any more |
//! | cleared | everything in a range of positions, up to this order, was removed |
//! | order | the order of the value, or the tombstone, behind it |
//! | import | how far the import of a range is; of several of one migration, the furthest counts |

use crate::imports::ImportNote;
use crate::large::chunk::ChunkName;
use crate::range_key;
use crate::record::{Record, RecordError, RecordKind};
use sidle_types::{HashedKey, PositionRange, Version};

/// A record of a durable log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRecord<'r> {
    record: Record<'r>,
    kind: RecordKind,
    order: Version,
    /// With what says its order.
    bytes: &'r [u8],
}

/// What a logged record means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning<'r> {
    /// The key's value, or a large collection's head.
    Value(Record<'r>),
    /// The key was removed.
    Removed(Record<'r>),
    /// A chunk of a large collection.
    Chunk(ChunkName, Record<'r>),
    /// The chunk is no more.
    NoChunk(ChunkName, Version),
    /// Everything up to this version was removed.
    Cleared(PositionRange, Version),
    /// How far the import of a range is. What is no younger than this version was there before.
    Import(ImportNote, Version),
}

/// Bytes of a durable log are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {error}")]
pub struct LoggedError {
    /// Where the record starts.
    pub at: usize,
    /// What is wrong with it.
    pub error: RecordError,
}

impl<'r> LoggedRecord<'r> {
    /// Its bytes, with its order.
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// The key whose entry it is about, if it is about one.
    pub(crate) fn entry_key(&self) -> Option<HashedKey<'r>> {
        let is_entrys =
            matches!(self.kind, RecordKind::Value(_) | RecordKind::Head(_) | RecordKind::Tombstone);
        is_entrys.then(|| self.record.hashed_key())
    }

    pub(crate) fn order(&self) -> Version {
        self.order
    }

    pub(crate) fn kind(&self) -> RecordKind {
        self.kind
    }

    pub(crate) fn meaning(&self) -> Meaning<'r> {
        let (record, key) = (self.record, self.record.key());
        match self.kind {
            RecordKind::Value(_) | RecordKind::Head(_) => Meaning::Value(record),
            RecordKind::Tombstone => Meaning::Removed(record),
            RecordKind::Chunk(_) => Meaning::Chunk(ChunkName::of_key(key), record),
            RecordKind::NoChunk => Meaning::NoChunk(ChunkName::of_key(key), record.version()),
            RecordKind::Cleared => Meaning::Cleared(range_key::range_of(key), record.version()),
            RecordKind::Import => Meaning::Import(ImportNote::of_key(key), record.version()),
            RecordKind::Order => unreachable!("it is part of the record behind it"),
        }
    }
}

/// The records of a commit, or of adjacent ones.
pub fn logged_records(bytes: &[u8]) -> impl Iterator<Item = Result<LoggedRecord<'_>, LoggedError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let record = first_of(rest).map_err(|error| LoggedError { at, error });
        at += record.as_ref().map_or(rest.len(), |record| record.bytes.len());
        Some(record)
    })
}

/// The record at the start of these bytes.
fn first_of(bytes: &[u8]) -> Result<LoggedRecord<'_>, RecordError> {
    let (record, kind) = Record::check_logged(bytes)?;
    if kind != RecordKind::Order {
        return Ok(LoggedRecord { record, kind, order: record.version(), bytes: record.in_log() });
    }
    let (order, before) = (record.version(), record.in_log().len());
    let (record, kind) = Record::check_logged(&bytes[before..])?;
    match kind {
        RecordKind::Value(_) | RecordKind::Head(_) | RecordKind::Tombstone => {
            let bytes = &bytes[..before + record.in_log().len()];
            Ok(LoggedRecord { record, kind, order, bytes })
        }
        _ => Err(RecordError::Malformed),
    }
}
