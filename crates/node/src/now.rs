//! The time of one turn of a worker's loop.

use sidle_types::{MonotonicUs, WallMs};

/// Both clocks, read once a turn by the node's driver; every command of the turn sees the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timers, windows and latencies.
    pub mono: MonotonicUs,
    /// For expiry.
    pub wall: WallMs,
    /// How many microseconds of `wall`'s millisecond have passed, for what shows them.
    pub wall_micros: u16,
    /// The reading of the worker's [stopwatch](crate::Worker::measure_with) at this instant; 0 where nothing
    /// is measured.
    pub reading_ns: u64,
}

impl Now {
    /// The wall clock in microseconds, at a later reading of the stopwatch of the same turn.
    pub(crate) fn wall_us(self, reading_ns: u64) -> u64 {
        let passed_us = match self.reading_ns {
            0 => 0,
            begun_ns => reading_ns.saturating_sub(begun_ns) / 1000,
        };
        self.wall.0 * 1000 + u64::from(self.wall_micros) + passed_us
    }
}
