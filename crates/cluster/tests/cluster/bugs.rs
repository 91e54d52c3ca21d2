//! Tests of the tests: each known fault, put back by name, is seen by the scenario that tells its story.

use crate::world::{BAD, World, assert_defined, chunks, state_named};
use sidle_cluster::{Bugs, CommitFailure};

const RANGE: (u64, u64) = (4, 9);

/// A fault's name, and a scenario that holds without it only.
type Story = (&'static str, fn(Bugs));

/// Every fault, with its story.
const STORIES: &[Story] = &[
    ("act-before-commit", a_commit_fails_and_the_coordinator_dies),
    ("restarted-target-serves-at-once", the_target_of_a_cut_off_source_restarts),
    ("silence-counts-as-death", the_source_is_silent),
    ("request-executed-twice", requests_are_repeated),
    ("end-told-once", the_end_is_not_heard),
    ("older-map-adopted", maps_come_late),
];

fn start(world: &mut World) {
    world.request(3, World::start(chunks(RANGE.0, RANGE.1), 2));
}

fn ends_done(mut world: World) {
    world.settle();
    assert_defined(&mut world, 1, RANGE, 1, 2);
    assert_eq!(world.migration(1).unwrap().state, "done");
}

fn a_commit_fails_and_the_coordinator_dies(bugs: Bugs) {
    let mut world = World::with(31, 3, bugs);
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.is_counted(1)));
    world.fail_commits(Some(CommitFailure::NotWritten));
    world.run_for(100_000);
    world.kill_coordinator();
    world.start_coordinator();
    ends_done(world);
}

fn the_target_of_a_cut_off_source_restarts(bugs: Bugs) {
    let mut world = World::with(32, 3, bugs);
    world.node(2).stalled = true;
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.is_counted(1)));
    world.node(1).cut_off = true;
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    world.kill_node(2);
    world.start_node(2);
    world.run_for(5_000_000);
    world.node(1).cut_off = false;
    world.settle();
}

fn the_source_is_silent(bugs: Bugs) {
    let mut world = World::with(33, 3, bugs);
    world.node(2).stalled = true;
    start(&mut world);
    world.run_for(1_000_000);
    world.node(1).cut_off = true;
    world.run_for(5_000_000);
    world.node(1).cut_off = false;
    world.node(2).stalled = false;
    ends_done(world);
}

fn requests_are_repeated(bugs: Bugs) {
    for seed in 0..10 {
        let mut world = World::with(seed, 3, bugs);
        world.links = BAD;
        let reply = world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
        assert!(state_named(&reply).is_some(), "seed {seed}: {reply:?}");
        ends_done(world);
    }
}

fn the_end_is_not_heard(bugs: Bugs) {
    let mut world = World::with(34, 3, bugs);
    start(&mut world);
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    assert!(world.run_until(10_000_000, |world| !world.runs(1)));
    world.node(2).deaf = true;
    world.run_for(1_000);
    world.node(2).deaf = false;
    ends_done(world);
}

fn maps_come_late(bugs: Bugs) {
    // One seed in ten meets the fault.
    for seed in 0..40 {
        let mut world = World::with(seed, 3, bugs);
        world.links = BAD;
        world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
        ends_done(world);
    }
}

sidle_types::story_tests!(Bugs, STORIES);
