//! Chunks ordered by label: a value that shares what did not change with the value that it was made from.

use crate::chunk::Chunk;
use std::sync::Arc;

/// A chunk, and how many elements stand in front of it.
#[derive(Clone, Copy, Debug)]
pub struct At<'o> {
    /// The chunk.
    pub chunk: &'o Chunk,
    /// The index of its first element in the sequence.
    pub first_index: u64,
}

/// Chunks ordered by label.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    chunks: Arc<Vec<Chunk>>,
    elements: u64,
    bytes: u64,
}

impl Sequence {
    /// How many elements its chunks have.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// How many bytes its chunks' elements take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The bytes of memory that the sequence itself takes, without its chunks.
    pub fn memory_bytes(&self) -> u64 {
        (self.chunks.capacity() * size_of::<Chunk>()) as u64
    }

    fn at(&self, place: usize) -> Option<At<'_>> {
        let chunk = self.chunks.get(place)?;
        let first_index = self.chunks[..place].iter().map(|chunk| u64::from(chunk.elements)).sum();
        Some(At { chunk, first_index })
    }

    /// The chunk with this label.
    pub fn labelled(&self, label: u64) -> Option<At<'_>> {
        self.at(self.chunks.binary_search_by_key(&label, |chunk| chunk.label).ok()?)
    }

    /// The last chunk whose label is not greater.
    pub fn last_up_to(&self, label: u64) -> Option<At<'_>> {
        self.at(self.chunks.partition_point(|chunk| chunk.label <= label).checked_sub(1)?)
    }

    /// The first chunk whose label is not smaller.
    pub fn first_from(&self, label: u64) -> Option<At<'_>> {
        self.at(self.chunks.partition_point(|chunk| chunk.label < label))
    }

    /// The chunk that has the element of this index.
    pub fn with_index(&self, index: u64) -> Option<At<'_>> {
        let mut first_index = 0;
        for chunk in self.chunks.iter() {
            if index < first_index + u64::from(chunk.elements) {
                return Some(At { chunk, first_index });
            }
            first_index += u64::from(chunk.elements);
        }
        None
    }

    /// The last chunk for which this holds. It holds for some first chunks, and for no later one.
    pub fn last_where<'o>(&'o self, mut holds: impl FnMut(&'o Chunk) -> bool) -> Option<At<'o>> {
        let (mut low, mut high) = (0, self.chunks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match holds(&self.chunks[middle]) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.at(low.checked_sub(1)?)
    }

    /// The first chunk.
    pub fn first(&self) -> Option<At<'_>> {
        self.at(0)
    }

    /// The last chunk.
    pub fn last(&self) -> Option<At<'_>> {
        self.at(self.chunks.len().checked_sub(1)?)
    }

    /// The chunks from the first whose label is not smaller, in order.
    pub fn iter_from(&self, label: u64) -> impl Iterator<Item = &Chunk> {
        self.chunks[self.chunks.partition_point(|chunk| chunk.label < label)..].iter()
    }

    /// The chunks from the last whose label is not greater, in the order of falling labels.
    pub fn iter_back_from(&self, label: u64) -> impl Iterator<Item = &Chunk> {
        self.chunks[..self.chunks.partition_point(|chunk| chunk.label <= label)].iter().rev()
    }

    /// Adds a chunk, or puts it in the place of that with its label, which it returns.
    pub(crate) fn put(&mut self, chunk: Chunk) -> Option<Chunk> {
        self.elements += u64::from(chunk.elements);
        self.bytes += u64::from(chunk.bytes);
        let chunks = Arc::make_mut(&mut self.chunks);
        let old = match chunks.binary_search_by_key(&chunk.label, |chunk| chunk.label) {
            Ok(place) => Some(std::mem::replace(&mut chunks[place], chunk)),
            Err(place) => {
                chunks.insert(place, chunk);
                None
            }
        };
        self.forget(old)
    }

    /// Removes the chunk with this label, which it returns.
    pub(crate) fn remove(&mut self, label: u64) -> Option<Chunk> {
        let place = self.chunks.binary_search_by_key(&label, |chunk| chunk.label).ok()?;
        let old = Arc::make_mut(&mut self.chunks).remove(place);
        self.forget(Some(old))
    }

    fn forget(&mut self, old: Option<Chunk>) -> Option<Chunk> {
        if let Some(old) = &old {
            self.elements -= u64::from(old.elements);
            self.bytes -= u64::from(old.bytes);
        }
        old
    }
}
