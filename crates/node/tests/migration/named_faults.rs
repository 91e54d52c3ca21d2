//! Tests of the tests: a scenario finds each known fault of a node.

use crate::blocking::{
    a_client_that_goes_takes_nothing_and_makes_way, cut_gives_a_key_that_is_waited_for,
    item_between_look_and_wait, moves_in_a_circle_do_not_wait_for_each_other, two_items_for_two_who_wait,
    who_waited_is_served_before_the_reply,
};
use crate::common::*;
use crate::durable::{
    move_of_what_no_commit_has, move_to_a_node_whose_log_is_not_synced, restart_behind_outdated_copies,
};
use crate::durable_turns::turn_with_a_log_that_is_not_synced;
use crate::fetches::a_copy_is_fenced_before_it_is_fetched;
use crate::hot::copied_ahead;
use crate::locks::{
    decision_while_it_is_copied, flush_of_a_key_that_has_voted, part_whose_read_has_changed,
    read_that_waits_for_a_decision, votes_move_with_their_keys,
};
use crate::once::{
    request_that_arrives_behind_its_acknowledgement, request_that_is_repeated,
    request_that_was_issued_long_ago,
};
use crate::restoring::restore_beside_a_reader;
use crate::takeovers::{fence_of_a_copy_that_may_have_promised, read_of_what_is_being_taken_over};
use crate::transactions::{watch_of_a_range_that_goes_and_comes_back, watch_of_a_value_that_ends};
use crate::turn::a_command_over_both_ends_does_not_hold_the_turn_up;
use sidle_migration::SOURCE_DRIVEN;
use sidle_node::testing::{ClusterSetup, LATENCY_US, SoloNode, TestCluster};
use sidle_resp::Value;
use sidle_types::Fault;

const EVERYTHING: &str = "SLOTS 0-16383";

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::IncrementsStartAtZero, increment_of_what_has_not_arrived),
    (Fault::FreezeWithoutBarrier, write_before_the_freeze),
    (Fault::SourceServesAfterFreeze, write_at_the_source),
    (Fault::TargetServesBeforeActivate, write_before_the_freeze),
    (Fault::HotCopyServedBeforeTheList, read_of_what_was_copied_ahead),
    (Fault::ExpiryLeavesNoTombstone, expiry_at_the_target),
    (Fault::FrozenSourceExpires, expiry_at_the_source),
    (Fault::ParkedCommandRunsTwice, increment_of_what_has_not_arrived),
    (Fault::NewTableWakesNobody, the_source_of_a_wanted_key_restarts),
    (Fault::PartsOutliveTheTurn, a_command_over_both_ends_does_not_hold_the_turn_up),
    (Fault::ServesBeforePromisesLapse, fence_of_a_copy_that_may_have_promised),
    (Fault::FetchedUnfenced, a_copy_is_fenced_before_it_is_fetched),
    (Fault::ServesBeforeItHasTakenOver, read_of_what_is_being_taken_over),
    (Fault::PreparesOverLeavings, back_at_once),
    (Fault::SettledBeforeSynced, turn_with_a_log_that_is_not_synced),
    (Fault::FinishedBeforeSynced, move_to_a_node_whose_log_is_not_synced),
    (Fault::ActivatedBeforeSafe, move_of_what_no_commit_has),
    (Fault::ResumedOverCopies, restart_behind_outdated_copies),
    (Fault::ScanPassesWhatHasNotArrived, scan_of_what_has_not_arrived),
    (Fault::ImportFlushedTwice, write_after_a_flush),
    (Fault::MarkBeforeWrite, write_behind_its_mark),
    (Fault::TrackingWithoutBarrier, write_before_tracking),
    (Fault::FlushMarksNothing, flush_while_it_is_copied),
    (Fault::ForwardedWithoutOwnershipCheck, write_that_is_late_for_its_owner),
    (Fault::LostWriteIsForwardedAgain, increment_whose_answer_is_lost),
    (Fault::PartsWithoutHold, mset_over_both_halves),
    (Fault::HalfMsetVisible, mset_beside_mget),
    (Fault::HalfExecVisible, exec_beside_mget),
    (Fault::HalfRestoreVisible, restore_beside_a_reader),
    (Fault::WatchOutlivesHandOver, watch_of_a_range_that_goes_and_comes_back),
    (Fault::WatchOutlivesTheEnd, watch_of_a_value_that_ends),
    (Fault::WaitsWithoutLook, item_between_look_and_wait),
    (Fault::TurnEndsWithItsHolder, two_items_for_two_who_wait),
    (Fault::PlaceOutlivesItsCommand, a_client_that_goes_takes_nothing_and_makes_way),
    (Fault::RepliesBeforeServed, who_waited_is_served_before_the_reply),
    (Fault::KeepsItsTurnBehindOthers, moves_in_a_circle_do_not_wait_for_each_other),
    (Fault::GivenKeyKeepsItsWaiters, cut_gives_a_key_that_is_waited_for),
    (Fault::AskedAgainCountsAsAnswered, large_collection_is_named_and_owed),
    (Fault::LowestOpenIsForgotten, request_that_arrives_behind_its_acknowledgement),
    (Fault::OldRequestRuns, request_that_was_issued_long_ago),
    (Fault::LocksLeftBehind, votes_move_with_their_keys),
    (Fault::FlushIgnoresLocks, flush_of_a_key_that_has_voted),
    (Fault::ChangedReadsPass, part_whose_read_has_changed),
    (Fault::LockEndWakesNobody, read_that_waits_for_a_decision),
    (Fault::DecisionLeavesNoMark, decision_while_it_is_copied),
    (Fault::RepliesBeforeSafe, replies_before_their_commit),
    (Fault::ReadsPassTheGate, read_of_what_no_commit_has),
    (Fault::OwnPartPassesTheGate, mset_over_two_durable_nodes),
    (Fault::LeaseCheckedBeforeExecuting, reply_behind_a_pause),
    (Fault::WritesWithoutCompletion, request_that_is_repeated),
];

