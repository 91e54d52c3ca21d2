//! Sizes in bytes as people write them, and settings that can be left to the program.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, written as Redis writes it: `64`, `512mb` (powers of 1024), `4g` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u64); 10] = [
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

/// What [`Size`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSizeError {
    /// No number, or no unit behind it.
    #[error("'{0}' is not a size: give bytes, or a number with kb, mb, gb or tb, such as 512mb")]
    NotASize(String),
    /// More bytes than 64 bits count.
    #[error("'{0}' is too large: give at most 16777215tb")]
    TooLarge(String),
}

impl FromStr for Size {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Size, ParseSizeError> {
        let refused = || ParseSizeError::NotASize(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = text[digits..].trim_start().to_ascii_lowercase();
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
        if digits == 0 {
            return Err(refused());
        }
        // Digits alone fail only for being too many.
        let bytes = text[..digits].parse().ok().and_then(|number: u64| number.checked_mul(*scale));
        bytes.map(Size).ok_or_else(|| ParseSizeError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for Size {
    /// With the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, scale): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*scale);
        match UNITS[..4].iter().rev().find(fits) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => self.0.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"512mb\" or a number of bytes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                bytes.try_into().map(Size).map_err(|_| E::custom(ParseSizeError::NotASize(bytes.to_string())))
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// A setting that the program chooses itself if it is `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auto<T> {
    /// The program chooses.
    #[default]
    Auto,
    /// This value.
    Value(T),
}

impl<T> Auto<T> {
    /// The value set, or the result of `choose`.
    pub fn unwrap_or_else(self, choose: impl FnOnce() -> T) -> T {
        match self {
            Auto::Auto => choose(),
            Auto::Value(value) => value,
        }
    }
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Auto<T>, T::Err> {
        if text == "auto" { Ok(Auto::Auto) } else { text.parse().map(Auto::Value) }
    }
}

impl<T: fmt::Display> fmt::Display for Auto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Auto::Auto => f.write_str("auto"),
            Auto::Value(value) => value.fmt(f),
        }
    }
}

impl<'de, T> Deserialize<'de> for Auto<T>
where
    T: FromStr<Err: fmt::Display>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Auto<T>, D::Error> {
        // Numbers and strings are both taken: `workers = 4`, `max_memory = "4gb"`.
        struct AutoVisitor<T>(std::marker::PhantomData<T>);
        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for AutoVisitor<T> {
            type Value = Auto<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a value")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Auto<T>, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Auto<T>, E> {
                number.to_string().parse().map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Auto<T>, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(AutoVisitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_units() {
        for (text, bytes) in
            [("0", 0), ("17", 17), ("1k", 1000), ("1kb", 1024), ("512MB", 512 << 20), ("4 gb", 4 << 30)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "mb", "-1", "1.5gb", "4xb"] {
            assert_eq!(bad.parse::<Size>(), Err(ParseSizeError::NotASize(bad.to_owned())));
        }
        for bad in ["99999999999gb", "16777216tb", "18446744073709551616"] {
            assert_eq!(bad.parse::<Size>(), Err(ParseSizeError::TooLarge(bad.to_owned())));
        }
        assert_eq!("16777215tb".parse(), Ok(Size(16_777_215 << 40)));
    }

    #[test]
    fn sizes_print_with_the_largest_whole_unit() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1024, "1kb"), (1536, "1536"), (4 << 30, "4gb")] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
