//! Members that are away for long: they are forgotten, and come back as new ones, or on an older copy of
//! their data directory, on which they are not let in and are told what to do.

use sidle_sim::{Plan, Simulation, Story};
use std::collections::BTreeMap;

const SEEDS: u64 = 60;

/// Whoever was forgotten or refused is a member in the end and holds nothing that it should not: each run
/// sees to that.
#[test]
fn members_are_forgotten_and_come_back() {
    let mut met = BTreeMap::<&str, u64>::new();
    for seed in 1..=SEEDS {
        let mut plan = Plan::draw(seed);
        // With two nodes the second is soon in the middle of something.
        if plan.hosts.len() < 3 {
            continue;
        }
        plan.safety_us = plan.safety_us.max(20_000_000);
        plan.operator.forgets_permille = 700;
        let nemesis = &mut plan.nemesis;
        (nemesis.breaks, nemesis.cuts, nemesis.pauses, nemesis.disks) = (1, 1, 0, 0);
        (nemesis.deaths, nemesis.absences_permille, nemesis.targets_permille) = (4, 800, 0);
        (nemesis.starts_us, nemesis.rest_us, nemesis.lasts_us) = (0, 4_000_000, 1_000_000);
        let summary = Simulation::new(seed, plan, Story::silent())
            .run()
            .unwrap_or_else(|failure| panic!("seed {seed} at {} us: {}", failure.at_us, failure.violation));
        for what in ["forgotten", "older copies told what to set"] {
            *met.entry(what).or_default() += u64::from(summary.met.get(what).copied().unwrap_or(0) > 0);
        }
    }
    assert!(met["forgotten"] >= 8 && met["older copies told what to set"] >= 8, "{met:?}");
}
