//! Latencies of one window: HDR histograms of two significant digits (1 %), by the answering node.

use crate::report::{MeanLatency, Percentiles};
use hdrhistogram::Histogram;

/// Longer latencies are counted as this long (two minutes); the maximum is kept exactly.
const LONGEST_NS: u64 = 120_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;

/// Latencies of one kind of operation in one window.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u32>,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        // It grows with its longest latency: an idle window costs next to nothing.
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("two digits are within the bounds");
        Latencies { histogram, max_ns: 0 }
    }
}

impl Latencies {
    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.record(latency_ns.clamp(1, LONGEST_NS)).expect("the histogram grows");
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("the histogram grows");
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The percentiles in microseconds, or `None` if nothing was counted.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (self.count() > 0).then(|| {
            let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns) as f64 / 1000.0;
            Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.max_ns as f64 / 1000.0 }
        })
    }

    /// The mean in microseconds, or `None` if nothing was counted.
    pub fn mean(&self) -> Option<MeanLatency> {
        let operations = self.count();
        (operations > 0).then(|| MeanLatency { operations, mean: self.histogram.mean() / 1000.0 })
    }

    pub(crate) fn reset(&mut self) {
        self.histogram.reset();
        self.max_ns = 0;
    }
}

/// The node whose answer an operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The first node of the load; if data moves, the source.
    Source,
    /// Any other.
    Target,
}

/// Latencies of one kind of operation, by the answering node.
#[derive(Clone, Debug, Default)]
pub struct ByNode {
    source: Latencies,
    target: Latencies,
}

impl ByNode {
    /// The latencies of one node's answers.
    #[inline]
    pub fn of(&mut self, node: AnsweredBy) -> &mut Latencies {
        match node {
            AnsweredBy::Source => &mut self.source,
            AnsweredBy::Target => &mut self.target,
        }
    }

    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.source.count() + self.target.count()
    }

    /// The latencies of both nodes' answers.
    pub fn both(&self) -> Latencies {
        let mut both = self.source.clone();
        both.add(&self.target);
        both
    }

    pub(crate) fn add(&mut self, other: &ByNode) {
        self.source.add(&other.source);
        self.target.add(&other.target);
    }

    pub(crate) fn reset(&mut self) {
        self.source.reset();
        self.target.reset();
    }

    /// The means of source and target.
    pub(crate) fn means(&self) -> [Option<MeanLatency>; 2] {
        [&self.source, &self.target].map(Latencies::mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_percent() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let percentiles = latencies.percentiles().unwrap();
        for (seen, exact) in [(percentiles.p50, 500.0), (percentiles.p99, 990.0), (percentiles.p999, 999.0)] {
            assert!((seen - exact).abs() / exact < 0.01, "{seen} is not {exact}");
        }
        assert_eq!(percentiles.max, 1000.0);
    }
}
