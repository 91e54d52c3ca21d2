//! A machine's clocks: they start at any value, and run slightly fast or slow.

use sidle_node::Now;
use sidle_types::{MonotonicUs, WallMs};

/// The wall clock at the beginning of every simulation.
pub const WALL_START_MS: u64 = 1_700_000_000_000;

/// One machine's clocks, as a function of the simulation's time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the monotonic clock shows at the beginning.
    pub offset_us: u64,
    /// How many microseconds it gains in a second; below 0 it loses.
    pub drift_ppm: i64,
    /// How far the wall clock is ahead of the simulation's time, in milliseconds; below 0 it is behind.
    pub wall_ahead_ms: i64,
}

/// The largest error of a wall clock: machines keep theirs right, but not exactly.
pub const WALL_OFF_MS: u64 = 5;

impl Clock {
    /// What the monotonic clock shows.
    pub fn mono(&self, at_us: u64) -> MonotonicUs {
        let gained = i128::from(at_us) * i128::from(self.drift_ppm) / 1_000_000;
        MonotonicUs((i128::from(self.offset_us) + i128::from(at_us) + gained) as u64)
    }

    /// Both clocks.
    pub fn now(&self, at_us: u64) -> Now {
        let wall = (WALL_START_MS + at_us / 1000).saturating_add_signed(self.wall_ahead_ms);
        Now { mono: self.mono(at_us), wall: WallMs(wall), wall_micros: 0, reading_ns: 0 }
    }

    /// The first instant at which the monotonic clock shows `shown` or more.
    pub fn instant(&self, shown: MonotonicUs) -> u64 {
        let Some(elapsed) = shown.0.checked_sub(self.offset_us) else { return 0 };
        let rate = 1_000_000 + i128::from(self.drift_ppm);
        let mut at_us = (i128::from(elapsed) * 1_000_000 / rate) as u64;
        while self.mono(at_us) < shown {
            at_us += 1;
        }
        while at_us > 0 && self.mono(at_us - 1) >= shown {
            at_us -= 1;
        }
        at_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_is_the_first_at_which_the_clock_shows_it() {
        for drift_ppm in [-500, 0, 333] {
            let clock = Clock { offset_us: 12_345, drift_ppm, wall_ahead_ms: 0 };
            for shown in [0, 12_345, 12_346, 5_000_000, 90_000_001] {
                let at_us = clock.instant(MonotonicUs(shown));
                assert!(clock.mono(at_us).0 >= shown);
                assert!(at_us == 0 || clock.mono(at_us - 1).0 < shown, "{drift_ppm} {shown}");
            }
        }
    }
}
