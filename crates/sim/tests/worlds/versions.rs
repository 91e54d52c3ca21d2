//! Clusters that a program of the previous version founded, whose nodes are restarted with this one.

use sidle_sim::{Plan, Simulation, Story};
use std::collections::BTreeMap;

/// How many of the clusters that seeds draw, at most.
const CLUSTERS: usize = 48;
/// In how many of them each situation is met.
const MET: u64 = 6;

/// Before the version is raised large values move whole, and then in pieces. Each run checks that nothing is
/// lost meanwhile, and that every frame is readable for its node.
#[test]
fn large_values_move_whole_until_the_version_is_raised() {
    let mut met = BTreeMap::<&str, u64>::new();
    let plans = (1..).map(|seed| (seed, Plan::of_cluster(seed)));
    for (seed, mut plan) in plans.filter(|(_, plan)| !plan.replacements.is_empty()).take(CLUSTERS) {
        plan.hosts.iter_mut().for_each(|host| host.piece_bytes = 500);
        let workload = &mut plan.workload;
        (workload.large_permille, workload.large_bytes) = (300, 10_000);
        let summary = Simulation::new(seed, plan, Story::silent())
            .run()
            .unwrap_or_else(|failure| panic!("seed {seed} at {} us: {}", failure.at_us, failure.violation));
        for what in ["versions raised", "large records whole", "pieces"] {
            *met.entry(what).or_default() += u64::from(summary.met.get(what).copied().unwrap_or(0) > 0);
        }
        if met.values().all(|&clusters| clusters >= MET) {
            return;
        }
    }
    panic!("each is to be met in {MET} clusters: {met:?}");
}
