//! Simulations on several threads, each whole on one; results are delivered in the order of the seeds.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// The number of threads for this machine's processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `run` for one seed after the other on this many threads while `goes_on` allows it. Passes the results
/// to `hear` in the order of the seeds, until it breaks.
pub(crate) fn each<R: Send>(
    threads: usize,
    seeds: RangeInclusive<u64>,
    goes_on: impl Fn() -> bool + Sync,
    run: impl Fn(u64) -> R + Sync,
    mut hear: impl FnMut(u64, R) -> ControlFlow<()>,
) {
    // Strided from the first, so that the range can include the last possible seed.
    let (first, last) = seeds.into_inner();
    let steps = AtomicU64::new(0);
    let next = || {
        let step = goes_on().then(|| steps.fetch_add(1, Ordering::Relaxed))?;
        first.checked_add(step).filter(|seed| *seed <= last)
    };
    let (results, heard) = mpsc::channel();
    thread::scope(|scope| {
        for results in vec![results; threads] {
            scope.spawn(|| {
                let results = results;
                // After a break nobody receives any more.
                while let Some(seed) = next()
                    && results.send((seed, run(seed))).is_ok()
                {}
            });
        }
        let mut early = BTreeMap::new();
        let mut due = first;
        for (seed, result) in heard {
            early.insert(seed, result);
            while let Some(result) = early.remove(&due) {
                if hear(due, result).is_break() {
                    return;
                }
                due = due.wrapping_add(1);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_comes_is_heard_in_order_whoever_is_first() {
        let run = |seed: u64| {
            thread::sleep(Duration::from_millis(if seed.is_multiple_of(3) { 5 } else { 0 }));
            seed * 10
        };
        let mut all = Vec::new();
        each(
            4,
            5..=30,
            || true,
            run,
            |seed, result| {
                all.push((seed, result));
                ControlFlow::Continue(())
            },
        );
        assert_eq!(all, (5..=30).map(|seed| (seed, seed * 10)).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_heard_after_a_break_and_the_threads_end() {
        let mut heard = 0;
        each(
            2,
            1..=u64::MAX,
            || true,
            |seed| seed,
            |seed, _| {
                heard = seed;
                if seed == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(heard, 7);
    }

    #[test]
    fn the_last_seed_of_all_is_the_last() {
        let mut heard = Vec::new();
        let seeds = u64::MAX - 1..=u64::MAX;
        each(
            2,
            seeds.clone(),
            || true,
            |_| (),
            |seed, ()| {
                heard.push(seed);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(heard, seeds.collect::<Vec<_>>());
    }
}
