//! The model of a large collection: its chunks in maps.

use sidle_outline::{Chunk, Chunks, Large, Order, Outline};
use sidle_types::Version;
use std::collections::BTreeMap;

/// A large collection's expected contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Collection {
    /// The version of its head, which changes more seldom than the collection's.
    pub(super) head_version: Version,
    pub(super) encoding: u8,
    /// The chunks of each sequence, by label.
    sequences: [BTreeMap<u64, Vec<u8>>; 2],
}

pub(super) fn elements_of(label: u64) -> u32 {
    1 + (label % 3) as u32
}

fn scrambled(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 31
}

impl Collection {
    /// Changes some chunks here and in the outline. At least one stays.
    pub(super) fn patch(&mut self, outline: &mut Outline, seed: u16, changes: u16) {
        for change in 0..=changes {
            let random = scrambled(u64::from(seed) << 16 | u64::from(change));
            let order = if random.is_multiple_of(7) { Order::ByMember } else { Order::Main };
            let chunks = &mut self.sequences[order as usize];
            let label = (random >> 8) % 90 * 1000;
            let is_last = order == Order::Main && chunks.len() <= 1;
            if (random >> 24).is_multiple_of(3) && !is_last {
                assert_eq!(outline.remove(order, label), chunks.remove(&label).is_some());
                continue;
            }
            // Now and then one with a run of its own.
            let bytes = if (random >> 32).is_multiple_of(40) { 1500 } else { (random >> 40) % 120 };
            let elements: Vec<u8> = (0..bytes).map(|at| (random + at) as u8).collect();
            outline.put(order, Chunk::new(label, elements_of(label), &elements));
            chunks.insert(label, elements);
        }
        if self.sequences[0].is_empty() {
            outline.put(Order::Main, Chunk::new(5, elements_of(5), b"least"));
            self.sequences[0].insert(5, b"least".to_vec());
        }
        outline.set_encoding(self.encoding);
    }

    /// The value that it has as a packed collection.
    pub(super) fn packed(&self) -> Vec<u8> {
        let main = &self.sequences[0];
        let count: u32 = main.keys().copied().map(elements_of).sum();
        let mut value = vec![self.encoding];
        value.extend_from_slice(&count.to_le_bytes());
        main.values().for_each(|elements| value.extend_from_slice(elements));
        value
    }

    /// The bytes of its chunks' records.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let chunks = self.sequences.iter().flat_map(BTreeMap::values);
        chunks.map(|elements| (20 + 17 + elements.len() as u64).next_multiple_of(8)).sum()
    }

    /// Compares all of it.
    pub(super) fn check(&self, outline: &Outline, lent: &dyn Chunks) {
        assert_eq!(outline.encoding(), self.encoding);
        let large = Large::new(outline, lent);
        for order in Order::ALL {
            let found = large.iter_from(order, 0).map(|(chunk, bytes)| {
                assert_eq!(chunk.elements, elements_of(chunk.label));
                (&chunk.label, bytes)
            });
            let expected = self.sequences[order as usize].iter();
            assert!(found.eq(expected.map(|(label, elements)| (label, &elements[..]))), "{order:?}");
        }
    }
}
