//! A recent average: the kernel's load tracking.

/// Time is divided into periods of this length. A period's weight decays by half in 32 periods.
const PERIOD_NS: u64 = 1_024_000;
const DECAY: f64 = 0.978_572;
/// Older periods have no weight.
const PERIODS_MAX: u64 = 1000;

/// The average of a value, dominated by the last tens of milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    level: f64,
    at_ns: u64,
    /// Of the current period, by nanoseconds.
    sum: u64,
}

impl Average {
    /// The value was this for a long time.
    #[cfg(test)]
    pub(super) fn of(level: f64) -> Average {
        Average { level, ..Average::default() }
    }

    /// The value was this since the last call.
    pub(super) fn advance(&mut self, value: u64, now_ns: u64) {
        if now_ns / PERIOD_NS - self.at_ns / PERIOD_NS > PERIODS_MAX {
            (self.at_ns, self.sum) = ((now_ns / PERIOD_NS - PERIODS_MAX) * PERIOD_NS, 0);
        }
        while self.at_ns < now_ns {
            let end_ns = (self.at_ns / PERIOD_NS + 1) * PERIOD_NS;
            self.sum += value * (end_ns.min(now_ns) - self.at_ns);
            if end_ns <= now_ns {
                let mean = self.sum as f64 / PERIOD_NS as f64;
                self.level = self.level * DECAY + mean * (1.0 - DECAY);
                self.sum = 0;
            }
            self.at_ns = end_ns.min(now_ns);
        }
    }

    pub(super) fn level(&self) -> f64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_recent_values() {
        let mut average = Average::default();
        average.advance(2, 1_000_000_000);
        assert!(average.level() > 1.98, "{}", average.level());
        average.advance(0, 1_000_000_000 + 32 * PERIOD_NS);
        assert!((0.96..1.04).contains(&average.level()), "{}", average.level());
        average.advance(1, 3_600_000_000_000);
        assert!((0.98..1.02).contains(&average.level()), "{}", average.level());
    }
}
