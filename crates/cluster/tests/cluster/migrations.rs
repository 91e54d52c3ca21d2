//! Migrations from request to end, over good and bad links.

use crate::world::{BAD, World, assert_defined, chunks, node_id, state_named};
use sidle_cluster::{MigrationState, Refusal, Reply, Request};
use sidle_testbed::Quality;
use sidle_types::{MigrationId, MigrationPolicy};

#[test]
fn a_migration_runs_to_its_end() {
    let mut world = World::new(1, 2);
    let reply = world.ask(1, World::start(chunks(4, 7), 2));
    assert_eq!(state_named(&reply), Some((MigrationId(1), MigrationState::Running)));
    world.settle();
    assert_defined(&mut world, 1, (4, 7), 1, 2);
    let status = world.migration(1).unwrap();
    assert_eq!((status.state.as_str(), status.fraction, status.records_moved), ("done", 1.0, 4));
    assert_eq!(world.reads.1, 0, "nothing is lost");
}

#[test]
fn there_and_back_again_over_bad_links() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        for (id, source, target) in [(1, 1, 2), (2, 2, 1), (3, 1, 3), (4, 3, 2)] {
            let reply = world.ask(3, World::start(chunks(4, 7), target));
            assert_eq!(state_named(&reply).map(|(id, _)| id.0), Some(id), "seed {seed}: {reply:?}");
            world.settle();
            assert_defined(&mut world, id, (4, 7), source, target);
            assert_eq!(world.migration(id).unwrap().state, "done", "seed {seed}");
        }
        assert_eq!(world.reads.1, 0, "seed {seed}: nothing is lost");
        assert!(world.reads.0 > 1_000);
    }
}

/// If the source knew first, it and the target would redirect clients to each other.
#[test]
fn the_target_uses_the_new_map_before_anybody_else_has_it() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        let before = world.node(2).map().unwrap().epoch();
        world.request(3, World::start(chunks(4, 7), 2));
        let mut steps_ahead = 0;
        while world.migration(1).is_none_or(|migration| migration.state != "done") {
            world.run_for(50);
            let running = world.node(2).map().is_some_and(|map| !map.migrations().is_empty());
            for other in [1, 3] {
                let knows = world.node(other).map().is_some_and(|map| map.epoch() > before);
                let used = world.node(2).map().unwrap().epoch();
                assert!(!knows || world.node(2).uses_epoch(used), "seed {seed}: node {other} is ahead");
                steps_ahead += u32::from(running && !knows);
            }
        }
        assert!(steps_ahead > 0, "seed {seed}: the target was never ahead");
    }
}

#[test]
fn a_source_redirects_nobody_to_a_target_that_does_not_know() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3);
        world.targets_come_first = true;
        // The coordinator's own node as source, as target, and as neither.
        for (source, target) in [(1, 2), (2, 3), (3, 1)] {
            let reply = world.ask(source, World::start(chunks(4, 7), target));
            assert!(state_named(&reply).is_some(), "{reply:?}");
            world.settle();
        }
    }
}

/// Each of two targets waited for the other to use the map, for ever.
#[test]
fn targets_of_two_migrations_do_not_wait_for_each_other() {
    let mut world = World::new(8, 4);
    world.ask(1, World::start(chunks(8, 9), 3));
    world.settle();
    world.request(1, World::start(chunks(0, 1), 2));
    world.request(1, World::start(chunks(8, 9), 4));
    assert!(world.run_until(5_000_000, |world| world.runs(2)));
    // The map in which the first runs is lost, and the second runs before it could be resent.
    world.node(2).deaf = true;
    assert!(world.run_until(100_000, |world| world.runs(3)));
    world.run_for(1_000);
    world.node(2).deaf = false;
    world.settle();
    for id in [2, 3] {
        assert_eq!(world.migration(id).unwrap().state, "done");
    }
}

