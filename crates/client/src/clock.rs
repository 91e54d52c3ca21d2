//! The wall clock.

use sidle_types::WallMs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day.
pub(crate) fn wall_now() -> WallMs {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
