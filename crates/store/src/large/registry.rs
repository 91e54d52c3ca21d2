//! The cells of large collections, found by number.
//!
//! A number is the index of a cell and how often the cell was used before: it identifies a collection for
//! ever. Cells lie in blocks that are made when needed and stay. So a reader finds one by three loads, and
//! locks nothing but the cell, to copy three pointers.

use crate::address::Address;
use crate::large::chunk::{ChunkName, address_of};
use crate::large::doomed::Doomed;
use crate::segment::Segments;
use sidle_outline::{CollectionId, Outline};
use sidle_types::{Slot, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const CELLS_PER_BLOCK: usize = 64;
const BLOCKS_PER_PART: usize = 512;
/// Enough for 2^29 collections: with their least, more than a store has addresses for.
const PARTS: usize = 1 << 14;

type Block = [Cell; CELLS_PER_BLOCK];
type Part = [OnceLock<Box<Block>>; BLOCKS_PER_PART];

/// What is published of a collection.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) outline: Outline,
    /// Its key's slot, whose lock a change needs (K1).
    pub(crate) slot: Slot,
    /// The record that is its key's entry (K2); none before a key has it.
    pub(crate) head: Option<Address>,
    /// Of the latest publication: the highest of head and chunks.
    pub(crate) version: Version,
    /// The bytes of its chunks' records.
    pub(crate) chunk_bytes: u64,
    /// The checksum of its packed record, once a part of that was packed.
    pub(crate) packed_crc: Option<u32>,
}

/// A place for a collection. On lines of its own: readers of one collection do not disturb others'.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// How many collections had the cell before.
    uses: u32,
    state: Option<Published>,
}

