//! An outline with its chunks' bytes.

use crate::chunk::{Chunk, Place};
use crate::outline::{Order, Outline};
use crate::sequence::At;
use std::fmt;

/// Lends the bytes of published chunks.
pub trait Chunks {
    /// The elements of the chunk at this address.
    fn bytes_at(&self, address: u64) -> &[u8];
}

/// A large collection that is read. It stays as it is during later writes.
#[derive(Clone, Copy)]
pub struct Large<'b> {
    outline: &'b Outline,
    chunks: &'b dyn Chunks,
}

/// A chunk with its elements.
#[derive(Clone, Copy, Debug)]
pub struct Part<'b> {
    /// The chunk.
    pub chunk: &'b Chunk,
    /// Its elements.
    pub bytes: &'b [u8],
    /// The index of its first element in the sequence.
    pub first_index: u64,
}

impl<'b> Large<'b> {
    /// That of an outline, whose published chunks these lend.
    pub fn new(outline: &'b Outline, chunks: &'b dyn Chunks) -> Large<'b> {
        Large { outline, chunks }
    }

    /// Its outline.
    pub fn outline(self) -> &'b Outline {
        self.outline
    }

    /// With another outline, whose published chunks are lent from where this one's are.
    pub fn under<'o>(self, outline: &'o Outline) -> Large<'o>
    where
        'b: 'o,
    {
        Large { outline, chunks: self.chunks }
    }

    /// How many elements it has.
    pub fn len(self) -> u64 {
        self.outline.len()
    }

    /// Whether it has none; no key has such a collection.
    pub fn is_empty(self) -> bool {
        self.outline.is_empty()
    }

    /// A chunk's elements.
    pub fn bytes_of(self, chunk: &'b Chunk) -> &'b [u8] {
        match &chunk.place {
            Place::InLog(address) => self.chunks.bytes_at(*address),
            Place::New(bytes) => bytes,
        }
    }

    fn part(self, at: At<'b>) -> Part<'b> {
        Part { chunk: at.chunk, bytes: self.bytes_of(at.chunk), first_index: at.first_index }
    }

    /// The last chunk whose label is not greater; otherwise the first one.
    pub fn covering(self, order: Order, label: u64) -> Option<Part<'b>> {
        let sequence = self.outline.sequence(order);
        sequence.last_up_to(label).or_else(|| sequence.first()).map(|at| self.part(at))
    }

    /// The chunk that has the element of this index.
    pub fn with_index(self, order: Order, index: u64) -> Option<Part<'b>> {
        self.outline.sequence(order).with_index(index).map(|at| self.part(at))
    }

    /// The last chunk for whose bytes this holds. It holds for some first chunks, and for no later one.
    pub fn last_where(self, order: Order, mut holds: impl FnMut(&'b [u8]) -> bool) -> Option<Part<'b>> {
        let found = self.outline.sequence(order).last_where(|chunk| holds(self.bytes_of(chunk)));
        found.map(|at| self.part(at))
    }

    /// The elements of all chunks from the first whose label is not smaller, in order.
    pub fn iter_from(self, order: Order, label: u64) -> impl Iterator<Item = (&'b Chunk, &'b [u8])> {
        self.outline.sequence(order).iter_from(label).map(move |chunk| (chunk, self.bytes_of(chunk)))
    }

    /// The elements of all chunks from the last whose label is not greater, in the order of falling labels.
    pub fn iter_back_from(self, order: Order, label: u64) -> impl Iterator<Item = (&'b Chunk, &'b [u8])> {
        self.outline.sequence(order).iter_back_from(label).map(move |chunk| (chunk, self.bytes_of(chunk)))
    }

    /// An outline of a collection of its own with the same elements.
    pub fn copied(self) -> Outline {
        let mut copy = Outline::new(self.outline.encoding());
        for order in Order::ALL {
            for (chunk, bytes) in self.iter_from(order, 0) {
                copy.put(order, Chunk::new(chunk.label, chunk.elements, bytes));
            }
        }
        copy
    }
}

impl fmt::Debug for Large<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Large").field("outline", self.outline).finish_non_exhaustive()
    }
}

impl PartialEq for Large<'_> {
    /// Whether both are the same state of a collection.
    fn eq(&self, other: &Large<'_>) -> bool {
        std::ptr::eq(self.outline, other.outline)
    }
}

impl Eq for Large<'_> {}
