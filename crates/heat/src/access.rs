//! One sampled access to a key, and sums of accesses.

use sidle_types::Position;
use std::fmt;

/// How many bytes of a key are kept.
const KEPT_BYTES: usize = 64;

/// A key, or its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyText {
    bytes: [u8; KEPT_BYTES],
    /// How many of them there are; one more if the key has more.
    length: u8,
}

impl KeyText {
    /// Of this key.
    pub fn new(key: &[u8]) -> KeyText {
        let kept = key.len().min(KEPT_BYTES);
        let mut bytes = [0; KEPT_BYTES];
        bytes[..kept].copy_from_slice(&key[..kept]);
        KeyText { bytes, length: key.len().min(KEPT_BYTES + 1) as u8 }
    }

    /// The key's bytes, its first 64 at most.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(KEPT_BYTES)]
    }

    /// Whether the key is longer.
    pub fn is_cut(&self) -> bool {
        usize::from(self.length) > KEPT_BYTES
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bytes().escape_ascii(), if self.is_cut() { ".." } else { "" })
    }
}

/// A sampled access to one key.
#[derive(Clone, Copy, Debug)]
pub struct Access<'k> {
    /// The key's position.
    pub position: Position,
    /// The key.
    pub key: &'k [u8],
    /// What it took, multiplied by the number of accesses that it stands for.
    pub usage: Usage,
}

/// What accesses took: sums over samples, each for as many accesses as it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Accesses.
    pub operations: u64,
    /// Those among them that may change the key.
    pub writes: u64,
    /// Bytes of the requests.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Processor time of the worker.
    pub nanoseconds: u64,
}

impl Usage {
    /// Adds another sum.
    pub fn add(&mut self, other: Usage) {
        self.operations += other.operations;
        self.writes += other.writes;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.nanoseconds += other.nanoseconds;
    }

    /// The sum for a sample that stands for `weight` accesses like it.
    pub fn times(self, weight: u64) -> Usage {
        Usage {
            operations: self.operations * weight,
            writes: self.writes * weight,
            bytes_in: self.bytes_in * weight,
            bytes_out: self.bytes_out * weight,
            nanoseconds: self.nanoseconds * weight,
        }
    }

    /// Bytes of requests and replies.
    pub fn bytes(&self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_cut_and_say_so() {
        for length in [0, 1, 63, 64, 65, 255, 256, 1 << 20] {
            let key = vec![b'k'; length];
            let text = KeyText::new(&key);
            assert_eq!((text.bytes(), text.is_cut()), (&key[..length.min(64)], length > 64), "{length}");
        }
        assert_eq!(format!("{:?}", KeyText::new(b"a\0")), "a\\x00");
    }
}
