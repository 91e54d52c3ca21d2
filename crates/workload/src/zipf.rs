//! Zipfian ranks: rank r (from 0) with probability proportional to 1 / (r + 1)^theta.
//!
//! The generator is Gray et al., "Quickly generating billion-record synthetic databases", section 3.2, as in
//! YCSB: exact for the first two ranks, close for the others, one power per draw. Its constant zeta(n, theta)
//! is summed for the first records. The Euler-Maclaurin formula continues the sum, so any count costs the
//! same.

use crate::Random;

/// Terms of zeta that are summed before the formula takes over.
const SUMMED_TERMS: u64 = 10_000;

/// A generator of ranks below a fixed count.
#[derive(Clone, Debug)]
pub struct Zipfian {
    count: u64,
    zeta: f64,
    second: f64,
    eta: f64,
    alpha: f64,
}

impl Zipfian {
    /// Ranks in `0..count` with the skew `theta`.
    ///
    /// # Panics
    ///
    /// If the count is 0 or theta does not lie between 0 and 1, both excluded.
    pub fn new(count: u64, theta: f64) -> Zipfian {
        assert!(count > 0, "there is no rank below 0");
        assert!(theta > 0.0 && theta < 1.0, "theta lies between 0 and 1");
        let zeta = zeta(count, theta);
        let two = 1.0 + 0.5f64.powf(theta);
        Zipfian {
            count,
            zeta,
            second: two,
            eta: (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - two / zeta),
            alpha: 1.0 / (1.0 - theta),
        }
    }

    /// The next rank; 0 is the most likely.
    #[inline]
    pub fn next(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 || self.count == 1 {
            return 0;
        }
        if scaled < self.second || self.count == 2 {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * (u - 1.0) + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}

/// The sum of 1 / i^theta for i from 1 to n.
pub(crate) fn zeta(n: u64, theta: f64) -> f64 {
    let summed = n.min(SUMMED_TERMS);
    // From small to large terms, for accuracy.
    let head: f64 = (1..=summed).rev().map(|i| (i as f64).powf(-theta)).sum();
    if n == summed {
        return head;
    }
    let (from, to) = (summed as f64, n as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
    let slopes = theta / 12.0 * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0));
    head + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_equals_the_sum() {
        for theta in [0.01, 0.5, 0.99] {
            for n in [1, 2, 9_999, 10_000, 10_001, 1_000_000] {
                let sum: f64 = (1..=n).rev().map(|i: u64| (i as f64).powf(-theta)).sum();
                let relative = (zeta(n, theta) - sum).abs() / sum;
                assert!(relative < 1e-12, "theta {theta}, n {n}: off by {relative}");
            }
        }
    }

    #[test]
    fn zeta_equals_the_constant_of_ycsb() {
        // ScrambledZipfianGenerator.ZETAN: zeta(10^10, 0.99).
        assert!((zeta(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    /// The share of draws below a rank, against the exact distribution.
    #[test]
    fn draws_follow_the_distribution() {
        for (theta, count, tolerance) in [(0.99, 100_000, 0.02), (0.01, 10_000, 0.02), (0.8, 50, 0.03)] {
            let zipfian = Zipfian::new(count, theta);
            let mut random = Random::new(9, 0);
            let draws = 400_000;
            let mut counts = vec![0u32; count as usize];
            for _ in 0..draws {
                counts[zipfian.next(&mut random) as usize] += 1;
            }
            for below in [1, 2, 10, 40, count / 10, count / 2, count] {
                let below = below.min(count);
                let seen =
                    counts[..below as usize].iter().map(|&n| f64::from(n)).sum::<f64>() / f64::from(draws);
                let exact = zeta(below, theta) / zeta(count, theta);
                assert!(
                    (seen - exact).abs() < tolerance,
                    "theta {theta}, below {below}: {seen}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn small_counts_stay_in_range() {
        let mut random = Random::new(1, 1);
        for count in 1..6 {
            let zipfian = Zipfian::new(count, 0.99);
            let mut seen = vec![false; count as usize];
            for _ in 0..1000 {
                seen[zipfian.next(&mut random) as usize] = true;
            }
            assert!(seen.iter().all(|&seen| seen), "{count}");
        }
    }
}
