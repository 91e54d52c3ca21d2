//! Tables that grow and shrink while they are read.
//!
//! A table of 2^n buckets grows into a new array of 2^(n+1), bucket b into 2b and 2b + 1; or it shrinks into
//! one of 2^(n-1), two buckets into one. Either way a bucket of the smaller array and two of the larger one
//! hold the same hashes: a unit. Each write moves a few units; `split` counts those moved. A moved bucket
//! stays unchanged for its readers, and goes with its array.
//!
//! A table grows before an entry is added, and shrinks after a removal, at a quarter of the size it would
//! grow at: both leave it half full. Without room for the new array it stays, with longer chains or emptier
//! buckets, and tries again. The cleaner tries too, when it finds nothing else to free.
//!
//! The invariants are those of `slot_table` (T1 to T4). Everything here happens under the slot's lock.

use crate::array::{Array, ArrayWord, Chain, MAX_LEVEL, extend};
use crate::bucket::{Bucket, ENTRIES, Word};
use crate::epoch::Pinned;
use crate::slot_table::{Arrays, SlotTable};
use crate::sync::{AtomicU64, Ordering};

/// Units moved by one write. Two would be enough to finish before the next resizing is due.
const MOVED_PER_WRITE: usize = if cfg!(loom) { 1 } else { 8 };
/// Tables of up to this many units are resized in one go.
const MOVED_AT_ONCE: usize = if cfg!(loom) { 0 } else { 32 };
/// A table grows when it holds more than this many entries for every ten buckets.
const CROWDED_PER_TEN_BUCKETS: u64 = if cfg!(loom) { 10 } else { 56 };
/// It shrinks when it holds fewer than this many. Loom's tables shrink on demand.
const SPARSE_PER_TEN_BUCKETS: u64 = if cfg!(loom) { 100 } else { 14 };

/// Whether so many entries are too many for a table of this level.
fn is_crowded(entries: u64, level: u32) -> bool {
    entries * 10 >= CROWDED_PER_TEN_BUCKETS << level
}

impl SlotTable {
    /// Adds an entry for a key that has none.
    #[inline(always)]
    pub(crate) fn insert<'p>(
        &'p self,
        hash: u64,
        make: impl FnOnce(u32) -> Word<'p>,
        pin: Pinned<'p>,
        arrays: &impl Arrays,
        hash_of: impl Fn(Word<'p>) -> u64,
    ) {
        self.grow(pin, arrays, hash_of);
        let (word, number) = self.locate(hash).unwrap_or_else(|| (self.start(0, arrays), 0));
        let array = word.array(pin);
        place(array.chain(number), make(array.level), pin, arrays);
    }

    /// Gives a slot without a table one with room for so many entries. Otherwise entries arriving in hash
    /// order would fill the first buckets of each size on the way, and their chains. Without memory the slot
    /// stays as it is.
    pub(crate) fn reserve(&self, entries: usize, arrays: &impl Arrays) {
        if !ArrayWord::from_bits(self.table.load(Ordering::Relaxed)).is_none() {
            return;
        }
        let level = (0..MAX_LEVEL).find(|&level| !is_crowded(entries as u64, level)).unwrap_or(MAX_LEVEL);
        if arrays.has_room(size_of::<Bucket>() << level) {
            self.start(level, arrays);
        }
    }

    /// Gives a slot without a table one of this level.
    fn start(&self, level: u32, arrays: &impl Arrays) -> ArrayWord {
        let array = ArrayWord::allocate(level);
        arrays.grew(size_of::<Bucket>() << level);
        self.table.store(array.bits(), Ordering::Release);
        array
    }

    /// Unlinks the whole table with its contents; the caller has accounted for the entries.
    pub(crate) fn drop_table(&self, arrays: &impl Arrays) {
        let table = ArrayWord::from_bits(self.table.load(Ordering::Relaxed));
        let next = ArrayWord::from_bits(self.next.load(Ordering::Relaxed));
        self.table.store(0, Ordering::Release);
        self.next.store(0, Ordering::Release);
        for array in [table, next] {
            if !array.is_none() {
                arrays.retire(array);
            }
        }
    }

    /// Both arrays, to be freed by the exclusive owner of the store.
    pub(crate) fn take_arrays(&mut self) -> [ArrayWord; 2] {
        let take = |word: &AtomicU64| ArrayWord::from_bits(word.load(Ordering::Relaxed));
        let arrays = [take(&self.table), take(&self.next)];
        self.table.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        arrays
    }

    fn array_of(word: &AtomicU64) -> Option<ArrayWord> {
        let array = ArrayWord::from_bits(word.load(Ordering::Relaxed));
        (!array.is_none()).then_some(array)
    }

