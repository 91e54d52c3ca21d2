//! Passwords, of which only the SHA-256 digest is kept.

use sha2::{Digest as _, Sha256};
use std::fmt::{Debug, Formatter};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A password's SHA-256 digest, in hexadecimal letters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 64]);

/// A digest is nearly as good as a password.
impl Debug for Digest {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_str("Digest(..)")
    }
}

impl Digest {
    /// That of a password.
    pub fn of(password: &[u8]) -> Digest {
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(Sha256::digest(password)) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        Digest(text)
    }

    /// One that is given as 64 lower-case letters and digits.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        let letters: [u8; 64] = text.try_into().ok()?;
        letters.iter().all(|letter| DIGITS.contains(letter)).then_some(Digest(letters))
    }

    /// Its letters.
    pub fn text(&self) -> &[u8] {
        &self.0
    }
}

/// Takes equally long for any two texts of these lengths: the time reveals nothing about them.
pub fn is_equal_in_constant_time(expected: &[u8], given: &[u8]) -> bool {
    let differs = expected.iter().zip(given).fold(0, |bits, (one, other)| bits | (one ^ other));
    expected.len() == given.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256() {
        let text = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
        assert_eq!(Digest::of(b"p").text(), text.as_bytes());
        assert_eq!(Digest::parse(text.as_bytes()), Some(Digest::of(b"p")));
        for bad in ["", "148d", &text.to_uppercase(), &format!("{text}0")] {
            assert_eq!(Digest::parse(bad.as_bytes()), None, "{bad}");
        }
        assert!(!format!("{:?}", Digest::of(b"p")).contains("148d"));
    }

    #[test]
    fn constant_time_comparison_is_a_comparison() {
        for (expected, given, equal) in [
            ("secret", "secret", true),
            ("secret", "secreT", false),
            ("secret", "secretsecret", false),
            ("secret", "secre", false),
            ("secret", "", false),
        ] {
            assert_eq!(is_equal_in_constant_time(expected.as_bytes(), given.as_bytes()), equal, "{given}");
        }
    }
}
