//! The longest time without a success.

use std::sync::atomic::{AtomicU64, Ordering};

/// Successes of many threads on one clock; returns the longest time between two of them within a watch.
///
/// A watch starts at the last success before it, so that a gap open at its start counts whole.
#[derive(Debug, Default)]
pub struct GapMeter {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl GapMeter {
    /// Records a success.
    #[inline]
    pub fn success(&self, now_ns: u64) {
        let last = self.last_ns.swap(now_ns, Ordering::Relaxed);
        // Threads may report slightly out of order.
        let gap = now_ns.saturating_sub(last);
        if last > 0 && gap > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.fetch_max(gap, Ordering::Relaxed);
        }
    }

    /// Starts a watch: forgets the longest gap.
    pub fn watch(&self) {
        self.longest_ns.store(0, Ordering::Relaxed);
    }

    /// The longest gap of the watch so far in milliseconds, including the one still open at `now_ns`; `None`
    /// if there was no success at all.
    pub fn longest_ms(&self, now_ns: u64) -> Option<f64> {
        let last = self.last_ns.load(Ordering::Relaxed);
        let open = now_ns.saturating_sub(last);
        (last > 0).then(|| self.longest_ns.load(Ordering::Relaxed).max(open) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_counts_open_gaps_at_both_ends() {
        let meter = GapMeter::default();
        assert_eq!(meter.longest_ms(5), None);
        meter.success(1_000_000);
        meter.success(9_000_000);
        meter.watch();
        meter.success(12_000_000);
        meter.success(13_000_000);
        assert_eq!(meter.longest_ms(13_500_000), Some(3.0), "from the last success before the watch");
        assert_eq!(meter.longest_ms(20_000_000), Some(7.0), "to the end of the watch");
    }
}
