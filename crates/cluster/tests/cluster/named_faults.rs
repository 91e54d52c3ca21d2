//! Tests of the tests: each known fault, when put back, fails the scenario written for it.

use crate::turned_back::a_turn_before_it_is_noted;
use crate::world::{BAD, World, assert_defined, chunks, state_named};
use sidle_cluster::{CommitFailure, NodeState, Refusal, Reply, Request};
use sidle_testbed::fixtures::node_id;
use sidle_types::{Fault, ProtocolVersion, Speaks};

const RANGE: (u64, u64) = (4, 9);

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::ActBeforeCommit, a_commit_fails_and_the_coordinator_dies),
    (Fault::GivenBackThoughSent, the_target_of_a_source_that_has_frozen_is_silent),
    (Fault::SilenceCountsAsDeath, the_source_is_silent),
    (Fault::RequestExecutedTwice, requests_are_repeated),
    (Fault::AsksBeforeItJoined, a_copy_that_was_not_let_in_is_asked),
    (Fault::EndToldOnce, the_end_is_not_heard),
    (Fault::OlderMapAdopted, maps_come_late),
    (Fault::ReboundWithoutItsLog, the_source_restarts_without_its_data),
    (Fault::TurnedBeforeNoted, a_turn_before_it_is_noted),
    (Fault::RaisedBeforeAllSpeak, an_upgrade_is_asked_for_too_early),
    (Fault::RestartedTargetServesAtOnce, the_target_of_a_cut_off_source_restarts),
];

fn start(world: &mut World) {
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
}

fn ends_done(mut world: World) {
    world.settle();
    assert_defined(&mut world, 1, RANGE, 1, 2);
    assert_eq!(world.migration(1).unwrap().state, "done");
}

fn a_commit_fails_and_the_coordinator_dies() {
    let mut world = World::new(31, 3);
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.is_counted(1)));
    world.fail_commits(Some(CommitFailure::NotWritten));
    world.run_for(100_000);
    world.kill_coordinator();
    world.start_coordinator();
    ends_done(world);
}

fn the_target_of_a_cut_off_source_restarts() {
    let mut world = World::new(32, 3);
    world.node(2).stalled = true;
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.is_counted(1)));
    world.node(1).cut_off = true;
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    // Long enough for the map to be sent to the source, where it does not arrive.
    world.run_for(2_000);
    world.kill_node(2);
    world.start_node(2);
    world.run_for(5_000_000);
    world.node(1).cut_off = false;
    world.settle();
}

fn the_target_of_a_source_that_has_frozen_is_silent() {
    let mut world = World::new(35, 3);
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    world.run_for(3_000);
    world.node(2).cut_off = true;
    world.run_for(5_000_000);
    world.node(2).cut_off = false;
    ends_done(world);
}

fn the_source_is_silent() {
    let mut world = World::new(33, 3);
    world.node(2).stalled = true;
    start(&mut world);
    world.run_for(1_000_000);
    world.node(1).cut_off = true;
    world.run_for(5_000_000);
    world.node(1).cut_off = false;
    world.node(2).stalled = false;
    ends_done(world);
}

fn requests_are_repeated() {
    for seed in 0..10 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        let reply = world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
        assert!(state_named(&reply).is_some(), "seed {seed}: {reply:?}");
        ends_done(world);
    }
}

fn a_copy_that_was_not_let_in_is_asked() {
    let mut world = World::new(36, 3);
    let started = world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    assert!(state_named(&started).is_some(), "{started:?}");
    world.settle();
    world.kill_node(3);
    world.start_copy_of_node(3);
    // Its first request has the number of the member's first.
    let reply = world.ask(3, World::start(chunks(0, 0), 2));
    assert_eq!(reply, Reply::Refused(Refusal::NoAnswer));
    assert!(world.node(3).refused.is_some(), "it is not a member");
    assert!(world.status().nodes.iter().all(|node| (node.id == node_id(3)) == (node.state != NodeState::Up)));
}

fn the_end_is_not_heard() {
    let mut world = World::new(34, 3);
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    assert!(world.run_until(10_000_000, |world| !world.runs(1)));
    world.node(2).deaf = true;
    world.run_for(1_000);
    world.node(2).deaf = false;
    ends_done(world);
}

fn maps_come_late() {
    // One seed in ten meets the fault.
    for seed in 0..40 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
        ends_done(world);
    }
}

fn the_source_restarts_without_its_data() {
    let mut world = World::new(37, 3);
    world.node(2).stalled = true;
    start(&mut world);
    world.run_for(1_000_000);
    world.kill_node(1);
    world.start_node(1);
    world.node(2).stalled = false;
    world.settle();
    assert_eq!(world.migration(1).unwrap().state, "failed", "what had not arrived is lost");
}

fn an_upgrade_is_asked_for_too_early() {
    let old = Speaks::only(ProtocolVersion::PREVIOUS);
    let mut world = World::of_builds(35, &[old, Speaks::THIS_BUILD, old]);
    world.ask(2, Request::Upgrade);
    world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    ends_done(world);
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
