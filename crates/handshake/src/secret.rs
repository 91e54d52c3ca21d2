//! The cluster secret and its text: `sidle-cluster-secret-v1` and 64 hexadecimal digits, on one line.

use std::fmt;

/// Length of a secret.
pub const SECRET_BYTES: usize = 32;

/// The longest text that is parsed as a secret; a valid one is shorter.
pub const TEXT_BYTES_MAX: usize = 256;

/// The start of the text: the kind of file and the version of its format.
const LABEL: &str = "sidle-cluster-secret-v1";

/// The start of the text in every version.
const LABEL_OF_ANY_VERSION: &str = "sidle-cluster-secret-v";

/// A secret with fewer different bytes was typed, not drawn. 32 random bytes have about 30.
const DIFFERENT_BYTES_MIN: usize = 8;

/// Shared by the nodes of a cluster and by nobody else: knowing it proves membership.
///
/// Never printed: `Debug` hides it, there is no `Display`, and no error quotes it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret([u8; SECRET_BYTES]);

/// Why a text is no secret. No variant quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSecretError {
    /// It does not start with the label.
    #[error("it is no cluster secret: one line, `{LABEL}`, a space and 64 hexadecimal digits")]
    Foreign,
    /// This release does not know its version.
    #[error("its format is of another version: this release reads `{LABEL}`")]
    UnknownVersion,
    /// Too few digits.
    #[error("it is too short: {digits} hexadecimal digits of 64")]
    TooShort {
        /// How many there are.
        digits: usize,
    },
    /// Too many digits, or something after them.
    #[error("it is too long: nothing may follow the 64 hexadecimal digits but the end of the line")]
    TooLong,
    /// A character that is no digit.
    #[error("it is malformed: something among the 64 hexadecimal digits is none")]
    NotHexadecimal,
    /// A pattern, typed rather than drawn.
    #[error("it is not random: its 32 bytes are nearly all the same")]
    NotRandom,
}

impl ClusterSecret {
    /// A secret of random bytes.
    pub const fn from_random(bytes: [u8; SECRET_BYTES]) -> ClusterSecret {
        ClusterSecret(bytes)
    }

    /// Parses a secret's text; one trailing line end is allowed.
    pub fn parse(text: &[u8]) -> Result<ClusterSecret, ParseSecretError> {
        let line = text.strip_suffix(b"\n").unwrap_or(text);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(rest) = line.strip_prefix(LABEL.as_bytes()) else {
            return Err(match line.starts_with(LABEL_OF_ANY_VERSION.as_bytes()) {
                true => ParseSecretError::UnknownVersion,
                false => ParseSecretError::Foreign,
            });
        };
        let digits = match rest {
            [b' ', digits @ ..] => digits,
            [b'0'..=b'9', ..] => return Err(ParseSecretError::UnknownVersion),
            _ => return Err(ParseSecretError::Foreign),
        };
        if digits.len() > 2 * SECRET_BYTES {
            return Err(ParseSecretError::TooLong);
        }
        let mut values = digits.iter().map(|&digit| char::from(digit).to_digit(16));
        if values.any(|value| value.is_none()) {
            return Err(ParseSecretError::NotHexadecimal);
        }
        if digits.len() < 2 * SECRET_BYTES {
            return Err(ParseSecretError::TooShort { digits: digits.len() });
        }
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let mut bytes = [0; SECRET_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        let secret = ClusterSecret(bytes);
        if secret.different_bytes() < DIFFERENT_BYTES_MIN {
            Err(ParseSecretError::NotRandom)
        } else {
            Ok(secret)
        }
    }

    /// The secret's text with its line end, only for the file that stores it.
    pub fn to_text(&self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits: String = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect();
        format!("{LABEL} {digits}\n")
    }

    /// The key of the proofs.
    pub(crate) const fn key(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    fn different_bytes(&self) -> usize {
        let mut sorted = self.0;
        sorted.sort_unstable();
        1 + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> ClusterSecret {
        ClusterSecret::from_random(std::array::from_fn(|index| index as u8 * 7))
    }

    #[test]
    fn text_survives_with_or_without_its_line_end() {
        let text = secret().to_text();
        assert!(text.len() < TEXT_BYTES_MAX && text.ends_with('\n'));
        assert_eq!(text.lines().count(), 1);
        for text in [text.as_str(), text.trim_end(), &text.replace('\n', "\r\n")] {
            assert_eq!(ClusterSecret::parse(text.as_bytes()), Ok(secret()));
        }
        let (label, digits) = text.trim_end().split_once(' ').unwrap();
        let upper = format!("{label} {}", digits.to_uppercase());
        assert_eq!(ClusterSecret::parse(upper.as_bytes()), Ok(secret()));
    }

    #[test]
    fn invalid_text_is_refused_with_its_reason() {
        use ParseSecretError::*;
        let digits = secret().to_text().trim_end()[LABEL.len() + 1..].to_owned();
        for (text, why) in [
            (String::new(), Foreign),
            (digits.clone(), Foreign),
            ("secret".to_owned(), Foreign),
            (LABEL.to_owned(), Foreign),
            (format!("{LABEL}\t{digits}"), Foreign),
            (format!("sidle-cluster-secret-v2 {digits}"), UnknownVersion),
            (format!("sidle-cluster-secret-v12 {digits}"), UnknownVersion),
            (format!("{LABEL} "), TooShort { digits: 0 }),
            (format!("{LABEL} {}", &digits[..62]), TooShort { digits: 62 }),
            (format!("{LABEL} {digits}0"), TooLong),
            (format!("{LABEL} {digits}\n\n"), TooLong),
            (format!("{LABEL} {digits}\n{LABEL} {digits}\n"), TooLong),
            (format!("{LABEL} g{}", &digits[1..]), NotHexadecimal),
            (format!("{LABEL} {}", "0".repeat(64)), NotRandom),
            (format!("{LABEL} {}", "0123".repeat(16)), NotRandom),
        ] {
            assert_eq!(ClusterSecret::parse(text.as_bytes()), Err(why), "{text}");
        }
        assert_eq!(ClusterSecret::parse(&[0xff; 90]), Err(Foreign));
    }

    #[test]
    fn no_output_contains_the_secret() {
        let digits = secret().to_text()[LABEL.len() + 1..].trim_end().to_owned();
        assert!(!format!("{:?}", secret()).contains(&digits[..4]));
        let broken = format!("{LABEL} x{}", &digits[1..]);
        let refused = ClusterSecret::parse(broken.as_bytes()).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains(&digits[1..8]));
    }
}
