//! The layout of a record, the same in memory and in migration batches: packing is a copy, and replay a check
//! and a copy.
//!
//! Version 2. Little-endian, starting at a multiple of 8 bytes (`docs/layout.md` draws it):
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | CRC32C of everything from byte 4 to the end of the value |
//! | 4..8 | length of the value (30 bits), reserved (0), the value is outside |
//! | 8..12 | length of the key (29 bits), words before the key (2 bits), reserved (0) |
//! | 12..19 | version (56 bits) |
//! | 19 | kind (4 bits), marks (4 bits) |
//! | 20.. | the words, 8 bytes each: a value's deadline in milliseconds since the Unix epoch, if any |
//! | .. | key, value, zeros up to a multiple of 8 |
//!
//! Kinds: 0 string, 1 tombstone, 2 hash, 3 list, 4 set, 5 sorted set, 6 completions, 7 locks. The layout has
//! room for more: further kinds, with their own words before the deadline, and marks. This version refuses
//! them by number.
//!
//! Two marks exist in memory only, and are refused from other nodes: 1 a head, the record of a key with a
//! large collection; 2 a chunk, some elements of one (`large`). A string has neither. A head's value is the
//! encoding (1 byte) and the collection's number (8 bytes). A chunk's key is the collection's number, the
//! sequence (1 byte) and the chunk's label (8 bytes), numbers with the lowest byte first.
//!
//! In memory only, a value may be outside: in its own run, where it grows. Then the topmost bit of the
//! value's length is set, and the checksum covers the value alone, so that it can be continued. The run's
//! place (8 bytes, a multiple of 8) replaces the value. Such a record is packed with its value inside.
//!
//! A tombstone of version 0 is a mark of absence: nothing was removed, another node reported the key absent.
//! The mark saves another question, and may be dropped whenever memory is needed.

use crate::address::ALIGNMENT;
use crate::config::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::hidden::Hidden;
pub(crate) use crate::record_kind::RecordKind;
use crate::record_kind::{CHUNK, HEAD, KIND_MASK, TOMBSTONE};
use sidle_outline::CollectionId;
use sidle_types::{HashedKey, Position, ValueKind, Version, WallMs};
use std::ops::Range;

/// Bytes before the key of a record without a deadline.
pub(crate) const HEADER_BYTES: usize = 20;
const WORD_BYTES: usize = 8;
/// The most that a record without a large key takes beyond its value: an allowance, not a limit.
pub(crate) const OVERHEAD_ALLOWANCE_BYTES: u64 = 1024;
const KEY_LENGTH_MASK: u32 = (1 << 29) - 1;
/// The bit where the number of words begins.
const WORDS_SHIFT: u32 = 29;
const WORDS_MASK: u32 = 3;
/// In the length of the key.
const KEY_RESERVED: u32 = 1 << 31;
const VALUE_LENGTH_MASK: u32 = (1 << 30) - 1;
/// In the length of the value.
const VALUE_RESERVED: u32 = 1 << 30;
const IS_OUTSIDE: u32 = 1 << 31;
/// The kind's bit in the word of the version.
const KIND_SHIFT: u32 = 56;
/// The key of a chunk: the collection, the sequence, the label.
pub(crate) const CHUNK_KEY_BYTES: usize = 17;
/// The value of a head: the encoding and the collection.
pub(crate) const HEAD_VALUE_BYTES: usize = 9;
/// The key of a removed range: its first and its last position.
pub(crate) const CLEARED_KEY_BYTES: usize = 16;
/// The key of an import's note: its range, its migration, and its stage.
pub(crate) const IMPORT_KEY_BYTES: usize = CLEARED_KEY_BYTES + 9;
/// The first byte that the checksum covers: all but itself.
pub(crate) const CHECKED_FROM: usize = 4;
/// The kind's byte.
const KIND_AT: usize = 19;

/// Later than every deadline.
pub(crate) const NEVER: WallMs = WallMs(u64::MAX);

/// The kind of values outside of their records: only strings grow.
const STRING: RecordKind = RecordKind::Value(ValueKind::String);

/// The bytes that replace an outside value.
const OUTSIDE_BYTES: usize = 8;

/// A record's lengths, which locate its parts, in their stored form: decoded only where needed, since every
/// look-up reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The length of the value, and whether it is outside.
    value: u32,
    /// The length of the key, and the number of words before it.
    key: u32,
}

