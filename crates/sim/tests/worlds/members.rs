//! Members that are away long: they are forgotten, and return as new ones. Or they return on an older copy of
//! their data directory, and are refused with advice.

use sidle_sim::{Plan, Simulation, Story};
use std::collections::BTreeMap;

const SEEDS: u64 = 60;

/// Every forgotten or refused node is a member in the end and holds only what it should: each run checks
/// that.
#[test]
fn members_are_forgotten_and_come_back() {
    let mut met = BTreeMap::<&str, u64>::new();
    for seed in 1..=SEEDS {
        let mut plan = Plan::of_cluster(seed);
        // With two nodes the second is soon part of a migration.
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
