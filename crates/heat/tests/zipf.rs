//! What one sample in 64 finds in a load of Zipf 0.99 over 100,000 keys.
//!
//! How many requests it takes: a key with share `p` of `n` requests is in about `n p / 64` samples, each an
//! independent draw, so its estimated share has a relative standard deviation of `sqrt(63 / (n p))` at most
//! (even gaps vary less than independent draws). The tenth key's share is `10^-0.99 / zeta(100,000, 0.99) =
//! 0.80 %`. For 10 % to be five deviations, `n p >= 63 * 50^2 = 157,500`, so `n >= 19.7` million. Four
//! workers with 2.5 million requests a second have that in two seconds.

use sidle_heat::{Access, Heat, Usage, WorkerHeat};
use sidle_types::{MonotonicUs, Position, WallMs};
use sidle_workload::{Random, Zipfian};

const KEYS: u64 = 100_000;
const WORKERS: usize = 4;
const REQUESTS_A_SECOND: usize = 2_500_000;
const BATCH: usize = 16;

#[test]
fn ten_hottest_keys_are_found_by_one_sample_in_64() {
    let heat = Heat::new(WORKERS);
    let mut workers: Vec<WorkerHeat> = (0..WORKERS).map(|_| WorkerHeat::default()).collect();
    workers.iter_mut().for_each(|worker| worker.tick(&heat, MonotonicUs(0), 1));
    let zipf = Zipfian::new(KEYS, 0.99);
    let (mut load, mut draws) = (Random::new(1, 0), Random::new(2, 0));
    let positions: Vec<Position> = (0..KEYS).map(|key| Position::of_key(&key.to_le_bytes())).collect();
    let mut truth = vec![0_u64; KEYS as usize];
    let mut samples = 0;
    for second in 1..=2 {
        for worker in &mut workers {
            for _ in 0..REQUESTS_A_SECOND / BATCH {
                let sampled = worker.plan(BATCH, || draws.next_u64());
                for place in 0..BATCH {
                    let key = zipf.next(&mut load);
                    truth[key as usize] += 1;
                    if sampled >> place & 1 != 0 {
                        worker.note(place, 30, 100);
                        let noted = worker.take_noted().expect("it was just noted");
                        let usage = Usage { operations: 1, ..Usage::default() }.times(noted.weight.into());
                        let position = positions[key as usize];
                        worker.record(&heat, WallMs(0), Access { position, key: &key.to_le_bytes(), usage });
                        samples += 1;
                    }
                }
            }
            worker.tick(&heat, MonotonicUs(second * 1_000_000), draws.next_u64());
        }
    }
    let requests = 2 * WORKERS * REQUESTS_A_SECOND;
    assert!((samples * 64_usize).abs_diff(requests) < requests / 100, "{samples}");
    let recent = heat.recent(2);
    let share = |count: u64| count as f64 / requests as f64;
    for key in 0..10_u64 {
        let position = positions[key as usize];
        // Neighbours differ by less than a tenth in their share: two may change places.
        let place = recent.keys.hottest().iter().position(|hot| hot.position == position);
        let place = place.unwrap_or_else(|| panic!("{key} is not named"));
        assert!(place.abs_diff(key as usize) <= 2, "{key} is at {place}");
        let hot = &recent.keys.hottest()[place];
        let found = hot.at_least() as f64 / recent.total().operations as f64;
        let is = share(truth[key as usize]);
        assert!((found / is - 1.0).abs() < 0.1, "{key}: {found}, {is}");
        assert_eq!(hot.key.bytes(), key.to_le_bytes());
    }
}
