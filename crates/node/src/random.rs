//! A worker's private stream of random bits: xorshift64* (Vigna, 2016), seeded from outside.

use std::cell::Cell;

/// Cheap pseudo-random bits for sampling; no secret depends on them.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: Cell<u64>,
}

impl Random {
    /// The stream of this seed; any seed is valid.
    pub(crate) fn new(seed: u64) -> Random {
        // The state must not be 0, and similar seeds must not give similar streams.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Random { state: Cell::new((mixed ^ (mixed >> 29)) | 1) }
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.state.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.state.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// True once in `one_in` times.
    #[inline]
    pub(crate) fn draw(&self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw_hits_about_as_often_as_requested() {
        for seed in 0..8 {
            let random = Random::new(seed);
            let hits = (0..100_000).filter(|_| random.draw(100)).count();
            assert!((800..1200).contains(&hits), "seed {seed}: {hits}");
        }
    }
}
