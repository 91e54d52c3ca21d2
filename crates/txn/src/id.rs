//! The name of a transaction.

use std::fmt;

/// A transaction: 128 bits that its coordinator drew at random, so that no two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u128);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl TransactionId {
    /// The one that is written so, in 32 hex digits.
    pub fn parse(text: &[u8]) -> Option<TransactionId> {
        let is_written_so = text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(text).ok().filter(|_| is_written_so)?;
        u128::from_str_radix(text, 16).ok().map(TransactionId)
    }
}

#[cfg(test)]
mod tests {
    use super::TransactionId;

    #[test]
    fn it_is_read_as_it_is_written() {
        let id = TransactionId(0x00ab_cdef);
        assert_eq!(id.to_string(), "00000000000000000000000000abcdef");
        assert_eq!(TransactionId::parse(id.to_string().as_bytes()), Some(id));
        for wrong in ["", "abcdef", "+0000000000000000000000000abcdef", "0000000000000000000000000000000g"] {
            assert_eq!(TransactionId::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
