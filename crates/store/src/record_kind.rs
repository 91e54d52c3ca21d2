//! The kinds of records, and their numbers: see `record`.

use sidle_types::ValueKind;

/// A record's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A value of this type. A collection is one record, and its value all of its elements.
    Value(ValueKind),
    /// The key was removed; with version 0, a mark of absence.
    Tombstone,
    /// The head of a large collection of this type.
    Head(ValueKind),
    /// A chunk of a large collection of this type.
    Chunk(ValueKind),
    /// In a durable log only: a large collection has no chunk of this name any more.
    NoChunk,
    /// In a durable log only: everything in a range was removed.
    Cleared,
    /// In a durable log only: the order of the record behind it.
    Order,
    /// In a durable log only: how far the import of a range is.
    Import,
}

/// The kind's byte of a tombstone.
pub(crate) const TOMBSTONE: u8 = 1;
/// The mark of a head, in the kind's byte.
pub(crate) const HEAD: u8 = 0x10;
/// The mark of a chunk.
pub(crate) const CHUNK: u8 = 0x20;
/// The mark of a removed range, in the kind's byte.
const CLEARED: u8 = 0x40;
/// The mark of an order, in the kind's byte.
const ORDER: u8 = 0x80;
/// The marks of an import's note.
const IMPORT: u8 = CLEARED | ORDER;
/// The bits of the kind itself.
pub(crate) const KIND_MASK: u8 = 0x0F;

impl RecordKind {
    /// Its number in the record.
    #[inline]
    pub(crate) const fn number(self) -> u8 {
        match self {
            RecordKind::Value(ValueKind::String) => 0,
            RecordKind::Tombstone => TOMBSTONE,
            RecordKind::Value(ValueKind::Hash) => 2,
            RecordKind::Value(ValueKind::List) => 3,
            RecordKind::Value(ValueKind::Set) => 4,
            RecordKind::Value(ValueKind::SortedSet) => 5,
            RecordKind::Value(ValueKind::Completions) => 6,
            RecordKind::Value(ValueKind::Locks) => 7,
            RecordKind::Head(kind) => HEAD | RecordKind::Value(kind).number(),
            RecordKind::Chunk(kind) => CHUNK | RecordKind::Value(kind).number(),
            RecordKind::NoChunk => CHUNK | TOMBSTONE,
            RecordKind::Cleared => CLEARED | TOMBSTONE,
            RecordKind::Order => ORDER | TOMBSTONE,
            RecordKind::Import => IMPORT | TOMBSTONE,
        }
    }

    /// The kind with this number, without marks.
    #[inline]
    pub(crate) const fn numbered(number: u8) -> Option<RecordKind> {
        Some(match number {
            0 => RecordKind::Value(ValueKind::String),
            TOMBSTONE => RecordKind::Tombstone,
            2 => RecordKind::Value(ValueKind::Hash),
            3 => RecordKind::Value(ValueKind::List),
            4 => RecordKind::Value(ValueKind::Set),
            5 => RecordKind::Value(ValueKind::SortedSet),
            6 => RecordKind::Value(ValueKind::Completions),
            7 => RecordKind::Value(ValueKind::Locks),
            _ => return None,
        })
    }
}

impl RecordKind {
    /// The kind with this number, in a durable log.
    pub(crate) fn logged(number: u8) -> Option<RecordKind> {
        let kind = RecordKind::numbered(number & KIND_MASK)?;
        Some(match (number & !KIND_MASK, kind) {
            (0, kind) => kind,
            (HEAD, RecordKind::Value(kind)) if kind.is_collection() => RecordKind::Head(kind),
            (CHUNK, RecordKind::Value(kind)) if kind.is_collection() => RecordKind::Chunk(kind),
            (CHUNK, RecordKind::Tombstone) => RecordKind::NoChunk,
            (CLEARED, RecordKind::Tombstone) => RecordKind::Cleared,
            (ORDER, RecordKind::Tombstone) => RecordKind::Order,
            (IMPORT, RecordKind::Tombstone) => RecordKind::Import,
            _ => return None,
        })
    }
}
