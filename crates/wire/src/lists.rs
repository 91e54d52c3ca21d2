//! Lists in bodies: checked once when the body is parsed, then read in place.

use crate::WireError;
use crate::layout::ChangedRangeLayout;
use crate::limits::{CHANGED_RANGES_MAX, PRIORITY_PULL_KEYS_MAX, SAMP_PULL_POSITIONS_MAX};
use sidle_types::{Position, PositionRange};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

/// The positions of a sampled pull, of a probe, of hints, of an activation, or taken by a cut.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'b>(&'b [U64]);

impl<'b> Positions<'b> {
    /// `kind`: the message's name.
    pub(crate) fn parse(kind: &'static str, bytes: &'b [u8]) -> Result<Positions<'b>, WireError> {
        Positions::parse_few(kind, bytes, SAMP_PULL_POSITIONS_MAX)
    }

    /// As [`parse`](Self::parse), where at most so many are valid.
    pub(crate) fn parse_few(
        kind: &'static str,
        bytes: &'b [u8],
        most: usize,
    ) -> Result<Positions<'b>, WireError> {
        let malformed = |reason| WireError::Malformed { kind, reason };
        let list = <[U64]>::ref_from_bytes(bytes).map_err(|_| malformed("a position is cut short"))?;
        if list.len() > most {
            return Err(malformed("too many positions"));
        }
        Ok(Positions(list))
    }

    /// Appends positions in the form that [`Positions::parse`] reads.
    pub(crate) fn write(positions: &[Position], out: &mut Vec<u8>) {
        assert!(
            positions.len() <= SAMP_PULL_POSITIONS_MAX,
            "a sampled pull of {} positions",
            positions.len()
        );
        for position in positions {
            out.extend_from_slice(U64::new(position.0).as_bytes());
        }
    }

    /// The positions in the order they were asked for.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Position> + 'b {
        self.0.iter().map(|position| Position(position.get()))
    }
}

/// The ranges of a reply to a pull of changes or of a cut: in order, apart from each other.
#[derive(Clone, Copy, Debug)]
pub struct ChangedRanges<'b>(&'b [ChangedRangeLayout]);

impl<'b> ChangedRanges<'b> {
    /// Takes `count` ranges from the front of `bytes`; returns the rest, too. `kind`: the message's name.
    pub(crate) fn parse(
        kind: &'static str,
        count: u32,
        bytes: &'b [u8],
    ) -> Result<(ChangedRanges<'b>, &'b [u8]), WireError> {
        let malformed = |reason| WireError::Malformed { kind, reason };
        let count = count as usize;
        if count > CHANGED_RANGES_MAX {
            return Err(malformed("too many ranges"));
        }
        let (list, rest) = <[ChangedRangeLayout]>::ref_from_prefix_with_elems(bytes, count)
            .map_err(|_| malformed("a range is cut short"))?;
        if !list.iter().all(|range| range.first.get() <= range.last.get()) {
            return Err(malformed("a range ends before it starts"));
        }
        if !list.is_sorted_by(|before, after| before.last.get() < after.first.get()) {
            return Err(malformed("the ranges are out of order, or overlap"));
        }
        Ok((ChangedRanges(list), rest))
    }

    /// How many ranges there are.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = PositionRange> + 'b {
        self.0.iter().map(|range| {
            PositionRange::new(Position(range.first.get()), Position(range.last.get()))
                .expect("checked when it was parsed")
        })
    }
}

impl ChangedRangeLayout {
    /// Appends ranges in the form that [`ChangedRanges::parse`] reads.
    pub(crate) fn write(ranges: &[PositionRange], out: &mut Vec<u8>) {
        for range in ranges {
            let (first, last) = (range.first().0.into(), range.last().0.into());
            out.extend_from_slice(ChangedRangeLayout { first, last }.as_bytes());
        }
    }
}

const KEY_LENGTH_BYTES: usize = 4;

/// The keys of a priority pull.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'b> {
    count: usize,
    bytes: &'b [u8],
}

impl<'b> Keys<'b> {
    pub(crate) fn parse(count: u32, bytes: &'b [u8]) -> Result<Keys<'b>, WireError> {
        let malformed = |reason| WireError::Malformed { kind: "PriorityPull", reason };
        let count = count as usize;
        if count > PRIORITY_PULL_KEYS_MAX {
            return Err(malformed("too many keys"));
        }
        let mut rest = bytes;
        for _ in 0..count {
            (_, rest) = split_key(rest).ok_or_else(|| malformed("a key is cut short"))?;
        }
        if !rest.is_empty() {
            return Err(malformed("bytes after the last key"));
        }
        Ok(Keys { count, bytes })
    }

    /// Appends one key in the form that [`Keys::parse`] reads.
    pub(crate) fn write(key: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(key.len()).expect("a stored key is far shorter than 4 GiB");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(key);
    }

    /// How many keys there are.
    pub fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The keys in the order they were asked for.
    pub fn iter(self) -> impl Iterator<Item = &'b [u8]> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (key, after) = split_key(rest)?;
            rest = after;
            Some(key)
        })
    }
}

fn split_key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<KEY_LENGTH_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Which keys of a priority pull do not exist at the source: a set of indices into the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbsentKeys(u32);

impl AbsentKeys {
    pub(crate) fn from_bits(bits: u32) -> AbsentKeys {
        AbsentKeys(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Adds the request's key number `index`.
    pub fn insert(&mut self, index: usize) {
        assert!(index < PRIORITY_PULL_KEYS_MAX, "a priority pull has no key {index}");
        self.0 |= 1 << index;
    }

    /// Whether the request's key number `index` is absent.
    pub fn contains(self, index: usize) -> bool {
        index < PRIORITY_PULL_KEYS_MAX && self.0 >> index & 1 == 1
    }
}
