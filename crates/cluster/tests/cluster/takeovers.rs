//! What a dead node had goes to nodes with copies of its log, whatever is lost on the way.

use crate::world::{BAD, World, chunks, node_id};
use sidle_cluster::{
    CoordinatorInput, CoordinatorSays, Incarnation, LogBackup, LogCopies, NodeName, NodeSays, NodeState,
    Refusal, Reply, Request, TakeoverProgress, ToCoordinator,
};
use sidle_types::{LogId, MigrationId};

/// Nodes with logs, of which these have copies of node 2's, which owns half of the positions.
fn world(seed: u64, nodes: u8, backups: &[u8]) -> World {
    let mut world = World::with_logs(seed, nodes);
    world.ask(1, World::start(chunks(8, 15), 2));
    world.settle();
    keep_copies(&mut world, 2, 7, backups);
    world
}

/// The copies of the node's log, with this name, are at these nodes.
fn keep_copies(world: &mut World, node: u8, log: u8, backups: &[u8]) {
    let backup = |&number: &u8| LogBackup { node: node_id(number), incarnation: Incarnation(1) };
    let backups = backups.iter().map(backup).collect();
    let now = world.now;
    let copies = LogCopies { log: LogId([log; 16]), epoch: 1, backups, takeover_after_ms: None };
    world.node(node).ask_for_copies(now, copies);
    world.run_for(1_000_000);
}

fn take_over(world: &mut World, node: u8) -> Reply {
    world.ask(1, Request::TakeOver { node: NodeName::Id(node_id(node)), accepts_loss: false })
}

fn accept_loss_of(world: &mut World, node: u8) -> Reply {
    world.ask(1, Request::TakeOver { node: NodeName::Id(node_id(node)), accepts_loss: true })
}

fn die(world: &mut World, node: u8) {
    world.kill_node(node);
    world.run_for(2_500_000);
}

fn is_over(world: &World) -> bool {
    world.map().takeovers().is_empty()
}

#[test]
fn those_with_copies_take_over_what_a_dead_node_had_and_lose_nothing() {
    let mut world = world(1, 4, &[3, 4]);
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 }, "a repeated request");
    assert!(world.run_until(1_000_000, is_over));
    for chunk in 8..16 {
        assert_eq!(world.owner_of(chunk), node_id(if chunk < 12 { 3 } else { 4 }));
    }
    world.run_for(1_000_000);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 0 }, "repeated later still");
    let nothing = Refusal::OwnsNothing { node: world.shown(3) };
    world.ask(1, World::start(chunks(8, 11), 4));
    assert!(world.run_until(10_000_000, |world| !world.runs(2)));
    world.run_for(1_000_000);
    die(&mut world, 3);
    assert_eq!(take_over(&mut world, 3), Reply::Refused(nothing));
    // What the dead node had is read there, as it was acknowledged: the world looks at every step.
    world.ask(1, World::start(chunks(8, 15), 1));
}

/// What a node without a durable log takes over would be in its memory only.
#[test]
fn nodes_with_logs_of_their_own_take_over_if_there_are_any() {
    for has_log in [[true, true], [false, true], [false, false]] {
        let mut world = World::new(7, 4);
        for (node, keeps_log) in [(2, true), (3, has_log[0]), (4, has_log[1])] {
            world.kill_node(node);
            world.node(node).keeps_log = keeps_log;
            world.node(node).log_since = 2;
            world.start_node(node);
        }
        world.run_for(3_000_000);
        let reply = world.ask(1, World::start(chunks(8, 15), 2));
        assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
        world.settle();
        let backup = |number: u8| LogBackup { node: node_id(number), incarnation: Incarnation(2) };
        let backups = vec![backup(3), backup(4)];
        let now = world.now;
        let copies = LogCopies { log: LogId([7; 16]), epoch: 1, backups, takeover_after_ms: None };
        world.node(2).ask_for_copies(now, copies);
        world.run_for(1_000_000);
        die(&mut world, 2);
        let alone = has_log == [false, true];
        assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: if alone { 1 } else { 2 } });
        assert_eq!(world.owner_of(8), node_id(if alone { 4 } else { 3 }));
        assert_eq!(world.owner_of(15), node_id(4));
    }
}

