//! The two clocks of a thread.

use rustix::time::{ClockId, clock_gettime};
use sidle_types::{MonotonicUs, WallMs};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the monotonic clock, and derives the wall clock from it, so that one reading serves both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The wall clock's reading at the monotonic clock's 0.
    wall_at_start_us: u64,
}

impl Clock {
    /// Starts the process's clock; call it once, and copy it to every thread.
    pub(crate) fn start() -> Clock {
        let mut clock = Clock { start: Instant::now(), wall_at_start_us: 0 };
        clock.follow_wall_clock();
        clock
    }

    /// Follows changes of the wall clock; call it a few times a second.
    pub(crate) fn follow_wall_clock(&mut self) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.wall_at_start_us = (wall.as_micros() as u64).saturating_sub(self.mono().0);
    }

    /// The monotonic clock.
    #[inline]
    pub(crate) fn mono(&self) -> MonotonicUs {
        MonotonicUs(self.start.elapsed().as_micros() as u64)
    }

    /// The monotonic clock in nanoseconds, for what takes less than a microsecond.
    #[inline]
    pub(crate) fn mono_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The wall clock at an instant of the monotonic one.
    #[inline]
    pub(crate) fn wall(&self, mono: MonotonicUs) -> WallMs {
        WallMs((self.wall_at_start_us + mono.0) / 1000)
    }

    /// How many microseconds of the wall clock's millisecond have passed at that instant.
    #[inline]
    pub(crate) fn wall_micros(&self, mono: MonotonicUs) -> u16 {
        ((self.wall_at_start_us + mono.0) % 1000) as u16
    }

    /// When the runtime's timers reach an instant.
    pub(crate) fn instant(&self, mono: MonotonicUs) -> Instant {
        self.start + Duration::from_micros(mono.0)
    }
}

/// The processor time that the calling thread has used, in microseconds.
pub(crate) fn thread_cpu_us() -> u64 {
    cpu_us(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of the process have used, in microseconds.
pub(crate) fn process_cpu_us() -> u64 {
    cpu_us(ClockId::ProcessCPUTime)
}

fn cpu_us(clock: ClockId) -> u64 {
    let used = clock_gettime(clock);
    used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_follows_the_system() {
        let clock = Clock::start();
        let wall = clock.wall(clock.mono()).0;
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(wall.abs_diff(system) < 1000, "{wall} {system}");
        assert!(clock.instant(MonotonicUs(5)) > clock.instant(MonotonicUs(4)));
    }
}
