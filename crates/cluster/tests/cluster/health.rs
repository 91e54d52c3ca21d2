//! Every node learns soon after the coordinator who is suspected, and who no longer is.

use crate::world::{BAD, GOOD, World, node_id};
use sidle_cluster::AgentInput;
use sidle_types::NodeId;
use std::collections::BTreeSet;

/// A silence that leads to suspicion, then two heartbeats with their answers.
const NOTICED_US: u64 = 2_000_000 + 2 * 250_000 + 50_000;

fn suspected(world: &mut World, by: u8) -> BTreeSet<NodeId> {
    world.node(by).suspected.clone()
}

fn set(numbers: &[u8]) -> BTreeSet<NodeId> {
    numbers.iter().map(|&number| node_id(number)).collect()
}

#[test]
fn a_dead_node_is_suspected_by_all_others_until_it_is_back() {
    let mut world = World::new(1, 4);
    world.kill_node(3);
    world.run_for(1_500_000);
    assert_eq!(suspected(&mut world, 1), set(&[]), "it may still be slow");
    world.run_for(NOTICED_US - 1_500_000);
    for by in [1, 2, 4] {
        assert_eq!(suspected(&mut world, by), set(&[3]), "node {by}");
    }
    world.kill_node(4);
    world.run_for(NOTICED_US);
    assert_eq!(suspected(&mut world, 2), set(&[3, 4]));
    world.start_node(3);
    world.run_for(500_000);
    for by in [1, 2, 3] {
        assert_eq!(suspected(&mut world, by), set(&[4]), "node {by}");
    }
    world.start_node(4);
    world.run_for(500_000);
    for by in 1..=4 {
        assert_eq!(suspected(&mut world, by), set(&[]), "node {by}");
    }
    assert_eq!(world.node(1).announcements, 4, "each change is announced once");
}

#[test]
fn a_silent_coordinator_makes_its_node_suspected_by_those_who_do_not_hear_of_it() {
    let mut world = World::new(2, 3);
    world.kill_node(3);
    world.run_for(NOTICED_US);
    world.kill_coordinator();
    world.run_for(NOTICED_US);
    assert_eq!(suspected(&mut world, 2), set(&[1, 3]), "what was heard last of the others still holds");
    assert_eq!(suspected(&mut world, 1), set(&[3]), "no node suspects itself");
    world.start_coordinator();
    world.run_for(NOTICED_US);
    assert_eq!(suspected(&mut world, 2), set(&[3]));
}

/// Node 2 has tried to reach another one.
fn tries(world: &mut World, other: u8, is_reached: bool) {
    let now = world.now;
    let agent = world.node(2).agent.as_mut().expect("node 2 runs");
    agent.handle(now, AgentInput::Tried(vec![node_id(other)], is_reached));
    world.run_for(1_000);
}

#[test]
fn without_the_coordinator_a_node_suspects_whom_it_does_not_reach() {
    let mut world = World::new(2, 4);
    world.kill_node(3);
    world.run_for(NOTICED_US);
    tries(&mut world, 4, false);
    assert_eq!(suspected(&mut world, 2), set(&[3]), "the coordinator's word counts while there is one");
    world.kill_coordinator();
    world.run_for(NOTICED_US);
    for (other, is_reached, by_all, alone) in [
        (4, true, &[1, 3][..], &[1][..]),
        (4, false, &[1, 3, 4], &[1, 4]),
        (3, false, &[1, 3, 4], &[1, 4]),
        (3, true, &[1, 4], &[1, 4]),
        (1, true, &[1, 4], &[1, 4]),
        (2, false, &[1, 4], &[1, 4]),
        (4, true, &[1], &[1]),
        (3, false, &[1, 3], &[1]),
    ] {
        tries(&mut world, other, is_reached);
        let known = (suspected(&mut world, 2), world.node(2).suspected_alone.clone());
        assert_eq!(known, (set(by_all), set(alone)), "{other}, {is_reached}");
    }
    tries(&mut world, 4, false);
    world.start_coordinator();
    world.run_for(NOTICED_US);
    assert_eq!((suspected(&mut world, 2), suspected(&mut world, 4)), (set(&[3]), set(&[3])));
}

#[test]
fn a_node_that_is_cut_off_suspects_the_coordinator_alone() {
    let mut world = World::new(3, 3);
    world.node(2).cut_off = true;
    world.run_for(NOTICED_US);
    assert_eq!(suspected(&mut world, 2), set(&[1]));
    assert_eq!(suspected(&mut world, 3), set(&[2]));
    world.node(2).cut_off = false;
    world.run_for(1_000_000);
    assert_eq!((suspected(&mut world, 2), suspected(&mut world, 3)), (set(&[]), set(&[])));
}

#[test]
fn lost_and_late_answers_leave_nobody_with_an_old_list() {
    for seed in 0..20 {
        let mut world = World::new(seed, 4);
        world.links = BAD.within(50, 100_000);
        for _ in 0..4 {
            world.kill_node(3);
            let pause = 2_000_000 + world.below(1_500_000);
            world.run_for(pause);
            world.start_node(3);
            let pause = world.below(1_500_000);
            world.run_for(pause);
        }
        world.links = GOOD;
        world.run_for(NOTICED_US);
        for by in 1..=4 {
            assert_eq!(suspected(&mut world, by), set(&[]), "seed {seed}, node {by}");
        }
    }
}
