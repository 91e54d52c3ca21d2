//! From a store that nobody writes to into one that serves, slice by slice.
//!
//! Values enter as those of an import do: their versions order them, and the commits of the store that takes
//! them have them. A large collection goes chunk by chunk, another large value in pieces of its final memory.
//! Between two slices no slot is locked.

use crate::assembly::Assembly;
use crate::batch::RecordBatch;
use crate::large::arrival::Arrival;
use crate::large::patch::Holds;
use crate::log::LogHead;
use crate::replay::{ReplayError, Replayed};
use crate::store::Store;
use crate::writer::Leave;
use sidle_types::{HashedKey, Position, PositionRange};

/// Records are packed together up to so many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// What is longer goes in pieces, or chunk by chunk, about so many bytes at a time.
const PIECE_BYTES: usize = 256 << 10;
/// About so many tombstones move at a time.
const TOMBSTONES_TOGETHER: usize = 1024;

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It has moved a slice.
    Slice,
    /// Nothing is left.
    All,
}

/// A large value in hand.
#[derive(Debug)]
enum Large {
    /// A collection: its chunks so far.
    Chunks(Option<Arrival>, Holds),
    /// Its bytes so far.
    Pieces(Assembly),
}

/// A range on its way from one store to another.
#[derive(Debug)]
pub struct MoveIn {
    range: PositionRange,
    next: Option<Position>,
    /// What stands at `next`, if it is large.
    large: Option<Large>,
    has_begun: bool,
    /// Where tombstones continue, if they move as well: behind the values.
    tombstones: Option<Position>,
    keys: u64,
    bytes: u64,
    batch: Vec<u8>,
}

impl MoveIn {
    /// Nothing of the range has moved yet.
    pub fn new(range: PositionRange) -> MoveIn {
        let next = Some(range.first());
        let (large, batch) = (None, Vec::new());
        MoveIn { range, next, large, has_begun: false, tombstones: None, keys: 0, bytes: 0, batch }
    }

    /// The same, and its tombstones move too: they hide what is still to arrive (M6).
    #[must_use]
    pub fn and_tombstones(self, do_move: bool) -> MoveIn {
        MoveIn { tombstones: do_move.then(|| self.range.first()), ..self }
    }

    /// How many keys have moved.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// How many bytes of values have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves the next slice; after an error the same again. Nobody else writes to the range in either store.
    pub fn step(&mut self, from: &Store, into: &Store, head: &mut LogHead) -> Result<Moved, ReplayError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // What comes gets a later order, with which a restart finds it.
            into.raise_version_floor(self.range, from.highest_version(self.range));
        }
        let Some(at) = self.next else { return self.step_of_tombstones(from, into, head) };
        if self.large.is_some() {
            self.step_of_large(at, from, into, head)?;
            return Ok(Moved::Slice);
        }
        self.batch.clear();
        let end = from.scan_to_large(at, self.range.last(), BATCH_BYTES, PIECE_BYTES, &mut self.batch);
        if end.is_large && end.next == Some(at) {
            self.large = Some(Large::Chunks(None, Holds::Nothing));
            self.step_of_large(at, from, into, head)?;
            return Ok(Moved::Slice);
        }
        let records = RecordBatch::parse(&self.batch)?;
        let replayed = into.replay(head, &records, self.range)?;
        self.count(replayed, self.batch.len());
        self.next = end.next;
        Ok(Moved::Slice)
    }

    fn step_of_tombstones(
        &mut self,
        from: &Store,
        into: &Store,
        head: &mut LogHead,
    ) -> Result<Moved, ReplayError> {
        let Some(at) = self.tombstones else { return Ok(Moved::All) };
        let mut keys = Vec::new();
        let next = from.visit_tombstones(at, self.range.last(), TOMBSTONES_TOGETHER, &mut |key| {
            keys.push(key.to_vec());
        });
        for key in keys.iter().map(|key| HashedKey::new(key)) {
            into.lock_slot(key.slot()).remove(head, key, Leave::Tombstone)?;
        }
        self.tombstones = next;
        Ok(Moved::Slice)
    }

    fn count(&mut self, replayed: Replayed, bytes: usize) {
        // After a failed step some are present.
        self.keys += u64::from(replayed.inserted) + u64::from(replayed.present);
        self.bytes += bytes as u64;
    }

    /// What stands at the position has moved.
    fn pass(&mut self, at: Position, replayed: Replayed, bytes: usize) {
        self.count(replayed, bytes);
        self.large = None;
        self.next = at.next().filter(|next| self.range.contains(*next));
    }

    fn step_of_large(
        &mut self,
        at: Position,
        from: &Store,
        into: &Store,
        head: &mut LogHead,
    ) -> Result<(), ReplayError> {
        self.batch.clear();
        // Dropped after an error, the value begins anew.
        let large = self.large.take().unwrap_or(Large::Chunks(None, Holds::Nothing));
        match large {
            Large::Chunks(arrival, holds) => {
                let Some(packed) = from.pack_patch(at, holds, PIECE_BYTES, &mut self.batch) else {
                    let assembly = Assembly::begin(into, from.packed_bytes_at(at))?;
                    self.large = Some(Large::Pieces(assembly));
                    return Ok(());
                };
                let mut arriving = match arrival {
                    Some(arriving) => arriving,
                    None => Arrival::begin(into, &self.batch, packed.patch.version)?,
                };
                arriving.apply(into, head, &self.batch)?;
                if packed.is_last {
                    let replayed = arriving.finish(into, head, self.range)?;
                    self.pass(at, replayed, from.packed_bytes_at(at));
                } else {
                    self.large = Some(Large::Chunks(Some(arriving), Holds::Part(packed.patch)));
                }
            }
            Large::Pieces(mut assembly) => {
                if !assembly.is_whole() {
                    let arrived = |_| assembly.arrived();
                    let packed = from.pack_piece(at, arrived, PIECE_BYTES, &mut self.batch);
                    packed.ok_or(ReplayError::Gone)?;
                    assembly.append(&self.batch);
                    self.large = Some(Large::Pieces(assembly));
                } else {
                    let replayed = assembly.replay(into, head, self.range)?;
                    self.pass(at, replayed, from.packed_bytes_at(at));
                }
            }
        }
        Ok(())
    }
}
