//! How long a command waits.

use crate::call::{Call, Executor};
use crate::float80::Float80;
use crate::reply_error::ReplyError;

/// The seconds that a word names, in milliseconds, rounded up; 0: without an end.
pub(super) fn timeout_ms<E: Executor>(call: &Call<'_, E>, word: &[u8]) -> Result<u64, ReplyError> {
    const NOT_A_TIME: ReplyError = ReplyError::text("ERR timeout is not a float or out of range");
    let seconds = Float80::parse(word).ok_or(NOT_A_TIME)?;
    milliseconds(seconds.to_f64().unwrap_or(f64::INFINITY), call.now.0)
}

fn milliseconds(seconds: f64, now_ms: u64) -> Result<u64, ReplyError> {
    let ms = (seconds * 1000.0).ceil();
    // As in Redis, where what is too long for its clock has turned negative.
    if ms < 0.0 || ms >= i64::MAX as f64 {
        return Err(ReplyError::text("ERR timeout is negative"));
    }
    let ms = ms as u64;
    if ms > i64::MAX as u64 - now_ms {
        return Err(ReplyError::text("ERR timeout is out of range"));
    }
    Ok(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_bounded() {
        let now = 1_800_000_000_000;
        for (seconds, ms) in [(0.0, 0), (-0.0, 0), (0.1, 100), (0.0001, 1), (1e6, 1_000_000_000)] {
            assert_eq!(milliseconds(seconds, now).ok(), Some(ms), "{seconds}");
        }
        for seconds in [-0.001, -1.0, 1e30, f64::INFINITY, 9_223_372_036_854_775.0] {
            assert!(milliseconds(seconds, now).is_err(), "{seconds}");
        }
    }
}
