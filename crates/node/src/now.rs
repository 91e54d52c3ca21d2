//! The time of one turn of a worker's loop.

use sidle_types::{MonotonicUs, WallMs};

/// Both clocks, read once a turn by whoever drives the node; every command of the turn sees the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timers, windows and latencies.
    pub mono: MonotonicUs,
    /// For expiry.
    pub wall: WallMs,
}
