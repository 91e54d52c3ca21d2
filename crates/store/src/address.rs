//! Where a record is: an 8-byte-aligned offset into the store's reserved range.

/// How many bits the number of an 8-byte unit has.
pub(crate) const UNIT_BITS: u32 = 37;
/// How many bytes addresses reach.
pub(crate) const SPACE_BYTES: u64 = 8 << UNIT_BITS;
/// Records start at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// A record's place. Never 0: the first unit of every segment is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(u64);

impl Address {
    /// The address of the record at this offset.
    #[inline]
    pub(crate) fn from_offset(offset: u64) -> Address {
        debug_assert!(offset.is_multiple_of(ALIGNMENT as u64) && offset != 0 && offset < SPACE_BYTES);
        Address(offset / ALIGNMENT as u64)
    }

    /// The offset in bytes.
    #[inline]
    pub(crate) fn offset(self) -> u64 {
        self.0 * ALIGNMENT as u64
    }

    /// The address as an index entry stores it, in [`UNIT_BITS`] bits.
    #[inline]
    pub(crate) fn units(self) -> u64 {
        self.0
    }

    /// The address that an index entry stores.
    #[inline]
    pub(crate) fn from_units(units: u64) -> Address {
        debug_assert!(units != 0 && units >> UNIT_BITS == 0);
        Address(units)
    }
}
