//! Drawing by lot: HRANDFIELD and its like.

use std::collections::BTreeMap;

/// Draws from one seed. No secret depends on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws { state: seed }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// So many different numbers below `end`, or all of them.
    pub(crate) fn distinct_below(&mut self, end: usize, count: usize) -> Vec<usize> {
        // A shuffle's first places. Only numbers that are not at their own place are kept.
        let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
        let count = count.min(end);
        let drawn = (0..count).map(|place| {
            let from = place + self.below(end - place);
            let here = moved.remove(&place).unwrap_or(place);
            if from == place { here } else { moved.insert(from, here).unwrap_or(from) }
        });
        drawn.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_are_even_and_differ() {
        let mut draws = Draws::new(7);
        let mut times = [0; 10];
        for _ in 0..10_000 {
            times[draws.below(10)] += 1;
        }
        assert!(times.iter().all(|times| (900..1_100).contains(times)), "{times:?}");
        // For each place how often it was which number.
        let mut times = [[0; 10]; 3];
        for _ in 0..10_000 {
            let some = draws.distinct_below(10, 3);
            assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), 3);
            some.iter().zip(&mut times).for_each(|(one, times)| times[*one] += 1);
        }
        assert!(times.iter().flatten().all(|times| (900..1_100).contains(times)), "{times:?}");
        assert_eq!(draws.distinct_below(10, 99).into_iter().collect::<BTreeSet<_>>().len(), 10);
        assert!(draws.distinct_below(10, 0).is_empty() && draws.distinct_below(0, 5).is_empty());
    }
}
