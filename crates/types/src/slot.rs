//! Redis hash slots: CRC16 (XMODEM) of the key's hash tag, modulo 16384 (Redis Cluster specification, "Key
//! distribution model").

use crate::beside::placed_by;
use serde::{Deserialize, Serialize};

/// The number of hash slots; a power of two.
pub const SLOT_COUNT: u16 = 16384;

/// A Redis hash slot, 0..=16383.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Slot(u16);

impl Slot {
    /// The last slot.
    pub const LAST: Slot = Slot(SLOT_COUNT - 1);

    /// The slot with this number, or `None` above 16383.
    #[inline]
    pub const fn new(number: u16) -> Option<Slot> {
        if number < SLOT_COUNT { Some(Slot(number)) } else { None }
    }

    /// A key's slot.
    #[inline]
    pub fn of_key(key: &[u8]) -> Slot {
        Slot(crc16(hash_tag(placed_by(key))) & (SLOT_COUNT - 1))
    }

    /// The slot's number, 0..=16383.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The slot's number as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every slot in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator {
        (0..SLOT_COUNT).map(Slot)
    }
}

impl From<Slot> for u16 {
    fn from(slot: Slot) -> u16 {
        slot.0
    }
}

impl TryFrom<u16> for Slot {
    type Error = String;

    fn try_from(number: u16) -> Result<Slot, String> {
        Slot::new(number).ok_or_else(|| format!("slot {number} is out of range: slots are 0 to 16383"))
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The part of a key that is hashed to a slot: what is between the first `{` and the first `}` after it, if
/// not empty; otherwise the whole key.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    let after = &key[open + 1..];
    match memchr::memchr(b'}', after) {
        Some(length) if length > 0 => &after[..length],
        _ => key,
    }
}

const CRC16_POLYNOMIAL: u16 = 0x1021;

/// Bytes per step of the checksum.
const CRC16_STEP: usize = 8;

/// `CRC16_TABLES[k][b]`: the checksum of byte `b` followed by `k` zero bytes, so that a step's look-ups are
/// independent.
static CRC16_TABLES: [[u16; 256]; CRC16_STEP] = crc16_tables();

const fn crc16_tables() -> [[u16; 256]; CRC16_STEP] {
    let mut tables = [[0u16; 256]; CRC16_STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ CRC16_POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < CRC16_STEP {
        let mut byte = 0;
        while byte < 256 {
            let previous = tables[k - 1][byte];
            tables[k][byte] = (previous << 8) ^ tables[0][(previous >> 8) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let (steps, rest) = bytes.as_chunks::<CRC16_STEP>();
    let crc = steps.iter().fold(0, |crc, step| crc16_step(crc, step));
    match rest.len() {
        0 => crc,
        1 => crc << 8 ^ CRC16_TABLES[0][((crc >> 8) as u8 ^ rest[0]) as usize],
        _ => crc16_step(crc, rest),
    }
}

/// Adds 2 to 8 bytes. The checksum so far is combined with the first two, so no look-up waits for another.
#[inline(always)]
fn crc16_step(crc: u16, bytes: &[u8]) -> u16 {
    let longest = bytes.len() - 1;
    let start = CRC16_TABLES[longest][(bytes[0] ^ (crc >> 8) as u8) as usize]
        ^ CRC16_TABLES[longest - 1][(bytes[1] ^ crc as u8) as usize];
    bytes[2..]
        .iter()
        .enumerate()
        .fold(start, |crc, (index, &byte)| crc ^ CRC16_TABLES[longest - 2 - index][byte as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc16_bitwise(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, &byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                if crc & 0x8000 != 0 { (crc << 1) ^ CRC16_POLYNOMIAL } else { crc << 1 }
            })
        })
    }

    #[test]
    fn crc16_check_value() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn crc16_equals_bitwise_for_every_length() {
        let bytes: Vec<u8> = (0..67u32).map(|i| (i * 151 + 17) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), crc16_bitwise(&bytes[..length]), "length {length}");
        }
    }

    #[test]
    fn slots_of_known_keys() {
        for (key, slot) in
            [("foo", 12182), ("bar", 5061), ("", 0), ("user1000", 3443), ("{user1000}.following", 3443)]
        {
            assert_eq!(Slot::of_key(key.as_bytes()).number(), slot, "{key}");
        }
    }

    #[test]
    fn hash_tag_edge_cases() {
        for (key, tag) in [
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{x}", "x"),
            ("{}", "{}"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn slot_new_refuses_above_last() {
        assert_eq!(Slot::new(16383), Some(Slot::LAST));
        assert_eq!(Slot::new(16384), None);
    }
}