fn expire(scene: &mut Scene, node: usize) {
    let now = scene.cluster.now();
    for _ in 0..10 {
        scene.cluster.nodes[node].workers[0].expire(now, 100);
    }
}

fn increment_of_what_has_not_arrived() {
    let mut scene = Scene::new();
    scene.ask(0, "SET counter 10");
    scene.start_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(1, "INCR counter"), int(11));
}

/// One of the source's workers does not pass the barrier of the freeze; it may change what was copied ahead.
fn read_of_what_was_copied_ahead() {
    let (mut scene, id) = copied_ahead("fulva,hot-first=on");
    scene.cluster.nodes[0].held_workers = vec![1];
    scene.cluster.run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
    scene.cluster.run_for(5_000);
    let to = scene.to[1];
    scene.cluster.send(to, "GET key20");
    assert_eq!(scene.cluster.reply_now(to), None, "M3: it may have changed");
}

fn write_at_the_source() {
    let mut scene = Scene::new();
    scene.start_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(0, "SET key late"), moved("key", 1));
}

/// One of the source's workers does not pass the barrier of the freeze, and would still acknowledge.
fn write_before_the_freeze() {
    let mut scene = Scene::new();
    scene.start_and_hold_freeze();
    assert!(scene.cluster.nodes[0].workers[1].ranges().is_owned(position("key")));
    let to = scene.to[1];
    scene.cluster.send(to, "SET key early");
    assert_eq!(scene.cluster.reply_now(to), None, "M1: both ends acknowledge");
}

fn expiry_at_the_target() {
    let mut scene = Scene::new();
    scene.ask(0, "SET key old");
    let id = scene.start_and_hold(EVERYTHING, 1);
    scene.ask(1, "SET key short PX 20");
    scene.cluster.run_for(30_000);
    expire(&mut scene, 1);
    scene.finish(id);
    assert_eq!(scene.ask(1, "GET key"), Value::Null, "M6: the old value came back from the dead");
}