/// A node that asked for it is taken over once it has been silent for so long, and not before.
#[test]
fn a_silent_node_is_taken_over_by_itself_if_it_asked_for_that() {
    let mut world = world(6, 4, &[3, 4]);
    let backup = |number: u8| LogBackup { node: node_id(number), incarnation: Incarnation(1) };
    let backups = vec![backup(3), backup(4)];
    let copies = LogCopies { log: LogId([7; 16]), epoch: 2, backups, takeover_after_ms: Some(5_000) };
    let now = world.now;
    world.node(2).ask_for_copies(now, copies);
    world.run_for(1_000_000);
    world.node(2).cut_off = true;
    world.run_for(4_500_000);
    assert_eq!(world.owner_of(8), node_id(2), "it is silent for less than five seconds");
    assert!(world.run_until(1_500_000, |world| !world.map().takeovers().is_empty()));
    assert!(world.run_until(1_000_000, is_over));
    assert_eq!([8, 15].map(|chunk| world.owner_of(chunk)), [node_id(3), node_id(4)]);
}

/// Why it is not is told once for each reason, and shown as long as that holds.
#[test]
fn why_a_silent_node_is_not_taken_over_by_itself_is_told() {
    let mut world = world(6, 4, &[3]);
    let backups = vec![LogBackup { node: node_id(3), incarnation: Incarnation(1) }];
    let copies = LogCopies { log: LogId([7; 16]), epoch: 2, backups, takeover_after_ms: Some(3_000) };
    let now = world.now;
    world.node(2).ask_for_copies(now, copies);
    world.run_for(1_000_000);
    world.kill_node(3);
    let why = |world: &mut World| {
        let status = world.status();
        let node = status.nodes.into_iter().find(|node| node.id == node_id(2)).expect("a member");
        node.not_taken_over
    };
    die(&mut world, 2);
    assert!(world.not_taken_over.is_empty() && why(&mut world).is_none(), "not yet");
    world.run_for(10_000_000);
    let is_down = why(&mut world).expect("it is shown");
    let copy = world.shown(3);
    assert!(
        is_down.contains(&format!("nobody can read its log (down, with a copy of it: {copy})")),
        "{is_down}"
    );
    assert_eq!(world.not_taken_over, [(node_id(2), is_down)], "once");
    world.start_node(3);
    world.run_for(5_000_000);
    let has_restarted = why(&mut world).expect("it is shown");
    assert!(has_restarted.contains(&format!("may be missing: {copy}")), "{has_restarted}");
    assert_eq!(world.not_taken_over[1..], [(node_id(2), has_restarted)], "once");
    world.start_node(2);
    world.run_for(5_000_000);
    assert_eq!((why(&mut world), world.not_taken_over.len()), (None, 2), "it is back");
}

/// A target that is to be taken over by itself. Only its source is left, and another node without a log.
#[test]
fn a_migration_that_keeps_a_silent_node_from_being_taken_over_is_named() {
    let mut world = moving(12, 3, &[]);
    world.kill_node(1);
    world.node(1).keeps_log = false;
    world.start_node(1);
    world.run_for(2_000_000);
    let backups = vec![LogBackup { node: node_id(2), incarnation: Incarnation(1) }];
    let copies = LogCopies { log: LogId([8; 16]), epoch: 1, backups, takeover_after_ms: Some(3_000) };
    let now = world.now;
    world.node(3).ask_for_copies(now, copies);
    world.run_for(1_000_000);
    die(&mut world, 3);
    world.run_for(10_000_000);
    let [(node, why)] = &world.not_taken_over[..] else { panic!("{:?}", world.not_taken_over) };
    assert!(*node == node_id(3) && why.contains("takes part in migration 2"), "{why}");
}

/// A new owner that dies before it has read everything has put nothing into its log that counts: another node
/// with a copy of the first one's log reads that.
#[test]
fn a_new_owner_that_dies_is_taken_over_with_what_it_had_not_read() {
    let mut world = world(8, 5, &[3, 4]);
    world.ask(1, World::start(chunks(0, 1), 3));
    world.settle();
    keep_copies(&mut world, 3, 9, &[4, 5]);
    die(&mut world, 2);
    world.node(3).deaf = true;
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    world.node(3).deaf = false;
    world.kill_node(3);
    world.run_for(2_500_000);
    assert_eq!(world.map().takeovers().len(), 1, "node 3 has not read its share");
    // Its own tablet in two shares, and that.
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 3 });
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 3 }, "a repeated request");
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 }, "node 2's is among them");
    let of_node_3 =
        |world: &World| world.map().takeovers().iter().filter(|one| one.is_of_node(node_id(3))).count();
    assert_eq!(of_node_3(&world), 3, "as everybody sees");
    assert!(world.run_until(1_000_000, is_over));
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 0 });
    assert_eq!([0, 1, 8, 11, 12].map(|chunk| world.owner_of(chunk)), [4, 5, 4, 4, 4].map(node_id));
    world.ask(1, World::start(chunks(0, 15), 1));
}

