//! How much of the machine's cores is left to a mover, by the system's counters.

use sidle_pacing::{CpuUsed, SpareCores};
use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::thread::available_parallelism;

/// How long the number of usable cores is trusted: asking takes a score of system calls.
const CORES_US: u64 = 1_000_000;
/// The first line of `/proc/stat` is shorter.
const LINE_BYTES: usize = 256;
/// The kernel counts processor time in hundredths of a second on every Linux there is.
const US_PER_CLOCK_TICK: u64 = 10_000;

/// Measures [`SpareCores`]; 0 if the system does not report it.
#[derive(Debug, Default)]
pub(super) struct SpareCoresProbe {
    times: Option<File>,
    cores: u64,
    /// How long that is valid.
    cores_until_us: u64,
    spare: SpareCores,
}

impl SpareCoresProbe {
    /// The last window's value, in thousandths of a core. Call it often; it measures when a window
    /// is over.
    pub(super) fn permille(&mut self, now_us: u64, mover_us: u64, node_us: u64) -> u64 {
        if self.spare.is_due(now_us) {
            let idle_us = self.idle_us();
            let cores = if idle_us.is_some() { self.cores(now_us) } else { 0 };
            let used = idle_us.map(|idle_us| CpuUsed { at_us: now_us, idle_us, mover_us, node_us });
            self.spare.measured(used, cores);
        }
        self.spare.permille()
    }

    fn idle_us(&mut self) -> Option<u64> {
        if self.times.is_none() {
            self.times = File::open("/proc/stat").ok();
        }
        let mut line = [0; LINE_BYTES];
        let length = self.times.as_ref()?.read_at(&mut line, 0).ok()?;
        idle_us(std::str::from_utf8(&line[..length]).ok()?)
    }

    /// As many as the node's affinity and control group allow.
    fn cores(&mut self, now_us: u64) -> u64 {
        if now_us >= self.cores_until_us {
            self.cores = available_parallelism().map_or(1, NonZero::get) as u64;
            self.cores_until_us = now_us + CORES_US;
        }
        self.cores
    }
}

/// Idle time of all cores, from the first line of `/proc/stat`: time without work, and time waiting for
/// disks.
fn idle_us(text: &str) -> Option<u64> {
    let mut fields = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().skip(3);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * US_PER_CLOCK_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_pacing::SPARE_WINDOW_US;

    #[test]
    fn idle_time_is_read_of_all_cores() {
        let text = "cpu  100 0 50 700 30 0 5 0 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(idle_us(text), Some(7_300_000));
        assert_eq!(idle_us("cpu  1 2 3\n"), None);
        assert_eq!(idle_us(""), None);
    }

    #[test]
    fn it_is_known_after_a_window() {
        let mut spare = SpareCoresProbe::default();
        assert_eq!(spare.permille(0, 0, 0), 0);
        assert_eq!(spare.permille(SPARE_WINDOW_US - 1, 0, 0), 0, "the window is not over");
        // A machine of several cores may or may not have some to spare: never more than there are.
        let cores = available_parallelism().map_or(1, NonZero::get) as u64;
        assert!(spare.permille(2 * SPARE_WINDOW_US, 0, 0) <= cores * 1000);
    }
}
