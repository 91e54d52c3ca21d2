//! How long cuts take, from the request to the ownership: for so long at most nobody serves what a cut gives.

use sidle_types::LogBuckets;

/// Up to 16 s in microseconds, to an eighth.
const BUCKETS: LogBuckets = LogBuckets::new(3, 24);
/// How many buckets there are.
pub const CUT_TIME_BUCKETS: usize = BUCKETS.count();

/// How many cuts took how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutTimes([u64; CUT_TIME_BUCKETS]);

impl Default for CutTimes {
    fn default() -> CutTimes {
        CutTimes([0; CUT_TIME_BUCKETS])
    }
}

impl From<[u64; CUT_TIME_BUCKETS]> for CutTimes {
    fn from(buckets: [u64; CUT_TIME_BUCKETS]) -> CutTimes {
        CutTimes(buckets)
    }
}

impl CutTimes {
    /// Counts a cut.
    pub(crate) fn add(&mut self, us: u64) {
        self.0[BUCKETS.of(us)] += 1;
    }

    /// How many cuts are in each bucket, from the shortest on.
    pub fn buckets(&self) -> &[u64; CUT_TIME_BUCKETS] {
        &self.0
    }

    /// How many cuts were counted.
    pub fn cuts(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The duration in microseconds that so many per cent of the cuts do not exceed, to an eighth; `None` if
    /// there were none.
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        BUCKETS.percentile(&self.0, percent)
    }
}