#[test]
fn a_new_owner_that_dies_is_not_taken_over_where_nobody_has_what_it_had_not_read() {
    let mut world = world(9, 5, &[3]);
    keep_copies(&mut world, 3, 9, &[4, 5]);
    die(&mut world, 2);
    world.node(3).deaf = true;
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 });
    world.kill_node(3);
    world.run_for(2_500_000);
    // Node 2 is not what to start: it has nothing any more.
    let (node, from) = (world.shown(3), world.shown(2));
    let why = format!(
        "nobody can read the log of {from} (down, with a copy of it: {node}); start one of these, or the node itself"
    );
    assert_eq!(take_over(&mut world, 3), Reply::Refused(Refusal::NoCopies { node, why }));
    // It goes on when it is back.
    world.node(3).deaf = false;
    world.start_node(3);
    assert!(world.run_until(10_000_000, is_over));
}

/// A new owner died, and the other copies of what it was to read are at nodes that have restarted.
#[test]
fn what_a_new_owner_had_not_read_is_read_from_copies_that_may_lack_their_end_if_that_is_accepted() {
    let mut world = world(9, 5, &[3, 5]);
    keep_copies(&mut world, 3, 9, &[4]);
    die(&mut world, 2);
    world.node(3).deaf = true;
    world.node(5).deaf = true;
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    world.node(5).deaf = false;
    assert!(world.run_until(1_000_000, |world| world.map().takeovers().len() == 1));
    world.kill_node(5);
    world.run_for(100_000);
    world.start_node(5);
    die(&mut world, 3);
    let Reply::Refused(Refusal::NoCopies { why, .. }) = take_over(&mut world, 3) else { panic!("refused") };
    let (is_down, has_restarted) = (world.shown(3), world.shown(5));
    assert!(why.contains(&format!("with a copy of it: {is_down}; restarted since")), "{why}");
    assert!(why.contains(&format!("may be missing: {has_restarted})")), "{why}");
    assert_eq!(accept_loss_of(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert!(world.run_until(5_000_000, is_over));
    assert_eq!([8, 15].map(|chunk| world.owner_of(chunk)), [5, 5].map(node_id));
}

/// A node that was taken over and is back has another log: it may fetch its former one, where nobody else can
/// read that. Were it taken over again, that is another death.
#[test]
fn a_node_that_is_back_takes_over_what_it_had_before_where_nobody_else_can() {
    for (dies_again, has_copies) in [(false, false), (true, false), (true, true)] {
        let mut world = world(15, 4, &[3]);
        for node in [1, 3, 4] {
            world.node(node).cannot_take_over = true;
        }
        die(&mut world, 2);
        assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 });
        world.node(2).set_aside(LogId([7; 16]));
        world.node(2).cannot_take_over = dies_again;
        world.start_node(2);
        world.run_for(2_000_000);
        if has_copies {
            keep_copies(&mut world, 2, 8, &[4]);
        }
        if dies_again {
            assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 }, "a repeated request");
            let is_its = |world: &World| world.map().takeovers()[0].owner == node_id(2);
            assert!(world.run_until(40_000_000, is_its), "it tries, too");
            die(&mut world, 2);
            assert_eq!(world.owner_of(8), node_id(2));
            assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 }, "what it had not read");
            assert_eq!(world.owner_of(8), node_id(3));
            world.node(3).cannot_take_over = false;
        }
        assert!(world.run_until(60_000_000, is_over));
        assert_eq!(world.owner_of(8), node_id(if dies_again { 3 } else { 2 }));
    }
}

/// A copy that is damaged, or a node without room: another one does it, unless all have failed.
#[test]
fn another_node_takes_over_what_one_cannot_read() {
    for both in [false, true] {
        let mut world = world(11, 4, &[3, 4]);
        world.node(3).cannot_take_over = true;
        world.node(4).cannot_take_over = both;
        // It has no copy, and could fetch one.
        world.node(1).cannot_take_over = true;
        die(&mut world, 2);
        assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
        assert_eq!(world.run_until(8_000_000, is_over), !both);
        world.node(4).cannot_take_over = false;
        // Node 3 keeps one of them until node 4 may try again.
        assert!(world.run_until(40_000_000, is_over));
        assert_eq!([8, 15].map(|chunk| world.owner_of(chunk)), [4, 4].map(node_id));
    }
}