fn expiry_at_the_source() {
    let mut scene = Scene::new();
    scene.ask(0, "SET key v PX 50");
    scene.start_and_hold(EVERYTHING, 1);
    scene.cluster.run_for(60_000);
    expire(&mut scene, 0);
    assert_eq!(scene.cluster.nodes[0].parts.store.len(), 1, "M2: a frozen record is gone");
}

fn the_source_of_a_wanted_key_restarts() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    scene.start_and_hold(EVERYTHING, 1);
    scene.cluster.network.hold_priority = true;
    let to = scene.to[1];
    scene.cluster.send(to, "GET key");
    scene.cluster.run_for(1_000);
    scene.cluster.restart(0);
    scene.cluster.network.release();
    assert_eq!(scene.cluster.reply(to), Value::Null, "P3: the range's only copy is gone");
}

fn back_at_once() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 3000));
    let id = scene.start(EVERYTHING, 1);
    scene.cluster.run_until("it is done", |cluster| {
        let map = cluster.nodes[1].workers[0].ranges().map();
        map.migration(id).is_none() && map.epoch().0 > 3
    });
    scene.ask(1, "SET key2 at-b");
    // The old copy is still being freed in slices when the range is requested again.
    let back = scene.start(EVERYTHING, 0);
    scene.finish(back);
    assert_eq!(
        scene.ask(0, "GET key2"),
        bulk("at-b"),
        "C4: a leftover was taken for newer than what arrived"
    );
    assert_eq!(scene.ask(0, "DBSIZE"), int(3000));
}

fn scan_of_what_has_not_arrived() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    let id = scene.start_and_hold(EVERYTHING, 1);
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    for _ in 0..10 {
        let Value::Array(parts) = scene.ask(1, &format!("SCAN {cursor} COUNT 100")) else {
            panic!("no array")
        };
        let [next, Value::Array(keys)] = &parts[..] else { panic!("a cursor and keys") };
        cursor = String::from_utf8(next.as_bytes().expect("a cursor").to_vec()).expect("digits");
        found.extend(keys.clone());
        if cursor == "0" {
            break;
        }
        scene.finish(id);
    }
    assert_eq!((cursor.as_str(), found), ("0", vec![bulk("key")]), "it was there all the time");
}

/// A worker asks the mover to flush an import, and continues after that and a new write.
fn write_after_a_flush() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    scene.start_and_hold(EVERYTHING, 1);
    let (late, other) = (scene.cluster.connect(1, 0), scene.cluster.connect(1, 1));
    scene.cluster.send(late, "FLUSHALL");
    scene.cluster.serve_alone(late);
    scene.cluster.nodes[1].held_workers = vec![0];
    scene.cluster.settle();
    assert_eq!(scene.cluster.ask(other, "SET key new"), ok());
    scene.cluster.network.release();
    scene.cluster.run_until("the target's other worker has seen the end", |cluster| {
        cluster.nodes[1].workers[1].ranges().map().migrations().is_empty()
    });
    scene.cluster.nodes[1].held_workers.clear();
    assert_eq!(scene.cluster.reply(late), ok());
    assert_eq!(scene.cluster.ask(other, "GET key"), bulk("new"), "it is gone a second time");
}