    /// Starts growing when due, and moves some units of a resizing. Before an entry is added.
    fn grow<'p>(&'p self, pin: Pinned<'p>, arrays: &impl Arrays, hash_of: impl Fn(Word<'p>) -> u64) {
        let Some(table) = SlotTable::array_of(&self.table) else { return };
        let starts = || is_crowded(self.entries(), table.level()) && table.level() < MAX_LEVEL;
        self.resize(table, starts, table.level() + 1, pin, arrays, hash_of);
    }

    /// Whether a shrinking is due, or a resizing is running.
    pub(crate) fn is_to_shrink(&self) -> bool {
        let is_sparse = |table: ArrayWord| {
            table.level() > 0 && self.entries() * 10 < SPARSE_PER_TEN_BUCKETS << table.level()
        };
        SlotTable::array_of(&self.next).is_some() || SlotTable::array_of(&self.table).is_some_and(is_sparse)
    }

    /// Starts shrinking when due, and moves some units of a resizing; returns whether there was anything to
    /// do and room to do it. Call it after removals, without a place of the table in hand.
    pub(crate) fn shrink<'p>(
        &'p self,
        pin: Pinned<'p>,
        arrays: &impl Arrays,
        hash_of: impl Fn(Word<'p>) -> u64,
    ) -> bool {
        let Some(table) = SlotTable::array_of(&self.table).filter(|_| self.is_to_shrink()) else {
            return false;
        };
        self.resize(table, || true, table.level().saturating_sub(1), pin, arrays, hash_of)
    }

    fn resize<'p>(
        &'p self,
        table: ArrayWord,
        starts: impl Fn() -> bool,
        level: u32,
        pin: Pinned<'p>,
        arrays: &impl Arrays,
        hash_of: impl Fn(Word<'p>) -> u64,
    ) -> bool {
        let next = SlotTable::array_of(&self.next);
        let next = next.or_else(|| if starts() { self.start_moving(level, arrays) } else { None });
        let Some(next) = next else { return false };
        let units = 1usize << table.level().min(next.level());
        let moved = self.split.load(Ordering::Relaxed) as usize;
        let until = if units <= MOVED_AT_ONCE { units } else { units.min(moved + MOVED_PER_WRITE) };
        let (from, to) = (table.array(pin), next.array(pin));
        for unit in moved..until {
            if from.level < to.level {
                move_bucket(from, unit, pin, arrays, |word| {
                    let (word, upper) = word.split(from.level, &hash_of);
                    (to.chain(2 * unit + usize::from(upper)), word)
                });
            } else {
                let merged = |word: Word<'p>| (to.chain(unit), word.merged(from.level, &hash_of));
                move_bucket(from, 2 * unit, pin, arrays, merged);
                move_bucket(from, 2 * unit + 1, pin, arrays, merged);
            }
            self.split.store(unit as u32 + 1, Ordering::Release);
        }
        if until == units {
            self.table.store(next.bits(), Ordering::Release);
            self.next.store(0, Ordering::Release);
            arrays.retire(table);
        }
        true
    }

    /// Links an array of this level as the new one, if there is room.
    fn start_moving(&self, level: u32, arrays: &impl Arrays) -> Option<ArrayWord> {
        let bytes = size_of::<Bucket>() << level;
        if !arrays.has_room(bytes) {
            return None;
        }
        let next = ArrayWord::allocate(level);
        arrays.grew(bytes);
        // Release: a thread that sees this 0 sees the end of the previous resizing.
        self.split.store(0, Ordering::Release);
        self.next.store(next.bits(), Ordering::Release);
        Some(next)
    }
}

/// Puts an entry into the first free place of a chain.
fn place<'p>(chain: Chain<'p>, word: Word<'p>, pin: Pinned<'p>, arrays: &impl Arrays) {
    let mut last = None;
    for bucket in chain {
        for index in 0..ENTRIES {
            if bucket.load(index, pin).is_none() {
                return bucket.store(index, word);
            }
        }
        last = Some(bucket);
    }
    extend(last.expect("a chain has a bucket"), word);
    arrays.grew(size_of::<Bucket>());
}

/// Copies the entries of one bucket to their `target`.
fn move_bucket<'p>(
    from: Array<'p>,
    number: usize,
    pin: Pinned<'p>,
    arrays: &impl Arrays,
    target: impl Fn(Word<'p>) -> (Chain<'p>, Word<'p>),
) {
    for bucket in from.chain(number) {
        for index in 0..ENTRIES {
            if let Some(word) = bucket.load(index, pin) {
                let (chain, word) = target(word);
                place(chain, word, pin, arrays);
            }
        }
    }
}
