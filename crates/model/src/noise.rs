//! A machine's noise: its pace varies, like a virtual machine's whose host has other guests.
//!
//! The cost of the same work varies, for all threads alike. From one window of 100 ms to the next, a real
//! node's operations differ by a tenth or more at the same processor time, and so do its clients'. So the
//! worst of many windows is below their mean under any protocol. The pace is an Ornstein-Uhlenbeck process
//! (of the logarithm, so that it stays positive) with mean 1.

use sidle_workload::Random;

/// How long a pace is constant.
const STEP_NS: u64 = 10_000_000;
/// The fraction kept in the next step: 1/e after a tenth of a second. Windows of 100 ms then correlate with
/// their neighbours by half, like real ones.
const KEPT: f64 = 0.905;
/// The part of the pace's spread that is visible in windows of 100 ms, within two seconds.
const SHOWN: f64 = 0.8;

/// The current pace.
#[derive(Debug)]
pub(crate) struct Noise {
    random: Random,
    /// The standard deviation of the pace's logarithm.
    spread: f64,
    /// How many of these deviations the current pace is from the mean.
    level: f64,
    steps: u64,
    /// The cost of work relative to its average.
    pace: f64,
}

impl Noise {
    /// `thousandths`: how much operations differ between windows of 100 ms (their standard deviation relative
    /// to their mean).
    pub(crate) fn new(thousandths: u64, random: Random) -> Noise {
        Noise { random, spread: thousandths as f64 / 1000.0 / SHOWN, level: 0.0, steps: 0, pace: 1.0 }
    }

    /// The cost of work that starts now and costs `cost_ns` on average.
    pub(crate) fn of(&mut self, cost_ns: u64, now_ns: u64) -> u64 {
        if self.spread == 0.0 {
            return cost_ns;
        }
        while self.steps <= now_ns / STEP_NS {
            self.steps += 1;
            self.level = KEPT * self.level + (1.0 - KEPT * KEPT).sqrt() * normal(&mut self.random);
            self.pace = (self.spread * self.level - self.spread * self.spread / 2.0).exp();
        }
        (cost_ns as f64 * self.pace) as u64
    }
}

/// About normally distributed: mean 0, variance 1.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 100_000_000;

    /// The cost of each of this many windows.
    fn windows(thousandths: u64, windows: u64) -> Vec<f64> {
        let mut noise = Noise::new(thousandths, Random::new(5, 0));
        let mut cost = |at_ns| noise.of(1_000_000, at_ns) as f64;
        let mut window =
            |number| (0..100).map(|ms| cost(number * WINDOW_NS + ms * 1_000_000)).sum::<f64>() / 1e8;
        (0..windows).map(&mut window).collect()
    }

    /// Mean and standard deviation.
    fn moments(of: &[f64]) -> (f64, f64) {
        let mean = of.iter().sum::<f64>() / of.len() as f64;
        (mean, (of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / of.len() as f64).sqrt())
    }

    #[test]
    fn a_quiet_machine_keeps_its_pace() {
        assert!(windows(0, 50).iter().all(|&cost| cost == 1.0));
    }

    #[test]
    fn windows_differ_as_much_as_was_asked_and_their_mean_stays() {
        let windows = windows(120, 20_000);
        assert!((moments(&windows).0 - 1.0).abs() < 0.01, "{}", moments(&windows).0);
        let parts = windows.chunks(17).map(moments).map(|(mean, deviation)| deviation / mean);
        let (shown, _) = moments(&parts.collect::<Vec<_>>());
        assert!((shown - 0.12).abs() < 0.012, "{shown}");
    }

    #[test]
    fn a_window_resembles_the_next_by_half() {
        let windows = windows(120, 20_000);
        let (mean, deviation) = moments(&windows);
        let product = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
        let covariance = windows.windows(2).map(product).sum::<f64>() / windows.len() as f64;
        let correlation = covariance / deviation.powi(2);
        assert!((0.45..=0.65).contains(&correlation), "{correlation}");
    }
}