impl Shape {
    fn of(key_bytes: usize, value_bytes: usize, has_deadline: bool) -> Shape {
        let words = u32::from(has_deadline) << WORDS_SHIFT;
        Shape { value: value_bytes as u32, key: key_bytes as u32 | words }
    }

    fn tombstone(key_bytes: usize) -> Shape {
        Shape::of(key_bytes, 0, false)
    }

    /// That of a chunk with so many bytes of elements.
    pub(crate) fn chunk(bytes: usize) -> Shape {
        Shape::of(CHUNK_KEY_BYTES, bytes, false)
    }

    fn with_value_outside(self) -> Shape {
        Shape { value: self.value | IS_OUTSIDE, ..self }
    }

    fn with_value_inside(self) -> Shape {
        Shape { value: self.value & !IS_OUTSIDE, ..self }
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        (self.key & KEY_LENGTH_MASK) as usize
    }

    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        (self.value & VALUE_LENGTH_MASK) as usize
    }

    /// The number of words before the key.
    #[inline]
    fn words(self) -> usize {
        (self.key >> WORDS_SHIFT & WORDS_MASK) as usize
    }

    /// Whether the value is outside.
    #[inline]
    fn is_outside(self) -> bool {
        self.value & IS_OUTSIDE != 0
    }

    #[inline]
    pub(crate) fn key_start(self) -> usize {
        HEADER_BYTES + WORD_BYTES * self.words()
    }

    #[inline]
    fn key_end(self) -> usize {
        self.key_start() + self.key_bytes()
    }

    /// Bytes up to the end of the value, or of its replacement.
    #[inline]
    pub(crate) fn content_bytes(self) -> usize {
        self.key_end() + if self.is_outside() { OUTSIDE_BYTES } else { self.value as usize }
    }

    /// Bytes including the padding.
    #[inline]
    pub(crate) fn total_bytes(self) -> usize {
        (self.content_bytes() + ALIGNMENT - 1) & !(ALIGNMENT - 1)
    }

    /// The shape of the record that starts with these (at least 12) bytes.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Shape {
        Shape { value: u32_at(bytes, 4), key: u32_at(bytes, 8) }
    }

    /// The length of the record that starts with these (at least 12) bytes.
    #[inline]
    pub(crate) fn total_bytes_at(header: &[u8]) -> usize {
        Shape::read(header).total_bytes()
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four"))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight"))
}

/// The contents of a new record.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [&'a [u8]],
    pub(crate) version: Version,
    pub(crate) expires_at: Option<WallMs>,
    pub(crate) kind: RecordKind,
}

