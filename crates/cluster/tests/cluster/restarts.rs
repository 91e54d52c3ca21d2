//! A fault at every step of a migration: whatever dies, and whenever, the migration ends in a defined state,
//! ownership is never doubled, and no read is stale (the world checks the latter two at every step).

use crate::world::{AHEAD, BAD, GOOD, World, assert_defined, chunks, node_id};
use sidle_cluster::{CommitFailure, NodeState};
use sidle_testbed::Quality;

const RANGE: (u64, u64) = (4, 9);

/// Starts a migration of [`RANGE`] from node 1 to node 2, asked for through node 3.
fn started(protocol: &str, seed: u64, links: Quality) -> World {
    let mut world = World::new(seed, 3);
    world.links = links;
    world.request(3, World::start_by(protocol, chunks(RANGE.0, RANGE.1), 2));
    world
}

/// How many steps such a migration takes, from request to end, and a few more.
fn steps_of(protocol: &str, seed: u64, links: Quality) -> u64 {
    let mut world = started(protocol, seed, links);
    let before = world.steps;
    world.run_until(60_000_000, |world| world.steps > before + 10 && world.is_settled());
    world.steps - before + 10
}

/// Runs `fault` before each step of a migration in turn, then `repair` a while later; checks how it ends, and
/// that the range can be moved afterwards.
fn at_every_step(
    seed: u64,
    links: Quality,
    fault: impl Fn(&mut World),
    repair: impl Fn(&mut World),
) -> Vec<String> {
    at_every_step_by("fulva", seed, links, fault, repair)
}

/// The same by any protocol.
pub(crate) fn at_every_step_by(
    protocol: &str,
    seed: u64,
    links: Quality,
    fault: impl Fn(&mut World),
    repair: impl Fn(&mut World),
) -> Vec<String> {
    let mut ends = Vec::new();
    let steps = steps_of(protocol, seed, links);
    assert!(steps > 20, "a migration takes more than {steps} steps");
    for step in 0..steps {
        let mut world = started(protocol, seed, links);
        let at = world.steps + step;
        world.run_until(60_000_000, |world| world.steps >= at);
        fault(&mut world);
        world.run_for(20_000);
        repair(&mut world);
        world.run_for(3_000_000);
        world.settle();
        assert_defined(&mut world, 1, RANGE, 1, 2);
        ends.push(world.migration(1).map_or("never".to_owned(), |status| status.state));

        world.links = GOOD;
        let next = if world.owner_of(RANGE.0) == node_id(1) { 2 } else { 1 };
        world.ask(3, World::start(chunks(RANGE.0, RANGE.1), next));
        world.settle();
        assert_eq!(world.owner_of(RANGE.0), node_id(next), "the range can be moved again");
    }
    ends
}

pub(crate) fn count(ends: &[String], state: &str) -> usize {
    ends.iter().filter(|end| *end == state).count()
}

#[test]
fn coordinator_restart_at_every_step_loses_nothing() {
    for (seed, links) in [(11, GOOD), (12, BAD)] {
        let ends = at_every_step(seed, links, World::kill_coordinator, World::start_coordinator);
        assert_eq!(count(&ends, "done"), ends.len(), "{ends:?}");
    }
}

#[test]
fn failed_commits_at_every_step_lose_nothing() {
    for failure in [CommitFailure::NotWritten, CommitFailure::Written] {
        let fault = |world: &mut World| world.fail_commits(Some(failure));
        let ends = at_every_step(13, GOOD, fault, |world| world.fail_commits(None));
        // The failure may have met the request itself: then it was refused.
        let refused = count(&ends, "never");
        assert_eq!(count(&ends, "done") + refused, ends.len(), "{ends:?}");
        assert!(refused <= 3, "{ends:?}");
    }
}

#[test]
fn a_coordinator_that_dies_with_a_failed_commit_acts_on_what_the_store_holds() {
    for failure in [CommitFailure::NotWritten, CommitFailure::Written] {
        let fault = |world: &mut World| {
            world.fail_commits(Some(failure));
            world.run_for(2_000);
            world.kill_coordinator();
        };
        let ends = at_every_step(14, GOOD, fault, World::start_coordinator);
        let refused = count(&ends, "never");
        assert_eq!(count(&ends, "done") + refused, ends.len(), "{ends:?}");
    }
}

#[test]
fn source_restart_at_every_step_ends_defined() {
    for (seed, links) in [(15, GOOD), (16, BAD)] {
        let ends = at_every_step(seed, links, |world| world.kill_node(1), |world| world.start_node(1));
        assert!(count(&ends, "failed") > 5 && count(&ends, "done") > 5, "{ends:?}");
    }
}

#[test]
fn target_restart_at_every_step_ends_defined() {
    for (seed, links) in [(17, GOOD), (18, BAD)] {
        let ends = at_every_step(seed, links, |world| world.kill_node(2), |world| world.start_node(2));
        assert!(count(&ends, "failed") > 5 && count(&ends, "done") > 5, "{ends:?}");
    }
}

#[test]
fn both_nodes_restart_at_every_step() {
    let fault = |world: &mut World| {
        world.kill_node(1);
        world.kill_node(2);
    };
    let repair = |world: &mut World| {
        world.start_node(2);
        world.run_for(50_000);
        world.start_node(1);
    };
    at_every_step(19, BAD, fault, repair);
}

