//! Names in chunks, in the order of their hashes: all of a large hash or set, and the members of a large
//! sorted set.
//!
//! Invariants:
//! - N1. The first chunk has label 0, and a chunk holds exactly the names with `label <= hash < next label`:
//!   where a name belongs is known without a look at other chunks.
//! - N2. Within a chunk names lie in the order of their hashes, those of equal hashes in that of their bytes.
//! - N3. No name is there twice, and no chunk is empty.

use crate::elements::Elements;
use crate::known::{Known, Named, named};
use sidle_outline::{Large, Order};
use sidle_types::KeyHash;
use std::marker::PhantomData;

/// Names in chunks that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByHash<'b, V> {
    large: Large<'b>,
    order: Order,
    known: PhantomData<V>,
}

/// What names are ordered by.
pub(crate) fn hash_of(name: &[u8]) -> u64 {
    KeyHash::of_key(name).0
}

impl<'b, V: Known<'b>> ByHash<'b, V> {
    /// Those of a sequence of a collection.
    pub(crate) fn of(large: Large<'b>, order: Order) -> ByHash<'b, V> {
        ByHash { large, order, known: PhantomData }
    }

    /// The collection.
    pub(crate) fn large(self) -> Large<'b> {
        self.large
    }

    /// How many names there are.
    pub(crate) fn len(self) -> u64 {
        self.large.outline().sequence(self.order).elements()
    }

    /// How many bytes they take.
    pub(crate) fn bytes(self) -> u64 {
        self.large.outline().sequence(self.order).bytes()
    }

    /// What is known of a name.
    pub(crate) fn get(self, name: &[u8]) -> Option<V> {
        self.find(name).map(|(_, known)| known)
    }

    /// A name as it lies here.
    pub(crate) fn find(self, name: &[u8]) -> Option<Named<'b, V>> {
        let chunk = self.large.covering(self.order, hash_of(name))?;
        named(Elements::of_chunk(chunk.bytes)).find(|(other, _)| *other == name)
    }

    /// The name of this index.
    pub(crate) fn nth(self, index: u64) -> Option<Named<'b, V>> {
        let chunk = self.large.with_index(self.order, index)?;
        named(Elements::of_chunk(chunk.bytes)).nth((index - chunk.first_index) as usize)
    }

    /// All names from a hash on, in the order of their hashes.
    pub(crate) fn from(self, hash: u64) -> impl Iterator<Item = Named<'b, V>> {
        let first = self.large.covering(self.order, hash).map_or(0, |chunk| chunk.chunk.label);
        let chunks = self.large.iter_from(self.order, first);
        chunks
            .flat_map(|(_, bytes)| named(Elements::of_chunk(bytes)))
            .skip_while(move |(name, _)| hash_of(name) < hash)
    }

    /// The next names of a walk in steps, and the cursor of the next step: 0 at its end. Does what
    /// [`scan`](crate::scan) does, and reads only what it returns.
    pub(crate) fn scan(self, cursor: u64, count: usize) -> (u64, Vec<Named<'b, V>>) {
        let (mut found, mut last) = (Vec::new(), 0);
        for element in self.from(cursor) {
            let hash = hash_of(element.0);
            if found.len() >= count.max(1) && hash != last {
                return (hash, found);
            }
            found.push(element);
            last = hash;
        }
        (0, found)
    }
}
