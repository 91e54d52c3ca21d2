//! Nodes that restart with their durable logs in the middle of a migration: it goes on, and nothing is lost.
//! (The world takes no "absent" for an answer, since no value was lost with a process.)

use crate::restarts::{at_every_step_by, count};
use crate::world::{AHEAD, BAD, GOOD, World, chunks, node_id};
use sidle_testbed::Quality;

const RANGE: (u64, u64) = (4, 9);

/// Kills these nodes at every step of a migration, and starts them again in this order.
fn restarts_at_every_step(protocol: &str, seed: u64, links: Quality, nodes: &[u8]) -> Vec<String> {
    let fault = |world: &mut World| {
        for &node in nodes {
            world.node(node).keeps_log = true;
            world.kill_node(node);
        }
    };
    let repair = |world: &mut World| {
        for &node in nodes {
            world.start_node(node);
            world.run_for(20_000);
        }
    };
    at_every_step_by(protocol, seed, links, fault, repair)
}

#[test]
fn source_restart_at_every_step_loses_nothing() {
    for (seed, links) in [(41, GOOD), (42, BAD)] {
        let ends = restarts_at_every_step("fulva", seed, links, &[1]);
        // Before it runs a restart ends it.
        assert!(count(&ends, "done") > 40, "{ends:?}");
    }
}

#[test]
fn target_restart_at_every_step_loses_nothing() {
    for (seed, links) in [(45, GOOD), (46, BAD)] {
        let ends = restarts_at_every_step("fulva", seed, links, &[2]);
        assert!(count(&ends, "done") > 40, "{ends:?}");
    }
}

#[test]
fn restarts_of_both_nodes_at_every_step_lose_nothing() {
    for (seed, nodes) in [(47, [1, 2]), (48, [2, 1])] {
        for links in [GOOD, BAD] {
            let ends = restarts_at_every_step("fulva", seed, links, &nodes);
            assert!(count(&ends, "done") > 40, "{ends:?}");
        }
    }
}

#[test]
fn restarts_lose_nothing_of_a_range_that_is_copied_ahead() {
    for (seed, nodes) in [(51, &[1][..]), (52, &[2]), (53, &[1, 2]), (54, &[2, 1])] {
        let ends = restarts_at_every_step(AHEAD, seed, GOOD, nodes);
        assert!(count(&ends, "done") > 20, "{ends:?}");
    }
}

/// A migration that waits for its pulls, with durable logs at both ends.
fn stalled() -> World {
    let mut world = World::new(43, 3);
    world.node(2).stalled = true;
    for node in 1..=3 {
        world.node(node).keeps_log = true;
        world.kill_node(node);
        world.start_node(node);
    }
    world.run_for(5_000_000);
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    world.run_for(1_000_000);
    assert!(world.runs(1));
    world
}

fn goes_on(mut world: World) {
    world.node(2).stalled = false;
    world.settle();
    assert_eq!(world.migration(1).unwrap().state, "done");
    assert_eq!(world.owner_of(RANGE.0), node_id(2));
}

#[test]
fn a_source_may_restart_again_before_it_is_back() {
    let mut world = stalled();
    for _ in 0..3 {
        world.kill_node(1);
        world.start_node(1);
    }
    goes_on(world);
}

#[test]
fn a_migration_waits_for_its_nodes_and_says_so() {
    for node in [1, 2] {
        waits_and_says_so(node);
    }
}

fn waits_and_says_so(node: u8) {
    let mut world = stalled();
    world.kill_node(node);
    world.run_for(60_000_000);
    let status = world.migration(1).unwrap();
    assert_eq!(status.state, "running");
    let stalled = status.stalled.expect("it is down");
    assert!(stalled.contains("goes on when the node is back, with its durable log"), "{stalled}");
    world.start_node(node);
    goes_on(world);
}

#[test]
fn a_coordinator_that_dies_meanwhile_has_noted_what_the_node_has() {
    let mut world = stalled();
    world.kill_node(1);
    world.fail_commits(Some(sidle_cluster::CommitFailure::Written));
    world.start_node(1);
    world.run_for(1_000);
    world.kill_coordinator();
    world.start_coordinator();
    goes_on(world);
}

#[test]
fn a_log_that_was_begun_later_does_not_help() {
    let mut world = World::new(44, 3);
    world.node(2).stalled = true;
    world.kill_node(1);
    world.start_node(1);
    world.run_for(5_000_000);
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    world.run_for(1_000_000);
    assert!(world.runs(1));
    world.kill_node(1);
    world.node(1).keeps_log = true;
    world.node(1).log_since = 3;
    world.start_node(1);
    world.settle();
    assert_eq!(world.migration(1).unwrap().state, "failed");
}
