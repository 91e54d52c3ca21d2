//! Three hundred million records in a laptop's memory: a sample.
//!
//! All popular records are stored. Of the others every k-th is, and represents k in bulk transfers: a pull of
//! them is charged k times, for processors and links. Operations are drawn over all records. A key that is
//! not stored is absent at the source and at the target alike. So the protocols treat it like a stored one:
//! they ask both ends, pull it ahead, remember it. Only its value's bytes are not transferred.

use sidle_workload::{Distribution, Scatter};

/// How many of the popular records are stored.
const POPULAR: u64 = 100_000;

/// The stored records.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    records: u64,
    /// One in this many of the records is stored.
    one_in: u64,
    /// The popular ones beside those, in ascending order.
    popular: Vec<u64>,
}

impl Sample {
    /// About `stored` of `records`, or all if there are no more. `seed`: the load's, which determines the
    /// popular ones.
    pub(crate) fn new(records: u64, stored: u64, distribution: Distribution, seed: u64) -> Sample {
        let one_in = records.div_ceil(stored.max(1)).max(1);
        let mut popular = Vec::new();
        if one_in > 1 {
            let count = POPULAR.min(stored / 4).min(records);
            popular = match distribution {
                Distribution::Zipf(_) => {
                    let scatter = Scatter::new(records, seed);
                    (0..count).map(|rank| scatter.place(rank)).collect()
                }
                Distribution::Uniform => Vec::new(),
                Distribution::Latest => (records - count..records).collect(),
            };
            popular.retain(|record| record % one_in != 0);
            popular.sort_unstable();
        }
        Sample { records, one_in, popular }
    }

    /// The stored records.
    pub(crate) fn stored(&self) -> impl Iterator<Item = u64> {
        (0..self.records).step_by(self.one_in as usize).chain(self.popular.iter().copied())
    }

    /// How many are stored.
    pub(crate) fn len(&self) -> u64 {
        self.records.div_ceil(self.one_in) + self.popular.len() as u64
    }

    /// Whether a record is stored.
    pub(crate) fn has(&self, record: u64) -> bool {
        record.is_multiple_of(self.one_in) || self.popular.binary_search(&record).is_ok()
    }

    /// How many records each represents in bulk transfers.
    pub(crate) fn weight(&self) -> f64 {
        self.records as f64 / self.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_small_number_of_records_is_stored_whole() {
        let sample = Sample::new(1000, 5000, Distribution::Zipf(0.99), 1);
        assert!(sample.stored().eq(0..1000));
        assert_eq!((sample.len(), sample.weight()), (1000, 1.0));
    }

    #[test]
    fn popular_records_are_stored_and_each_record_once() {
        let sample = Sample::new(1_000_000, 10_000, Distribution::Zipf(0.99), 7);
        let stored: BTreeSet<u64> = sample.stored().collect();
        assert_eq!(stored.len() as u64, sample.len());
        assert!((12_000..13_000).contains(&sample.len()), "{}", sample.len());
        let scatter = Scatter::new(1_000_000, 7);
        assert!((0..2_500).all(|rank| stored.contains(&scatter.place(rank))));
        assert!((0..1_000_000).step_by(37).all(|record| sample.has(record) == stored.contains(&record)));
        assert!((sample.weight() * sample.len() as f64 - 1e6).abs() < 1.0);
    }
}