impl Cell {
    // Every change is one assignment, or does not panic half-way.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which cells are free.
#[derive(Debug, Default)]
struct Free {
    used_before: Vec<u32>,
    /// Cells from here on have never been used.
    fresh: u32,
}

/// The large collections of a store.
#[derive(Debug)]
pub(crate) struct Collections {
    parts: Box<[OnceLock<Box<Part>>]>,
    free: Mutex<Free>,
    pub(crate) doomed: Doomed,
}

impl Default for Collections {
    fn default() -> Collections {
        let parts = (0..PARTS).map(|_| OnceLock::new()).collect();
        Collections { parts, free: Mutex::default(), doomed: Doomed::default() }
    }
}

fn index_of(id: CollectionId) -> u32 {
    id.0 as u32
}

impl Collections {
    fn cell(&self, id: CollectionId) -> Option<&Cell> {
        let index = index_of(id) as usize;
        let (block, cell) = (index / CELLS_PER_BLOCK, index % CELLS_PER_BLOCK);
        let part = self.parts.get(block / BLOCKS_PER_PART)?.get()?;
        Some(&part[block % BLOCKS_PER_PART].get()?[cell])
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no collection was ever published.
    pub(crate) fn is_unused(&self) -> bool {
        self.free().fresh == 0
    }

    /// Passes what is published of a collection to `f`; none if there is no such collection any more.
    pub(crate) fn read<T>(&self, id: CollectionId, f: impl FnOnce(&Published) -> T) -> Option<T> {
        let inner = self.cell(id)?.read();
        inner.state.as_ref().filter(|state| state.outline.id() == Some(id)).map(f)
    }

    /// The outline of the collection with this head (K2).
    pub(crate) fn outline(&self, id: CollectionId, head: Address) -> Option<Outline> {
        self.read(id, |state| (state.head == Some(head)).then(|| state.outline.clone()))?
    }

    /// The slot of a chunk's collection, if the chunk is at this address and published.
    pub(crate) fn slot_of_chunk(&self, name: ChunkName, at: Address) -> Option<Slot> {
        self.read(name.id, |state| {
            let found = state.outline.sequence(name.order).labelled(name.label)?;
            (address_of(found.chunk) == Some(at)).then_some(state.slot)
        })?
    }

    /// Notes the checksum of the packed record of this version. K1 is about what is published: this follows
    /// from it.
    pub(crate) fn note_packed_crc(&self, id: CollectionId, version: Version, crc: u32) {
        let Some(cell) = self.cell(id) else { return };
        let mut inner = cell.write();
        let is_it = |state: &&mut Published| state.outline.id() == Some(id) && state.version == version;
        if let Some(state) = inner.state.as_mut().filter(is_it) {
            state.packed_crc = Some(crc);
        }
    }

    /// Changes what is published of a collection, which exists. The caller has the locks (K1).
    pub(crate) fn change<T>(&self, id: CollectionId, f: impl FnOnce(&mut Published) -> T) -> T {
        self.change_if_there(id, f).expect("the collection is in its cell")
    }

    /// The same of a collection that may have been [abandoned](Self::abandon), which takes no lock.
    pub(crate) fn change_if_there<T>(
        &self,
        id: CollectionId,
        f: impl FnOnce(&mut Published) -> T,
    ) -> Option<T> {
        let mut inner = self.cell(id)?.write();
        inner.state.as_mut().filter(|state| state.outline.id() == Some(id)).map(f)
    }

    /// Passes what is published in some cells, from this index on, to `f`. Returns from which index to
    /// continue; none if no cell behind them was ever used.
    pub(crate) fn look_through(&self, from: u32, cells: u32, mut f: impl FnMut(&Published)) -> Option<u32> {
        let fresh = self.free().fresh;
        let end = from.saturating_add(cells).min(fresh);
        for index in from..end {
            // Only the index of a number finds its cell.
            let cell = self.cell(CollectionId(u64::from(index)));
            if let Some(cell) = cell {
                cell.read().state.iter().for_each(&mut f);
            }
        }
        (end < fresh).then_some(end)
    }

    /// A number for a new collection.
    pub(crate) fn reserve(&self, segments: &Segments) -> CollectionId {
        let mut free = self.free();
        let index = free.used_before.pop().unwrap_or_else(|| {
            free.fresh += 1;
            free.fresh - 1
        });
        let uses = self.made_cell(index, segments).read().uses;
        CollectionId(u64::from(uses) << 32 | u64::from(index))
    }

    /// The cell with this index, which is made if need be.
    fn made_cell(&self, index: u32, segments: &Segments) -> &Cell {
        let block = index as usize / CELLS_PER_BLOCK;
        let part = self.parts[block / BLOCKS_PER_PART].get_or_init(|| {
            segments.index_grew(size_of::<Part>() as i64);
            Box::new([const { OnceLock::new() }; BLOCKS_PER_PART])
        });
        let block = part[block % BLOCKS_PER_PART].get_or_init(|| {
            segments.index_grew(size_of::<Block>() as i64);
            Box::new(std::array::from_fn(|_| Cell::default()))
        });
        &block[index as usize % CELLS_PER_BLOCK]
    }

    /// Publishes the first state of the collection with this number.
    pub(crate) fn enter(&self, id: CollectionId, state: Published) {
        let mut inner = self.cell(id).expect("the number was reserved").write();
        assert!(inner.state.is_none() && u64::from(inner.uses) == id.0 >> 32, "the cell was reserved");
        inner.state = Some(state);
    }

    /// For a recovery, before anything else: how often cells were used before, by cell, as far as the durable
    /// log has collections of them; and the cells that are to be [entered](Self::enter) with the last number
    /// of each. A number is never used twice, so the other cells go on behind the last one. False if there
    /// are no such cells.
    pub(crate) fn restore(
        &self,
        uses: &BTreeMap<u32, u32>,
        taken: &BTreeSet<u32>,
        segments: &Segments,
    ) -> bool {
        let Some((&last, _)) = uses.last_key_value() else { return true };
        if last as usize / CELLS_PER_BLOCK / BLOCKS_PER_PART >= PARTS {
            return false;
        }
        for (&index, &uses) in uses {
            let is_taken = taken.contains(&index);
            self.made_cell(index, segments).write().uses = uses.wrapping_add(u32::from(!is_taken));
        }
        let mut free = self.free();
        free.fresh = last + 1;
        free.used_before = (0..=last).rev().filter(|index| !taken.contains(index)).collect();
        true
    }

    /// The collection whose head is at this address has lost its key, if that is its head: it is doomed. The
    /// caller has the slot's lock, and is pinned. Returns the bytes of its chunks.
    pub(crate) fn doom(&self, id: CollectionId, head: Address) -> Option<u64> {
        self.take_to_doomed(id, Some(head))
    }

    /// A collection that no key has yet is not needed: it is doomed.
    pub(crate) fn abandon(&self, id: CollectionId) {
        let doomed = self.take_to_doomed(id, None);
        assert!(doomed.is_some(), "a collection that arrives is in its cell");
    }

    /// The same of one that a key may have by now, or had.
    pub(crate) fn abandon_if_without_head(&self, id: CollectionId) {
        self.take_to_doomed(id, None);
    }

    fn take_to_doomed(&self, id: CollectionId, head: Option<Address>) -> Option<u64> {
        let mut inner = self.cell(id)?.write();
        let is_it = |state: &mut Published| state.outline.id() == Some(id) && state.head == head;
        self.doomed.announce();
        let Some(state) = inner.state.take_if(is_it) else {
            self.doomed.withdraw();
            return None;
        };
        inner.uses = inner.uses.wrapping_add(1);
        drop(inner);
        self.free().used_before.push(index_of(id));
        self.doomed.add(state.outline);
        Some(state.chunk_bytes)
    }
}

#[cfg(feature = "testing")]
impl Collections {
    /// Passes every published collection to `f`.
    pub(crate) fn each(&self, mut f: impl FnMut(&Published)) {
        let parts = self.parts.iter().filter_map(OnceLock::get);
        let blocks = parts.flat_map(|part| part.iter().filter_map(OnceLock::get));
        for cell in blocks.flat_map(|block| block.iter()) {
            if let Some(state) = &cell.read().state {
                f(state);
            }
        }
    }

    /// The memory of cells and outlines, recounted.
    pub(crate) fn recount(&self) -> u64 {
        let parts = || self.parts.iter().filter_map(OnceLock::get);
        let blocks = parts().flat_map(|part| part.iter().filter_map(OnceLock::get)).count();
        let mut bytes = (parts().count() * size_of::<Part>() + blocks * size_of::<Block>()) as u64;
        self.each(|state| bytes += state.outline.memory_bytes());
        self.doomed.each(|outline| bytes += outline.memory_bytes());
        bytes
    }
}
