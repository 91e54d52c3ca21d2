//! How long cuts take, from the request to the ownership: for so long at most nobody serves what a cut gives.
//!
//! Buckets are logarithmic: each power of two is divided into eight, so durations are exact to an eighth.

/// log2 of the number of buckets per power of two.
const FINENESS: u32 = 3;
/// log2 of the longest distinguished duration, in microseconds: 16 s.
const LONGEST: u32 = 24;
/// How many buckets there are.
pub const BUCKETS: usize = ((LONGEST - FINENESS + 1) as usize) << FINENESS;

/// How many cuts took how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutTimes([u64; BUCKETS]);

impl Default for CutTimes {
    fn default() -> CutTimes {
        CutTimes([0; BUCKETS])
    }
}

impl From<[u64; BUCKETS]> for CutTimes {
    fn from(buckets: [u64; BUCKETS]) -> CutTimes {
        CutTimes(buckets)
    }
}

impl CutTimes {
    /// Counts a cut.
    pub fn add(&mut self, us: u64) {
        self.0[bucket_of(us)] += 1;
    }

    /// How many cuts are in each bucket, from the shortest on.
    pub fn buckets(&self) -> &[u64; BUCKETS] {
        &self.0
    }

    /// How many cuts were counted.
    pub fn cuts(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The duration in microseconds that so many per cent of the cuts do not exceed, to an eighth; `None` if
    /// there were none.
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        let cuts = self.cuts();
        let wanted = (percent / 100.0 * cuts as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        found.map(longest_of)
    }
}

fn bucket_of(us: u64) -> usize {
    let us = us.min((1 << LONGEST) - 1);
    match us.checked_ilog2() {
        Some(power) if power > FINENESS => {
            let shift = power - FINENESS;
            ((shift as usize) << FINENESS) + (us >> shift) as usize
        }
        _ => us as usize,
    }
}

/// The longest duration of a bucket.
fn longest_of(bucket: usize) -> u64 {
    let shift = (bucket >> FINENESS).saturating_sub(1);
    let within = (bucket - (shift << FINENESS)) as u64;
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_durations_to_an_eighth() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let longest = longest_of(bucket);
            assert_eq!((bucket_of(next), bucket_of(longest)), (bucket, bucket), "{next} .. {longest}");
            assert!(longest - next <= next / 8, "{next} .. {longest}");
            next = longest + 1;
        }
        assert_eq!(next, 1 << LONGEST);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_of_the_cuts_counted() {
        let mut times = CutTimes::default();
        assert_eq!(times.percentile_us(50.0), None);
        (1..=1000).for_each(|us| times.add(us));
        let at = |percent| times.percentile_us(percent).unwrap();
        assert!((500..=563).contains(&at(50.0)) && (999..=1124).contains(&at(99.9)), "{}", at(50.0));
        assert_eq!((times.cuts(), at(0.0)), (1000, 1));
    }
}
