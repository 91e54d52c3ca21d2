//! Buckets of durations, or of any numbers: each power of two is divided into equally many.

/// A division into buckets. A histogram has a count for each.
#[derive(Clone, Copy, Debug)]
pub struct LogBuckets {
    /// log2 of the number of buckets per power of two.
    fineness: u32,
    /// Numbers from two to the power of this on are counted as the one before.
    bits: u32,
}

impl LogBuckets {
    /// Each power of two below two to the power of `bits` is divided into two to the power of `fineness`
    /// buckets: so close are the numbers of one.
    pub const fn new(fineness: u32, bits: u32) -> LogBuckets {
        assert!(fineness < bits && bits < u64::BITS, "there is a power of two to divide");
        LogBuckets { fineness, bits }
    }

    /// How many buckets there are.
    pub const fn count(self) -> usize {
        ((self.bits - self.fineness + 1) as usize) << self.fineness
    }

    /// A number's bucket.
    #[inline]
    pub const fn of(self, number: u64) -> usize {
        let most = (1 << self.bits) - 1;
        let number = if number < most { number } else { most };
        match number.checked_ilog2() {
            Some(power) if power >= self.fineness => {
                let shift = power - self.fineness;
                ((shift as usize) << self.fineness) + (number >> shift) as usize
            }
            _ => number as usize,
        }
    }

    /// The largest number of a bucket.
    pub const fn largest(self, bucket: usize) -> u64 {
        let shift = (bucket >> self.fineness).saturating_sub(1);
        let within = (bucket - (shift << self.fineness)) as u64;
        ((within + 1) << shift) - 1
    }

    /// The number that so many per cent of those counted do not exceed, to the width of its bucket; `None` if
    /// nothing was counted.
    pub fn percentile(self, counts: &[u64], percent: f64) -> Option<u64> {
        let all: u64 = counts.iter().sum();
        let wanted = ((percent / 100.0 * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = counts.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        found.map(|bucket| self.largest(bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers_and_are_as_fine_as_promised() {
        for (fineness, bits) in [(0, 1), (3, 24), (5, 37)] {
            let buckets = LogBuckets::new(fineness, bits);
            let mut first = 0;
            for bucket in 0..buckets.count() {
                let last = buckets.largest(bucket);
                assert_eq!((buckets.of(first), buckets.of(last)), (bucket, bucket), "{first} {last}");
                assert!((last - first) << fineness <= first, "{first} {last}");
                first = last + 1;
            }
            assert_eq!(first, 1 << bits);
            assert_eq!(buckets.of(u64::MAX), buckets.count() - 1);
        }
    }

    #[test]
    fn percentiles_are_of_what_was_counted() {
        let buckets = LogBuckets::new(3, 24);
        let mut counts = vec![0; buckets.count()];
        assert_eq!(buckets.percentile(&counts, 50.0), None);
        (1..=1000).for_each(|number| counts[buckets.of(number)] += 1);
        let at = |percent| buckets.percentile(&counts, percent).expect("something was counted");
        assert!((500..=563).contains(&at(50.0)) && (999..=1124).contains(&at(99.9)), "{}", at(50.0));
        assert_eq!((at(0.0), at(100.0), at(1000.0)), (1, buckets.largest(buckets.of(1000)), at(100.0)));
    }
}
