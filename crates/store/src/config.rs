//! A store's settings, and its errors.

use crate::address;

/// The smallest valid segment.
pub const MIN_SEGMENT_BYTES: u32 = 4 << 10;
/// The smallest segment chosen by default: smaller ones make values of a few KiB large, whose last page may
/// be nearly empty.
const MIN_CHOSEN_SEGMENT_BYTES: u32 = 64 << 10;
/// Segments of at most this size are chosen where larger ones would be too few: there a barely large value
/// may waste a tenth, or a fifth.
const SMALL_SEGMENT_BYTES: u32 = 256 << 10;
/// The largest valid segment.
pub const MAX_SEGMENT_BYTES: u32 = 64 << 20;
/// The default least number of segments: the cleaner's reserve and the heads' open segments are then a small
/// share.
const CHOSEN_SEGMENTS: u64 = 256;
/// The same for small segments: the reserve weighs more then, but less than large values waste.
const CHOSEN_SMALL_SEGMENTS: u64 = 128;
/// A barely large value, over a quarter of a segment, may waste most of a page. This, divided by the
/// segment's size, is the share of memory that such values waste.
const ROUNDING_BYTES: u64 = 4 * 4096;
/// A store's segments beside the heads': the cleaner's reserve and head, some index, and something to clean.
const SEGMENTS_BESIDE_HEADS: u64 = 12;
/// A head's segments: its open one, which cannot be cleaned, and one to clean meanwhile.
const SEGMENTS_PER_HEAD: u64 = 2;
/// The longest value, Redis's limit for a string.
pub const MAX_VALUE_BYTES: usize = 512 << 20;
/// The most bytes of a large collection's elements: packed, with its head, it is no longer than a value. A
/// longer one is refused as if there were no memory, since it could not be sent to another node.
pub const MAX_COLLECTION_BYTES: u64 = (MAX_VALUE_BYTES - PACKED_HEAD_BYTES) as u64;
/// What stands before the elements of a packed collection: the encoding and their number.
pub(crate) const PACKED_HEAD_BYTES: usize = 5;
/// The longest key. Redis's limit, less one byte so that a length fits 29 bits.
pub const MAX_KEY_BYTES: usize = (512 << 20) - 1;

/// A store's limits, and the division of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Log and index together stay below this many bytes.
    pub memory_bytes: u64,
    /// The unit in which the log is allocated, cleaned and freed; a power of two. Records over a quarter of
    /// it take their own pages.
    pub segment_bytes: u32,
    /// About how many heads append at a time: it decides the least memory.
    pub heads: u16,
    /// Whether to ask the kernel for huge pages.
    pub huge_pages: bool,
    /// How many free segments the cleaner keeps backed with pages ahead of their use.
    pub warm_segments: usize,
    /// Whether to back the whole log with pages at the start, instead of as it fills.
    pub preallocate: bool,
    /// Whether everything written is kept for a [durable log](crate::Commits), until its writer takes it.
    pub is_durable: bool,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig {
            memory_bytes: 1 << 30,
            segment_bytes: 1 << 20,
            heads: 2,
            huge_pages: true,
            warm_segments: 32,
            preallocate: false,
            is_durable: false,
        }
    }
}

impl StoreConfig {
    /// A store of `memory_bytes`, with smaller segments for little memory, otherwise the defaults.
    pub fn with_memory(memory_bytes: u64) -> StoreConfig {
        let config = StoreConfig { memory_bytes, ..StoreConfig::default() };
        let heads = config.heads;
        config.for_heads(heads)
    }

    /// For so many heads, with smaller segments where memory is too little for large ones.
    #[must_use]
    pub fn for_heads(mut self, heads: u16) -> StoreConfig {
        self.heads = heads;
        while self.segment_bytes > MIN_CHOSEN_SEGMENT_BYTES
            && self.memory_bytes < self.least_memory_bytes().max(self.chosen_memory_bytes())
        {
            self.segment_bytes /= 2;
        }
        self
    }

    /// The least memory for choosing such segments: enough of them, and heads' open ones no larger a share
    /// than large values waste at the ends of their pages.
    fn chosen_memory_bytes(&self) -> u64 {
        let segment = u64::from(self.segment_bytes);
        let is_small = self.segment_bytes <= SMALL_SEGMENT_BYTES;
        let count = if is_small { CHOSEN_SMALL_SEGMENTS } else { CHOSEN_SEGMENTS };
        let open = u64::from(self.heads) * segment;
        (count * segment).max(open * segment / ROUNDING_BYTES)
    }

    /// The least memory for these segments and heads.
    pub fn least_memory_bytes(&self) -> u64 {
        (SEGMENTS_BESIDE_HEADS + SEGMENTS_PER_HEAD * u64::from(self.heads)) * u64::from(self.segment_bytes)
    }

    /// Checks the settings.
    pub fn validate(&self) -> Result<(), StoreError> {
        let segment = self.segment_bytes;
        if !segment.is_power_of_two() || !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment) {
            return Err(StoreError::SegmentBytes(segment));
        }
        let least = self.least_memory_bytes();
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
    #[error("a memory limit of {asked} bytes: so many threads that write need {least} to {most} bytes")]
    MemoryBytes {
        /// The requested limit.
        asked: u64,
        /// The least for this segment size and so many heads.
        least: u64,
        /// The most that addresses cover.
        most: u64,
    },
    /// The address range could not be reserved.
    #[error(
        "reserving {bytes} bytes of address space: {source} (is the address space limited by ulimit -v?)"
    )]
    Reserve {
        /// The requested bytes.
        bytes: u64,
        /// The kernel's error.
        source: std::io::Error,
    },
}

/// A write found no memory; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store's memory limit is reached")]
pub struct OutOfMemory;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_heads_in_little_memory_get_smaller_segments() {
        let segment =
            |memory_bytes, heads| StoreConfig::with_memory(memory_bytes).for_heads(heads).segment_bytes;
        assert_eq!(segment(4 << 30, 64), 1 << 20);
        assert_eq!(segment(1 << 30, 64), 512 << 10);
        assert_eq!(segment(512 << 20, 64), 256 << 10);
        assert_eq!(segment(256 << 20, 2), 1 << 20);
        assert_eq!(segment(64 << 20, 2), 256 << 10);
        assert_eq!(segment(64 << 20, 8), 256 << 10);
        assert_eq!(segment(64 << 20, 64), 128 << 10);
        assert_eq!(segment(64 << 20, 128), 64 << 10);
        assert_eq!(segment(32 << 20, 2), 256 << 10);
        assert_eq!(segment(16 << 20, 2), 128 << 10);
        assert_eq!(segment(16 << 20, 64), 64 << 10);
        assert_eq!(segment(4 << 20, 2), 64 << 10);
        StoreConfig::with_memory(16 << 20).for_heads(64).validate().unwrap();
    }

    #[test]
    fn memory_that_heads_would_use_up_is_refused() {
        let config = StoreConfig::with_memory(8 << 20).for_heads(64);
        let refused = config.validate().unwrap_err();
        assert!(
            matches!(refused, StoreError::MemoryBytes { least, .. } if least == (12 + 2 * 64) * (64 << 10))
        );
    }
}
