//! The index of one slot: a table of buckets in the order of the hash, which grows while it is read.
//!
//! Purpose: find a key's entry without a lock or a read-modify-write, while one writer at a time changes the
//! table.
//!
//! A table grows and shrinks into a new array while it is read and written: see `resize`.
//!
//! Invariants:
//! - T1 Within an array an entry never moves; it is stored, replaced in place, cleared.
//! - T2 A moved bucket, one of a unit below `split`, is never written again.
//! - T3 `next` is set before the first bucket moves and cleared after `table` names the new array.
//! - T4 A reader finds the key's entry of some moment between its loads of `next` and of the entry: no bucket
//!   that it takes from `table` had been moved at the first load.
//!
//! From T1 to T4: a look-up finds a key that has an entry throughout, and the entry was current during the
//! look-up. So look-ups are linearizable; the lock serialises writers. For changes of several keys see
//! `slot_lock`.
//!
//! Ownership: everything but the look-ups happens under the slot's lock, held by any thread.

use crate::array::{ArrayWord, Chain, bucket_number};
use crate::bucket::{Bucket, ENTRIES, EntryKind, Word};
use crate::epoch::Pinned;
use crate::hidden::Hidden;
use crate::record::NEVER;
use crate::slot_lock::SlotLock;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use sidle_types::WallMs;

/// One slot: its lock, its table and its counters. One cache line.
#[repr(align(64))]
pub(crate) struct SlotTable {
    pub(crate) lock: SlotLock,
    /// Units moved from `table` to `next`: a bucket of the smaller array, and the larger one's two buckets
    /// with the same hashes.
    pub(crate) split: AtomicU32,
    pub(crate) table: AtomicU64,
    /// The successor of `table`, while the table grows or shrinks.
    pub(crate) next: AtomicU64,
    /// Entries that are values, and those among them that users do not see.
    live: AtomicU32,
    hidden: AtomicU32,
    /// Bytes of the records behind all entries.
    bytes: AtomicU64,
    /// The highest version given or seen.
    version: AtomicU64,
    tombstones: AtomicU32,
    /// Values with a deadline.
    expiring: AtomicU32,
    /// Milliseconds: none of these deadlines is earlier.
    earliest: AtomicU64,
}

impl Default for SlotTable {
    fn default() -> SlotTable {
        SlotTable {
            lock: SlotLock::new(),
            split: AtomicU32::new(0),
            table: AtomicU64::new(0),
            next: AtomicU64::new(0),
            live: AtomicU32::new(0),
            hidden: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            version: AtomicU64::new(0),
            tombstones: AtomicU32::new(0),
            expiring: AtomicU32::new(0),
            earliest: AtomicU64::new(NEVER.0),
        }
    }
}

/// A place in the table.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) bucket: &'p Bucket,
    pub(crate) index: usize,
    pub(crate) level: u32,
}

/// A bucket with its chain and its hashes.
#[derive(Clone, Copy)]
pub(crate) struct Span<'p> {
    pub(crate) chain: Chain<'p>,
    pub(crate) level: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl<'p> Span<'p> {
    /// The entries, each with its place.
    pub(crate) fn entries(
        self,
        pin: Pinned<'p>,
    ) -> impl Iterator<Item = (Place<'p>, Word<'p>)> + Clone + use<'p> {
        let level = self.level;
        self.chain.flat_map(move |bucket| {
            (0..ENTRIES)
                .filter_map(move |index| Some((Place { bucket, index, level }, bucket.load(index, pin)?)))
        })
    }
}

/// Where resizing leaves old arrays, and reports the index's memory.
pub(crate) trait Arrays {
    /// An array has been unlinked; it is freed once its readers are gone.
    fn retire(&self, array: ArrayWord);
    /// The index takes this many bytes more.
    fn grew(&self, bytes: usize);
    /// Whether there is room for this many bytes more. If not, a table that should grow waits, with longer
    /// chains, and tries again at the next entry. One that should shrink waits, too, and tries again.
    fn has_room(&self, bytes: usize) -> bool;
}

impl SlotTable {
    // ---- reading, by any pinned thread ----

    /// The arrays as of one moment: the table, and during a resizing the new one with the number of moved
    /// units.
    #[inline]
    fn arrays(&self) -> (ArrayWord, Option<(ArrayWord, usize)>) {
        loop {
            let next = self.next.load(Ordering::Acquire);
            let split = self.split.load(Ordering::Acquire);
            let table = ArrayWord::from_bits(self.table.load(Ordering::Acquire));
            if next == 0 {
                return (table, None);
            }
            // Unchanged: the same resizing throughout, since a retired array's address is not reused under a
            // pin.
            if self.next.load(Ordering::Acquire) == next {
                let next = ArrayWord::from_bits(next);
                // Finished, but `next` not cleared yet (T3).
                return if table == next { (table, None) } else { (table, Some((next, split as usize))) };
            }
        }
    }

    /// The array and number of the bucket for a hash.
    #[inline]
    pub(crate) fn locate(&self, hash: u64) -> Option<(ArrayWord, usize)> {
        let (table, resizing) = self.arrays();
        if table.is_none() {
            return None;
        }
        match resizing {
            Some((next, split)) if bucket_number(hash, table.level().min(next.level())) < split => {
                Some((next, bucket_number(hash, next.level())))
            }
            _ => Some((table, bucket_number(hash, table.level()))),
        }
    }

