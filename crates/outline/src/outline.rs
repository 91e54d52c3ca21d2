//! A collection's sequences, and what was changed since it was published.

use crate::chunk::{Chunk, Place};
use crate::sequence::Sequence;

/// Identifies a published collection of a store for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub u64);

/// Which of a collection's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// All elements; of a list and a sorted set in their order.
    Main = 0,
    /// Of a sorted set, its members once more, in the order of their hashes.
    ByMember = 1,
}

impl Order {
    /// Both.
    pub const ALL: [Order; 2] = [Order::Main, Order::ByMember];
}

/// A large collection at one moment, without the bytes of its published chunks.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    id: Option<CollectionId>,
    /// The encoding to report, as `sidle-collections` numbers it.
    encoding: u8,
    sequences: [Sequence; 2],
    /// Chunks that are not published, by sequence and label.
    new: Vec<(u8, u64)>,
    /// Published chunks that are no longer part of it.
    replaced: Vec<Chunk>,
}

impl Outline {
    /// An empty one that is not published.
    pub fn new(encoding: u8) -> Outline {
        Outline { encoding, ..Outline::default() }
    }

    /// The published collection that it is a state of; none for a collection of its own.
    pub fn id(&self) -> Option<CollectionId> {
        self.id
    }

    /// The encoding to report.
    pub fn encoding(&self) -> u8 {
        self.encoding
    }

    /// Changes the encoding to report.
    pub fn set_encoding(&mut self, encoding: u8) {
        self.encoding = encoding;
    }

    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.sequence(Order::Main).elements()
    }

    /// Whether it has none: then the key must go.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of its sequences.
    pub fn sequence(&self, order: Order) -> &Sequence {
        &self.sequences[order as usize]
    }

    /// The bytes of all chunks' elements.
    pub fn bytes(&self) -> u64 {
        self.sequences.iter().map(Sequence::bytes).sum()
    }

    /// The bytes of memory that it takes, without its chunks.
    pub fn memory_bytes(&self) -> u64 {
        self.sequences.iter().map(Sequence::memory_bytes).sum()
    }

    /// Adds a chunk, or puts it in the place of that with its label.
    pub fn put(&mut self, order: Order, chunk: Chunk) {
        if matches!(chunk.place, Place::New(_)) {
            self.new.push((order as u8, chunk.label));
        }
        let old = self.sequences[order as usize].put(chunk);
        self.note_replaced(old);
    }

    /// Removes the chunk with this label; whether there was one.
    pub fn remove(&mut self, order: Order, label: u64) -> bool {
        let old = self.sequences[order as usize].remove(label);
        let was_there = old.is_some();
        self.note_replaced(old);
        was_there
    }

    fn note_replaced(&mut self, old: Option<Chunk>) {
        self.replaced.extend(old.filter(|chunk| matches!(chunk.place, Place::InLog(_))));
    }

    /// Chunks that are not published yet, each once; chunks that came and went are left out.
    pub fn new_chunks(&self) -> impl Iterator<Item = (Order, &Chunk)> {
        let mut new = self.new.clone();
        new.sort_unstable();
        new.dedup();
        new.into_iter().filter_map(|(order, label)| {
            let order = Order::ALL[usize::from(order)];
            let chunk = self.sequence(order).labelled(label)?.chunk;
            matches!(chunk.place, Place::New(_)).then_some((order, chunk))
        })
    }

    /// Published chunks that are no longer part of it.
    pub fn replaced_chunks(&self) -> &[Chunk] {
        &self.replaced
    }
}
