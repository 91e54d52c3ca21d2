//! The durations from which a command is noted, and how much is kept: the parameters of SLOWLOG and LATENCY.

use sidle_commands::parse_i64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const SLOWER_THAN: &str = "slowlog-log-slower-than";
const LOG_LENGTH: &str = "slowlog-max-len";
const SPIKE: &str = "latency-monitor-threshold";
const TRACKING: &str = "latency-tracking";
const PERCENTILES: &str = "latency-tracking-info-percentiles";

/// The parameters as numbers, for hot paths.
#[derive(Debug)]
pub(crate) struct Thresholds {
    /// `slowlog-log-slower-than` in microseconds; `u64::MAX`: nothing is slow.
    slow_us: AtomicU64,
    /// `slowlog-max-len`.
    log_length: AtomicU64,
    /// `latency-monitor-threshold` in milliseconds; `u64::MAX`: nothing is a spike.
    spike_ms: AtomicU64,
    /// The shorter of both, in nanoseconds.
    notable_ns: AtomicU64,
    /// `latency-tracking`.
    tracks: AtomicBool,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            slow_us: AtomicU64::new(10_000),
            log_length: AtomicU64::new(128),
            spike_ms: AtomicU64::new(u64::MAX),
            notable_ns: AtomicU64::new(10_000_000),
            tracks: AtomicBool::new(true),
        }
    }
}

impl Thresholds {
    /// Durations from this on, in nanoseconds, belong into SLOWLOG, LATENCY or both.
    #[inline]
    pub(crate) fn notable_ns(&self) -> u64 {
        self.notable_ns.load(Relaxed)
    }

    /// Whether a duration belongs into SLOWLOG.
    pub(crate) fn is_slow(&self, ns: u64) -> bool {
        ns / 1000 >= self.slow_us.load(Relaxed)
    }

    /// Whether a duration belongs into LATENCY.
    pub(crate) fn is_spike(&self, ns: u64) -> bool {
        ns / 1_000_000 >= self.spike_ms.load(Relaxed)
    }

    /// The milliseconds from which a duration belongs into LATENCY; `None`: never.
    pub(crate) fn spike_ms(&self) -> Option<u64> {
        Some(self.spike_ms.load(Relaxed)).filter(|&ms| ms != u64::MAX)
    }

    /// How many entries SLOWLOG keeps.
    pub(crate) fn log_length(&self) -> u64 {
        self.log_length.load(Relaxed)
    }

    /// Whether the durations of commands are counted.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        self.tracks.load(Relaxed)
    }

    /// Applies a changed parameter; ignores others.
    pub(crate) fn apply(&self, name: &str, value: &str) {
        let number = value.parse::<i64>().ok();
        match (name, number) {
            (SLOWER_THAN, Some(us)) => self.slow_us.store(u64::try_from(us).unwrap_or(u64::MAX), Relaxed),
            (LOG_LENGTH, Some(length)) => self.log_length.store(length.max(0) as u64, Relaxed),
            (SPIKE, Some(ms)) => self.spike_ms.store(if ms > 0 { ms as u64 } else { u64::MAX }, Relaxed),
            (TRACKING, _) => self.tracks.store(value.eq_ignore_ascii_case("yes"), Relaxed),
            _ => return,
        }
        let slow_ns = self.slow_us.load(Relaxed).saturating_mul(1_000);
        let spike_ns = self.spike_ms.load(Relaxed).saturating_mul(1_000_000);
        self.notable_ns.store(slow_ns.min(spike_ns), Relaxed);
    }

    /// Why one of the parameters refuses this value, in Redis's words.
    pub(crate) fn objection(name: &str, value: &[u8]) -> Option<&'static str> {
        let number = |least: i64, otherwise| match parse_i64(value) {
            None => Some("argument couldn't be parsed into an integer"),
            Some(number) if number < least => Some(otherwise),
            Some(_) => None,
        };
        match name {
            SLOWER_THAN => number(-1, "argument must be between -1 and 9223372036854775807 inclusive"),
            LOG_LENGTH | SPIKE => number(0, "argument must be between 0 and 9223372036854775807 inclusive"),
            TRACKING if value.eq_ignore_ascii_case(b"yes") || value.eq_ignore_ascii_case(b"no") => None,
            TRACKING => Some("argument must be 'yes' or 'no'"),
            PERCENTILES => match percentiles(&String::from_utf8_lossy(value)) {
                None => Some("Invalid latency-tracking-info-percentiles parameters"),
                Some(list) if list.iter().all(|percent| (0.0..=100.0).contains(percent)) => None,
                Some(_) => {
                    Some("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
                }
            },
            _ => None,
        }
    }
}

/// The percentiles that INFO shows, from the parameter's value.
pub(crate) fn percentiles(value: &str) -> Option<Vec<f64>> {
    let words = value.split(' ').filter(|_| !value.is_empty());
    words.map(|word| word.parse().ok().filter(|percent: &f64| percent.is_finite())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_notes_from_the_shorter_threshold_on() {
        let thresholds = Thresholds::default();
        assert_eq!(thresholds.notable_ns(), 10_000_000);
        thresholds.apply("latency-monitor-threshold", "2");
        assert_eq!((thresholds.notable_ns(), thresholds.spike_ms()), (2_000_000, Some(2)));
        assert!(thresholds.is_spike(2_000_000) && !thresholds.is_spike(1_999_999));
        thresholds.apply("slowlog-log-slower-than", "-1");
        assert!(!thresholds.is_slow(u64::MAX - 1));
        thresholds.apply("latency-monitor-threshold", "0");
        assert_eq!((thresholds.notable_ns(), thresholds.spike_ms()), (u64::MAX, None));
        thresholds.apply("slowlog-log-slower-than", "0");
        assert!(thresholds.is_slow(0) && thresholds.notable_ns() == 0);
        thresholds.apply("latency-tracking", "NO");
        assert!(!thresholds.tracks());
    }

    #[test]
    fn objection_is_as_redis_words_it() {
        let objection = |name, value: &str| Thresholds::objection(name, value.as_bytes());
        assert_eq!(objection(SLOWER_THAN, "-1"), None);
        assert!(objection(SLOWER_THAN, "-2").is_some_and(|why| why.contains("between -1")));
        assert!(objection(SPIKE, "x").is_some_and(|why| why.contains("integer")));
        assert!(objection(TRACKING, "maybe").is_some() && objection(TRACKING, "Yes").is_none());
        assert!(objection(PERCENTILES, "50 x").is_some_and(|why| why.contains("Invalid")));
        assert!(objection(PERCENTILES, "101").is_some_and(|why| why.contains("between")));
        assert_eq!((objection(PERCENTILES, ""), objection(PERCENTILES, "0.5 100")), (None, None));
        assert_eq!(percentiles("50 99.9"), Some(vec![50.0, 99.9]));
    }
}