impl<'a> Draft<'a> {
    /// A value of this type, joined of these parts.
    pub(crate) fn value(
        key: &'a [u8],
        kind: ValueKind,
        value: &'a [&'a [u8]],
        version: Version,
        expires_at: Option<WallMs>,
    ) -> Draft<'a> {
        Draft { key, value, version, expires_at, kind: RecordKind::Value(kind) }
    }

    /// A tombstone; with version 0, a mark of absence.
    pub(crate) fn tombstone(key: &'a [u8], version: Version) -> Draft<'a> {
        Draft { key, value: &[], version, expires_at: None, kind: RecordKind::Tombstone }
    }

    /// Everything up to this version in the range with this key was removed.
    pub(crate) fn cleared(key: &'a [u8], version: Version) -> Draft<'a> {
        Draft { key, value: &[], version, expires_at: None, kind: RecordKind::Cleared }
    }

    /// The import with this key is at the stage that the key names. What is no younger than this version was
    /// here before.
    pub(crate) fn import(key: &'a [u8], since: Version) -> Draft<'a> {
        Draft { key, value: &[], version: since, expires_at: None, kind: RecordKind::Import }
    }

    /// The record behind it counts as if it had this version.
    pub(crate) fn order(version: Version) -> Draft<'a> {
        Draft { key: &[], value: &[], version, expires_at: None, kind: RecordKind::Order }
    }

    /// Appends the record.
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) {
        let (shape, start) = (self.shape(), bytes.len());
        bytes.resize(start + shape.total_bytes(), 0);
        self.write(shape, &mut bytes[start..]);
    }

    /// Whether this is a mark of absence.
    pub(crate) fn is_absence(&self) -> bool {
        self.is_tombstone() && self.version == Version(0)
    }

    /// Whether this is a tombstone or a mark of absence.
    #[inline]
    pub(crate) fn is_tombstone(&self) -> bool {
        self.kind == RecordKind::Tombstone
    }

    /// Whether users see it.
    #[inline]
    pub(crate) fn hidden(&self) -> Hidden {
        match self.kind {
            RecordKind::Value(kind) => Hidden::of(kind),
            _ => Hidden::No,
        }
    }

    /// The new record's shape.
    ///
    /// # Panics
    /// When the key or the value is longer than the limits: the protocol refuses such requests earlier.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        let value_bytes: usize = self.value.iter().map(|part| part.len()).sum();
        assert!(self.key.len() <= MAX_KEY_BYTES, "a key of {} bytes", self.key.len());
        assert!(value_bytes <= MAX_VALUE_BYTES, "a value of {value_bytes} bytes");
        Shape::of(self.key.len(), value_bytes, self.expires_at.is_some())
    }

    /// Writes the record into `bytes`, whose length is the shape's.
    #[inline]
    pub(crate) fn write(&self, shape: Shape, bytes: &mut [u8]) {
        let content = shape.content_bytes();
        write_head(shape, self.kind, self.key, self.version, self.expires_at, bytes);
        let mut at = shape.key_end();
        for part in self.value {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes[content..].fill(0);
        let crc = crc32c::crc32c(&bytes[CHECKED_FROM..content]);
        bytes[0..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Everything between the checksum and the value.
#[inline(always)]
fn write_head(
    shape: Shape,
    kind: RecordKind,
    key: &[u8],
    version: Version,
    expires_at: Option<WallMs>,
    bytes: &mut [u8],
) {
    debug_assert!(version <= Version::MAX, "version {version:?} has more than 56 bits");
    let version_and_kind = version.0 | u64::from(kind.number()) << KIND_SHIFT;
    bytes[4..8].copy_from_slice(&shape.value.to_le_bytes());
    bytes[8..12].copy_from_slice(&shape.key.to_le_bytes());
    bytes[12..20].copy_from_slice(&version_and_kind.to_le_bytes());
    if let Some(deadline) = expires_at {
        bytes[20..28].copy_from_slice(&deadline.0.to_le_bytes());
    }
    bytes[shape.key_start()..shape.key_end()].copy_from_slice(key);
}

/// The header and key of a record with so many bytes of value inside, without a checksum; and its shape.
pub(crate) fn head_of(
    kind: ValueKind,
    key: &[u8],
    value_bytes: usize,
    version: Version,
    expires_at: Option<WallMs>,
) -> (Vec<u8>, Shape) {
    let shape = Shape::of(key.len(), value_bytes, expires_at.is_some());
    let mut head = vec![0; shape.key_end()];
    write_head(shape, RecordKind::Value(kind), key, version, expires_at, &mut head);
    (head, shape)
}

/// The contents of a new record with an outside value.
#[derive(Clone, Copy)]
pub(crate) struct OutsideDraft<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) version: Version,
    pub(crate) expires_at: Option<WallMs>,
    /// The value's run, from its first byte on.
    pub(crate) run: u64,
    pub(crate) value_bytes: usize,
    /// CRC32C of the value.
    pub(crate) value_crc: u32,
}

impl OutsideDraft<'_> {
    /// The new record's shape.
    ///
    /// # Panics
    /// When the value is longer than the limit.
    pub(crate) fn shape(&self) -> Shape {
        assert!(self.value_bytes <= MAX_VALUE_BYTES, "a value of {} bytes", self.value_bytes);
        Shape::of(self.key.len(), self.value_bytes, self.expires_at.is_some()).with_value_outside()
    }

    /// Writes the record into `bytes`, whose length is the shape's.
    pub(crate) fn write(&self, shape: Shape, bytes: &mut [u8]) {
        write_head(shape, STRING, self.key, self.version, self.expires_at, bytes);
        bytes[0..4].copy_from_slice(&self.value_crc.to_le_bytes());
        bytes[shape.key_end()..shape.content_bytes()].copy_from_slice(&self.run.to_le_bytes());
        bytes[shape.content_bytes()..].fill(0);
    }
}

/// One record, in the log or in a batch.
#[derive(Clone, Copy)]
pub struct Record<'r> {
    /// As in the log or in the batch.
    bytes: &'r [u8],
    shape: Shape,
    /// An outside value; otherwise empty.
    outside: &'r [u8],
}

