//! The expiry options of SET, GETEX and their relatives: EX, PX, EXAT and PXAT.

use crate::number::parse_i64;
use crate::reply_error::ReplyError;
use sidle_types::WallMs;

/// The unit of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now (EX).
    Seconds,
    /// Milliseconds from now (PX).
    Milliseconds,
    /// Seconds since the Unix epoch (EXAT).
    AtSeconds,
    /// Milliseconds since the Unix epoch (PXAT).
    AtMilliseconds,
}

impl Unit {
    /// The unit of an option's name.
    pub(super) fn named(option: &[u8]) -> Option<Unit> {
        [
            (&b"ex"[..], Unit::Seconds),
            (b"px", Unit::Milliseconds),
            (b"exat", Unit::AtSeconds),
            (b"pxat", Unit::AtMilliseconds),
        ]
        .into_iter()
        .find(|(name, _)| option.eq_ignore_ascii_case(name))
        .map(|(_, unit)| unit)
    }

    pub(super) fn is_seconds(self) -> bool {
        matches!(self, Unit::Seconds | Unit::AtSeconds)
    }

    pub(super) fn is_relative(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Milliseconds)
    }
}

/// The instant that the text gives in this unit.
///
/// # Errors
/// The text is no integer or not positive, or the instant does not fit 63 bits of milliseconds.
pub(super) fn deadline(
    unit: Unit,
    text: &[u8],
    now: WallMs,
    command: &'static str,
) -> Result<WallMs, ReplyError> {
    let number = parse_i64(text).ok_or(ReplyError::NotAnInteger)?;
    let scaled = if unit.is_seconds() { number.checked_mul(1000) } else { Some(number) };
    let base = if unit.is_relative() { now.0 as i64 } else { 0 };
    match scaled.filter(|&ms| ms > 0).and_then(|ms| ms.checked_add(base)) {
        Some(ms) => Ok(WallMs(ms as u64)),
        None => Err(ReplyError::InvalidExpire(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_must_be_positive_and_in_range() {
        let now = WallMs(1_000_000);
        let of = |unit, text: &str| deadline(unit, text.as_bytes(), now, "set");
        assert_eq!(of(Unit::Seconds, "2"), Ok(WallMs(1_002_000)));
        assert_eq!(of(Unit::Milliseconds, "2"), Ok(WallMs(1_000_002)));
        assert_eq!(of(Unit::AtSeconds, "2"), Ok(WallMs(2_000)));
        assert_eq!(of(Unit::AtMilliseconds, "2"), Ok(WallMs(2)));
        for bad in ["0", "-1", "9223372036854775807"] {
            assert_eq!(of(Unit::Seconds, bad), Err(ReplyError::InvalidExpire("set")), "{bad}");
        }
        assert_eq!(of(Unit::Milliseconds, "9223372036854775807"), Err(ReplyError::InvalidExpire("set")));
        assert_eq!(of(Unit::AtMilliseconds, "9223372036854775807"), Ok(WallMs(i64::MAX as u64)));
        assert_eq!(of(Unit::Seconds, "x"), Err(ReplyError::NotAnInteger));
    }
}
