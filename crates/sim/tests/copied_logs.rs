//! Clusters whose nodes keep copies of each other's logs: of all seeds, one in 24 is of one.

use sidle_sim::plan::Plan;
use sidle_sim::simulation::Simulation;
use sidle_sim::story::Story;

/// Runs seeds of such clusters, and adds what they met.
fn run(plan: fn(u64) -> Plan, seed: u64, met: &mut [u64; 3]) {
    let summary = Simulation::new(seed, plan(seed), Story::silent())
        .run()
        .unwrap_or_else(|failure| panic!("seed {seed} at {} us: {}", failure.at_us, failure.violation));
    let whats = ["copies of a log read beside it", "ranges taken over", "copies fetched"];
    for (met, what) in met.iter_mut().zip(whats) {
        *met += summary.met.get(what).copied().unwrap_or_default();
    }
}

#[test]
fn copies_that_count_have_everything_that_is_safe() {
    let mut met = [0; 3];
    // In the first two a target's copies fell behind it, and a takeover met a counted migration.
    for seed in [5025, 5065].into_iter().chain(1..=24) {
        run(Plan::of_copied_logs, seed, &mut met);
    }
    assert!(met[0] > 50, "{} copies were read", met[0]);
    // A takeover needs an owner that stays dead for a while, and here many do.
    let mut seeds = 1..=150;
    while met[1] <= 5 || met[2] == 0 {
        run(Plan::of_takeovers, seeds.next().expect("takeovers are met"), &mut met);
    }
}