#[test]
fn migrations_that_share_a_node_queue_in_order() {
    let mut world = World::new(3, 4);
    world.node(2).stalled = true;
    assert_eq!(world.ask(1, World::start(chunks(0, 1), 2)), started(1, MigrationState::Running));
    assert_eq!(world.ask(1, World::start(chunks(2, 3), 3)), started(2, MigrationState::Queued));
    assert_eq!(world.ask(2, World::start(chunks(4, 5), 2)), started(3, MigrationState::Queued));
    world.run_for(3_000_000);
    assert_eq!(world.migration(2).unwrap().state, "queued");
    world.node(2).stalled = false;
    let order = |world: &mut World| {
        let states = world.status().migrations.into_iter().map(|status| status.state).collect::<Vec<_>>();
        states.join(" ")
    };
    let mut seen = vec![order(&mut world)];
    for _ in 0..2_000 {
        world.run_for(100);
        if seen.last() != Some(&order(&mut world)) {
            seen.push(order(&mut world));
        }
    }
    assert_eq!(
        seen,
        [
            "running queued queued",
            "done preparing queued",
            "done running queued",
            "done done preparing",
            "done done running",
            "done done done"
        ]
    );
}

#[test]
fn a_queued_migration_waits_for_no_other_node() {
    let mut world = World::new(4, 4);
    world.ask(1, World::start(chunks(0, 7), 2));
    world.settle();
    world.node(3).stalled = true;
    assert_eq!(world.ask(1, World::start(chunks(8, 9), 3)), started(2, MigrationState::Running));
    assert_eq!(world.ask(1, World::start(chunks(0, 1), 4)), started(3, MigrationState::Running));
}

#[test]
fn cancel_is_free_until_it_runs() {
    let mut world = World::new(5, 3);
    world.node(2).stalled = true;
    world.ask(1, World::start(chunks(0, 1), 2));
    world.ask(1, World::start(chunks(2, 3), 3));
    // Queued.
    let cancelled = Reply::Cancelled { migration: MigrationId(2) };
    assert_eq!(world.ask(3, cancel(2)), cancelled);
    assert_eq!(world.ask(3, cancel(2)), cancelled, "twice is once");
    // Running.
    let refused = world.ask(3, cancel(1));
    assert_eq!(refused, Reply::Refused(Refusal::Running { migration: MigrationId(1), range: chunks(0, 1) }));
    world.node(2).stalled = false;
    world.settle();
    // Over.
    let refused = world.ask(3, cancel(1));
    assert_eq!(refused, Reply::Refused(Refusal::IsOver { migration: MigrationId(1), state: "done".into() }));
    let refused = world.ask(3, cancel(9));
    assert_eq!(
        refused,
        Reply::Refused(Refusal::UnknownMigration { migration: MigrationId(9), continues: None })
    );
    assert_eq!(world.owner_of(2), node_id(1));
}

#[test]
fn cancel_while_preparing_frees_what_the_target_made_ready() {
    for after in 0..12 {
        let mut world = World::new(6, 2);
        let start = world.request(1, World::start(chunks(0, 3), 2));
        let target = world.steps + after;
        world.run_until(1_000_000, |world| world.steps >= target);
        let reply = world.ask(2, cancel(1));
        world.settle();
        world.run_for(1_000_000);
        match world.migration(1).map(|status| status.state).as_deref() {
            Some("cancelled") => {
                assert_eq!(reply, Reply::Cancelled { migration: MigrationId(1) });
                assert_eq!(
                    world.replies[&start],
                    Reply::Refused(Refusal::CancelledMeanwhile { migration: MigrationId(1) })
                );
                assert_eq!(world.owner_of(0), node_id(1));
            }
            _ => assert!(matches!(reply, Reply::Refused(_)), "{reply:?}"),
        }
        assert!(world.node(2).holds_nothing());
        assert_eq!(world.ask(1, World::start(chunks(4, 7), 2)), started(2, MigrationState::Running));
    }
}

