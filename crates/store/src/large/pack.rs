//! Large collections as the packed ones that are sent to other nodes.
//!
//! Any part of the packed record is made from the chunks when it is asked for, so nothing is kept but the
//! checksum: it stands in the first bytes, and covers all. Whoever packs in pieces sums up once for each
//! state of the collection. The version says whether the next piece is of the same state.

use crate::address::Address;
use crate::config::PACKED_HEAD_BYTES;
use crate::data::{Data, Entry, Guard};
use crate::record::{CHECKED_FROM, Record, head_of};
use sidle_outline::{Chunks, Large, Order, Outline};
use sidle_types::{Position, PositionRange, Version};
use std::ops::Range;

/// A key's value, as it is packed.
pub(crate) enum Packing<'g> {
    /// As it is in the log.
    Record(Record<'g>),
    /// As a packed collection.
    Large(Box<PackedLarge<'g>>),
}

/// A state of a large collection.
pub(crate) struct PackedLarge<'g> {
    pub(super) guard: &'g Guard<'g>,
    pub(super) head: Record<'g>,
    pub(super) outline: Outline,
    pub(super) version: Version,
    /// The record's checksum, if it is known.
    crc: Option<u32>,
    /// Everything up to the elements, without the checksum.
    start: Vec<u8>,
    /// The elements' end, and the record's.
    content_bytes: usize,
    total_bytes: usize,
}

/// See [`Store::large_collections`](crate::Store::large_collections).
pub(crate) fn large_collections(
    data: &Data,
    range: PositionRange,
    more_than_bytes: u64,
    (from, looks_at): (u32, u32),
) -> (Vec<(Position, u64)>, Option<u32>) {
    // Pinned before a cell is read, so that the head in it stays.
    let guard = data.pin();
    let mut found = Vec::new();
    let next = data.collections.look_through(from, looks_at, |state| {
        let head = state.head.filter(|_| state.chunk_bytes > more_than_bytes);
        let position = head.map(|head| data.log.record(head, guard.pinned()).hashed_key().position());
        found.extend(position.filter(|&position| range.contains(position)).map(|at| (at, state.chunk_bytes)));
    });
    (found, next)
}

impl<'g> Packing<'g> {
    /// That of a record that was found by a walk under this guard; none if its key has lost its value since.
    pub(crate) fn of(guard: &'g Guard<'g>, mut record: Record<'g>) -> Option<Packing<'g>> {
        loop {
            if !record.is_large() {
                return Some(Packing::Record(record));
            }
            if let Some(large) = PackedLarge::of(guard, record) {
                return Some(Packing::Large(Box::new(large)));
            }
            // It was written anew since, or moved.
            std::thread::yield_now();
            match guard.get(record.hashed_key()) {
                Entry::Value(now) => record = now,
                Entry::Absent | Entry::Tombstone(_) => return None,
            }
        }
    }

    /// The length in a batch.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packing::Record(record) => record.packed_bytes(),
            Packing::Large(large) => large.total_bytes,
        }
    }

    /// The version.
    pub(crate) fn version(&self) -> Version {
        match self {
            Packing::Record(record) => record.version(),
            Packing::Large(large) => large.version,
        }
    }

    /// Appends it to a batch.
    pub(crate) fn pack(&self, batch: &mut Vec<u8>) {
        match self {
            Packing::Record(record) => record.pack(batch),
            Packing::Large(large) => large.pack(batch),
        }
    }

    /// Appends this part of the bytes of [`pack`](Self::pack).
    pub(crate) fn pack_part(&self, part: Range<usize>, batch: &mut Vec<u8>) {
        match self {
            Packing::Record(record) => record.pack_part(part, batch),
            Packing::Large(large) => large.pack_part(part, batch),
        }
    }
}

impl<'g> PackedLarge<'g> {
    /// That of the collection with this head, if that is its head still.
    fn of(guard: &'g Guard<'g>, head: Record<'g>) -> Option<PackedLarge<'g>> {
        let data = guard.data;
        let at = Address::from_offset(data.log.offset_of(head));
        let (outline, version, crc) = data.collections.read(head.collection()?, |state| {
            let found = (state.outline.clone(), state.version, state.packed_crc);
            (state.head == Some(at)).then_some(found)
        })??;
        let main = outline.sequence(Order::Main);
        let value_bytes = PACKED_HEAD_BYTES + main.bytes() as usize;
        let (mut start, shape) = head_of(head.kind(), head.key(), value_bytes, version, head.expires_at());
        start.push(outline.encoding());
        let count = u32::try_from(main.elements()).expect("an element takes a byte at least");
        start.extend_from_slice(&count.to_le_bytes());
        let (content_bytes, total_bytes) = (shape.content_bytes(), shape.total_bytes());
        Some(PackedLarge { guard, head, outline, version, crc, start, content_bytes, total_bytes })
    }

    /// The elements of all chunks from the one that has this byte on, and the byte that they begin with.
    fn elements_from(&self, byte: usize) -> (impl Iterator<Item = &[u8]>, usize) {
        let found = self.outline.sequence(Order::Main).with_byte(byte as u64);
        let (label, first) = found.map_or((u64::MAX, 0), |(chunk, first)| (chunk.label, first as usize));
        let large = Large::new(&self.outline, self.guard as &dyn Chunks);
        (large.iter_from(Order::Main, label).map(|(_, bytes)| bytes), first)
    }

    fn pack(&self, batch: &mut Vec<u8>) {
        let at = batch.len();
        batch.reserve(self.total_bytes);
        batch.extend_from_slice(&self.start);
        self.elements_from(0).0.for_each(|bytes| batch.extend_from_slice(bytes));
        assert!(batch.len() - at == self.content_bytes, "the chunks are as long as the outline says");
        let crc = crc32c::crc32c(&batch[at + CHECKED_FROM..]);
        batch[at..at + CHECKED_FROM].copy_from_slice(&crc.to_le_bytes());
        batch.resize(at + self.total_bytes, 0);
    }

    /// The checksum, taken once for each state.
    fn crc(&self) -> u32 {
        self.crc.unwrap_or_else(|| {
            let crc = crc32c::crc32c(&self.start[CHECKED_FROM..]);
            let crc = self.elements_from(0).0.fold(crc, crc32c::crc32c_append);
            let id = self.head.collection().expect("a head names its collection");
            self.guard.data.collections.note_packed_crc(id, self.version, crc);
            crc
        })
    }

    fn pack_part(&self, part: Range<usize>, batch: &mut Vec<u8>) {
        let until = batch.len() + part.len();
        let mut start = self.start.clone();
        if part.start < CHECKED_FROM {
            start[..CHECKED_FROM].copy_from_slice(&self.crc().to_le_bytes());
        }
        if let Some(rest) = start.get(part.start..part.end.min(start.len())) {
            batch.extend_from_slice(rest);
        }
        let from = part.start.max(start.len()) - start.len();
        let (elements, first) = self.elements_from(from);
        let mut skip = from - first.min(from);
        for bytes in elements {
            let left = until - batch.len();
            let bytes = &bytes[skip.min(bytes.len())..];
            if left == 0 {
                break;
            }
            skip = 0;
            batch.extend_from_slice(&bytes[..left.min(bytes.len())]);
        }
        batch.resize(until, 0);
    }
}
