//! Keys of one slot that lie on several nodes, in commands over all of them: each is one change, while the
//! parts move (F8).

use sidle_client_core::Awareness;
use sidle_sim::clients::OtherSetup;
use sidle_sim::{Plan, Simulation, Story, Summary};
use sidle_types::Fault;

const SEEDS: u64 = 60;

/// Its groups are split. Nothing goes wrong, so that no command ends with an unknown effect.
fn plan(seed: u64) -> Option<Plan> {
    let mut plan = Plan::of_cluster(seed);
    if !plan.replacements.is_empty() || plan.is_tight {
        return None;
    }
    plan.workload.groups = 3;
    // It flushes one node after the other, and so a part of a group.
    plan.others.retain(|other| !matches!(other, OtherSetup::Surveyor(_)));
    plan.operator.splits_groups = true;
    plan.operator.rest_us = plan.operator.rest_us.min(plan.safety_us / 20);
    plan.hosts.iter_mut().for_each(|host| host.max_bytes_per_s = None);
    if plan.hosts.len() > 2 {
        // Of three owners of one slot, an opted-in client reads two by itself: that is not covered.
        plan.sessions.iter_mut().for_each(|session| session.awareness = Awareness::Plain);
        for other in &mut plan.others {
            if let OtherSetup::Bare(bare) = other {
                bare.is_aware = false;
            }
        }
    }
    let nemesis = &mut plan.nemesis;
    (nemesis.breaks, nemesis.cuts, nemesis.deaths, nemesis.disks) = (0, 0, 0, 0);
    // Shorter than the patience of whoever waits for another node's part.
    (nemesis.pauses, nemesis.lasts_us, nemesis.longest_us) = (1, 500_000, 500_000);
    Some(plan)
}

fn run(seed: u64, plan: Plan) -> Result<Summary, String> {
    let run = Simulation::new(seed, plan, Story::silent()).run();
    run.map_err(|failure| format!("seed {seed} at {} us: {}", failure.at_us, failure.violation))
}

#[test]
fn nobody_sees_half_of_a_command_over_a_split_slot() {
    let (mut groups, mut forwarded, mut woken) = (0, 0, 0);
    for (seed, plan) in (1..=SEEDS).filter_map(|seed| Some((seed, plan(seed)?))) {
        let summary = run(seed, plan).unwrap_or_else(|what| panic!("{what}"));
        let met = |what: &str| summary.met.get(what).copied().unwrap_or(0);
        groups += met("groups");
        forwarded += met("forwarded");
        woken += met("woken after a hold");
    }
    assert!(groups >= 5_000 && forwarded >= 500 && woken >= 50, "{groups} {forwarded} {woken}");
}

#[test]
fn parts_without_a_hold_are_seen() {
    let _in_effect = Fault::PartsWithoutHold.put_back();
    let mut plans = (1..=SEEDS).filter_map(|seed| Some((seed, plan(seed)?)));
    assert!(plans.any(|(seed, plan)| run(seed, plan).is_err()), "nobody has seen half of a command");
}
