//! The time of one turn of a worker's loop.

use sidle_types::{MonotonicUs, WallMs};

/// Both clocks, read once a turn by the node's driver; every command of the turn sees the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timers, windows and latencies.
    pub mono: MonotonicUs,
    /// For expiry.
    pub wall: WallMs,
    /// The reading of the worker's [stopwatch](crate::Worker::measure_with) at this instant; 0 where nothing
    /// is measured.
    pub reading_ns: u64,
}