#[test]
fn the_history_keeps_the_last() {
    let mut world = World::new(7, 2);
    for round in 0..70 {
        world.ask(1, World::start(chunks(4, 4), if round % 2 == 0 { 2 } else { 1 }));
        world.settle();
    }
    let migrations = world.status().migrations;
    assert_eq!(migrations.len(), sidle_cluster::HISTORY);
    assert_eq!(migrations.last().unwrap().id, MigrationId(70));
}

#[test]
fn progress_is_reported_while_it_runs() {
    let mut world = World::new(8, 2);
    world.ask(1, World::start(chunks(0, 7), 2));
    let mut fractions = Vec::new();
    for _ in 0..100 {
        world.run_for(1_000);
        fractions.push(world.migration(1).unwrap().fraction);
    }
    assert!(fractions.is_sorted());
    assert_eq!(fractions.last(), Some(&1.0));
    world.node(1).stalled = true;
    world.ask(1, World::start(chunks(0, 7), 1));
    world.run_for(1_000_000);
    let status = world.migration(2).unwrap();
    assert_eq!(status.stalled.as_deref(), Some("told to"));
    assert_eq!((status.bytes_per_second, status.remaining_us), (0, None), "nothing promises an end");
    assert_eq!(status.partitions.len(), 8);
    assert_eq!(status.fraction, 0.0);
}

#[test]
fn a_migration_one_of_whose_nodes_is_not_heard_of_shows_why_its_progress_is_not_known() {
    for (silent, role, unknown) in [
        (1, "source", "what it still holds cannot arrive"),
        (2, "target", "what has arrived since is not known"),
    ] {
        let mut world = World::new(8, 3);
        world.node(2).stalled = true;
        world.ask(3, World::start(chunks(4, 7), 2));
        assert!(world.run_until(5_000_000, |world| world.runs(1)));
        // Until the source has given up the range, a target's death ends the migration.
        world.run_for(1_000_000);
        // The coordinator is on node 1, and survives it here.
        world.kill_node(silent);
        world.run_for(3_000_000);
        let status = world.migration(1).unwrap();
        let why = status.stalled.unwrap_or_default();
        assert!(why.starts_with(&format!("the {role} 10.0.0.{silent}:")), "{why}");
        assert!(why.contains("has not been heard of for 3 s: ") && why.contains(unknown), "{why}");
        assert_eq!((status.bytes_per_second, status.remaining_us), (0, None));
        assert_eq!(status.state, "running");
    }
}

fn cancel(migration: u64) -> Request {
    Request::Cancel { migration: MigrationId(migration) }
}

fn started(migration: u64, state: MigrationState) -> Reply {
    Reply::Started { migration: MigrationId(migration), state }
}

#[test]
fn a_policy_can_be_changed_until_the_migration_is_over() {
    let slow = MigrationPolicy::Rate { bytes_per_s: 1_000 };
    let fast = MigrationPolicy::Deadline { ms: 10 };
    let set = |id, policy| Request::SetPolicy { migration: MigrationId(id), policy };
    let done = |id| Reply::PolicySet { migration: MigrationId(id) };
    let mut changed = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        world.request(1, World::start(chunks(4, 7), 2));
        world.request(1, World::start(chunks(8, 9), 2));
        assert!(world.run_until(5_000_000, |world| world.runs(1)), "seed {seed}");
        // One runs and the other waits for it; or neither does, if a message took long.
        let replies = [set(1, slow), set(1, slow), set(2, fast)].map(|request| world.ask(3, request));
        world.kill_coordinator();
        if replies != [done(1), done(1), done(2)] {
            continue;
        }
        changed += 1;
        world.start_coordinator();
        let [first, second] = [1, 2].map(|id| world.migration(id).unwrap().policy);
        assert_eq!((first, second), (slow, fast), "seed {seed}: it is written down");
        let knows = |world: &mut World, node| {
            let map = world.node(node).map().cloned().unwrap();
            map.migration(MigrationId(1)).is_none_or(|record| record.policy == slow)
        };
        world.run_for(3_000_000);
        assert!([1, 2].into_iter().all(|node| knows(&mut world, node)), "seed {seed}: its nodes hear of it");
        world.settle();
        for (id, refusal) in [
            (1, Refusal::IsOver { migration: MigrationId(1), state: "done".to_owned() }),
            (77, Refusal::UnknownMigration { migration: MigrationId(77), continues: None }),
        ] {
            assert_eq!(world.ask(1, set(id, fast)), Reply::Refused(refusal), "seed {seed}");
        }
    }
    assert!(changed >= 10, "in only {changed} of 30 seeds both could be asked in time");
}