    /// Finds the entry with a matching tag for which `is_it` holds.
    #[inline(always)]
    pub(crate) fn find<'p>(
        &'p self,
        hash: u64,
        pin: Pinned<'p>,
        mut is_it: impl FnMut(Word<'p>) -> bool,
    ) -> Option<(Place<'p>, Word<'p>)> {
        let (word, number) = self.locate(hash)?;
        let array = word.array(pin);
        let level = array.level;
        for bucket in array.chain(number) {
            for index in 0..ENTRIES {
                if let Some(word) = bucket.load(index, pin)
                    && word.may_be(hash, level)
                    && is_it(word)
                {
                    return Some((Place { bucket, index, level }, word));
                }
            }
        }
        None
    }

    /// The bucket of a hash. Spans follow each other in the order of the hash. Call it for each, since the
    /// table may be resized in between: then a span may start before the hash.
    pub(crate) fn span<'p>(&'p self, hash: u64, pin: Pinned<'p>) -> Option<Span<'p>> {
        let (word, number) = self.locate(hash)?;
        let array = word.array(pin);
        let shift = 63 - array.level;
        let first = (number as u64) << shift << 1;
        let last = first | (1u64 << shift << 1).wrapping_sub(1);
        Some(Span { chain: array.chain(number), level: array.level, first, last })
    }

    /// Starts loading the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some((array, _)) = self.locate(hash) {
            array.prefetch(hash);
        }
    }

    /// The linked arrays.
    #[cfg(feature = "testing")]
    pub(crate) fn arrays_in_use(&self) -> [ArrayWord; 2] {
        [&self.table, &self.next].map(|word| ArrayWord::from_bits(word.load(Ordering::Acquire)))
    }

    /// Whether the slot was never used, or nothing is left and all counts are 0.
    #[cfg(feature = "testing")]
    pub(crate) fn is_untouched(&self) -> bool {
        self.entries() == 0 && self.bytes() == 0 && self.expiring() == 0 && self.level().is_none()
    }

    /// log2 of the number of buckets, or none for an empty slot.
    pub(crate) fn level(&self) -> Option<u32> {
        let (table, _) = self.arrays();
        (!table.is_none()).then(|| table.level())
    }
}

// ---- counting ----

/// An entry's share of the counters.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) kind: EntryKind,
    /// A value that users do not see.
    pub(crate) hidden: Hidden,
    /// Bytes of its record.
    pub(crate) bytes: usize,
}

impl SlotTable {
    /// Counts an entry removed, added or replaced. Under the lock. Each counter changes in one step: readers
    /// see the number before or after. Release: a reader of the number sees the lock taken (X3).
    #[inline]
    pub(crate) fn count(&self, removed: Option<Counted>, added: Option<Counted>) {
        let change = |of: fn(Counted) -> i64| added.map_or(0, of) - removed.map_or(0, of);
        let add = |counter: &AtomicU64, change: i64| {
            if change != 0 {
                let value = counter.load(Ordering::Relaxed).wrapping_add_signed(change);
                counter.store(value, Ordering::Release);
            }
        };
        let add_u32 = |counter: &AtomicU32, change: i64| {
            if change != 0 {
                let value = counter.load(Ordering::Relaxed).wrapping_add_signed(change as i32);
                counter.store(value, Ordering::Release);
            }
        };
        add(&self.bytes, change(|counted| counted.bytes as i64));
        add_u32(&self.hidden, change(|counted| i64::from(counted.hidden != Hidden::No)));
        add_u32(&self.live, change(|counted| i64::from(!counted.kind.is_tombstone)));
        add_u32(&self.tombstones, change(|counted| i64::from(counted.kind.is_tombstone)));
        add_u32(&self.expiring, change(|counted| i64::from(counted.kind.has_deadline)));
    }

    /// Counts bytes of a collection's chunks added or removed. Under the lock.
    pub(crate) fn count_bytes(&self, change: i64) {
        self.bytes.store(self.bytes().wrapping_add_signed(change), Ordering::Release);
    }

    /// Values.
    pub(crate) fn live(&self) -> u64 {
        u64::from(self.live.load(Ordering::Acquire))
    }

    /// Those among them that users do not see.
    pub(crate) fn hidden(&self) -> u64 {
        u64::from(self.hidden.load(Ordering::Acquire))
    }

    /// Tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        u64::from(self.tombstones.load(Ordering::Relaxed))
    }

    /// Values with a deadline.
    pub(crate) fn expiring(&self) -> u64 {
        u64::from(self.expiring.load(Ordering::Relaxed))
    }

    /// No value of the slot has an earlier deadline.
    pub(crate) fn earliest(&self) -> WallMs {
        WallMs(self.earliest.load(Ordering::Relaxed))
    }

    /// Whether a value of the slot may be past its deadline.
    #[inline]
    pub(crate) fn may_have_expired(&self, now: WallMs) -> bool {
        self.expiring() != 0 && self.earliest() < now
    }

    /// A value gets this deadline, or may have it. Under the lock.
    #[inline]
    pub(crate) fn note_deadline(&self, deadline: WallMs) {
        if deadline < self.earliest() {
            self.earliest.store(deadline.0, Ordering::Relaxed);
        }
    }

    /// Removes the earliest deadline, for a caller that will set it anew. Under the lock.
    pub(crate) fn take_earliest(&self) -> WallMs {
        let earliest = self.earliest();
        self.earliest.store(NEVER.0, Ordering::Relaxed);
        earliest
    }

    /// Values and tombstones.
    pub(crate) fn entries(&self) -> u64 {
        self.live() + self.tombstones()
    }

    /// Bytes of the records behind the entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The highest version given or seen.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Raises the highest version. Under the lock.
    pub(crate) fn raise_version(&self, version: u64) {
        if version > self.version() {
            self.version.store(version, Ordering::Relaxed);
        }
    }
}
