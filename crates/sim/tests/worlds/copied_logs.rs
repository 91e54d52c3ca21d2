//! Clusters whose nodes keep copies of each other's logs: of all seeds, one in 24 is of one.

use sidle_sim::plan::Plan;
use sidle_sim::simulation::Simulation;
use sidle_sim::story::Story;

/// Runs a seed of such a cluster. Returns how often these situations were met.
fn run<const COUNT: usize>(plan: fn(u64) -> Plan, seed: u64, whats: [&str; COUNT]) -> [u64; COUNT] {
    let summary = Simulation::new(seed, plan(seed), Story::silent())
        .run()
        .unwrap_or_else(|failure| panic!("seed {seed} at {} us: {}", failure.at_us, failure.violation));
    whats.map(|what| summary.met.get(what).copied().unwrap_or_default())
}

/// In the first two seeds a target's copies fell behind it, and a takeover met a counted migration.
#[test]
fn copies_that_count_have_everything_that_is_safe() {
    let seeds = [5025, 5065].into_iter().chain(1..=24);
    let read = seeds.map(|seed| run(Plan::of_copied_logs, seed, ["copies of a log read beside it"])[0]);
    let read: u64 = read.sum();
    assert!(read > 50, "{read} copies were read");
}

/// A takeover needs an owner that stays dead for a while, and here many do.
#[test]
fn what_is_taken_over_is_read_from_copies_and_from_fetched_ones() {
    let (mut taken_over, mut fetched) = (0, 0);
    let mut seeds = 1..=150;
    while taken_over <= 5 || fetched == 0 {
        let seed = seeds.next().expect("takeovers are met");
        let met = run(Plan::of_takeovers, seed, ["ranges taken over", "copies fetched"]);
        taken_over += met[0];
        fetched += met[1];
    }
}
