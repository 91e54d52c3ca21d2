//! Which requests are sampled: all of them while a worker has little to do, one in 64 under load.
//!
//! The gaps between samples are drawn evenly from `1..=2n - 1`, so one in `n` requests is sampled and no
//! rhythm of the load meets the samples'. A sample stands for `n` requests.
//!
//! `n` follows the load of the second before, so that a worker takes about [`SAMPLES_A_WINDOW`] samples a
//! second: enough to name a key of 1 % within a few per cent, for less than a thousandth of a core. Above
//! that rate times [`SPARSEST`] more samples are taken, and their cost stays in proportion to the requests'.

/// The most requests that a sample stands for.
pub const SPARSEST: u32 = 64;
/// How many samples a worker takes a second; up to twice as many where `n` is doubled in time, and more only
/// where it is [`SPARSEST`] already.
pub const SAMPLES_A_WINDOW: u32 = 16_384;

/// Draws the requests of one worker.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// The next sampled request is so many ahead; 1: the next one. Never 0.
    left: u32,
    one_in: u32,
    /// Of the requests that were drawn last.
    weight: u32,
    /// Samples since `one_in` changed, or since the window began.
    samples: u32,
    /// Requests in this window, by the samples.
    requests: u64,
}

impl Default for Sampler {
    /// A sampler that knows no load yet, and so takes few samples.
    fn default() -> Sampler {
        Sampler { left: SPARSEST, one_in: SPARSEST, weight: SPARSEST, samples: 0, requests: 0 }
    }
}

impl Sampler {
    /// Draws among the next `requests` (32 at most): a bit for each, the first the lowest. `draw`: random
    /// bits.
    #[inline]
    pub fn plan(&mut self, requests: usize, draw: impl FnMut() -> u64) -> u32 {
        debug_assert!(requests <= 32, "a bit for each");
        let requests = requests as u32;
        if self.left > requests {
            self.left -= requests;
            return 0;
        }
        self.plan_samples(requests, draw)
    }

    #[cold]
    fn plan_samples(&mut self, requests: u32, mut draw: impl FnMut() -> u64) -> u32 {
        self.weight = self.one_in;
        let mut drawn: u32 = 0;
        let mut place = self.left;
        while place <= requests {
            drawn |= 1 << (place - 1);
            place += self.gap(draw());
        }
        self.left = place - requests;
        self.samples += drawn.count_ones();
        self.requests += u64::from(drawn.count_ones() * self.weight);
        if self.samples >= SAMPLES_A_WINDOW && self.one_in < SPARSEST {
            self.one_in *= 2;
            self.samples = 0;
        }
        drawn
    }

    /// How many requests each of those drawn last stands for.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Begins a new window, after one of `us` microseconds; `draw`: random bits.
    pub fn begin_window(&mut self, us: u64, draw: u64) {
        let a_second = u128::from(self.requests) * 1_000_000 / u128::from(us.max(1));
        let wanted = a_second.div_ceil(u128::from(SAMPLES_A_WINDOW)).clamp(1, u128::from(SPARSEST)) as u32;
        let one_in = wanted.next_power_of_two();
        (self.samples, self.requests) = (0, 0);
        if one_in != self.one_in {
            self.one_in = one_in;
            self.left = self.gap(draw);
        }
    }

    /// A gap of `1..=2n - 1`.
    fn gap(&self, random: u64) -> u32 {
        1 + (((random >> 32) * u64::from(2 * self.one_in - 1)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of this many requests, in batches of `batch`, and what they stand for.
    fn run(
        sampler: &mut Sampler,
        requests: usize,
        batch: usize,
        random: &mut impl FnMut() -> u64,
    ) -> [u64; 2] {
        let (mut samples, mut stand_for) = (0, 0);
        for _ in 0..requests / batch {
            let drawn = sampler.plan(batch, &mut *random);
            assert_eq!(drawn >> (batch - 1) >> 1, 0, "no bit beyond the batch");
            samples += u64::from(drawn.count_ones());
            stand_for += u64::from(drawn.count_ones() * sampler.weight());
        }
        [samples, stand_for]
    }

    fn random() -> impl FnMut() -> u64 {
        let mut state = 7_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        }
    }

    #[test]
    fn samples_stand_for_all_requests_in_batches_of_any_size() {
        for batch in [1, 3, 16, 32] {
            let mut sampler = Sampler::default();
            let [samples, stand_for] = run(&mut sampler, 640_000, batch, &mut random());
            assert!((9_800..10_200).contains(&samples), "{batch}: {samples}");
            assert_eq!(stand_for, samples * 64);
        }
    }

    #[test]
    fn a_quiet_worker_samples_every_request_and_a_busy_one_few() {
        let (mut sampler, mut random) = (Sampler::default(), random());
        sampler.begin_window(1_000_000, random());
        assert_eq!(run(&mut sampler, 16_000, 16, &mut random), [16_000, 16_000]);
        for (requests, one_in) in [(100_000, 8), (1_000_000, 64), (10_000_000, 64), (30_000, 2), (100, 1)] {
            run(&mut sampler, requests, 10, &mut random);
            sampler.begin_window(1_000_000, random());
            assert_eq!(sampler.one_in, one_in, "{requests}");
        }
        // What counts is the rate, not the length of the window.
        run(&mut sampler, 4_000, 10, &mut random);
        sampler.begin_window(100_000, random());
        assert_eq!(sampler.one_in, 4);
    }

    #[test]
    fn a_burst_after_silence_is_sampled_less_and_less_within_its_window() {
        let (mut sampler, mut random) = (Sampler::default(), random());
        sampler.begin_window(1_000_000, random());
        let [samples, stand_for] = run(&mut sampler, 4_000_000, 16, &mut random);
        // 16,384 at each of 1, 2, 4, 8, 16 and 32; the rest at 64.
        let before: u64 = 16_384 * 63;
        assert!(samples < 16_384 * 6 + (4_000_000 - before) / 64 + 1_000, "{samples}");
        assert!((3_960_000..4_040_000).contains(&stand_for), "{stand_for}");
    }
}