fn await_end(migration: u64, patience_us: u64) -> Request {
    Request::AwaitEnd { migration: MigrationId(migration), patience_us }
}

/// The state of migration 1 in a status.
fn state_in(reply: &Reply) -> &str {
    match reply {
        Reply::Status(report) => &report.migrations[0].state,
        other => panic!("{other:?} is no status"),
    }
}

/// Enough for an answer over good links; far less than the interval between repeats of a request.
const AT_ONCE_US: u64 = 20_000;

/// A migration of a part from node 1 to node 2, which runs without progress.
fn held(mut world: World) -> World {
    world.node(2).stalled = true;
    world.request(1, World::start(chunks(4, 7), 2));
    assert!(world.run_until(5_000_000, |world| world.runs(1)));
    world
}

#[test]
fn who_waits_for_an_end_hears_of_it_at_once_and_once() {
    for seed in 0..30 {
        let is_good = seed % 2 == 0;
        let mut world = World::new(seed, 3);
        if !is_good {
            world.links = Quality { doubled_permille: 500, ..BAD };
        }
        let mut world = held(world);
        let ticket = world.request(3, await_end(1, 5_000_000));
        world.run_for(1_000_000);
        assert!(!world.replies.contains_key(&ticket), "seed {seed}: it goes on");
        world.node(2).stalled = false;
        assert!(world.run_until(5_000_000, |world| !world.runs(1)), "seed {seed}");
        // A repeat of the request, 200 ms later, would be answered, too.
        world.run_for(if is_good { AT_ONCE_US } else { 1_000_000 });
        assert_eq!(state_in(&world.replies[&ticket]), "done", "seed {seed}");
        assert_eq!(state_in(&world.ask(3, await_end(1, 5_000_000))), "done", "seed {seed}: it is over");
    }
}

#[test]
fn who_waits_for_an_end_is_told_without_one_when_the_time_is_up() {
    let mut world = held(World::new(9, 2));
    let begun = world.now;
    assert_eq!(state_in(&world.ask(1, await_end(1, 700_000))), "running");
    let waited_us = world.now.since(begun);
    assert!((700_000..800_000).contains(&waited_us), "{waited_us} us");
    let unknown = Refusal::UnknownMigration { migration: MigrationId(77), continues: None };
    assert_eq!(world.ask(1, await_end(77, 700_000)), Reply::Refused(unknown));
}

#[test]
fn a_wait_outlives_the_coordinator_it_was_told() {
    let mut world = held(World::new(10, 2));
    let ticket = world.request(1, await_end(1, 5_000_000));
    world.run_for(300_000);
    world.kill_coordinator();
    world.start_coordinator();
    world.run_for(1_000_000);
    world.node(2).stalled = false;
    world.settle();
    world.run_for(1_000_000);
    assert_eq!(state_in(&world.replies[&ticket]), "done");
}

#[test]
fn waits_beyond_the_bound_are_answered_at_once() {
    let mut world = held(World::new(11, 40));
    let tickets: Vec<u64> = (1..=40)
        .flat_map(|node| [node; 30])
        .map(|node| world.request(node, await_end(1, 5_000_000)))
        .collect();
    world.run_for(500_000);
    let answered = tickets.iter().filter(|ticket| world.replies.contains_key(ticket)).count();
    assert_eq!(answered, 40 * 30 - sidle_cluster::limits::MAX_WAITS);
}
