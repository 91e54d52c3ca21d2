//! A target that dies, is silent or gives up before the source knows of its migration costs nothing: the
//! range goes back to the source. The world checks at every step that nothing acknowledged is lost.

use crate::world::{AHEAD, World, chunks, info, node_id, start_of};
use sidle_cluster::{CommitFailure, CoordinatorInput, MigrationStatus, NodeSays, ToCoordinator};
use sidle_types::{MigrationId, Speaks};

const RANGE: (u64, u64) = (4, 9);

/// Nodes 1 and 2 at the moment at which the migration between them is committed as running.
fn just_committed(protocol: &str, seed: u64) -> World {
    let mut world = World::new(seed, 3);
    world.request(3, World::start_by(protocol, chunks(RANGE.0, RANGE.1), 2));
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    world
}

/// Asserts that the migration has ended, and the source owns the whole range and can move it.
fn assert_given_back(world: &mut World, what: &str) {
    world.settle();
    let status = world.migration(1).unwrap();
    let MigrationStatus { state, epoch, records_moved, .. } = &status;
    assert_eq!((state.as_str(), epoch.0, *records_moved), ("failed", 0, 0), "{status:?}");
    let why = status.why.unwrap();
    let says = [what, "nothing is lost; start the migration again"];
    assert!(says.iter().all(|part| why.contains(part)), "{why}");
    for chunk in RANGE.0..=RANGE.1 {
        assert_eq!(world.owner_of(chunk), node_id(1));
        assert!(world.node(1).acknowledges(chunk));
    }
    world.ask(3, World::start(chunks(RANGE.0, RANGE.1), 2));
    world.settle();
    assert_eq!(world.migration(2).unwrap().state, "done");
    assert_eq!(world.reads.1, 0, "nothing was lost");
}

#[test]
fn a_target_that_dies_before_the_source_knows_costs_nothing() {
    // The target has not received the map, uses it with some workers, has reported it.
    for after_us in [0, 200, 600] {
        for protocol in ["fulva", AHEAD] {
            for pause_us in [1_000, 4_000_000] {
                let mut world = just_committed(protocol, 41);
                world.run_for(after_us);
                world.kill_node(2);
                world.run_for(pause_us);
                assert!(world.node(1).acknowledges(RANGE.0), "the source serves on");
                world.start_node(2);
                let what = if pause_us < 1_000_000 { ") restarted, before" } else { ") is down, " };
                assert_given_back(&mut world, what);
            }
        }
    }
}

#[test]
fn a_silent_target_takes_the_range_from_nobody() {
    for protocol in ["fulva", AHEAD] {
        let mut world = just_committed(protocol, 42);
        world.run_for(200);
        world.node(2).cut_off = true;
        world.run_for(5_000_000);
        assert_eq!(world.migration(1).unwrap().state, "failed", "the source serves on, and may begin anew");
        world.node(2).cut_off = false;
        let now = world.now;
        world.node(2).connected(now);
        assert_given_back(&mut world, ") is down, the coordinator has not heard of it lately, before");
    }
}

#[test]
fn a_target_that_cannot_go_on_before_the_source_knows_costs_nothing() {
    let mut world = just_committed("fulva", 43);
    let body = NodeSays::Broken { migration: MigrationId(1), why: "no room".to_owned() };
    let (now, target) = (world.now, info(2, 1));
    let message = ToCoordinator { from: target.id, incarnation: target.incarnation, body };
    world.coordinator().handle(now, CoordinatorInput::Message(message));
    assert_given_back(&mut world, "cannot go on (no room), before");
}

#[test]
fn a_source_that_joins_again_is_told_nothing_before_the_target() {
    let mut world = just_committed("fulva", 44);
    let source = info(1, 1);
    let (client_addr, bus_addr) = (source.client_addr.clone(), source.bus_addr.clone());
    let body = NodeSays::Join {
        client_addr,
        bus_addr,
        cluster: None,
        start: Some(start_of(1)),
        speaks: Speaks::THIS_BUILD,
        log_since: None,
    };
    let message = ToCoordinator { from: source.id, incarnation: source.incarnation, body };
    let now = world.now;
    world.coordinator().handle(now, CoordinatorInput::Message(message));
    world.kill_node(2);
    world.run_for(4_000_000);
    world.start_node(2);
    assert_given_back(&mut world, ") is down, ");
}

/// While the record may contain the range's return, the source is sent no map that gives it away.
#[test]
fn a_return_that_may_be_written_down_keeps_the_map_from_the_source() {
    for failure in [CommitFailure::NotWritten, CommitFailure::Written] {
        for coordinator_dies in [false, true] {
            let mut world = just_committed("fulva", 45);
            world.node(2).cut_off = true;
            world.run_for(1_000_000);
            world.fail_commits(Some(failure));
            // Its silence is noticed, and the store holds the range's return, or not.
            let is_written = world.run_until(3_000_000, |world| !world.runs(1));
            assert_eq!(is_written, failure == CommitFailure::Written);
            // It sends again, and uses the map.
            world.node(2).cut_off = false;
            let now = world.now;
            world.node(2).connected(now);
            world.run_for(100_000);
            assert!(world.node(1).acknowledges(RANGE.0), "the source has heard of nothing");
            if coordinator_dies {
                world.kill_coordinator();
                world.start_coordinator();
            } else {
                world.fail_commits(None);
            }
            world.settle();
            let is_given_back = coordinator_dies && is_written;
            let state = world.migration(1).unwrap().state;
            assert_eq!(state, if is_given_back { "failed" } else { "done" });
            assert_eq!(world.reads.1, 0, "nothing was lost");
        }
    }
}

/// A new coordinator does not know to which nodes its predecessor sent the map.
#[test]
fn a_coordinator_that_opens_takes_the_map_for_sent() {
    let mut world = just_committed("fulva", 46);
    world.kill_coordinator();
    world.start_coordinator();
    world.kill_node(2);
    world.run_for(20_000);
    world.start_node(2);
    world.settle();
    let why = world.migration(1).unwrap().why.unwrap();
    assert!(why.contains(") restarted: it owns "), "{why}");
}
