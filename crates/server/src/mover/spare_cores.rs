//! How much of the machine's cores is left to a mover.

use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::thread::available_parallelism;

/// Over how long a time it is measured: the kernel tells idle time in hundredths of a second, for all cores together.
const WINDOW_US: u64 = 50_000;
/// What is longer was a rest: nobody asked while nothing moved, and what was idle then says nothing of now.
const REST_US: u64 = 4 * WINDOW_US;
/// How long it is believed how many cores the node may use: asking takes a score of system calls.
const CORES_US: u64 = 1_000_000;
/// The first line of `/proc/stat` is shorter.
const LINE_BYTES: usize = 256;
/// The kernel counts processor time in hundredths of a second on every Linux there is.
const US_PER_CLOCK_TICK: u64 = 10_000;

/// Processor time so far, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    at_us: u64,
    /// Of all cores of the machine, what nobody used.
    idle_us: u64,
    mover_us: u64,
    node_us: u64,
}

/// How much of the machine's cores is left to a mover, in thousandths of a core. 0 where the system does not tell.
#[derive(Debug, Default)]
pub(super) struct SpareCores {
    times: Option<File>,
    cores: u64,
    /// Until when that is believed.
    cores_until_us: u64,
    last: Option<Used>,
    permille: u64,
}

impl SpareCores {
    /// What it was in the last window. To be called often; measures when a window is over.
    pub(super) fn permille(&mut self, now_us: u64, mover_us: u64, node_us: u64) -> u64 {
        let is_due = self.last.is_none_or(|last| now_us.saturating_sub(last.at_us) >= WINDOW_US);
        if is_due {
            let now = self.idle_us().map(|idle_us| Used { at_us: now_us, idle_us, mover_us, node_us });
            self.permille = match (self.last, now) {
                (Some(last), Some(now)) => spare_permille(last, now, self.cores(now_us)),
                _ => 0,
            };
            self.last = now;
        }
        self.permille
    }

    fn idle_us(&mut self) -> Option<u64> {
        if self.times.is_none() {
            self.times = File::open("/proc/stat").ok();
        }
        let mut line = [0; LINE_BYTES];
        let length = self.times.as_ref()?.read_at(&mut line, 0).ok()?;
        idle_us(std::str::from_utf8(&line[..length]).ok()?)
    }

    /// As many as its affinity and its control group let the node use.
    fn cores(&mut self, now_us: u64) -> u64 {
        if now_us >= self.cores_until_us {
            self.cores = available_parallelism().map_or(1, NonZero::get) as u64;
            self.cores_until_us = now_us + CORES_US;
        }
        self.cores
    }
}

/// Idle time of all cores, of the first line of `/proc/stat`: time without work, and time that waited for disks.
fn idle_us(text: &str) -> Option<u64> {
    let mut fields = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().skip(3);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * US_PER_CLOCK_TICK)
}

/// What was idle or the mover's, but no more than what the rest of the node leaves of the cores that it may use.
fn spare_permille(before: Used, now: Used, cores: u64) -> u64 {
    let wall_us = now.at_us.saturating_sub(before.at_us).max(1);
    if wall_us > REST_US {
        return 0;
    }
    let permille = |us: u64, earlier_us: u64| us.saturating_sub(earlier_us) * 1000 / wall_us;
    let mover = permille(now.mover_us, before.mover_us);
    let others = permille(now.node_us, before.node_us).saturating_sub(mover);
    let unused = permille(now.idle_us, before.idle_us) + mover;
    unused.min((cores * 1000).saturating_sub(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_of_all_cores() {
        let text = "cpu  100 0 50 700 30 0 5 0 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(idle_us(text), Some(7_300_000));
        assert_eq!(idle_us("cpu  1 2 3\n"), None);
        assert_eq!(idle_us(""), None);
    }

    #[test]
    fn what_the_mover_uses_is_left_to_it() {
        let before = Used::default();
        let now = Used { at_us: 100_000, idle_us: 50_000, mover_us: 80_000, node_us: 180_000 };
        assert_eq!(spare_permille(before, now, 8), 1_300, "half a core is idle, and the mover has 0.8");
        assert_eq!(
            spare_permille(before, now, 2),
            1_000,
            "the workers use one of the two that the node may use"
        );
        assert_eq!(spare_permille(before, now, 1), 0);
        let after_a_rest = Used { at_us: REST_US + 1, idle_us: 8 * REST_US, ..now };
        assert_eq!(spare_permille(before, after_a_rest, 8), 0, "most of it was before anything moved");
    }

    #[test]
    fn it_is_known_after_a_window() {
        let mut spare = SpareCores::default();
        assert_eq!(spare.permille(0, 0, 0), 0);
        assert_eq!(spare.permille(WINDOW_US - 1, 0, 0), 0, "the window is not over");
        // A machine of several cores may or may not have some to spare: it is never more than there are.
        let cores = available_parallelism().map_or(1, NonZero::get) as u64;
        assert!(spare.permille(2 * WINDOW_US, 0, 0) <= cores * 1000);
    }
}
