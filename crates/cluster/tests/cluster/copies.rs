//! Copies made before the freeze, while the migration is prepared: they may take long, and leave no trace if
//! they fail.

use crate::restarts::{at_every_step_by, count};
use crate::world::{AHEAD, BAD, GOOD, World, assert_defined, chunks, node_id, state_named};
use sidle_cluster::{MigrationState, Refusal, Reply, Request};
use sidle_types::MigrationId;

const RANGE: (u64, u64) = (4, 9);

fn start(world: &mut World) -> Reply {
    world.ask(3, World::start_by(AHEAD, chunks(RANGE.0, RANGE.1), 2))
}

#[test]
fn a_copy_is_answered_and_shown_while_it_is_made() {
    let mut world = World::new(1, 3);
    world.node(2).copy_steps = 100;
    let reply = start(&mut world);
    assert_eq!(state_named(&reply), Some((MigrationId(1), MigrationState::Preparing)));
    world.run_for(150_000);
    let status = world.migration(1).unwrap();
    assert_eq!((status.state.as_str(), status.epoch.0, status.partitions.len()), ("preparing", 0, 6));
    assert!(status.records_moved > 0 && status.elapsed_us > 0, "{status:?}");
    assert_eq!(world.owner_of(RANGE.0), node_id(1));
    world.settle();
    assert_defined(&mut world, 1, RANGE, 1, 2);
    assert_eq!(world.migration(1).unwrap().state, "done");
    assert_eq!(world.reads.1, 0, "nothing is lost");
}

/// A copy with progress is never given up, however long it takes; one without progress is.
#[test]
fn a_copy_has_time_while_it_gets_on() {
    let mut world = World::new(2, 3);
    world.node(2).copy_steps = 50_000;
    start(&mut world);
    world.run_for(70_000_000);
    assert_eq!(world.migration(1).unwrap().state, "preparing");
    world.node(2).stalled = true;
    world.run_for(1_000_000);
    assert_eq!(world.migration(1).unwrap().stalled.as_deref(), Some("told to"));
    world.run_for(35_000_000);
    let status = world.migration(1).unwrap();
    let why = status.why.unwrap();
    assert!(why.contains("has not got on for 30 s (told to); nothing has changed"), "{why}");
    assert_eq!((status.records_moved, status.fraction), (0, 0.0), "nothing has moved");
    world.node(2).stalled = false;
    world.settle();
    assert!([1, 2, 3].into_iter().all(|node| world.node(node).holds_nothing()));
    assert_eq!(world.owner_of(RANGE.0), node_id(1));
}

#[test]
fn cancel_while_it_is_copied_leaves_no_trace() {
    for after in 0..30 {
        let mut world = World::new(3, 3);
        let ticket = world.request(3, World::start_by(AHEAD, chunks(RANGE.0, RANGE.1), 2));
        let at = world.steps + after;
        world.run_until(1_000_000, |world| world.steps >= at);
        let cancelled = world.ask(1, Request::Cancel { migration: MigrationId(1) });
        world.settle();
        world.run_for(1_000_000);
        let state = world.migration(1).map(|status| status.state);
        if state.as_deref() == Some("cancelled") {
            assert_eq!(cancelled, Reply::Cancelled { migration: MigrationId(1) });
            let meanwhile = Refusal::CancelledMeanwhile { migration: MigrationId(1) };
            let first = &world.replies[&ticket];
            let is_told = *first == Reply::Refused(meanwhile)
                || state_named(first) == Some((MigrationId(1), MigrationState::Preparing));
            assert!(is_told, "{first:?}");
            assert_eq!(world.owner_of(RANGE.0), node_id(1));
        }
        assert!([1, 2, 3].into_iter().all(|node| world.node(node).holds_nothing()), "after {after} steps");
    }
}

#[test]
fn coordinator_restart_at_every_step_loses_nothing() {
    let kill = World::kill_coordinator;
    let ends = at_every_step_by(AHEAD, 11, GOOD, kill, World::start_coordinator);
    assert_eq!(count(&ends, "done"), ends.len(), "{ends:?}");
}

#[test]
fn restarts_at_every_step_end_defined() {
    for (seed, node) in [(15, 1), (17, 2)] {
        let (kill, start) =
            (|world: &mut World| world.kill_node(node), |world: &mut World| world.start_node(node));
        let ends = at_every_step_by(AHEAD, seed, BAD, kill, start);
        assert!(count(&ends, "failed") > 5 && count(&ends, "done") > 5, "{ends:?}");
    }
}

#[test]
fn a_node_that_is_cut_off_at_every_step_ends_defined() {
    for cut in [1, 2] {
        let fault = |world: &mut World| {
            world.node(cut).cut_off = true;
            world.run_for(5_000_000);
        };
        let ends = at_every_step_by(AHEAD, 21, GOOD, fault, |world| {
            world.node(cut).cut_off = false;
            let now = world.now;
            world.node(cut).connected(now);
        });
        assert!(count(&ends, "done") > 5, "{ends:?}");
    }
}
