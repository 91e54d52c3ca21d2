//! The log's reserved address range.
//!
//! Reserved in one piece without backing; the kernel gives pages on first touch. Replay into untouched pages
//! costs 20 times as much as into prepared memory (measured). So the range requests huge pages, and segments
//! are populated ahead of use.
#![allow(unsafe_code)] // raw memory is what this module is for; everything else reaches it through these few methods

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::NonNull;

/// A reserved, zeroed range of memory, readable and writable.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Region is plain memory without a thread; `bytes` and `bytes_mut` have the rules of access.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves a range. Its first `huge_bytes` request huge pages, the others do not.
    pub(crate) fn reserve(bytes: u64, huge_bytes: u64) -> std::io::Result<Region> {
        let (bytes, huge_bytes) = (bytes as usize, huge_bytes as usize);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choosing aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base: NonNull<u8> = NonNull::new(base.cast()).expect("mmap never answers null");
        let huge_bytes = huge_bytes / page_bytes() as usize * page_bytes() as usize;
        for (advice, from, to) in
            [(Advice::LinuxHugepage, 0, huge_bytes), (Advice::LinuxNoHugepage, huge_bytes, bytes)]
        {
            // SAFETY: the range was mapped just above. Huge pages are optional: a kernel without them may
            // refuse.
            let _ = unsafe { madvise(base.as_ptr().add(from).cast(), to - from, advice) };
        }
        Ok(Region { base, bytes })
    }

    fn at(&self, offset: u64, bytes: usize) -> *mut u8 {
        let offset = offset as usize;
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "outside the region");
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The offset of bytes of this region; any number for others.
    pub(crate) fn offset_of(&self, bytes: &[u8]) -> u64 {
        (bytes.as_ptr().addr()).wrapping_sub(self.base.as_ptr().addr()) as u64
    }

    /// The bytes at an offset.
    ///
    /// # Safety
    /// These bytes are neither written nor [released](Self::release) while the slice exists.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        // SAFETY: inside the mapping and always initialised (zeroed by the kernel); not written, by the
        // contract.
        unsafe { std::slice::from_raw_parts(self.at(offset, bytes), bytes) }
    }

    /// The bytes at an offset, to be written.
    ///
    /// # Safety
    /// No other thread accesses these bytes while the slice exists.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the contract makes the caller the only owner of the bytes")]
    pub(crate) unsafe fn bytes_mut(&self, offset: u64, bytes: usize) -> &mut [u8] {
        // SAFETY: inside the mapping and initialised; exclusive by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, bytes), bytes) }
    }

    /// Starts loading the first cache lines of a record; harmless for any offset.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64) {
        let pointer = self.base.as_ptr().wrapping_add(offset as usize);
        prefetch(pointer);
        prefetch(pointer.wrapping_add(CACHE_LINE));
    }

    /// Starts loading what [`prefetch`](Self::prefetch) leaves of a record of so many bytes. Of a long one
    /// only the beginning: the processor prefetches the rest by itself.
    #[inline]
    pub(crate) fn prefetch_rest(&self, offset: u64, bytes: usize) {
        let end = offset + bytes.min(PREFETCHED_BYTES) as u64;
        let mut line = (offset + 2 * CACHE_LINE as u64) & !(CACHE_LINE as u64 - 1);
        while line < end {
            prefetch(self.base.as_ptr().wrapping_add(line as usize));
            line += CACHE_LINE as u64;
        }
    }

    /// Backs the range with pages now.
    ///
    /// # Safety
    /// Access is exclusive: if the kernel cannot populate the range, every page is written to.
    pub(crate) unsafe fn populate(&self, offset: u64, bytes: usize) {
        let start = self.at(offset, bytes);
        // SAFETY: inside the mapping; populating changes no content.
        if unsafe { madvise(start.cast::<c_void>(), bytes, Advice::LinuxPopulateWrite) }.is_ok() {
            return;
        }
        for page in (0..bytes).step_by(PAGE) {
            // SAFETY: inside the range, exclusive by the contract.
            unsafe { start.add(page).write_volatile(0) };
        }
    }

    /// Returns the pages to the kernel; the range reads as zeros afterwards.
    ///
    /// # Safety
    /// No slice of the range exists.
    pub(crate) unsafe fn release(&self, offset: u64, bytes: usize) {
        // SAFETY: inside the mapping and, by the contract, unused. A refusal keeps the pages, which is only
        // wasteful.
        let _ = unsafe { madvise(self.at(offset, bytes).cast::<c_void>(), bytes, Advice::LinuxDontNeed) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `reserve`; every slice borrowed from self.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes in a cache line.
pub(crate) const CACHE_LINE: usize = 64;
/// The most of a record that is loaded ahead.
const PREFETCHED_BYTES: usize = 512;
const PAGE: usize = 4096;

/// The kernel's page size.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size().max(PAGE) as u64
}

/// Starts loading a cache line.
#[inline]
pub(crate) fn prefetch<T>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = pointer;
}

#[cfg(not(loom))]
/// Maps zeroed memory that is backed on first touch. Aborts like the allocator without memory.
pub(crate) fn map_zeroed(bytes: usize) -> *mut u8 {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choosing aliases nothing.
    let mapped = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let Ok(pointer) = mapped else {
        let layout = std::alloc::Layout::from_size_align(bytes, PAGE).expect("a size that fits memory");
        std::alloc::handle_alloc_error(layout)
    };
    // SAFETY: the range was mapped just above. Huge pages are optional.
    let _ = unsafe { madvise(pointer, bytes, Advice::LinuxHugepage) };
    pointer.cast()
}

#[cfg(not(loom))]
/// Unmaps a range of [`map_zeroed`].
///
/// # Safety
/// [`map_zeroed`] mapped the range with this length, and it is no longer used.
pub(crate) unsafe fn unmap(pointer: *mut u8, bytes: usize) {
    // SAFETY: by the contract. Unmapping a whole mapping cannot fail.
    let _ = unsafe { munmap(pointer.cast(), bytes) };
}
