//! The distribution of one command's durations.
//!
//! Buckets are logarithmic: each power of two is divided into 32, so durations are exact to 3 %. Each worker
//! counts in its own table, made when the command first runs there; readers add the tables up.

use sidle_types::LogBuckets;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Up to 137 s in nanoseconds, to 3 %.
const BUCKETS: LogBuckets = LogBuckets::new(5, 37);
/// LATENCY HISTOGRAM shows how many calls took less than this, than twice this, and so on.
const SHORTEST_SHOWN_NS: u64 = 1024;

/// One worker's counts for one command; it alone writes.
#[derive(Debug, Default)]
pub(crate) struct Latencies(OnceLock<Box<[AtomicU64]>>);

impl Latencies {
    /// Counts calls of this duration each.
    #[inline]
    pub(crate) fn add(&self, ns: u64, calls: u64) {
        let buckets = self.0.get_or_init(|| (0..BUCKETS.count()).map(|_| AtomicU64::new(0)).collect());
        let bucket = &buckets[BUCKETS.of(ns)];
        // One writer: see [`Counter`](crate::Counter).
        bucket.store(bucket.load(Relaxed).wrapping_add(calls), Relaxed);
    }

    /// Starts again from nothing.
    pub(crate) fn reset(&self) {
        self.0.get().into_iter().flatten().for_each(|bucket| bucket.store(0, Relaxed));
    }
}

/// The sum of several workers' counts.
#[derive(Debug)]
pub(crate) struct Distribution {
    buckets: Vec<u64>,
    calls: u64,
}

impl Distribution {
    /// Adds up; `None` when nothing was counted.
    pub(crate) fn of<'l>(latencies: impl Iterator<Item = &'l Latencies>) -> Option<Distribution> {
        let mut sum = Distribution { buckets: Vec::new(), calls: 0 };
        for buckets in latencies.filter_map(|latencies| latencies.0.get()) {
            sum.buckets.resize(BUCKETS.count(), 0);
            for (sum, bucket) in sum.buckets.iter_mut().zip(buckets) {
                *sum += bucket.load(Relaxed);
            }
        }
        sum.calls = sum.buckets.iter().sum();
        (sum.calls > 0).then_some(sum)
    }

    /// How many calls were counted.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// The duration that so many per cent of the calls do not exceed, in nanoseconds, to 3 %.
    pub(crate) fn percentile_ns(&self, percent: f64) -> u64 {
        BUCKETS.percentile(&self.buckets, percent).expect("something was counted")
    }

    /// Powers of two, in microseconds (of 1024 ns, rounded down), with the number of shorter calls; only
    /// where it grows.
    pub(crate) fn steps(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let (mut seen, mut bucket, mut shown) = (0, 0, 0);
        for limit in (0..).map(|power| SHORTEST_SHOWN_NS << power) {
            while bucket < BUCKETS.count() && BUCKETS.largest(bucket) < limit {
                seen += self.buckets[bucket];
                bucket += 1;
            }
            if seen > shown {
                steps.push((limit / 1000, seen));
                shown = seen;
            }
            if seen == self.calls || bucket == BUCKETS.count() {
                break;
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_steps_are_of_what_was_counted() {
        assert!(Distribution::of([Latencies::default()].iter()).is_none());
        let (one, two) = (Latencies::default(), Latencies::default());
        one.add(900, 90);
        two.add(40_000, 9);
        two.add(2_000_000, 1);
        let sum = Distribution::of([&one, &two].into_iter()).expect("something was counted");
        assert_eq!(sum.calls(), 100);
        let near = |ns: u64, expected: u64| (expected..=expected + expected / 32).contains(&ns);
        assert!(near(sum.percentile_ns(50.0), 900) && near(sum.percentile_ns(0.0), 900));
        assert!(near(sum.percentile_ns(99.0), 40_000));
        assert!(near(sum.percentile_ns(99.9), 2_000_000) && near(sum.percentile_ns(100.0), 2_000_000));
        assert_eq!(sum.steps(), [(1, 90), (65, 99), (2097, 100)]);
        two.reset();
        assert_eq!(Distribution::of([&one, &two].into_iter()).expect("the other's").calls(), 90);
    }
}
