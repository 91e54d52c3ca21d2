//! Targets that die at the instant when their migration begins to run: nothing is lost that the source still
//! has whole.

use sidle_sim::{Plan, Simulation, Story};

const SEEDS: u64 = 40;

/// If the source was sent no map that gives the range away, the judges excuse no loss in it.
#[test]
fn a_target_that_dies_before_its_source_knows_costs_nothing() {
    let (mut deaths, mut given_back) = (0, 0);
    for seed in 1..=SEEDS {
        let mut plan = Plan::of_cluster(seed);
        let nemesis = &mut plan.nemesis;
        (nemesis.breaks, nemesis.cuts, nemesis.pauses) = (1, 0, 0);
        (nemesis.deaths, nemesis.disks, nemesis.targets_permille) = (0, 0, 700);
        (nemesis.starts_us, nemesis.rest_us, nemesis.follows_permille) = (0, plan.safety_us, 0);
        let summary = Simulation::new(seed, plan, Story::silent())
            .run()
            .unwrap_or_else(|failure| panic!("seed {seed} at {} us: {}", failure.at_us, failure.violation));
        deaths += summary.deaths;
        given_back += summary.met.get("given back").copied().unwrap_or(0);
    }
    assert!(given_back >= 60 && deaths > given_back, "{given_back} of {deaths}");
}
