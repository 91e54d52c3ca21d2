//! When a node that is gone is taken over, as people write it.

use serde::Deserialize;
use std::str::FromStr;

/// The least time: a shorter one would take over nodes that only pause.
const LEAST_MS: u64 = 1_000;
/// The most: whoever waits for longer decides himself.
const MOST_MS: u64 = 24 * 3_600_000;

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// For how long a node is gone before its log is taken over, in milliseconds; never, if there is no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TakeoverAfter(pub Option<u64>);

/// What [`TakeoverAfter`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no time to wait: give off, or a number with ms, s, m or h, from 1s to 24h")]
pub struct ParseTakeoverAfterError(String);

impl FromStr for TakeoverAfter {
    type Err = ParseTakeoverAfterError;

    fn from_str(text: &str) -> Result<TakeoverAfter, ParseTakeoverAfterError> {
        if text == "off" {
            return Ok(TakeoverAfter(None));
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let scale = UNITS.iter().find(|(unit, _)| *unit == &text[digits..]).map(|(_, scale)| *scale);
        let number: Option<u64> = text[..digits].parse().ok();
        let ms = number.zip(scale).and_then(|(number, scale)| number.checked_mul(scale));
        let ms = ms.filter(|ms| (LEAST_MS..=MOST_MS).contains(ms));
        ms.map(|ms| TakeoverAfter(Some(ms))).ok_or_else(|| ParseTakeoverAfterError(text.to_owned()))
    }
}

impl TryFrom<String> for TakeoverAfter {
    type Error = ParseTakeoverAfterError;

    fn try_from(text: String) -> Result<TakeoverAfter, ParseTakeoverAfterError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parse_with_units() {
        for (text, ms) in [("1s", 1_000), ("1500ms", 1_500), ("2m", 120_000), ("24h", MOST_MS)] {
            assert_eq!(text.parse(), Ok(TakeoverAfter(Some(ms))), "{text}");
        }
        assert_eq!("off".parse(), Ok(TakeoverAfter(None)));
        for bad in ["", "s", "5", "0s", "999ms", "25h", "1.5s", "-1s", "18446744073709551615h", "never"] {
            assert!(bad.parse::<TakeoverAfter>().unwrap_err().to_string().contains("1s to 24h"), "{bad}");
        }
    }
}
