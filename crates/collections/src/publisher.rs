//! A store of chunks in memory, for tests: it publishes outlines as the real one does, and knows what is
//! live.

use crate::collection::{Collection, Finished};
use sidle_outline::{Chunks, CollectionId, Large, Order, Outline, Place};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Published chunks of one collection, and what was read of them.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    live: BTreeMap<u64, Box<[u8]>>,
    next_address: u64,
    outline: Outline,
    reads: Cell<usize>,
}

impl Chunks for Publisher {
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.reads.set(self.reads.get() + 1);
        self.live.get(&address).expect("a chunk that is live")
    }
}

impl Publisher {
    /// The published collection.
    pub(crate) fn large(&self) -> Large<'_> {
        Large::new(&self.outline, self)
    }

    /// How many chunks were read since this was asked last.
    pub(crate) fn reads(&self) -> usize {
        self.reads.take()
    }

    /// Publishes a later state of the collection, or another one: exactly its chunks are live then.
    pub(crate) fn publish(&mut self, outline: &Outline) {
        if outline.id().is_none() {
            self.live.clear();
        }
        for replaced in outline.replaced_chunks() {
            let Place::InLog(address) = replaced.place else { panic!("it was not published: {replaced:?}") };
            assert!(self.live.remove(&address).is_some(), "it is replaced twice: {replaced:?}");
        }
        let mut new = Vec::new();
        for (_, chunk) in outline.new_chunks() {
            let Place::New(bytes) = &chunk.place else { panic!("it is published: {chunk:?}") };
            assert_eq!(bytes.len(), chunk.bytes as usize);
            self.next_address += 1;
            self.live.insert(self.next_address, (**bytes).clone());
            new.push(self.next_address);
        }
        self.outline = outline.clone();
        self.outline.publish(CollectionId(1), self.next_address, self.next_address, &new);
        let mut addresses = Vec::new();
        for order in Order::ALL {
            for chunk in self.outline.sequence(order).iter_from(0) {
                let Place::InLog(address) = chunk.place else { panic!("it is not published: {chunk:?}") };
                addresses.push(address);
            }
        }
        addresses.sort_unstable();
        assert!(
            addresses.iter().eq(self.live.keys()),
            "{addresses:?} are to be live: {:?}",
            self.live.keys()
        );
    }

    /// Forgets the collection: its key has another value.
    pub(crate) fn clear(&mut self) {
        self.live.clear();
        self.outline = Outline::default();
    }
}

/// A key's collection, as a store keeps it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    packed: Option<Vec<u8>>,
    pub(crate) publisher: Publisher,
    /// How often it went from one record to chunks, or back.
    pub(crate) conversions: usize,
}

impl Kept {
    /// The collection, if the key has one.
    pub(crate) fn collection<K>(&self) -> Option<Collection<'_, K>> {
        match &self.packed {
            Some(packed) => Some(Collection::of(packed)),
            None if self.publisher.outline.is_empty() => None,
            None => Some(Collection::large(self.publisher.large())),
        }
    }

    /// Sets the key to what became of the collection.
    pub(crate) fn keep(&mut self, finished: Finished) {
        let was_large = !self.publisher.outline.is_empty();
        match finished {
            Finished::Packed(packed) => {
                self.publisher.clear();
                self.packed = Some(packed);
                self.conversions += usize::from(was_large);
            }
            Finished::Large(outline) => {
                self.publisher.publish(&outline);
                self.packed = None;
                self.conversions += usize::from(!was_large);
            }
        }
    }
}