/// A process whose connection has ended is not up for long any more.
#[test]
fn a_node_that_has_just_died_is_not_asked_to_take_over() {
    let mut world = world(12, 4, &[3, 4]);
    world.kill_node(2);
    world.run_for(2_000_000);
    world.kill_node(3);
    world.run_for(400_000);
    // The last that comes over a connection is its end.
    world.kill_node(3);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 });
    assert!(world.run_until(1_000_000, is_over));
    assert_eq!([8, 15].map(|chunk| world.owner_of(chunk)), [4, 4].map(node_id));
}

/// What has moved nothing yet ends, though others are before it in the queue.
#[test]
fn queued_migrations_of_a_dead_node_end_with_its_takeover() {
    let mut world = world(13, 4, &[3, 4]);
    world.node(3).stalled = true;
    world.ask(1, World::start(chunks(0, 1), 3));
    assert!(world.run_until(1_000_000, |world| world.runs(2)));
    world.ask(1, World::start(chunks(8, 9), 3));
    world.run_for(100_000);
    die(&mut world, 2);
    assert_eq!(state_of(&mut world, 3), "queued");
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    assert!(world.run_until(1_000_000, is_over));
    assert_eq!(state_of(&mut world, 3), "failed");
    assert!(world.runs(2));
}

#[test]
fn a_takeover_ends_whatever_is_lost_on_the_way() {
    for seed in 0..20 {
        let mut world = world(seed, 4, &[3, 4]);
        die(&mut world, 2);
        world.links = BAD;
        let reply = take_over(&mut world, 2);
        assert!(matches!(reply, Reply::TakesOver { .. }), "{reply:?}");
        let us = world.below(10_000);
        world.run_for(us);
        if seed % 2 == 0 {
            world.kill_coordinator();
            world.start_coordinator();
        }
        if seed % 3 == 0 {
            // A new owner restarts in the middle, and reads it again.
            world.kill_node(3);
            world.run_for(100_000);
            world.start_node(3);
        }
        assert!(world.run_until(30_000_000, is_over), "seed {seed}");
    }
}

#[test]
fn a_node_that_lives_after_all_is_no_member_before_it_starts_again() {
    let mut world = world(3, 4, &[3, 4]);
    world.node(2).cut_off = true;
    world.run_for(2_500_000);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    assert!(world.run_until(1_000_000, is_over));
    // It may serve stale reads until it hears of that, which is what leases are for.
    world.kill_node(2);
    world.node(2).cut_off = false;
    world.start_copy_of_node(2);
    world.run_for(2_000_000);
    let why = world.node(2).refused.clone().expect("it is refused");
    assert!(why.contains("taken over"), "{why}");
    world.kill_node(2);
    world.node(2).keeps_log = false;
    world.start_node(2);
    world.run_for(3_000_000);
    let status = world.status();
    let node = status.nodes.iter().find(|node| node.id == node_id(2)).expect("a member");
    assert_eq!((node.state, node.slots), (NodeState::Up, 0));
}

#[test]
fn what_cannot_be_taken_over_is_refused_with_the_reason() {
    let mut world = world(4, 4, &[3]);
    let node = world.shown(2);
    assert_eq!(take_over(&mut world, 2), Reply::Refused(Refusal::StillUp { node }));
    assert!(matches!(take_over(&mut world, 1), Reply::Refused(Refusal::Coordinates { .. })));
    // Its copy may lack the end since it restarted (Y7).
    die(&mut world, 3);
    world.start_node(3);
    world.run_for(3_000_000);
    die(&mut world, 2);
    let Reply::Refused(Refusal::NoCopies { why, .. }) = take_over(&mut world, 2) else { panic!("refused") };
    assert!(why.contains("restarted since") && why.contains("--accept-loss"), "{why}");
    assert_eq!(accept_loss_of(&mut world, 2), Reply::TakesOver { ranges: 1 });
    assert!(world.run_until(1_000_000, is_over));
    assert_eq!(take_over(&mut world, 3), Reply::Refused(Refusal::StillUp { node: world.shown(3) }));
}

/// A world in which chunks 8 and 9 are moving from node 2 to node 3, which has read none of them.
fn moving(seed: u64, nodes: u8, backups: &[u8]) -> World {
    let mut world = world(seed, nodes, backups);
    world.node(3).stalled = true;
    world.ask(1, World::start(chunks(8, 9), 3));
    assert!(world.run_until(1_000_000, |world| world.runs(2)));
    world
}

fn state_of(world: &mut World, migration: u64) -> String {
    let status = world.status();
    let state = status.migrations.iter().find(|shown| shown.id.0 == migration);
    state.map(|shown| shown.state.clone()).unwrap_or_default()
}

