//! A store of chunks in memory, for tests: it publishes outlines, and checks what they say of themselves.

use sidle_outline::{Chunks, CollectionId, Large, Order, Outline, Place};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Published chunks, by address.
#[derive(Default)]
pub(crate) struct Log {
    chunks: Vec<Vec<u8>>,
    /// The addresses of those that are part of the collection.
    live: BTreeSet<u64>,
    lent: Cell<usize>,
    publications: u64,
}

impl Chunks for Log {
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.lent.set(self.lent.get() + 1);
        &self.chunks[address as usize]
    }
}

impl Log {
    /// Publishes the collection's next state.
    pub(crate) fn publish(&mut self, outline: &mut Outline) {
        if outline.id().is_none() {
            self.live.clear();
        }
        for replaced in outline.replaced_chunks() {
            let Place::InLog(address) = replaced.place else { panic!("a replaced chunk was published") };
            assert!(self.live.remove(&address), "a chunk is replaced once");
        }
        let mut addresses = Vec::new();
        for (_, chunk) in outline.new_chunks() {
            let Place::New(bytes) = &chunk.place else { panic!("a new chunk is not published") };
            assert_eq!(bytes.len(), chunk.bytes as usize);
            addresses.push(self.chunks.len() as u64);
            self.chunks.push(bytes.to_vec());
        }
        self.live.extend(&addresses);
        self.publications += 1;
        outline.publish(CollectionId(1), self.publications, &addresses);
        let mut there = BTreeSet::new();
        for order in Order::ALL {
            for chunk in outline.sequence(order).iter_from(0) {
                let Place::InLog(address) = chunk.place else { panic!("a chunk is published") };
                assert!(there.insert(address));
            }
        }
        assert_eq!(there, self.live, "chunks that are part of the collection");
    }

    /// The collection's published state.
    pub(crate) fn large<'l>(&'l self, outline: &'l Outline) -> Large<'l> {
        Large::new(outline, self)
    }

    /// How many chunks it has lent since it was last asked.
    pub(crate) fn lent(&self) -> usize {
        self.lent.take()
    }
}
