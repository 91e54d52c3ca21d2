//! Self-verifying values: what was written, by which client, and that it is whole.
//!
//! A value is text in base 64: record number (8 digits), the write's sequence number (6), writer (4), run
//! (4), padding, and 60 bits of XXH3 over all of it (10).

use xxhash_rust::xxh3::xxh3_64;

/// The shortest value that fits its header and checksum.
pub const VALUE_MIN_BYTES: usize = HEAD_BYTES + CHECK_BYTES;

const HEAD_BYTES: usize = 22;
const CHECK_BYTES: usize = 10;
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
const NO_DIGIT: u8 = 0xff;
static DIGIT_OF: [u8; 256] = digit_of();
/// The digits twice, so that 64 bytes can be copied from any start.
static FILLING: [u8; 128] = filling();

const fn digit_of() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut i = 0;
    while i < 64 {
        table[DIGITS[i] as usize] = i as u8;
        i += 1;
    }
    table
}

const fn filling() -> [u8; 128] {
    let mut bytes = [0; 128];
    let mut i = 0;
    while i < 128 {
        bytes[i] = DIGITS[i % 64];
        i += 1;
    }
    bytes
}

/// The write that a value records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The record's number; below 2^48.
    pub record: u64,
    /// The write's number among those of its record; below 2^36.
    pub sequence: u64,
    /// The writing client's number; below 2^24.
    pub writer: u32,
    /// The writing run's number; below 2^24.
    pub run: u32,
}

/// Why bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    /// The length is not the one of all values.
    #[error("the length is wrong")]
    Length,
    /// The checksum does not fit: torn, mixed or foreign bytes.
    #[error("the checksum does not fit")]
    Checksum,
}

/// A length too short for values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("values of {0} bytes cannot prove themselves: at least {VALUE_MIN_BYTES} are needed")]
pub struct ValueTooShort(pub usize);

/// Writes and checks values of one length.
#[derive(Clone, Copy, Debug)]
pub struct ValueFormat {
    value_bytes: usize,
}

impl ValueFormat {
    /// Values of `value_bytes` bytes.
    pub fn new(value_bytes: usize) -> Result<ValueFormat, ValueTooShort> {
        if value_bytes < VALUE_MIN_BYTES {
            return Err(ValueTooShort(value_bytes));
        }
        Ok(ValueFormat { value_bytes })
    }

    /// The values' length.
    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Appends the value of a write.
    #[inline]
    pub fn write(&self, stamp: Stamp, out: &mut Vec<u8>) {
        let start = out.len();
        let mut head = [0; HEAD_BYTES];
        encode(stamp.record, &mut head[..8]);
        encode(stamp.sequence, &mut head[8..14]);
        encode(u64::from(stamp.writer), &mut head[14..18]);
        encode(u64::from(stamp.run), &mut head[18..]);
        out.extend_from_slice(&head);
        let turn = (stamp.record.wrapping_mul(7).wrapping_add(stamp.sequence) & 63) as usize;
        let mut left = self.value_bytes - VALUE_MIN_BYTES;
        while left > 0 {
            let piece = left.min(64);
            out.extend_from_slice(&FILLING[turn..turn + piece]);
            left -= piece;
        }
        let mut check = [0; CHECK_BYTES];
        encode(xxh3_64(&out[start..]), &mut check);
        out.extend_from_slice(&check);
    }

    /// Checks that the bytes are one whole value; returns the write that it records.
    #[inline]
    pub fn read(&self, bytes: &[u8]) -> Result<Stamp, ValueFault> {
        if bytes.len() != self.value_bytes {
            return Err(ValueFault::Length);
        }
        let (body, check) = bytes.split_at(self.value_bytes - CHECK_BYTES);
        let mut expected = [0; CHECK_BYTES];
        encode(xxh3_64(body), &mut expected);
        if check != expected {
            return Err(ValueFault::Checksum);
        }
        let number = |digits| decode(digits).ok_or(ValueFault::Checksum);
        Ok(Stamp {
            record: number(&body[..8])?,
            sequence: number(&body[8..14])?,
            writer: number(&body[14..18])? as u32,
            run: number(&body[18..HEAD_BYTES])? as u32,
        })
    }
}

/// The low bits of a number, the lowest first.
#[inline]
fn encode(mut number: u64, digits: &mut [u8]) {
    for digit in digits {
        *digit = DIGITS[(number & 63) as usize];
        number >>= 6;
    }
}

#[inline]
fn decode(digits: &[u8]) -> Option<u64> {
    let mut number = 0;
    for &digit in digits.iter().rev() {
        let bits = DIGIT_OF[usize::from(digit)];
        if bits == NO_DIGIT {
            return None;
        }
        number = number << 6 | u64::from(bits);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamps() -> impl Strategy<Value = Stamp> {
        (0..1u64 << 48, 0..1u64 << 36, 0..1u32 << 24, 0..1u32 << 24)
            .prop_map(|(record, sequence, writer, run)| Stamp { record, sequence, writer, run })
    }

    proptest! {
        #[test]
        fn written_values_read_back(stamp in stamps(), value_bytes in VALUE_MIN_BYTES..400) {
            let format = ValueFormat::new(value_bytes).unwrap();
            let mut bytes = b"before".to_vec();
            format.write(stamp, &mut bytes);
            prop_assert_eq!(bytes.len(), 6 + value_bytes);
            prop_assert_eq!(format.read(&bytes[6..]), Ok(stamp));
            prop_assert!(bytes.is_ascii());
        }

        #[test]
        fn any_changed_byte_is_noticed(stamp in stamps(), at in 0..100usize, byte: u8) {
            let format = ValueFormat::new(100).unwrap();
            let mut bytes = Vec::new();
            format.write(stamp, &mut bytes);
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            prop_assert_eq!(format.read(&bytes), Err(ValueFault::Checksum));
        }

        #[test]
        fn two_values_torn_together_are_noticed(first in stamps(), second in stamps(), at in 1..100usize) {
            let format = ValueFormat::new(100).unwrap();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            format.write(first, &mut a);
            format.write(second, &mut b);
            let torn = [&a[..at], &b[at..]].concat();
            prop_assume!(torn != a && torn != b);
            prop_assert_eq!(format.read(&torn), Err(ValueFault::Checksum));
        }
    }

    #[test]
    fn lengths_are_checked() {
        let format = ValueFormat::new(64).unwrap();
        let mut bytes = Vec::new();
        format.write(Stamp { record: 1, sequence: 2, writer: 3, run: 4 }, &mut bytes);
        assert_eq!(format.read(&bytes[..63]), Err(ValueFault::Length));
        assert_eq!(format.read(b""), Err(ValueFault::Length));
        assert!(ValueFormat::new(31).is_err());
        assert!(ValueFormat::new(32).is_ok());
    }
}