/// What had not arrived of a migration whose source died comes from the target's copy of its log.
#[test]
fn a_migration_goes_on_without_its_source_if_its_target_has_a_copy() {
    let mut world = moving(10, 4, &[3, 4]);
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 3 });
    let forgotten = world.ask(1, Request::Forget { node: NodeName::Id(node_id(2)) });
    assert!(matches!(forgotten, Reply::Refused(Refusal::TakesPart { .. })), "{forgotten:?}");
    world.run_for(1_000_000);
    assert_eq!(state_of(&mut world, 2), "running");
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 }, "a repeated request");
    world.node(3).stalled = false;
    assert!(world.run_until(5_000_000, |world| !world.runs(2)));
    assert_eq!(state_of(&mut world, 2), "done");
    assert!(is_over(&world));
    assert_eq!([8, 9, 10, 15].map(|chunk| world.owner_of(chunk)), [3, 3, 3, 4].map(node_id));
}

/// Whoever restarts meanwhile: the coordinator, the target, or the source, which has nothing any more.
#[test]
fn a_migration_without_its_source_ends_whatever_is_lost_on_the_way() {
    for seed in 0..30 {
        let mut world = moving(seed, 4, &[3, 4]);
        let us = world.below(20_000);
        if seed % 2 == 0 {
            world.node(3).stalled = false;
        }
        world.run_for(us);
        die(&mut world, 2);
        world.links = BAD;
        let reply = take_over(&mut world, 2);
        assert!(
            matches!(reply, Reply::TakesOver { .. } | Reply::Refused(Refusal::TakesPart { .. })),
            "{reply:?}"
        );
        world.node(3).stalled = false;
        if seed % 3 == 0 {
            world.kill_coordinator();
            world.start_coordinator();
        }
        if seed % 5 == 0 {
            world.kill_node(3);
            world.run_for(100_000);
            world.start_node(3);
        }
        if seed % 7 == 0 {
            world.node(2).keeps_log = false;
            world.start_node(2);
        }
        assert!(world.run_until(60_000_000, |world| !world.runs(2) && is_over(world)), "seed {seed}");
        assert_eq!(state_of(&mut world, 2), "done", "seed {seed}");
    }
}

/// Another node with a copy of the target's log takes its place: it reads that first, and goes on.
#[test]
fn a_migration_goes_on_with_another_node_in_place_of_its_target() {
    let mut world = moving(11, 5, &[4]);
    keep_copies(&mut world, 3, 8, &[2, 4, 5]);
    // That has a copy of the source's log as well.
    die(&mut world, 3);
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert_eq!([8, 9, 10].map(|chunk| world.owner_of(chunk)), [4, 4, 2].map(node_id));
    assert!(world.run_until(2_000_000, is_over));
    assert_eq!(state_of(&mut world, 2), "running");
    assert!(world.run_until(5_000_000, |world| !world.runs(2)));
    assert_eq!(state_of(&mut world, 2), "done");
    assert_eq!([8, 9, 10].map(|chunk| world.owner_of(chunk)), [4, 4, 2].map(node_id));
}

/// First the source died, and then the target that was to read the source's log. The only copy of that is at
/// a node that has restarted.
#[test]
fn a_dead_sources_log_is_read_for_a_dead_target_too_if_the_loss_is_accepted() {
    let mut world = moving(14, 5, &[4]);
    keep_copies(&mut world, 3, 8, &[5]);
    die(&mut world, 2);
    // What it owned, which the other node reads, and the migration.
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    assert!(world.run_until(5_000_000, is_over));
    world.kill_node(4);
    world.run_for(100_000);
    world.start_node(4);
    die(&mut world, 3);
    let Reply::Refused(Refusal::TakesPart { why, .. }) = take_over(&mut world, 3) else { panic!("refused") };
    let (source, has_restarted) = (world.shown(2), world.shown(4));
    let parts = [
        format!("nobody can read the log of its source {source}, which died as well (restarted since"),
        format!("may be missing: {has_restarted})"),
        "--accept-loss".to_owned(),
    ];
    assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    assert_eq!(accept_loss_of(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert!(world.run_until(5_000_000, |world| !world.runs(2) && is_over(world)));
    assert_eq!(state_of(&mut world, 2), "done");
    assert_ne!(world.owner_of(8), node_id(3));
}

/// What the new target is still to read is in another log than its own, which it may lose before that. And
/// nothing ends the migration before it has read it, not even a source that has lost what was to arrive.
#[test]
fn a_new_target_that_has_not_read_yet_may_lose_its_log_and_is_waited_for() {
    for (restarts, ends_as) in [(4, "done"), (2, "failed")] {
        let mut world = moving(13, 4, &[4]);
        keep_copies(&mut world, 3, 8, &[4]);
        // The other one could fetch a copy.
        world.node(1).cannot_take_over = true;
        world.node(4).cannot_take_over = true;
        die(&mut world, 3);
        assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 });
        world.kill_node(restarts);
        world.node(restarts).log_since = 2;
        world.start_node(restarts);
        world.run_for(2_000_000);
        assert!(!is_over(&world));
        assert_eq!(state_of(&mut world, 2), "running");
        world.node(4).cannot_take_over = false;
        // The other one may have it, and tries for half a minute.
        assert!(world.run_until(60_000_000, |world| !world.runs(2) && is_over(world)));
        assert_eq!(state_of(&mut world, 2), ends_as);
        assert_eq!(world.owner_of(8), node_id(4));
    }
}