/// The mark is taken, and its record sent, before the write is visible.
fn write_behind_its_mark() {
    let mut scene = Scene { protocol: SOURCE_DRIVEN, ..Scene::new() };
    scene.fill(["key".to_owned()]);
    let id = scene.copy_and_hold(EVERYTHING, 1);
    let view = scene.cluster.nodes[0].control.exports().next().expect("it is tracked").clone();
    let marked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let seen = std::sync::Arc::clone(&marked);
    scene.cluster.nodes[0].workers[0].hooks().once_judged(move |_| {
        seen.store(view.marked(), std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(scene.ask(0, "SET key new"), ok());
    let marked = marked.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(marked, 0, "M11: marked before it was written");
    scene.finish(id);
    assert_eq!(scene.ask(1, "GET key"), bulk("new"));
}

/// One of the source's workers acknowledges without marks yet.
fn write_before_tracking() {
    let mut scene = Scene { protocol: SOURCE_DRIVEN, ..Scene::new() };
    scene.fill(["key".to_owned()]);
    scene.cluster.nodes[0].held_workers = vec![1];
    let id = scene.start(EVERYTHING, 1);
    scene.cluster.run_for(20_000);
    assert_eq!(scene.cluster.nodes[1].parts.store.len(), 0, "M11: copied while a worker marks nothing");
    scene.cluster.nodes[0].held_workers.clear();
    scene.finish(id);
}

fn flush_while_it_is_copied() {
    let mut scene = Scene { protocol: SOURCE_DRIVEN, ..Scene::new() };
    scene.fill(keys("key", 100));
    let id = scene.copy_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(0, "FLUSHALL"), ok());
    scene.finish(id);
    assert_eq!(scene.ask(1, "GET key1"), Value::Null, "M11: a flushed key came back");
    assert_eq!(scene.ask(1, "DBSIZE"), int(0));
}

/// A write is forwarded, and its range moves back while it travels.
fn write_that_is_late_for_its_owner() {
    let mut scene = Scene::new();
    let (_, above, upper) = pair_in_one_slot();
    let id = scene.start(&upper, 1);
    scene.finish(id);
    let client = scene.to[0];
    assert_eq!(scene.cluster.ask(client, &format!("SET {above} first")), ok());
    scene.cluster.network.hold_forwarded = true;
    scene.cluster.send(client, &format!("SET {above} second"));
    scene.cluster.run_for(1_000);
    let operator = scene.cluster.connect(1, 1);
    let back = format!("SIDLE.MIGRATE START {upper} TO 127.0.0.1:7001 PROTOCOL fulva");
    assert!(matches!(scene.cluster.ask(operator, &back), Value::Integer(_)));
    scene.cluster.run_until("it is back", |cluster| {
        cluster.nodes.iter().all(|node| {
            let map = node.workers[0].ranges().map();
            map.migrations().is_empty() && map.tablets().len() == 1
        })
    });
    scene.cluster.network.release();
    assert_eq!(scene.cluster.reply(client), ok());
    assert_eq!(scene.ask(0, &format!("GET {above}")), bulk("second"), "F1: it was written nowhere");
}

/// An increment is forwarded and carried out, and the connection breaks before its answer arrives.
fn increment_whose_answer_is_lost() {
    let mut scene = Scene::new();
    let (_, above, upper) = pair_in_one_slot();
    let id = scene.start(&upper, 1);
    scene.finish(id);
    let client = scene.to[0];
    assert_eq!(scene.cluster.ask(client, &format!("SET {above} 10")), ok());
    scene.cluster.send(client, &format!("INCR {above}"));
    scene.cluster.run_for(LATENCY_US + LATENCY_US / 2);
    scene.cluster.network.cut_forwarding();
    let reply = scene.cluster.reply(client);
    assert!(matches!(&reply, Value::Error(text) if text.starts_with(sidle_node::UNKNOWN)), "F2: {reply:?}");
    assert_eq!(scene.ask(1, &format!("GET {above}")), bulk("11"));
}

/// A command over both halves of a slot, while another client reads one half after the other.
fn mset_over_both_halves() {
    mset_over_both_halves_of(Scene::new());
}

fn mset_over_two_durable_nodes() {
    mset_over_both_halves_of(Scene::of(ClusterSetup { is_durable: true, ..ClusterSetup::default() }));
}

fn mset_over_both_halves_of(mut scene: Scene) {
    let (below, above, upper) = pair_in_one_slot();
    let id = scene.start(&upper, 1);
    scene.finish(id);
    let client = scene.to[0];
    assert_eq!(scene.cluster.ask(client, &format!("MSET {below} old {above} old")), ok());
    scene.cluster.send(client, &format!("MSET {below} new {above} new"));
    scene.cluster.run_for(LATENCY_US + LATENCY_US / 2);
    assert_eq!(scene.ask(1, &format!("GET {above}")), bulk("new"));
    let reader = scene.cluster.connect(0, 1);
    assert_eq!(scene.cluster.ask(reader, &format!("GET {below}")), bulk("new"), "F8: half of it");
}

/// One worker serves an MGET between two turns of another one that serves an MSET.
fn mset_beside_mget() {
    let mut scene = Scene::new();
    scene.ask(0, "MSET {t}a old {t}b old");
    let (writer, reader) = (scene.cluster.connect(0, 0), scene.cluster.connect(0, 1));
    scene.cluster.send(writer, "MSET {t}a new {t}b new");
    scene.cluster.send(reader, "MGET {t}a {t}b");
    scene.cluster.serve_alone(writer);
    scene.cluster.serve_alone(reader);
    let seen = scene.cluster.client(reader).receive();
    assert_eq!(seen, Some(Value::Array(vec![bulk("new"), bulk("new")])), "X1: half of it");
}

fn exec_beside_mget() {
    let mut scene = Scene::new();
    scene.ask(0, "MSET {t}a old {t}b old");
    let (writer, reader) = (scene.cluster.connect(0, 0), scene.cluster.connect(0, 1));
    for request in ["MULTI", "SET {t}a new", "SET {t}b new", "EXEC"] {
        scene.cluster.send(writer, request);
    }
    scene.cluster.send(reader, "MGET {t}a {t}b");
    scene.cluster.serve_alone(writer);
    scene.cluster.serve_alone(reader);
    let seen = scene.cluster.client(reader).receive();
    assert_eq!(seen, Some(Value::Array(vec![bulk("new"), bulk("new")])), "X1: half of it");
}

fn replies_before_their_commit() {
    let mut node = SoloNode::durable();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "SET key value"), ok());
    assert!(node.worker.take_shown().commit > node.worker.safe_commit(), "C5: it is in no commit");
}