/// The version of the record that starts with these (at least 20) bytes.
#[inline]
fn version_at(bytes: &[u8]) -> Version {
    Version(u64_at(bytes, 12) & Version::MAX.0)
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record.
    #[error("the record is cut short")]
    Truncated,
    /// Reserved bits are set, lengths exceed the limits or the padding is not zero.
    #[error("the record's header or padding is malformed")]
    Malformed,
    /// An unknown kind or mark.
    #[error(
        "the record is of a kind that this version does not know (0x{0:02x}): it is written by a later one"
    )]
    UnknownKind(u8),
    /// The checksum is wrong.
    #[error("the record's checksum is wrong")]
    Checksum,
}

impl<'r> Record<'r> {
    /// The record in exactly these bytes, which [`Draft::write`] wrote or a check covered.
    #[inline]
    pub(crate) fn trusted(bytes: &'r [u8]) -> Record<'r> {
        Record::of_shape(bytes, Shape::read(bytes), &[])
    }

    /// The record of this shape in exactly these bytes, with its outside value.
    #[inline]
    pub(crate) fn of_shape(bytes: &'r [u8], shape: Shape, outside: &'r [u8]) -> Record<'r> {
        Record { bytes, shape, outside }
    }

    /// The key of the only record in `total` bytes, once these first ones hold it; unchecked.
    pub(crate) fn key_of_beginning(bytes: &'r [u8], total: usize) -> Option<&'r [u8]> {
        let shape = Record::shape_of_beginning(bytes, total)?;
        bytes.get(shape.key_start()..shape.key_end())
    }

    /// The shape of the only record in `total` bytes, once these first ones hold its header; unchecked.
    pub(crate) fn shape_of_beginning(bytes: &[u8], total: usize) -> Option<Shape> {
        let shape = (bytes.len() >= HEADER_BYTES).then(|| Shape::read(bytes))?;
        (!shape.is_outside() && shape.total_bytes() == total).then_some(shape)
    }

    /// The record at the start of `bytes`, checked in full.
    pub(crate) fn check(bytes: &'r [u8]) -> Result<Record<'r>, RecordError> {
        let shape = Record::check_form(bytes)?;
        Record::check_sum(bytes, shape, crc32c::crc32c(&bytes[CHECKED_FROM..shape.content_bytes()]))
    }

    /// As [`check`](Self::check), where the checksum of its content was taken before.
    pub(crate) fn check_summed(bytes: &'r [u8], crc: u32) -> Result<Record<'r>, RecordError> {
        Record::check_sum(bytes, Record::check_form(bytes)?, crc)
    }

    #[inline]
    fn check_sum(bytes: &'r [u8], shape: Shape, crc: u32) -> Result<Record<'r>, RecordError> {
        match crc == u32_at(bytes, 0) {
            true => Ok(Record::of_shape(&bytes[..shape.total_bytes()], shape, &[])),
            false => Err(RecordError::Checksum),
        }
    }

    /// The record at the start of `bytes`, of a durable log, checked in full; and its kind.
    pub(crate) fn check_logged(bytes: &'r [u8]) -> Result<(Record<'r>, RecordKind), RecordError> {
        let number = *bytes.get(KIND_AT).ok_or(RecordError::Truncated)?;
        let kind = RecordKind::logged(number).ok_or(RecordError::UnknownKind(number))?;
        let shape = Record::check_form_of(bytes, kind, Version::MAX)?;
        let right = match kind {
            RecordKind::Head(_) => shape.value_bytes() == HEAD_VALUE_BYTES,
            RecordKind::Chunk(_) => shape.key_bytes() == CHUNK_KEY_BYTES && shape.words() == 0,
            RecordKind::NoChunk => shape.key_bytes() == CHUNK_KEY_BYTES,
            RecordKind::Cleared => shape.key_bytes() == CLEARED_KEY_BYTES,
            RecordKind::Order => shape.key_bytes() == 0,
            RecordKind::Import => shape.key_bytes() == IMPORT_KEY_BYTES,
            RecordKind::Value(_) | RecordKind::Tombstone => true,
        };
        if !right {
            return Err(RecordError::Malformed);
        }
        let crc = crc32c::crc32c(&bytes[CHECKED_FROM..shape.content_bytes()]);
        Ok((Record::check_sum(bytes, shape, crc)?, kind))
    }

    /// Checks all but the checksum.
    #[inline]
    fn check_form(bytes: &[u8]) -> Result<Shape, RecordError> {
        if bytes.len() < HEADER_BYTES {
            return Err(RecordError::Truncated);
        }
        let number = bytes[KIND_AT];
        let kind = RecordKind::numbered(number).ok_or(RecordError::UnknownKind(number))?;
        Record::check_form_of(bytes, kind, Version::FROM_PEER_MAX)
    }

    /// The same, of a record (of at least a header) of this kind.
    #[inline]
    fn check_form_of(bytes: &[u8], kind: RecordKind, highest: Version) -> Result<Shape, RecordError> {
        let shape = Shape::read(bytes);
        use RecordKind::{Cleared, Import, NoChunk, Order, Tombstone};
        let is_tombstone = matches!(kind, Tombstone | NoChunk | Cleared | Order | Import);
        if u32_at(bytes, 8) & KEY_RESERVED != 0
            || u32_at(bytes, 4) & VALUE_RESERVED != 0
            || shape.is_outside()
            || shape.value_bytes() > MAX_VALUE_BYTES
            || shape.words() > usize::from(!is_tombstone)
            || (is_tombstone && shape.value_bytes() != 0)
            || version_at(bytes) > highest
        {
            return Err(RecordError::Malformed);
        }
        let (content, total) = (shape.content_bytes(), shape.total_bytes());
        if bytes.len() < total {
            return Err(RecordError::Truncated);
        }
        match bytes[content..total].iter().all(|&byte| byte == 0) {
            true => Ok(shape),
            false => Err(RecordError::Malformed),
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'r [u8] {
        let start = self.shape.key_start();
        &self.bytes[start..start + self.shape.key_bytes()]
    }

    /// The value; empty for a tombstone. Of a [large](Self::is_large) collection, nothing of use.
    #[inline]
    pub fn value(&self) -> &'r [u8] {
        if self.shape.is_outside() {
            return self.outside;
        }
        let start = self.shape.key_end();
        &self.bytes[start..start + self.shape.value_bytes()]
    }

    /// The value's type; of a tombstone, a string's.
    #[inline]
    pub fn kind(&self) -> ValueKind {
        match RecordKind::numbered(self.bytes[KIND_AT] & KIND_MASK) {
            Some(RecordKind::Value(kind)) => kind,
            _ => ValueKind::String,
        }
    }

    /// Whether the value is a large collection: then [`value`](Self::value) is none of its elements. Find
    /// them by [`Guard::outline`](crate::Guard::outline).
    #[inline]
    pub fn is_large(&self) -> bool {
        self.bytes[KIND_AT] & HEAD != 0
    }

    /// The large collection that the value is.
    pub fn collection(&self) -> Option<CollectionId> {
        self.is_large().then(|| CollectionId(u64_at(self.value(), 1)))
    }

    /// The encoding that a head reports.
    pub(crate) fn head_encoding(&self) -> u8 {
        debug_assert!(self.is_large());
        self.value()[0]
    }

    /// Whether this is a chunk of a large collection: no key's record.
    #[inline]
    pub(crate) fn is_chunk(&self) -> bool {
        self.bytes[KIND_AT] & CHUNK != 0
    }

    /// The record's version.
    #[inline]
    pub fn version(&self) -> Version {
        version_at(self.bytes)
    }

    /// The deadline after which the record counts as absent.
    #[inline]
    pub fn expires_at(&self) -> Option<WallMs> {
        (self.shape.words() != 0).then(|| WallMs(u64_at(self.bytes, HEADER_BYTES)))
    }

    /// Whether the deadline has passed; not yet at the deadline itself, as in Redis.
    #[inline]
    pub fn is_expired(&self, now: WallMs) -> bool {
        self.expires_at().is_some_and(|deadline| deadline < now)
    }

    /// The key's position; hashes the key.
    #[inline]
    pub fn position(&self) -> Position {
        Position::of_key(self.key())
    }

    /// The key with its slot and hash; hashes the key.
    #[inline]
    pub fn hashed_key(&self) -> HashedKey<'r> {
        HashedKey::new(self.key())
    }

    /// The first 20 bytes as in memory: lengths, version and a checksum, which distinguish two writes of a
    /// key.
    pub fn head(&self) -> &'r [u8; HEADER_BYTES] {
        self.bytes.first_chunk().expect("a record begins with its header")
    }

    /// The record's length in a batch. Not of a large collection's head: ask
    /// [`Store::packed_bytes_at`](crate::Store::packed_bytes_at).
    #[inline]
    pub fn packed_bytes(&self) -> usize {
        self.shape.with_value_inside().total_bytes()
    }

    /// Appends the record to a batch, with its value inside. Not a large collection's head: see
    /// [`Store::pack`](crate::Store::pack).
    #[inline]
    pub fn pack(&self, batch: &mut Vec<u8>) {
        debug_assert!(!self.is_large(), "a head is not sent");
        if self.shape.is_outside() {
            return self.pack_outside(0..self.packed_bytes(), batch);
        }
        batch.extend_from_slice(self.bytes);
    }

    /// Appends this part of the bytes of [`pack`](Self::pack).
    pub(crate) fn pack_part(&self, part: Range<usize>, batch: &mut Vec<u8>) {
        if self.shape.is_outside() {
            return self.pack_outside(part, batch);
        }
        batch.extend_from_slice(&self.bytes[part]);
    }

    #[cold]
    fn pack_outside(&self, part: Range<usize>, batch: &mut Vec<u8>) {
        let shape = self.shape.with_value_inside();
        let mut head = vec![0; shape.key_end()];
        let (version, expires_at) = (self.version(), self.expires_at());
        write_head(shape, STRING, self.key(), version, expires_at, &mut head);
        let crc = crc32c::crc32c(&head[CHECKED_FROM..]);
        let crc = crc32c::crc32c_combine(crc, self.value_crc(), self.outside.len());
        head[..4].copy_from_slice(&crc.to_le_bytes());
        let padding = [0; ALIGNMENT];
        let mut start = 0;
        for bytes in [&head[..], self.outside, &padding[..shape.total_bytes() - shape.content_bytes()]] {
            let from = part.start.clamp(start, start + bytes.len()) - start;
            let to = part.end.clamp(start, start + bytes.len()) - start;
            batch.extend_from_slice(&bytes[from..to]);
            start += bytes.len();
        }
    }

    /// The record as in the log; without an outside value.
    #[inline]
    pub(crate) fn in_log(&self) -> &'r [u8] {
        self.bytes
    }

    /// Its bytes, in the log and outside.
    #[inline]
    pub(crate) fn live_bytes(&self) -> usize {
        self.bytes.len() + self.outside.len()
    }

    /// CRC32C of an outside value.
    pub(crate) fn value_crc(&self) -> u32 {
        u32_at(self.bytes, 0)
    }

    /// The run of an outside value.
    #[inline]
    pub(crate) fn run(&self) -> Option<u64> {
        self.shape.is_outside().then(|| u64_at(self.bytes, self.shape.key_end()))
    }

    #[inline]
    pub(crate) fn is_tombstone(&self) -> bool {
        self.bytes[KIND_AT] == TOMBSTONE
    }

    /// How much of a record whose entry is a tombstone can be dropped: all of a mark of absence; of a
    /// struck-out value what a tombstone does not need.
    pub(crate) fn spare_bytes(&self) -> usize {
        let kept = Shape::tombstone(self.shape.key_bytes());
        let kept_bytes = if self.is_absence() { 0 } else { kept.total_bytes() };
        self.bytes.len() - kept_bytes
    }

    /// Whether this is a mark of absence.
    #[inline]
    pub(crate) fn is_absence(&self) -> bool {
        self.is_tombstone() && self.version() == Version(0)
    }
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key().escape_ascii().to_string())
            .field("value_bytes", &self.value().len())
            .field("version", &self.version())
            .field("expires_at", &self.expires_at())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::documented::check_documented;

