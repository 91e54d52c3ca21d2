//! Keys of one length that encode the record's number.

/// Symbols for keys too short for decimal digits: text without braces, which mark Redis hash tags.
const SYMBOLS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// The records do not fit into keys of this length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{records} records do not fit into keys of {key_bytes} bytes: at least {least_bytes} are needed")]
pub struct KeysTooShort {
    /// The length asked for.
    pub key_bytes: usize,
    /// The records asked for.
    pub records: u64,
    /// The shortest keys that they fit into.
    pub least_bytes: usize,
}

/// The format of keys. All keys of a run have the same length.
#[derive(Clone, Debug)]
pub struct KeyFormat {
    key_bytes: usize,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `user` and decimal digits, as YCSB names its records.
    Decimal,
    /// Base 64 digits.
    Symbols,
    /// Any byte but braces and 0, which could cut a key short in a careless tool: base 253.
    Bytes,
}

impl KeyFormat {
    /// The most readable style that fits `records` records into keys of `key_bytes` bytes.
    pub fn new(key_bytes: usize, records: u64) -> Result<KeyFormat, KeysTooShort> {
        // A power that overflows suffices.
        let fits = |base: u64, digits: usize| {
            base.checked_pow(digits.min(64) as u32).is_none_or(|reach| reach >= records)
        };
        let style = if fits(10, key_bytes.saturating_sub(4)) {
            Style::Decimal
        } else if fits(64, key_bytes) {
            Style::Symbols
        } else if fits(253, key_bytes) {
            Style::Bytes
        } else {
            let least_bytes = (1..).find(|&digits| fits(253, digits)).expect("eight bytes name any number");
            return Err(KeysTooShort { key_bytes, records, least_bytes });
        };
        Ok(KeyFormat { key_bytes, style })
    }

    /// The keys' length.
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Whether keys are readable text.
    pub fn is_text(&self) -> bool {
        self.style != Style::Bytes
    }

    /// Appends a record's key.
    #[inline]
    pub fn write(&self, record: u64, out: &mut Vec<u8>) {
        let start = out.len();
        match self.style {
            Style::Decimal => {
                out.resize(start + self.key_bytes, b'0');
                out[start..start + 4].copy_from_slice(b"user");
                fill(&mut out[start + 4..], record, 10, |digit| b'0' + digit as u8);
            }
            Style::Symbols => {
                out.resize(start + self.key_bytes, SYMBOLS[0]);
                fill(&mut out[start..], record, 64, |digit| SYMBOLS[digit as usize]);
            }
            Style::Bytes => {
                out.resize(start + self.key_bytes, 1);
                fill(&mut out[start..], record, 253, |digit| match digit as u8 + 1 {
                    b'{' => 254,
                    b'}' => 255,
                    byte => byte,
                });
            }
        }
    }

    /// A record's key.
    pub fn key(&self, record: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.key_bytes);
        self.write(record, &mut key);
        key
    }
}

/// Writes `number` into the end of `digits`, which the caller has filled with the digit zero.
#[inline]
fn fill(digits: &mut [u8], mut number: u64, base: u64, symbol: impl Fn(u64) -> u8) {
    for digit in digits.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *digit = symbol(number % base);
        number /= base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_user_and_digits() {
        let format = KeyFormat::new(30, 3_000_000).unwrap();
        assert_eq!(format.key(1_234_567), b"user00000000000000000001234567");
        assert!(format.is_text());
    }

    #[test]
    fn short_keys_take_the_symbols_they_need() {
        assert_eq!(KeyFormat::new(4, 1).unwrap().style, Style::Decimal);
        assert_eq!(KeyFormat::new(4, 10_000_000).unwrap().style, Style::Symbols);
        // NetMigrate's 256 million records of 4-byte keys.
        assert_eq!(KeyFormat::new(4, 256_000_000).unwrap().style, Style::Bytes);
        let refused = KeyFormat::new(3, 256_000_000).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "256000000 records do not fit into keys of 3 bytes: at least 4 are needed"
        );
        assert!(KeyFormat::new(0, 2).is_err());
    }

    #[test]
    fn keys_are_distinct_of_equal_length_and_without_braces() {
        for (key_bytes, records) in [(6, 100), (2, 4096), (2, 64_000), (30, 1000)] {
            let format = KeyFormat::new(key_bytes, records).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for record in 0..records {
                let key = format.key(record);
                assert_eq!(key.len(), key_bytes);
                assert!(!key.iter().any(|byte| matches!(byte, b'{' | b'}' | 0)));
                assert!(seen.insert(key), "{record}");
            }
        }
    }

    #[test]
    fn exactly_full_still_fits() {
        for (key_bytes, records, fits) in [(1, 64, true), (1, 253, true), (1, 254, false), (5, 10, true)] {
            assert_eq!(KeyFormat::new(key_bytes, records).is_ok(), fits, "{key_bytes} {records}");
        }
        assert!(KeyFormat::new(64, u64::MAX).is_ok());
    }
}
