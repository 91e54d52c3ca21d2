//! What a store is built from, and the errors that it answers with.

use crate::address;

/// The smallest segment that is accepted.
pub const MIN_SEGMENT_BYTES: u32 = 4 << 10;
/// The largest segment that is accepted.
pub const MAX_SEGMENT_BYTES: u32 = 64 << 20;
/// The fewest segments that a store works with: open heads, the cleaner's reserve and something to clean.
pub const MIN_SEGMENTS: u64 = 16;
/// The longest value, Redis's limit for a string.
pub const MAX_VALUE_BYTES: usize = 512 << 20;
/// The longest key. Redis's limit, less one byte so that a length fits 29 bits.
pub const MAX_KEY_BYTES: usize = (512 << 20) - 1;

/// How large a store may grow and how its memory is cut up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Log and index together stay below this many bytes.
    pub memory_bytes: u64,
    /// The unit in which the log is allocated, cleaned and freed; a power of two. Values over a quarter of it take
    /// whole segments of their own.
    pub segment_bytes: u32,
    /// Whether to ask the kernel for huge pages.
    pub huge_pages: bool,
    /// Whether to have the kernel back the whole log with pages when the store is made, instead of as it fills.
    pub preallocate: bool,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig { memory_bytes: 1 << 30, segment_bytes: 1 << 20, huge_pages: true, preallocate: false }
    }
}

impl StoreConfig {
    /// A store of `memory_bytes`, everything else by default.
    pub fn with_memory(memory_bytes: u64) -> StoreConfig {
        StoreConfig { memory_bytes, ..StoreConfig::default() }
    }

    /// Checks that the numbers make a store.
    pub fn validate(&self) -> Result<(), StoreError> {
        let segment = self.segment_bytes;
        if !segment.is_power_of_two() || !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment) {
            return Err(StoreError::SegmentBytes(segment));
        }
        let least = MIN_SEGMENTS * u64::from(segment);
        let most = address::SPACE_BYTES / 2;
        if !(least..=most).contains(&self.memory_bytes) {
            return Err(StoreError::MemoryBytes { asked: self.memory_bytes, least, most });
        }
        Ok(())
    }
}

/// Why a store could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The segment size cannot be used.
    #[error("segments of {0} bytes: give a power of two from 4 KiB to 64 MiB")]
    SegmentBytes(u32),
    /// The memory limit cannot be used.
    #[error("a memory limit of {asked} bytes: give {least} to {most} bytes")]
    MemoryBytes {
        /// What was asked for.
        asked: u64,
        /// The least that works with this segment size.
        least: u64,
        /// The most that addresses reach.
        most: u64,
    },
    /// The address range could not be reserved.
    #[error(
        "reserving {bytes} bytes of address space: {source} (is the address space limited by ulimit -v?)"
    )]
    Reserve {
        /// How much was asked for.
        bytes: u64,
        /// What the kernel answered.
        source: std::io::Error,
    },
}

/// A write found no memory; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store's memory limit is reached")]
pub struct OutOfMemory;
