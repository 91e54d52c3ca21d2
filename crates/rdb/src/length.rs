//! Lengths: the first two bits say how many bytes follow, or that the value is encoded.
//!
//! | first byte | what |
//! |---|---|
//! | `00` | the other six bits |
//! | `01` | the other six bits and a byte |
//! | `0x80` | four bytes, the highest first |
//! | `0x81` | eight bytes, the highest first |
//! | `11` | no length: the other six bits number an encoding |

use crate::error::RestoreError;
use crate::rest::Source;

const SIX_BITS: u8 = 0x3f;
const FOURTEEN: u8 = 0x40;
const FOUR_BYTES: u8 = 0x80;
const EIGHT_BYTES: u8 = 0x81;
const ENCODED: u8 = 0xc0;

/// The start of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// So many bytes follow.
    Bytes(u64),
    /// It is encoded, and how.
    Encoded(u8),
}

impl Length {
    pub(crate) fn read<S: Source>(source: &mut S) -> Result<Length, S::Error> {
        let [first] = source.array()?;
        Ok(match first & ENCODED {
            0 => Length::Bytes(first.into()),
            FOURTEEN => {
                let [second] = source.array()?;
                Length::Bytes(u16::from_be_bytes([first & SIX_BITS, second]).into())
            }
            ENCODED => Length::Encoded(first & SIX_BITS),
            _ => match first {
                FOUR_BYTES => Length::Bytes(u32::from_be_bytes(source.array()?).into()),
                EIGHT_BYTES => Length::Bytes(u64::from_be_bytes(source.array()?)),
                _ => return Err(source.refuse(RestoreError::UnknownLength(first))),
            },
        })
    }

    /// Reads a length where nothing else may stand.
    pub(crate) fn read_bytes<S: Source>(source: &mut S) -> Result<u64, S::Error> {
        match Length::read(source)? {
            Length::Bytes(bytes) => Ok(bytes),
            Length::Encoded(encoding) => Err(source.refuse(RestoreError::UnknownLength(ENCODED | encoding))),
        }
    }
}

/// Adds a length in its shortest form.
pub(crate) fn write(bytes: u64, out: &mut Vec<u8>) {
    if let Ok(small @ ..=SIX_BITS) = u8::try_from(bytes) {
        out.push(small);
    } else if bytes < 1 << 14 {
        let [high, low] = (bytes as u16).to_be_bytes();
        out.extend([FOURTEEN | high, low]);
    } else if let Ok(bytes) = u32::try_from(bytes) {
        out.push(FOUR_BYTES);
        out.extend(bytes.to_be_bytes());
    } else {
        out.push(EIGHT_BYTES);
        out.extend(bytes.to_be_bytes());
    }
}

/// Adds the number of an encoding.
pub(crate) fn write_encoding(encoding: u8, out: &mut Vec<u8>) {
    out.push(ENCODED | encoding);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::Rest;

    #[test]
    fn write_takes_the_shortest_form() {
        for (length, expected) in [
            (0, &[0][..]),
            (63, &[63]),
            (64, &[0x40, 64]),
            (16_383, &[0x7f, 0xff]),
            (16_384, &[0x80, 0, 0, 0x40, 0]),
            (u32::MAX.into(), &[0x80, 0xff, 0xff, 0xff, 0xff]),
            (1 << 32, &[0x81, 0, 0, 0, 1, 0, 0, 0, 0]),
            (u64::MAX, &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut written = Vec::new();
            write(length, &mut written);
            assert_eq!(written, expected);
            assert_eq!(Length::read(&mut Rest::new(&written)), Ok(Length::Bytes(length)));
            for cut in 0..written.len() {
                assert_eq!(Length::read(&mut Rest::new(&written[..cut])), Err(RestoreError::Truncated));
            }
        }
    }

    #[test]
    fn read_takes_longer_forms_and_encodings() {
        assert_eq!(Length::read(&mut Rest::new(&[0x81, 0, 0, 0, 0, 0, 0, 0, 3])), Ok(Length::Bytes(3)));
        assert_eq!(Length::read(&mut Rest::new(&[0xc3])), Ok(Length::Encoded(3)));
        assert_eq!(Length::read_bytes(&mut Rest::new(&[0xc3])), Err(RestoreError::UnknownLength(0xc3)));
        assert_eq!(Length::read(&mut Rest::new(&[0x82, 0, 0])), Err(RestoreError::UnknownLength(0x82)));
    }
}