/// The process stands still behind a read, until its lease is over.
fn reply_behind_a_pause() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    node.parts.shared.durability.lease.set(node.now.mono.plus_us(100));
    assert_eq!(node.ask(&mut client, "GET key"), Value::Null);
    let (shown, now) = (node.worker.take_shown(), node.now.mono);
    assert!(node.worker.may_send(shown, || now.plus_us(99)));
    assert!(!node.worker.may_send(shown, || now.plus_us(100)), "C5: another node may own the key");
    node.parts.shared.durability.lease.set(now.plus_us(300));
    assert!(node.worker.may_send(shown, || now.plus_us(200)), "it goes out once the lease is renewed");
}

fn read_of_what_no_commit_has() {
    let mut node = SoloNode::durable();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "SET key value"), ok());
    node.worker.take_shown();
    assert_eq!(node.ask(&mut client, "GET key"), bulk("value"));
    assert!(node.worker.take_shown().commit > node.worker.safe_commit(), "C5: it shows what is in no commit");
}

/// A command waits for a large collection when the source names it. Before it asks again the source has given
/// all, with nothing copied.
fn large_collection_is_named_and_owed() {
    let mut scene = Scene::new();
    let long = "x".repeat(1_000);
    for field in 0..400 {
        scene.ask(0, &format!("HSET large {field} {long}"));
    }
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff,uncovered=target", EVERYTHING, 1);
    let import = |cluster: &TestCluster| cluster.nodes[1].workers[0].ranges().import(id).cloned();
    scene.cluster.run_until("it runs", |cluster| import(cluster).is_some());
    scene.cluster.send(scene.to[1], "HLEN large");
    scene.cluster.run_for(1);
    scene.cluster.nodes[1].held_workers = vec![0];
    scene.cluster.run_until("all is given", |cluster| import(cluster).is_some_and(|view| view.gave_all()));
    scene.cluster.nodes[1].held_workers.clear();
    scene.cluster.network.hold_bulk = false;
    scene.cluster.network.release();
    assert_eq!(scene.cluster.reply(scene.to[1]), int(400));
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}

/// A fault of the protocol machines, in whole nodes: removals are the workers' part.
#[test]
fn no_tombstones_is_seen() {
    let _in_effect = Fault::NoTombstones.put_back();
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    let id = scene.start_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(1, "DEL key"), int(1));
    scene.finish(id);
    assert_eq!(scene.ask(1, "GET key"), bulk("old-key"), "the fault is not there: the value comes back");
}