    fn encoded(key: &[u8], value: &[u8], expires_at: Option<WallMs>) -> Vec<u8> {
        let draft = Draft { key, value: &[value], version: Version(7), expires_at, kind: STRING };
        let shape = draft.shape();
        let mut bytes = vec![0xAA; shape.total_bytes()];
        draft.write(shape, &mut bytes);
        bytes
    }

    #[test]
    fn record_round_trips() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b"value"), (b"a longer key", &[9; 1000])] {
            for expires_at in [None, Some(WallMs(123_456))] {
                let bytes = encoded(key, value, expires_at);
                assert_eq!(bytes.len() % ALIGNMENT, 0);
                let record = Record::check(&bytes).unwrap();
                assert_eq!((record.key(), record.value()), (key, value));
                assert_eq!((record.version(), record.expires_at()), (Version(7), expires_at));
            }
        }
    }

    #[test]
    fn check_refuses_every_flipped_bit_and_every_cut() {
        let bytes = encoded(b"some key", b"some value", Some(WallMs(5)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::check(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Record::check(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_record_with_its_value_outside_is_packed_as_one_with_it_inside() {
        for expires_at in [None, Some(WallMs(9))] {
            for value in [&b""[..], b"v", &[9; 1000]] {
                let inside = encoded(b"a key", value, expires_at);
                let draft = OutsideDraft {
                    key: b"a key",
                    version: Version(7),
                    expires_at,
                    run: 0x1234_5678_9000,
                    value_bytes: value.len(),
                    value_crc: crc32c::crc32c(value),
                };
                let shape = draft.shape();
                let mut bytes = vec![0xAA; shape.total_bytes()];
                draft.write(shape, &mut bytes);
                assert_eq!((bytes.len() % ALIGNMENT, Shape::read(&bytes)), (0, shape));
                assert_eq!(Record::check(&bytes).unwrap_err(), RecordError::Malformed);
                let record = Record::of_shape(&bytes, shape, value);
                assert_eq!(
                    (record.key(), record.value(), record.run()),
                    (&b"a key"[..], value, Some(draft.run))
                );
                let mut batch = b"before".to_vec();
                record.pack(&mut batch);
                assert_eq!(batch[6..], inside);
                assert!(Record::check(&batch[6..]).is_ok());
                for cut in 0..=inside.len() {
                    let mut parts = Vec::new();
                    record.pack_part(0..cut, &mut parts);
                    record.pack_part(cut..record.packed_bytes(), &mut parts);
                    assert_eq!(parts, inside, "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn check_refuses_kinds_and_marks_of_later_versions() {
        let plain = encoded(b"key", b"value", None);
        let heads_and_chunks = [0x12, 0x15, 0x22, 0x25, 0x10, 0x20];
        for kind in (8..=15).chain([0x11, 0x21, 0x80]).chain(heads_and_chunks) {
            let mut later = plain.clone();
            later[KIND_AT] = kind;
            let crc = crc32c::crc32c(&later[4..28]);
            later[..4].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Record::check(&later).unwrap_err(), RecordError::UnknownKind(kind));
        }
    }

    #[test]
    fn check_refuses_versions_that_leave_no_room() {
        for (version, is_fine) in
            [(Version::FROM_PEER_MAX, true), (Version(Version::FROM_PEER_MAX.0 + 1), false)]
        {
            let draft = Draft::value(b"key", ValueKind::String, &[b"value"], version, None);
            let mut bytes = vec![0; draft.shape().total_bytes()];
            draft.write(draft.shape(), &mut bytes);
            assert_eq!(Record::check(&bytes).is_ok(), is_fine);
            assert_eq!(Record::trusted(&bytes).version(), version);
        }
    }

    /// The examples in `docs/layout.md`.
    #[test]
    fn records_look_as_documented() {
        let outside = OutsideDraft {
            key: b"k1",
            version: Version(7),
            expires_at: None,
            run: 0x1_0000,
            value_bytes: 5,
            value_crc: crc32c::crc32c(b"hello"),
        };
        let mut bytes = vec![0; outside.shape().total_bytes()];
        outside.write(outside.shape(), &mut bytes);
        check_documented("value outside", &bytes);
        check_documented("value", &encoded(b"k1", b"hello", None));
        let deadline = Some(WallMs(1000));
        check_documented("value with a deadline", &encoded(b"k1", b"hello", deadline));
        let draft = Draft::tombstone(b"k1", Version(7));
        let mut bytes = vec![0; draft.shape().total_bytes()];
        draft.write(draft.shape(), &mut bytes);
        check_documented("tombstone", &bytes);
    }

    #[test]
    fn expiry_starts_after_the_deadline() {
        let bytes = encoded(b"k", b"v", Some(WallMs(100)));
        let record = Record::check(&bytes).unwrap();
        assert!(!record.is_expired(WallMs(100)));
        assert!(record.is_expired(WallMs(101)));
    }
}
