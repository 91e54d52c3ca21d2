//! A set of positions in few bytes, for those who may err: a Golomb-coded set of fingerprints, or a list.
//!
//! A fingerprint is the upper bits of a position's hash, [`fingerprint`]. There are 256 times as many of them
//! as positions, so one position in 256 beside the set looks like one of it. The gaps between them are
//! Rice-coded: about 10 bits a position. Who keeps many filters adds up their errors: later ones may be
//! written with more bits each.
//!
//! Bytes: a kind (0: a list, 1: a set). A list goes on with its positions, 8 bytes each. A set goes on with
//! the number of bits of its fingerprints (1 byte), the Rice parameter (1), their number (2), and the gaps. A
//! gap is what lies between two fingerprints, or before the first. Its multiple of two to the parameter's
//! power is that many ones and a zero; the rest is as many bits as the parameter says. Bits fill bytes from
//! the lowest on, lower bits first. Numbers are little-endian.

use crate::Position;

/// The most positions of a filter.
pub const FILTER_POSITIONS_MAX: usize = 4096;
/// The most bits that a fingerprint may have beyond the fewest.
pub const FINER_BITS_MAX: u32 = 16;

/// Of the fewest bits: one position in two to this power is believed to be in the set though it is not.
const RICE_BITS: u32 = 8;
/// So few positions are a list: that takes some bytes more, and errs for nobody.
const LIST_MOST: usize = 8;
const LIST: u8 = 0;
const SET: u8 = 1;
const SET_HEADER_BYTES: usize = 5;

/// The upper bits of a position's hash.
///
/// # Panics
/// If it is to have no bits, or more than 64.
#[inline]
pub fn fingerprint(position: Position, bits: u32) -> u64 {
    (position.0 ^ position.0 >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)
}

/// A set of positions, with errors: see the module's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionFilter {
    /// These.
    Positions(Vec<Position>),
    /// Those with one of these fingerprints.
    Fingerprints {
        /// The bits of each.
        bits: u32,
        /// In ascending order, none twice.
        values: Vec<u64>,
    },
}

impl PositionFilter {
    /// Appends a filter of these positions; nothing for none. With each further bit a position (`finer`) half
    /// as many others are believed to be among them.
    ///
    /// # Panics
    /// If there are more than [`FILTER_POSITIONS_MAX`], or more than [`FINER_BITS_MAX`] further bits.
    pub fn write(positions: &[Position], finer: u32, out: &mut Vec<u8>) {
        assert!(positions.len() <= FILTER_POSITIONS_MAX && finer <= FINER_BITS_MAX, "a filter is bounded");
        let begun = out.len();
        if positions.len() > LIST_MOST {
            write_set(positions, RICE_BITS + finer, out);
        }
        let list_bytes = 1 + size_of_val(positions);
        if !positions.is_empty() && (positions.len() <= LIST_MOST || out.len() - begun > list_bytes) {
            out.truncate(begun);
            out.push(LIST);
            positions.iter().for_each(|position| out.extend_from_slice(&position.0.to_le_bytes()));
        }
    }

    /// Reads what [`write`](Self::write) wrote; no bytes are no positions. `None`: it is none.
    pub fn parse(bytes: &[u8]) -> Option<PositionFilter> {
        match bytes.split_first() {
            None => Some(PositionFilter::Positions(Vec::new())),
            Some((&LIST, list)) => {
                let (positions, rest) = list.as_chunks();
                let positions = positions.iter().map(|&bytes| Position(u64::from_le_bytes(bytes)));
                let is_sound = rest.is_empty() && positions.len() <= FILTER_POSITIONS_MAX;
                is_sound.then(|| PositionFilter::Positions(positions.collect()))
            }
            Some((&SET, _)) => parse_set(bytes),
            Some(_) => None,
        }
    }

    /// How many positions or fingerprints it has.
    pub fn len(&self) -> usize {
        match self {
            PositionFilter::Positions(positions) => positions.len(),
            PositionFilter::Fingerprints { values, .. } => values.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the position seems to be in the set: always, if it is.
    pub fn contains(&self, position: Position) -> bool {
        match self {
            PositionFilter::Positions(positions) => positions.contains(&position),
            PositionFilter::Fingerprints { bits, values } => {
                values.binary_search(&fingerprint(position, *bits)).is_ok()
            }
        }
    }
}

fn write_set(positions: &[Position], rice_bits: u32, out: &mut Vec<u8>) {
    let bits = positions.len().next_power_of_two().ilog2() + rice_bits;
    let mut values: Vec<u64> = positions.iter().map(|&position| fingerprint(position, bits)).collect();
    values.sort_unstable();
    values.dedup();
    let count = u16::try_from(values.len()).expect("a filter is bounded");
    out.extend_from_slice(&[SET, bits as u8, rice_bits as u8]);
    out.extend_from_slice(&count.to_le_bytes());
    let mut bits = BitWriter { out, used: 0 };
    let mut next = 0;
    for value in values {
        let gap = value - next;
        (0..gap >> rice_bits).for_each(|_| bits.push(true));
        bits.push(false);
        (0..rice_bits).for_each(|bit| bits.push(gap >> bit & 1 == 1));
        next = value + 1;
    }
}

fn parse_set(bytes: &[u8]) -> Option<PositionFilter> {
    let (header, gaps) = bytes.split_first_chunk::<SET_HEADER_BYTES>()?;
    let [_, bits, rice_bits, low, high] = *header;
    let (bits, rice_bits) = (u32::from(bits), u32::from(rice_bits));
    let count = usize::from(u16::from_le_bytes([low, high]));
    let most_bits = rice_bits + FILTER_POSITIONS_MAX.ilog2();
    let is_sound = (RICE_BITS..=RICE_BITS + FINER_BITS_MAX).contains(&rice_bits)
        && (rice_bits..=most_bits).contains(&bits)
        && (1..=FILTER_POSITIONS_MAX).contains(&count)
        // So the memory for them is no more than a few times what was received.
        && count <= gaps.len() * 8;
    if !is_sound {
        return None;
    }
    let mut reader = BitReader { bytes: gaps, at: 0 };
    let mut values = Vec::with_capacity(count);
    let mut next = 0u64;
    for _ in 0..count {
        let mut gap = 0u64;
        while reader.next()? {
            gap += 1 << rice_bits;
        }
        for bit in 0..rice_bits {
            gap |= u64::from(reader.next()?) << bit;
        }
        let value = next + gap;
        if value >> bits != 0 {
            return None;
        }
        values.push(value);
        next = value + 1;
    }
    reader.ends_here().then_some(PositionFilter::Fingerprints { bits, values })
}

struct BitWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Bits of the last byte.
    used: u32,
}

impl BitWriter<'_> {
    fn push(&mut self, bit: bool) {
        if self.used == 0 {
            self.out.push(0);
        }
        if let Some(last) = self.out.last_mut() {
            *last |= u8::from(bit) << self.used;
        }
        self.used = (self.used + 1) % 8;
    }
}

struct BitReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl BitReader<'_> {
    fn next(&mut self) -> Option<bool> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    /// Whether only zeros are left of the last byte.
    fn ends_here(mut self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && !std::iter::from_fn(|| self.next()).any(|bit| bit)
    }
}
