//! Index entries and buckets.
//!
//! An entry is one word, read and replaced in one step: the record's address (37 bits), a tombstone flag, a
//! deadline flag, and 25 bits of the key's hash as a tag. The entry's flags override the record: a value
//! whose entry has become a tombstone is struck out. A bucket is one cache line: seven entries and a link to
//! an overflow bucket.
//!
//! The tag holds the upper bits of the hash, which also choose the bucket: a growing table splits its entries
//! without reading records. A large table ([`RETAG_LEVEL`] and up) would use up most of the tag that way, so
//! its tags start 12 bits further down.

use crate::address::{Address, UNIT_BITS};
use crate::epoch::Pinned;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// Entries in a bucket; few when the kernel is model-checked, to keep the model small.
pub(crate) const ENTRIES: usize = if cfg!(loom) { 2 } else { 7 };
/// From this level (log2 of the number of buckets) on, tags are taken [`RETAG_SHIFT`] bits further down.
pub(crate) const RETAG_LEVEL: u32 = 13;
const RETAG_SHIFT: u32 = 12;

const ADDRESS_MASK: u64 = (1 << UNIT_BITS) - 1;
const TOMBSTONE: u64 = 1 << UNIT_BITS;
const DEADLINE: u64 = 1 << (UNIT_BITS + 1);
const TAG_MASK: u64 = !(ADDRESS_MASK | TOMBSTONE | DEADLINE);
const EMPTY: u64 = 0;

/// The tag of a hash in a table of this level, where an entry keeps it.
#[inline]
fn tag(hash: u64, level: u32) -> u64 {
    (if level < RETAG_LEVEL { hash } else { hash << RETAG_SHIFT }) & TAG_MASK
}

/// A loaded entry; its record can be read while `'p` lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<'p> {
    bits: u64,
    _pin: std::marker::PhantomData<&'p ()>,
}

impl<'p> Word<'p> {
    fn from_bits(bits: u64) -> Option<Word<'p>> {
        (bits != EMPTY).then_some(Word { bits, _pin: std::marker::PhantomData })
    }

    /// The entry for a record with this hash in a table of this level.
    #[inline]
    pub(crate) fn new(address: Address, hash: u64, level: u32, kind: EntryKind) -> Word<'p> {
        let flags =
            if kind.is_tombstone { TOMBSTONE } else { 0 } | if kind.has_deadline { DEADLINE } else { 0 };
        Word { bits: address.units() | flags | tag(hash, level), _pin: std::marker::PhantomData }
    }

    #[inline]
    pub(crate) fn address(self) -> Address {
        Address::from_units(self.bits & ADDRESS_MASK)
    }

    #[inline]
    pub(crate) fn kind(self) -> EntryKind {
        EntryKind { is_tombstone: self.bits & TOMBSTONE != 0, has_deadline: self.bits & DEADLINE != 0 }
    }

    /// Whether the record may have this hash, in a table of this level.
    #[inline]
    pub(crate) fn may_be(self, hash: u64, level: u32) -> bool {
        (self.bits ^ tag(hash, level)) & TAG_MASK == 0
    }

    /// The same entry for a copy of the record elsewhere.
    #[inline]
    pub(crate) fn moved_to(self, address: Address) -> Word<'p> {
        Word { bits: self.bits & !ADDRESS_MASK | address.units(), _pin: std::marker::PhantomData }
    }

    /// The same entry for the same record, which counts as removed.
    #[inline]
    pub(crate) fn struck_out(self) -> Word<'p> {
        Word { bits: self.bits & !DEADLINE | TOMBSTONE, _pin: std::marker::PhantomData }
    }

    /// The entry for a table of the next level, and whether it belongs to the upper of its bucket's two
    /// halves. `hash` is called only where the tag does not decide.
    pub(crate) fn split(self, level: u32, hash: impl FnOnce(Word<'p>) -> u64) -> (Word<'p>, bool) {
        if level + 1 == RETAG_LEVEL {
            let hash = hash(self);
            let bits = self.bits & !TAG_MASK | tag(hash, level + 1);
            return (Word { bits, _pin: std::marker::PhantomData }, hash >> (63 - level) & 1 != 0);
        }
        let bit = 63 - level + if level < RETAG_LEVEL { 0 } else { RETAG_SHIFT };
        (self, self.bits >> bit & 1 != 0)
    }

    /// The entry for a table of the level below. `hash` is called only where the tag does not decide.
    pub(crate) fn merged(self, level: u32, hash: impl FnOnce(Word<'p>) -> u64) -> Word<'p> {
        if level != RETAG_LEVEL {
            return self;
        }
        Word { bits: self.bits & !TAG_MASK | tag(hash(self), level - 1), _pin: std::marker::PhantomData }
    }
}

/// An entry's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryKind {
    pub(crate) is_tombstone: bool,
    pub(crate) has_deadline: bool,
}

/// A cache line of entries.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    entries: [AtomicU64; ENTRIES],
    overflow: AtomicPtr<Bucket>,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            entries: std::array::from_fn(|_| AtomicU64::new(EMPTY)),
            overflow: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl Bucket {
    /// Loads an entry.
    #[inline]
    pub(crate) fn load<'p>(&self, index: usize, _pin: Pinned<'p>) -> Option<Word<'p>> {
        Word::from_bits(self.entries[index].load(Ordering::Acquire))
    }

    /// Publishes an entry. Writers only, under the slot's lock.
    #[inline]
    pub(crate) fn store(&self, index: usize, word: Word<'_>) {
        self.entries[index].store(word.bits, Ordering::Release);
    }

    /// Removes an entry. Writers only, under the slot's lock.
    #[inline]
    pub(crate) fn clear(&self, index: usize) {
        self.entries[index].store(EMPTY, Ordering::Release);
    }

    #[inline]
    pub(crate) fn overflow(&self) -> &AtomicPtr<Bucket> {
        &self.overflow
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::documented::check_documented;

    /// The example in `docs/layout.md`.
    #[test]
    fn an_entry_looks_as_documented() {
        let kind = EntryKind { is_tombstone: false, has_deadline: true };
        let word = Word::new(Address::from_offset(0x1230), 0xabcd_ef00_0000_0000, 0, kind);
        check_documented("entry", &word.bits.to_le_bytes());
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn split_and_merged_follow_the_hash_at_every_level() {
        let kind = EntryKind { is_tombstone: true, has_deadline: false };
        for seed in 1..200u64 {
            let hash = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut word = Word::new(Address::from_units(seed), hash, 0, kind);
            for level in 0..30 {
                assert!(word.may_be(hash, level));
                let (next, upper) = word.split(level, |_| hash);
                assert_eq!(upper, hash >> (63 - level) & 1 != 0, "level {level}");
                assert!(next == Word::new(Address::from_units(seed), hash, level + 1, kind));
                word = next;
            }
            for level in (1..=30).rev() {
                word = word.merged(level, |_| hash);
                assert!(word == Word::new(Address::from_units(seed), hash, level - 1, kind), "level {level}");
            }
            assert_eq!((word.address().units(), word.kind()), (seed, kind));
        }
    }
}
