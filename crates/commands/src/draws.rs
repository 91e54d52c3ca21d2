//! Drawing by lot: HRANDFIELD and its like.

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
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Any of them.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())]) }
    }

    /// So many different ones, or all of them.
    pub(crate) fn some_of<T>(&mut self, mut all: Vec<T>, count: usize) -> Vec<T> {
        let count = count.min(all.len());
        for place in 0..count {
            let drawn = place + self.below(all.len() - place);
            all.swap(place, drawn);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_are_even_and_differ() {
        let all: Vec<usize> = (0..10).collect();
        let mut draws = Draws::new(7);
        let mut times = [0; 10];
        for _ in 0..10_000 {
            times[draws.one_of(&all).unwrap()] += 1;
        }
        assert!(times.iter().all(|times| (900..1_100).contains(times)), "{times:?}");
        assert_eq!(draws.one_of::<usize>(&[]), None);
        let mut times = [0; 10];
        for _ in 0..10_000 {
            let some: BTreeSet<usize> = draws.some_of(all.clone(), 3).into_iter().collect();
            assert_eq!(some.len(), 3);
            some.iter().for_each(|one| times[*one] += 1);
        }
        assert!(times.iter().all(|times| (2_800..3_200).contains(times)), "{times:?}");
        assert_eq!(draws.some_of(all.clone(), 99).len(), 10);
        assert!(draws.some_of(all, 0).is_empty());
    }
}
