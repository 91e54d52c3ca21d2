//! The index: a table per slot, and the limbo of the arrays that tables have outgrown.
#![allow(unsafe_code)] // frees arrays that have passed their epoch

use crate::array::ArrayWord;
use crate::epoch::{Epochs, Limbo, Pinned};
use crate::occupancy::{Occupancy, Occupied};
use crate::segment::Segments;
use crate::slot_table::{Arrays, SlotTable, Span};
use sidle_types::{KeyHash, Position, PositionRange, SLOT_COUNT, Slot};

/// How many low bits of a hash are not in the position.
const HIDDEN_BITS: u32 = 64 - Position::HASH_BITS;

/// The lowest hash at a position.
fn lowest_hash(position: Position) -> u64 {
    position.hash_bits() << HIDDEN_BITS
}

/// The slots that a range touches.
pub(crate) fn slots_of(range: PositionRange) -> impl Iterator<Item = Slot> {
    let (first, last) = range.slots();
    (first.number()..=last.number()).map(|number| Slot::new(number).expect("between two slots"))
}

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

    /// Starts loading a slot.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        crate::memory::prefetch(self.slot(slot));
    }

    /// The slots that have entries, in order.
    pub(crate) fn occupied(&self) -> Occupied<'_> {
        self.occupied_in(PositionRange::ALL)
    }

    /// The slots of a range that have entries.
    pub(crate) fn occupied_in(&self, range: PositionRange) -> Occupied<'_> {
        let (first, last) = range.slots();
        self.occupancy.between(first, last)
    }

    /// The tables of all slots that have entries.
    pub(crate) fn occupied_tables(&self) -> impl Iterator<Item = &SlotTable> {
        self.occupied().map(|slot| self.slot(slot))
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> u64 {
        self.occupied_tables().map(SlotTable::live).sum()
    }

    /// The bucket of `from`, with its positions; none if its slot is empty.
    pub(crate) fn bucket_at<'p>(
        &'p self,
        from: Position,
        pin: Pinned<'p>,
    ) -> Option<(Span<'p>, PositionRange)> {
        let at = |hash| Position::new(from.slot(), KeyHash(hash));
        let span = self.slot(from.slot()).span(lowest_hash(from), pin)?;
        Some((span, PositionRange::new(at(span.first), at(span.last)).expect("hashes in order")))
    }

    /// The first slot with entries from this position on, as the position to continue from.
    pub(crate) fn skip_empty(&self, from: Position) -> Option<Position> {
        let slot = self.occupancy.between(from.slot(), Slot::LAST).next()?;
        Some(if slot == from.slot() { from } else { Position::first_of(slot) })
    }

    /// Frees the arrays without readers.
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
    /// Bytes of all arrays with their chains, those in limbo included, recounted.
    pub(crate) fn recount(&self, pin: Pinned<'_>) -> u64 {
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
            // SAFETY: exclusive access to the index; an array is either linked or in limbo.
            unsafe { array.free() };
        }
    }
}

/// The index's memory, for a growing table.
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