/// The target of a migration is dead, and its source has the only copy of its log, and the only other log.
fn only_a_source_is_left() -> World {
    let mut world = moving(12, 3, &[]);
    world.kill_node(1);
    world.node(1).keeps_log = false;
    world.start_node(1);
    world.run_for(2_000_000);
    keep_copies(&mut world, 3, 8, &[2]);
    die(&mut world, 3);
    world
}

/// Only the source is left with a copy: it cannot give a range to itself, and nobody else can keep it.
#[test]
fn a_source_does_not_take_its_targets_place() {
    let mut world = only_a_source_is_left();
    let Reply::Refused(refusal @ Refusal::TakesPart { .. }) = take_over(&mut world, 3) else {
        panic!("refused")
    };
    let why = refusal.to_string();
    assert!(why.contains("migration 2") && why.contains("have one more join"), "{why}");
    let refused = |world: &mut World| world.status().nodes.into_iter().map(|node| node.takeover_refused);
    assert_eq!(refused(&mut world).collect::<Vec<_>>(), [None, None, Some(why)], "the status shows it");
    world.node(3).stalled = false;
    world.start_node(3);
    assert!(world.run_until(5_000_000, |world| !world.runs(2)));
}

/// As the refusal says: one more node with a log fetches what it lacks.
#[test]
fn a_node_that_joins_takes_a_targets_place_where_only_the_source_was_left() {
    let mut world = only_a_source_is_left();
    assert!(matches!(take_over(&mut world, 3), Reply::Refused(Refusal::TakesPart { .. })));
    world.kill_node(1);
    world.node(1).keeps_log = true;
    world.node(1).log_since = 3;
    world.start_node(1);
    world.run_for(2_000_000);
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert!(world.run_until(5_000_000, |world| !world.runs(2) && is_over(world)));
    assert_eq!(state_of(&mut world, 2), "done");
    assert_eq!(world.owner_of(8), node_id(1));
}

/// Only the source has a copy of its target's log: another node fetches that, one with a copy of the source's
/// log if there is any.
#[test]
fn a_node_without_a_copy_takes_a_targets_place() {
    let mut world = moving(12, 4, &[4]);
    keep_copies(&mut world, 3, 8, &[2]);
    die(&mut world, 3);
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert_eq!([8, 9, 10].map(|chunk| world.owner_of(chunk)), [4, 4, 2].map(node_id));
    assert!(world.run_until(5_000_000, |world| !world.runs(2)));
    assert_eq!(state_of(&mut world, 2), "done");
    assert!(is_over(&world));
}

/// The target fetches a copy of its source's log, whoever restarts meanwhile.
#[test]
fn a_migration_goes_on_without_its_source_if_its_target_has_no_copy() {
    for restarts in [None, Some(1), Some(3), Some(4)] {
        let mut world = moving(10, 4, &[4]);
        die(&mut world, 2);
        assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
        match restarts {
            Some(1) => {
                world.kill_coordinator();
                world.start_coordinator();
            }
            Some(node) => {
                world.kill_node(node);
                world.run_for(100_000);
                world.start_node(node);
            }
            None => {}
        }
        world.node(3).stalled = false;
        assert!(world.run_until(20_000_000, |world| !world.runs(2) && is_over(world)), "{restarts:?}");
        assert_eq!(state_of(&mut world, 2), "done", "{restarts:?}");
        assert_eq!([8, 9, 10, 15].map(|chunk| world.owner_of(chunk)), [3, 3, 4, 4].map(node_id));
    }
}

