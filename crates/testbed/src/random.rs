//! Random numbers for tests: integers only, the same on every machine.

/// SplitMix64 (Steele, Lea and Flood 2014): small, fast, and any seed will do.
#[derive(Clone, Debug, Default)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from `low` (not 0) to `high` with an even spread over orders of magnitude: short times and
    /// small sizes are as frequent as long and large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        let within = (1 << bits) + self.below(1 << bits);
        within.clamp(low, high)
    }

    /// True once in `times` draws on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True with this probability per thousand.
    pub fn permille(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// An index into a list that is not empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// This many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.draw().to_le_bytes()).take(count).collect()
    }

    /// An independent stream: its draws do not affect this one's.
    pub fn fork(&mut self) -> Random {
        Random::new(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!(random.below(3) < 3);
            assert!((5..=7).contains(&random.between(5, 7)));
            assert!((3..=1000).contains(&random.magnitude(3, 1000)));
        }
        assert!((0..100).all(|_| random.one_in(1) && !random.permille(0) && random.permille(1000)));
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.draw() == other.draw()));
        assert_ne!(Random::new(7).draw(), Random::new(8).draw());
    }
}
