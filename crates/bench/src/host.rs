//! The time that a machine's host takes from a run: a virtual machine stands still while its host runs other
//! programs, and measurements at that time describe the host, not the nodes.

use crate::machine::{processor_ticks, raise_own_priority};
use crate::report::Disturbance;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the watcher sleeps at a time: it uses a thousandth of a processor itself.
const NAP: Duration = Duration::from_millis(2);
/// A wake-up that is later than this is a stand-still. A thread of the highest priority waits for less where
/// only threads of a load are in its way.
const STILL: Duration = Duration::from_millis(5);
/// Above every priority of a load, a node or a prober.
const NICENESS: i32 = -20;

/// Sums up a sleeper's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stills {
    longest: Duration,
    sum: Duration,
}

impl Stills {
    fn woke_up(&mut self, late: Duration) {
        if late > STILL {
            self.longest = self.longest.max(late);
            self.sum += late;
        }
    }
}

/// Watches, on a thread of its own, until `end` is raised.
pub(crate) fn watch(end: &AtomicBool) -> Disturbance {
    // Without that right the thread would wait for the load, and measure that.
    let is_above_all = raise_own_priority(NICENESS);
    let before = processor_ticks();
    let mut stills = Stills::default();
    while !end.load(Ordering::Relaxed) {
        let asleep = Instant::now();
        std::thread::sleep(NAP);
        stills.woke_up(asleep.elapsed().saturating_sub(NAP));
    }
    let stolen = before.zip(processor_ticks()).and_then(|(before, after)| {
        let all = after.all.saturating_sub(before.all);
        (all > 0).then(|| after.stolen.saturating_sub(before.stolen) as f64 / all as f64)
    });
    let millis = |time: Duration| is_above_all.then_some(time.as_secs_f64() * 1e3);
    Disturbance { stolen, longest_still_ms: millis(stills.longest), still_ms: millis(stills.sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_waits_are_stand_stills() {
        let mut stills = Stills::default();
        for late_ms in [0, 5, 7, 30, 1] {
            stills.woke_up(Duration::from_millis(late_ms));
        }
        let millis = Duration::from_millis;
        assert_eq!(stills, Stills { longest: millis(30), sum: millis(37) });
    }

    #[test]
    fn a_watch_ends_and_gives_shares() {
        let end = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&end));
            std::thread::sleep(Duration::from_millis(50));
            end.store(true, Ordering::Relaxed);
            watcher.join().expect("it does not panic")
        });
        assert!(seen.stolen.is_none_or(|share| (0.0..=1.0).contains(&share)), "{seen:?}");
        assert_eq!(seen.longest_still_ms.is_some(), seen.still_ms.is_some());
        assert!(seen.longest_still_ms <= seen.still_ms, "{seen:?}");
    }
}
