//! Positions that a target was given out of turn, as its pushes name them: by fingerprint.
//!
//! A push's filter has fingerprints of some number of bits ([`sidle_types::PositionFilter`]). All filters'
//! fingerprints are in one table, so that a look-up is one for each number of bits that occurred, and not for
//! each push.

use crate::lossy_sets::LossySets;
use sidle_types::{Position, fingerprint};

/// Fingerprints of several numbers of bits: see the module's header.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    tags: LossySets<u32, 16>,
    /// Which numbers of bits occurred: a bit for each.
    lengths: u64,
}

/// A fingerprint of so many bits as the table keeps it.
#[inline]
fn tag(value: u64, bits: u32) -> u32 {
    let mixed = (value << 6 | u64::from(bits)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 32) as u32).max(1)
}

impl Fingerprints {
    /// A table of at most `max_bytes`; nothing is allocated yet.
    pub(crate) fn new(max_bytes: usize) -> Fingerprints {
        Fingerprints { tags: LossySets::new(max_bytes), lengths: 0 }
    }

    /// The most bytes of the table.
    pub(crate) fn max_bytes(&self) -> usize {
        self.tags.max_bytes()
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.tags.bytes()
    }

    /// Whether some filter seems to have the position.
    #[inline]
    pub(crate) fn contains(&self, position: Position) -> bool {
        let mut lengths = self.lengths;
        while lengths != 0 {
            let bits = lengths.trailing_zeros();
            lengths &= lengths - 1;
            if self.tags.contains(tag(fingerprint(position, bits), bits)) {
                return true;
            }
        }
        false
    }

    /// Adds a fingerprint of so many bits (1 to 63); whether it was new.
    pub(crate) fn insert(&mut self, value: u64, bits: u32) -> bool {
        let tag = tag(value, bits);
        self.lengths |= 1 << bits;
        self.tags.insert(tag, (tag >> 24) as usize, |_| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_sets::MIN_SETS;

    fn positions(count: u64) -> impl Iterator<Item = Position> {
        (1..=count).map(|n| Position(n.wrapping_mul(0xD1B5_4A32_D192_ED03)))
    }

    #[test]
    fn what_was_added_is_found_in_any_length_and_little_else() {
        let mut table = Fingerprints::new(1 << 20);
        assert!(!table.contains(Position(5)));
        for (position, bits) in positions(20_000).zip([24, 28, 26].into_iter().cycle()) {
            assert!(table.insert(fingerprint(position, bits), bits) || table.contains(position));
        }
        assert!(positions(20_000).all(|position| table.contains(position)));
        assert!(table.bytes() <= table.max_bytes() && table.max_bytes() <= 1 << 20);
        let errors = positions(60_000).skip(20_000).filter(|&position| table.contains(position)).count();
        assert!(errors < 60, "{errors} of 40,000");
    }

    #[test]
    fn a_full_table_forgets_and_one_without_room_keeps_nothing() {
        let mut table = Fingerprints::new(MIN_SETS * 64 + 5);
        positions(10_000).for_each(|position| {
            table.insert(fingerprint(position, 30), 30);
        });
        assert_eq!(table.bytes(), MIN_SETS * 64);
        let kept = positions(10_000).filter(|&position| table.contains(position)).count();
        assert!((200..500).contains(&kept), "{kept}");
        let mut none = Fingerprints::new(100);
        assert!(!none.insert(3, 20) && none.bytes() == 0);
    }
}
