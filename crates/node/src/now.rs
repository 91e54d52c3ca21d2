//! The time of one turn of a worker's loop.

use sidle_types::{MonotonicUs, WallMs};

/// Both clocks, read once a turn by whoever drives the node; every command of the turn sees the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timers, windows and latencies.
    pub mono: MonotonicUs,
    /// For expiry.
    pub wall: WallMs,
    /// What the worker's [stopwatch](crate::Worker::measure_with) says at this instant; 0 where nothing is
    /// measured.
    pub reading_ns: u64,
}
