//! Time, always an argument: pure crates read no clock.

use serde::{Deserialize, Serialize};

/// Microseconds on a monotonic clock with an arbitrary start; for timers and windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonotonicUs(pub u64);

impl MonotonicUs {
    /// The instant `us` microseconds later.
    pub const fn plus_us(self, us: u64) -> MonotonicUs {
        MonotonicUs(self.0.saturating_add(us))
    }

    /// Microseconds since `earlier`, 0 if that is in the future.
    pub const fn since(self, earlier: MonotonicUs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since the Unix epoch on the wall clock; for expiry, which is an absolute deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallMs(pub u64);