/// Both died, and each had its only copy at another node: a third one fetches both.
#[test]
fn a_migration_goes_on_without_both_of_its_nodes_where_nobody_has_both_copies() {
    let mut world = moving(14, 6, &[4]);
    keep_copies(&mut world, 3, 8, &[5]);
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    die(&mut world, 3);
    // It has a copy of this log, and fetches the other one.
    assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 });
    assert_eq!(world.owner_of(8), node_id(5));
    world.node(5).stalled = false;
    assert!(world.run_until(20_000_000, |world| !world.runs(2) && is_over(world)));
    assert_eq!(state_of(&mut world, 2), "done");
}

/// Those with copies are asked first. If none of them can, for lack of memory, one does it that has none.
#[test]
fn a_node_without_a_copy_takes_over_what_those_with_one_cannot() {
    let mut world = world(15, 4, &[3]);
    world.node(3).cannot_take_over = true;
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 });
    assert_eq!(world.owner_of(8), node_id(3));
    assert!(world.run_until(8_000_000, is_over));
    assert!([1, 4].map(node_id).contains(&world.owner_of(8)));
}

/// A copy that has restarted is as none: its node fetches another one.
#[test]
fn a_target_whose_copy_does_not_count_any_more_fetches_one() {
    let mut world = world(16, 4, &[3, 4]);
    world.kill_node(3);
    world.run_for(100_000);
    world.start_node(3);
    world.run_for(2_000_000);
    world.node(3).stalled = true;
    world.ask(1, World::start(chunks(8, 9), 3));
    assert!(world.run_until(1_000_000, |world| world.runs(2)));
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    let named = world.map().migration(MigrationId(2)).and_then(|record| record.source_log.clone());
    let named: Vec<_> = named.into_iter().flat_map(|dead| dead.backups).map(|backup| backup.node).collect();
    assert_eq!(named, [node_id(4)], "so it knows that its own does not do");
    world.node(3).stalled = false;
    assert!(world.run_until(5_000_000, |world| !world.runs(2) && is_over(world)));
}

/// Whoever dies or restarts meanwhile: the coordinator, the node in its place, the one in the place of that,
/// or the source.
#[test]
fn a_migration_without_its_target_ends_whatever_is_lost_on_the_way() {
    for seed in 0..40 {
        let mut world = moving(seed, 6, &[4, 5, 6]);
        keep_copies(&mut world, 3, 8, &[4, 5, 6]);
        let us = world.below(20_000);
        world.run_for(us);
        die(&mut world, 3);
        assert_eq!(take_over(&mut world, 3), Reply::TakesOver { ranges: 1 }, "seed {seed}");
        let next = world.map().migration(MigrationId(2)).map(|record| record.target);
        let next = (4..=6).find(|node| next == Some(node_id(*node))).expect("it has another target");
        let us = world.below(20_000);
        world.run_for(us);
        world.links = BAD;
        match seed % 4 {
            0 => {
                world.kill_node(next);
                world.run_for(100_000);
                world.start_node(next);
            }
            1 => {
                // It had read nothing, or all: then its own log has it.
                keep_copies(&mut world, next, 9, &[1, 4, 5, 6]);
                die(&mut world, next);
                take_over(&mut world, next);
            }
            2 => {
                world.kill_node(2);
                world.run_for(100_000);
                world.start_node(2);
            }
            _ => {
                die(&mut world, 2);
                take_over(&mut world, 2);
            }
        }
        if seed % 3 == 0 {
            world.kill_coordinator();
            world.start_coordinator();
        }
        assert!(world.run_until(60_000_000, |world| !world.runs(2) && is_over(world)), "seed {seed}");
        assert_eq!(state_of(&mut world, 2), "done", "seed {seed}");
    }
}

#[test]
fn a_migration_of_a_dead_node_waits_for_it_and_what_is_taken_over_does_not_move() {
    // Nobody is up who has a copy.
    let mut world = moving(5, 4, &[4]);
    die(&mut world, 4);
    die(&mut world, 2);
    let reply = take_over(&mut world, 2);
    assert!(matches!(&reply, Reply::Refused(Refusal::NoCopies { .. })), "{reply:?}");
    world.start_node(4);
    world.node(3).stalled = false;
    world.start_node(2);
    world.settle();
    let copies = LogCopies {
        log: LogId([7; 16]),
        epoch: 2,
        backups: vec![LogBackup { node: node_id(4), incarnation: Incarnation(2) }],
        takeover_after_ms: None,
    };
    let now = world.now;
    world.node(2).ask_for_copies(now, copies);
    world.run_for(1_000_000);
    die(&mut world, 2);
    world.node(4).deaf = true;
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 1 });
    let reply = world.ask(1, World::start(chunks(10, 10), 1));
    assert!(matches!(reply, Reply::Refused(Refusal::BeingTakenOver { .. })), "{reply:?}");
    world.node(4).deaf = false;
    assert!(world.run_until(1_000_000, is_over));
}

