//! The generator behind every draw: xoshiro256++ (Blackman and Vigna), seeded through SplitMix64.

/// A seeded generator. Equal seeds and streams give equal draws, on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// SplitMix64's finisher: a bijection of 64 bits that looks random.
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Random {
    /// The generator of one stream (a client, a thread) of a run.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut x = mix(seed).wrapping_add(mix(!stream));
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(x)
        });
        Random { state }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in `0..bound`, each as likely as the others to within 2^-64 times the bound.
    ///
    /// # Panics
    ///
    /// If the bound is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_streams_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(0, 0), vec![0; 8]);
    }

    #[test]
    fn below_is_even() {
        let mut random = Random::new(3, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_600..10_400).contains(&count)), "{counts:?}");
    }

    #[test]
    fn unit_stays_below_one() {
        let mut random = Random::new(4, 0);
        let mean =
            (0..100_000).map(|_| random.unit()).inspect(|u| assert!((0.0..1.0).contains(u))).sum::<f64>();
        assert!((mean / 100_000.0 - 0.5).abs() < 0.005);
    }
}