#[test]
fn everything_restarts_at_every_step() {
    let fault = |world: &mut World| {
        world.kill_coordinator();
        (1..=3).for_each(|node| world.kill_node(node));
    };
    let repair = |world: &mut World| {
        world.start_coordinator();
        (1..=3).for_each(|node| world.start_node(node));
    };
    at_every_step(20, GOOD, fault, repair);
}

#[test]
fn a_node_that_is_cut_off_for_long_loses_nothing() {
    for cut in [1, 2] {
        let fault = |world: &mut World| {
            world.node(cut).cut_off = true;
            world.run_for(5_000_000);
        };
        let ends = at_every_step(21, GOOD, fault, |world| {
            world.node(cut).cut_off = false;
            let now = world.now;
            world.node(cut).connected(now);
        });
        assert!(count(&ends, "done") > 5, "{ends:?}");
    }
}

#[test]
fn the_target_of_a_cut_off_source_serves_nothing_after_its_restart() {
    // The only order in which a restart could double ownership. The target's new incarnation joins before the
    // source knows that the range is given away, so the target must not serve it yet.
    let mut world = World::new(22, 3);
    world.node(2).stalled = true;
    let running = |world: &World| world.runs(1);
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    world.run_until(10_000_000, |world| world.is_counted(1));
    world.node(1).cut_off = true;
    assert!(world.run_until(10_000_000, running));
    // Long enough for the map to be sent to the source, where it does not arrive.
    world.run_for(2_000);
    world.kill_node(2);
    world.start_node(2);
    world.run_for(5_000_000);
    assert!(world.node(1).acknowledges(RANGE.0), "the source knows of nothing");
    assert!(!world.node(2).acknowledges(RANGE.0));
    let status = world.status();
    assert_eq!(status.migrations[0].state, "running");
    assert_eq!(status.nodes.iter().find(|node| node.id == node_id(1)).unwrap().state, NodeState::Failed);

    world.node(1).cut_off = false;
    world.settle();
    let status = world.migration(1).unwrap();
    assert_eq!(status.state, "failed");
    assert!(status.why.as_ref().is_some_and(|why| why.contains("restarted: it owns slots")), "{status:?}");
    assert!(world.node(2).acknowledges(RANGE.0) && !world.node(1).acknowledges(RANGE.0));
}

#[test]
fn a_source_restart_says_how_many_records_are_lost() {
    let mut world = World::new(23, 3);
    world.node(2).stalled = true;
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    world.run_for(1_000_000);
    world.kill_node(1);
    world.run_for(3_000_000);
    assert_eq!(world.migration(1).unwrap().state, "running", "silence is not death");
    world.start_node(1);
    world.settle();
    let status = world.migration(1).unwrap();
    assert!(status.why.unwrap().contains("restarted: lost up to 6 of 6 records"));
    assert!(world.node(2).acknowledges(RANGE.0), "the target serves what there is");
}

#[test]
fn a_late_message_of_an_earlier_life_is_not_acted_on() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3);
        world.links = BAD.within(50, 400_000);
        for round in 0..3 {
            world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2 - round % 2));
            let pause = world.below(600_000);
            world.run_for(pause);
            let number = 1 + (world.below(2) as u8);
            world.kill_node(number);
            world.start_node(number);
        }
        world.run_for(3_000_000);
        world.settle();
    }
}

#[test]
fn a_quiet_cluster_stays_quiet() {
    let mut world = World::new(24, 3);
    let (steps, commits) = (world.steps, world.coordinator().meta().commits());
    world.run_for(10_000_000);
    assert_eq!(world.coordinator().meta().commits(), commits);
    // Three nodes, four heartbeats a second, each with its timer and its answer.
    assert!(world.steps - steps < 3 * 10 * 4 * 5, "{} steps", world.steps - steps);
}

/// A paused machine suspected every node when it resumed, and gave up the migration in preparation.
#[test]
fn a_machine_that_stood_still_suspects_nobody() {
    let mut world = World::new(9, 3);
    world.request(1, World::start(chunks(4, 7), 2));
    world.run_for(200);
    assert!(!world.runs(1), "it is being prepared");
    world.now = world.now.plus_us(28_000_000);
    world.settle();
    assert_eq!(world.migration(1).unwrap().state, "done");
    // Silence still counts.
    world.kill_node(3);
    world.run_for(3_000_000);
    assert_eq!(world.status().nodes.iter().filter(|node| node.state == NodeState::Failed).count(), 1);
}

/// A coordinator that did not see a migration begin makes up neither how long it has run, nor how fast: what
/// had moved before did not move under its eyes.
#[test]
fn a_new_coordinator_does_not_know_how_long_a_migration_has_run() {
    for protocol in ["fulva", AHEAD] {
        let mut world = started(protocol, 1, GOOD);
        world.node(2).copy_steps = 100;
        let moves = |world: &World| if protocol == AHEAD { world.is_counted(1) } else { world.runs(1) };
        assert!(world.run_until(10_000_000, moves));
        world.run_for(2_000);
        world.kill_coordinator();
        world.run_for(20_000);
        world.start_coordinator();
        world.settle();
        let status = world.migration(1).unwrap();
        assert_eq!((status.state.as_str(), status.elapsed_us), ("done", 0), "{protocol}");
        world.ask(3, World::start_by(protocol, chunks(RANGE.0, RANGE.1), 1));
        world.settle();
        assert_ne!(world.migration(2).unwrap().elapsed_us, 0, "{protocol}: it has seen all of this one");
    }
}
