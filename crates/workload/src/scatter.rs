//! Scattering: a permutation of the record numbers that separates popular records.
//!
//! YCSB hashes the rank and takes the remainder, which merges some records and never reaches others. A
//! permutation keeps the distribution exact. It multiplies and shifts on just enough bits, and repeats while
//! the result is out of range (fewer than two rounds on average).

use crate::random::mix;

/// A permutation of `0..count`, chosen by a seed.
#[derive(Clone, Debug)]
pub struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 2],
    offset: u64,
}

impl Scatter {
    /// The permutation of `0..count` with this seed.
    ///
    /// # Panics
    ///
    /// If the count is 0.
    pub fn new(count: u64, seed: u64) -> Scatter {
        assert!(count > 0, "there is nothing to scatter");
        let bits = (64 - (count - 1).leading_zeros()).max(1);
        Scatter {
            count,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            factors: [mix(seed ^ 0x5ca7) | 1, mix(!seed) | 1],
            offset: mix(seed.wrapping_add(0x7e2)),
        }
    }

    /// The record's place in the permutation.
    ///
    /// # Panics
    ///
    /// If the record is not below the count.
    #[inline]
    pub fn place(&self, record: u64) -> u64 {
        assert!(record < self.count, "the record lies outside");
        let mut x = record;
        loop {
            x = x.wrapping_add(self.offset).wrapping_mul(self.factors[0]) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(self.factors[1]) & self.mask;
            x ^= x >> self.shift;
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_a_permutation() {
        for count in [1, 2, 3, 7, 64, 65, 1000, 4097] {
            for seed in 0..5 {
                let scatter = Scatter::new(count, seed);
                let mut seen = vec![false; count as usize];
                for record in 0..count {
                    let place = scatter.place(record) as usize;
                    assert!(!std::mem::replace(&mut seen[place], true), "{count} {seed} {record}");
                }
            }
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let scatter = Scatter::new(1_000_000, 1);
        let near = (0..1000).filter(|&i| scatter.place(i).abs_diff(scatter.place(i + 1)) < 1000).count();
        assert!(near < 50, "{near}");
    }
}
