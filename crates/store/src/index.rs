//! The index: a table per slot, and the limbo of the arrays that tables have outgrown.
#![allow(unsafe_code)] // frees arrays that have passed their epoch

use crate::array::ArrayWord;
use crate::epoch::{Epochs, Limbo};
use crate::occupancy::{Occupancy, Occupied};
use crate::segment::Segments;
use crate::slot_table::{Arrays, SlotTable};
use sidle_types::{PositionRange, SLOT_COUNT, Slot};

/// The tables of all slots.
pub(crate) struct Index {
    slots: Vec<SlotTable>,
    /// Which of them have entries.
    pub(crate) occupancy: Occupancy,
    limbo: Limbo<ArrayWord>,
}

impl Index {
    pub(crate) fn new() -> Index {
        let mut slots = Vec::new();
        slots.resize_with(usize::from(SLOT_COUNT), SlotTable::default);
        Index { slots, occupancy: Occupancy::new(), limbo: Limbo::new() }
    }

    /// The table of a slot.
    #[inline]
    pub(crate) fn slot(&self, slot: Slot) -> &SlotTable {
        &self.slots[slot.index()]
    }

    /// The slots that have entries, in order.
    pub(crate) fn occupied(&self) -> Occupied<'_> {
        let (first, last) = PositionRange::ALL.slots();
        self.occupancy.between(first, last)
    }

    /// The tables of all slots that have entries.
    pub(crate) fn occupied_tables(&self) -> impl Iterator<Item = &SlotTable> {
        self.occupied().map(|slot| self.slot(slot))
    }

    /// Frees the arrays that no reader sees any more.
    pub(crate) fn collect(&self, epochs: &Epochs, segments: &Segments) {
        for array in self.limbo.collect(epochs) {
            // SAFETY: unlinked before it was retired, and its epoch has passed; the limbo gives it out once.
            let bytes = unsafe { array.free() };
            segments.index_grew(-(bytes as i64));
        }
    }
}

#[cfg(feature = "testing")]
impl Index {
    /// Bytes of all arrays with their chains, those in limbo included, counted one by one.
    pub(crate) fn recount(&self, pin: crate::epoch::Pinned<'_>) -> u64 {
        let mut bytes =
            self.slots.iter().flat_map(SlotTable::arrays_in_use).map(|array| array.count_bytes(pin)).sum();
        self.limbo.each(|array| bytes += array.count_bytes(pin));
        bytes
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let linked = self.slots.iter_mut().flat_map(SlotTable::take_arrays);
        for array in linked.chain(self.limbo.drain()).filter(|array| !array.is_none()) {
            // SAFETY: nobody else has the index any more; an array is either linked or in limbo.
            unsafe { array.free() };
        }
    }
}

/// The index's memory, seen from a table that grows.
pub(crate) struct IndexMemory<'i> {
    pub(crate) index: &'i Index,
    pub(crate) epochs: &'i Epochs,
    pub(crate) segments: &'i Segments,
}

impl Arrays for IndexMemory<'_> {
    fn retire(&self, array: ArrayWord) {
        self.index.limbo.retire(self.epochs, array);
    }

    fn grew(&self, bytes: usize) {
        self.segments.index_grew(bytes as i64);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.segments.has_index_room(bytes as u64)
    }
}
