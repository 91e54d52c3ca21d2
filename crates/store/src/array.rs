//! Arrays of buckets: their allocation, and one word for array and size.
//!
//! A small array comes from the allocator. A large one comes from the kernel, which zeroes each page on first
//! touch: allocating it is no pause.
#![allow(unsafe_code)] // owns raw arrays and chains of buckets, which live until their epoch has passed

use crate::bucket::{Bucket, Word};
use crate::epoch::Pinned;
use crate::sync::Ordering;
#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Bits of an array's word that hold its level; the pointer is aligned to more.
const LEVEL_MASK: u64 = 63;
/// Arrays of at least this many bytes are mapped.
#[cfg(not(loom))]
const MAPPED_BYTES: usize = 256 << 10;
/// The most levels a table grows to: 2^30 buckets hold seven billion records.
pub(crate) const MAX_LEVEL: u32 = 30;

/// A bucket array as it is stored in a word: pointer and level, or 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArrayWord(u64);

impl ArrayWord {
    /// No array.
    pub(crate) const NONE: ArrayWord = ArrayWord(0);

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> ArrayWord {
        ArrayWord(bits)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == ArrayWord::NONE
    }

    /// log2 of the number of buckets.
    #[inline]
    pub(crate) fn level(self) -> u32 {
        (self.0 & LEVEL_MASK) as u32
    }

    #[inline]
    fn buckets(self) -> usize {
        1 << self.level()
    }

    #[inline]
    fn pointer(self) -> *mut Bucket {
        (self.0 & !LEVEL_MASK) as *mut Bucket
    }

    fn bytes(self) -> usize {
        self.buckets() * size_of::<Bucket>()
    }

    /// The buckets of an array that was loaded from its slot under the pin.
    #[inline]
    pub(crate) fn array<'p>(self, _pin: Pinned<'p>) -> Array<'p> {
        debug_assert!(!self.is_none());
        // SAFETY: the word was loaded from the slot under the pin, and arrays are retired through the limbo
        // (E1).
        let buckets = unsafe { std::slice::from_raw_parts(self.pointer(), self.buckets()) };
        Array { level: self.level(), buckets }
    }

    /// Bytes of the array and of the chains of its buckets; 0 for none.
    #[cfg(feature = "testing")]
    pub(crate) fn count_bytes(self, pin: Pinned<'_>) -> u64 {
        if self.is_none() {
            return 0;
        }
        let array = self.array(pin);
        let buckets: usize = (0..self.buckets()).map(|number| array.chain(number).count()).sum();
        (buckets * size_of::<Bucket>()) as u64
    }

    /// A new array of empty buckets.
    #[cfg(not(loom))]
    pub(crate) fn allocate(level: u32) -> ArrayWord {
        let bytes = size_of::<Bucket>() << level;
        let pointer = if bytes >= MAPPED_BYTES {
            crate::memory::map_zeroed(bytes)
        } else {
            let layout = Layout::from_size_align(bytes, align_of::<Bucket>()).expect("a small power of two");
            // SAFETY: the layout is not empty. Zeros are empty buckets: no entries, no overflow.
            let pointer = unsafe { alloc_zeroed(layout) };
            if pointer.is_null() {
                handle_alloc_error(layout);
            }
            pointer
        };
        ArrayWord(pointer as u64 | u64::from(level))
    }

    /// A new array of empty buckets: loom's atomics need a constructor.
    #[cfg(loom)]
    pub(crate) fn allocate(level: u32) -> ArrayWord {
        let buckets: Box<[Bucket]> = (0..1 << level).map(|_| Bucket::default()).collect();
        ArrayWord(Box::into_raw(buckets).cast::<Bucket>() as u64 | u64::from(level))
    }

    /// Frees the array and the chains of its buckets; returns their bytes.
    ///
    /// # Safety
    /// The array is unreachable, and freed once.
    pub(crate) unsafe fn free(self) -> usize {
        let mut chained = 0;
        // SAFETY: exclusive, by the contract.
        for bucket in unsafe { std::slice::from_raw_parts(self.pointer(), self.buckets()) } {
            let mut next = bucket.overflow().load(Ordering::Relaxed);
            while !next.is_null() {
                // SAFETY: overflow buckets are boxed in `extend` and owned by their chain.
                let overflow = unsafe { Box::from_raw(next) };
                chained += size_of::<Bucket>();
                next = overflow.overflow().load(Ordering::Relaxed);
            }
        }
        let bytes = self.bytes();
        #[cfg(loom)]
        // SAFETY: allocated as a boxed slice of this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.pointer(), self.buckets())) });
        #[cfg(not(loom))]
        if bytes >= MAPPED_BYTES {
            // SAFETY: mapped by `allocate` with this length; unused from here on.
            unsafe { crate::memory::unmap(self.pointer().cast(), bytes) };
        } else {
            let layout = Layout::from_size_align(bytes, align_of::<Bucket>()).expect("as allocated");
            // SAFETY: allocated by `allocate` with this layout.
            unsafe { dealloc(self.pointer().cast(), layout) };
        }
        bytes + chained
    }

    /// Starts loading the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(self, hash: u64) {
        let pointer = self.pointer().wrapping_add(bucket_number(hash, self.level()));
        crate::memory::prefetch(pointer);
    }
}

/// The bucket of a hash in an array of this level: the upper bits.
#[inline]
pub(crate) fn bucket_number(hash: u64, level: u32) -> usize {
    // Two shifts, since level 0 would shift by 64.
    (hash >> 1 >> (63 - level)) as usize
}

/// Buckets that can be read while `'p` lasts.
#[derive(Clone, Copy)]
pub(crate) struct Array<'p> {
    pub(crate) level: u32,
    buckets: &'p [Bucket],
}

impl<'p> Array<'p> {
    /// The bucket with this number and those chained to it.
    #[inline]
    pub(crate) fn chain(self, number: usize) -> Chain<'p> {
        Chain { next: Some(&self.buckets[number]) }
    }
}

/// A bucket and its overflow buckets, in order.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'p> {
    next: Option<&'p Bucket>,
}

impl<'p> Iterator for Chain<'p> {
    type Item = &'p Bucket;

    #[inline]
    fn next(&mut self) -> Option<&'p Bucket> {
        let bucket = self.next?;
        // SAFETY: an overflow bucket lives as long as the array that its chain starts in.
        self.next = unsafe { bucket.overflow().load(Ordering::Acquire).as_ref() };
        Some(bucket)
    }
}

/// Links a new overflow bucket with one entry behind the last bucket of a chain. Writers only, under the
/// slot's lock.
pub(crate) fn extend(last: &Bucket, word: Word<'_>) {
    let overflow = Box::<Bucket>::default();
    overflow.store(0, word);
    last.overflow().store(Box::into_raw(overflow), Ordering::Release);
}