/// A node that comes back asks before it joins: only of the log that was taken over it learns so.
#[test]
fn a_node_that_comes_back_learns_that_its_log_was_taken_over() {
    let mut world = world(1, 4, &[3, 4]);
    let asks = |world: &mut World, node: u8, log: u8| {
        let (log, now) = (LogId([log; 16]), world.now);
        let (from, incarnation) = (node_id(node), Incarnation(2));
        let message = ToCoordinator { from, incarnation, body: NodeSays::AsksForLog { log } };
        let coordinator = world.coordinator();
        coordinator.handle(now, CoordinatorInput::Message(message));
        let answer = std::iter::from_fn(|| coordinator.poll_transmit()).last().expect("an answer");
        assert_eq!((answer.to, answer.incarnation), (from, incarnation));
        let CoordinatorSays::LogFate { taken_over, .. } = answer.body else { panic!("{answer:?}") };
        taken_over
    };
    die(&mut world, 2);
    assert!(!asks(&mut world, 2, 7), "it is its own still");
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    assert!(world.run_until(1_000_000, is_over));
    assert!(asks(&mut world, 2, 7));
    assert!(!asks(&mut world, 2, 8) && !asks(&mut world, 3, 7), "another log, another node");
    world.start_node(2);
    world.run_for(3_000_000);
    keep_copies(&mut world, 2, 8, &[3]);
    assert!(!asks(&mut world, 2, 8), "its next log is its own");
}

/// From whom, and why it did not get on when it tried last, until it has come further.
#[test]
fn what_a_migrations_target_fetches_of_its_dead_source_is_shown() {
    let mut world = moving(10, 4, &[4]);
    die(&mut world, 2);
    assert_eq!(take_over(&mut world, 2), Reply::TakesOver { ranges: 2 });
    let shown = |world: &mut World| {
        world.run_for(600_000);
        let status = world.status();
        let shown = status.migrations.into_iter().find(|shown| shown.id.0 == 2).expect("it runs");
        assert_eq!(shown.source_log, Some(LogId([7; 16])));
        shown.stalled.expect("nothing comes from the source")
    };
    let told = shown(&mut world);
    assert!(told.contains("the target fetches a copy of that node's log, and"), "{told}");
    let fetching = TakeoverProgress {
        log: Some(LogId([7; 16])),
        fetched_from: Some(node_id(4)),
        fetched_bytes: 1,
        ..TakeoverProgress::default()
    };
    world.node(3).taking_over = Some(fetching);
    let from = world.shown(4);
    let told = shown(&mut world);
    assert!(told.contains(&format!("fetches a copy of that node's log from {from}, and")), "{told}");
    let record = world.map().migration(MigrationId(2)).map(|record| (record.range, record.epoch));
    let now = world.now;
    world.node(3).cannot_read(now, record.expect("it runs"), "there is no room");
    let told = shown(&mut world);
    assert!(told.ends_with("it tries again, since there is no room"), "{told}");
    world.node(3).taking_over = Some(TakeoverProgress { is_past_failure: true, ..fetching });
    let told = shown(&mut world);
    assert!(!told.contains("no room"), "{told}");
    world.node(3).taking_over = None;
    world.node(3).cannot_read(now, record.expect("it runs"), &"very long ".repeat(1_000));
    assert!(shown(&mut world).len() <= 1_024, "who asks takes no longer one");
    world.node(3).stalled = false;
    assert!(world.run_until(5_000_000, |world| !world.runs(2)));
}

/// The same of a range that is taken over.
#[test]
fn why_a_new_owner_could_not_read_is_shown_until_it_has_come_further() {
    let mut world = world(11, 4, &[3]);
    for node in [1, 3, 4] {
        world.node(node).cannot_take_over = true;
    }
    die(&mut world, 2);
    take_over(&mut world, 2);
    world.run_for(12_000_000);
    let shown = |world: &mut World| world.status().takeovers[0].clone();
    let owner = shown(&mut world).of.owner;
    assert_eq!(shown(&mut world).trouble.as_deref(), Some("it was told so"));
    let owner = (1..=4).find(|&node| node_id(node) == owner).expect("a node");
    let log = Some(LogId([7; 16]));
    for (log, trouble) in [(Some(LogId([8; 16])), Some("it was told so")), (log, None)] {
        let progress = TakeoverProgress { log, is_past_failure: true, ..TakeoverProgress::default() };
        world.node(owner).taking_over = Some(progress);
        world.run_for(600_000);
        assert_eq!(shown(&mut world).trouble.as_deref(), trouble);
    }
}
