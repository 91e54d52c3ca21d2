//! Nodes with durable logs restart inside their cluster.

use crate::common::*;
use crate::hot::{copied_ahead_by, run_until_frozen};
use sidle_migration::{ExportPhase, HANDOFF, ImportPhase, ProtocolChoices, SOURCE_DRIVEN, Serves};
use sidle_node::testing::{ClusterSetup, TestCluster, TestLog};
use sidle_resp::Value;
use sidle_types::PositionRange;

const EVERYTHING: &str = "SLOTS 0-16383";
/// Below it are bar and hello, in slots 5061 and 866; above it is foo, in slot 12182.
const LOWER_HALF: &str = "SLOTS 0-8191";

fn durable() -> ClusterSetup {
    ClusterSetup { is_durable: true, ..ClusterSetup::default() }
}

pub(crate) fn scene() -> Scene {
    Scene::of(durable())
}

/// Runs a scenario with durable logs, by every protocol.
fn for_durable_protocols(story: impl Fn(Scene)) {
    for_every_protocol(|scene| story(Scene { protocol: scene.protocol, ..self::scene() }));
}

/// Restarts a node, and connects to it again.
pub(crate) fn restart(scene: &mut Scene, node: usize) {
    scene.cluster.restart(node);
    scene.cluster.run_for(3_000_000);
    scene.to[node] = scene.cluster.connect(node, 0);
}

#[test]
fn a_node_that_restarts_has_its_tablets_with_what_they_held() {
    let mut scene = scene();
    scene.fill(keys("key", 100));
    let id = scene.start(LOWER_HALF, 1);
    scene.finish(id);
    for words in ["SET bar new", "DEL hello", "HSET {bar}hash f v", "RPUSH {foo}list a b", "SET {foo}x 1"] {
        let node = usize::from(!words.contains("foo"));
        scene.ask(node, words);
    }
    let sizes = [scene.ask(0, "DBSIZE"), scene.ask(1, "DBSIZE")];
    for node in [1, 0, 1] {
        restart(&mut scene, node);
    }
    assert_eq!([scene.ask(0, "DBSIZE"), scene.ask(1, "DBSIZE")], sizes);
    assert_eq!(scene.ask(1, "GET bar"), bulk("new"));
    assert_eq!(scene.ask(1, "GET hello"), Value::Null);
    assert_eq!(scene.ask(1, "HGET {bar}hash f"), bulk("v"));
    assert_eq!(scene.ask(0, "LLEN {foo}list"), int(2));
    assert_eq!(scene.ask(0, "GET {foo}x"), bulk("1"));
    assert_eq!(scene.ask(0, "GET bar"), moved("bar", 1));
    for key in keys("key", 100) {
        let node = usize::from(position(&key).slot().number() <= 8191);
        assert_eq!(scene.ask(node, &format!("GET {key}")), bulk(&format!("old-{key}")));
    }
}

/// What was deleted or overwritten meanwhile does not come back with the range, and nothing that arrived is
/// outdated by what an earlier stay left in the log.
#[test]
fn a_range_that_was_away_is_recovered_as_it_came_back() {
    for_every_protocol(|scene| {
        let mut scene = Scene { protocol: scene.protocol, ..self::scene() };
        scene.fill(keys("key", 40));
        // Versions of the first stay are far above those that other nodes give.
        for round in 0..50 {
            scene.ask(0, &format!("SET key1 {round}"));
        }
        let away = scene.start(EVERYTHING, 1);
        scene.finish(away);
        restart(&mut scene, 1);
        scene.ask(1, "DEL key0");
        scene.ask(1, "SET key1 away");
        scene.ask(1, "SET key2 away");
        let back = scene.start(EVERYTHING, 0);
        scene.finish(back);
        for node in [0, 1] {
            restart(&mut scene, node);
        }
        assert_eq!(scene.ask(0, "DBSIZE"), int(39));
        assert_eq!(scene.ask(0, "GET key0"), Value::Null);
        assert_eq!(scene.ask(0, "GET key1"), bulk("away"));
        assert_eq!(scene.ask(0, "GET key2"), bulk("away"));
        assert_eq!(scene.ask(0, "GET key3"), bulk("old-key3"));
        assert_eq!(scene.cluster.nodes[1].parts.store.len(), 0, "nothing is left of the range");
    });
}

/// Copies, and records of a range that goes on to another owner, are in the log of a node that ends.
#[test]
fn a_restarted_node_keeps_nothing_that_it_does_not_own() {
    for_every_protocol(|scene| {
        let mut scene = Scene { protocol: scene.protocol, ..self::scene() };
        scene.fill(keys("key", 100));
        let id = scene.start_and_hold(LOWER_HALF, 1);
        for node in [1, 0] {
            scene.cluster.restart(node);
        }
        scene.cluster.network.release();
        scene.cluster.run_for(10_000_000);
        scene.to = (0..2).map(|node| scene.cluster.connect(node, 0)).collect();
        // What is copied ahead is held before it runs.
        let runs = !copies_ahead(&scene.protocol);
        assert_eq!(scene.state(id), if runs { "done" } else { "failed" });
        for node in &scene.cluster.nodes {
            let map = node.workers[0].ranges().map().clone();
            let owned: u64 = map
                .tablets()
                .iter()
                .filter(|tablet| tablet.owner == node.info.id)
                .map(|tablet| node.parts.store.len_in(tablet.range))
                .sum();
            assert_eq!(node.parts.store.len(), owned);
            assert_eq!(node.parts.store.tombstones_in(PositionRange::ALL), 0);
        }
        // foo's half was never to move.
        let upper = keys("key", 100).into_iter().filter(|key| position(key).slot().number() > 8191);
        for key in upper {
            assert_eq!(scene.ask(0, &format!("GET {key}")), bulk(&format!("old-{key}")));
        }
    });
}

/// A story of a named fault: the target's disk is slow.
pub(crate) fn move_to_a_node_whose_log_is_not_synced() {
    let mut scene = scene();
    scene.fill(keys("key", 20));
    scene.cluster.nodes[1].log.as_mut().expect("it has one").holds_syncs = true;
    let id = scene.start(EVERYTHING, 1);
    scene.cluster.run_for(5_000_000);
    assert_eq!(scene.state(id), "running", "C10: the source forgets its copy");
    assert_eq!(scene.ask(1, "GET key7"), bulk("old-key7"), "it is served meanwhile");
    scene.cluster.nodes[1].log.as_mut().expect("it has one").holds_syncs = false;
    scene.finish(id);
    assert_eq!(scene.state(id), "done");
    scene.cluster.lose_power(1);
    scene.cluster.run_for(3_000_000);
    scene.to[1] = scene.cluster.connect(1, 0);
    assert_eq!(scene.ask(1, "DBSIZE"), int(20));
}

/// A story of a named fault: the source's disk takes nothing while the range is frozen.
pub(crate) fn move_of_what_no_commit_has() {
    let mut scene = scene();
    scene.fill(keys("key", 20));
    scene.cluster.run_for(5_000);
    log_of(&mut scene, 0).holds_commits = true;
    scene.ask(0, "SET key7 new");
    let id = scene.start(EVERYTHING, 1);
    scene.cluster.run_for(2_000_000);
    assert_eq!(scene.state(id), "running");
    let reader = scene.to[1];
    scene.cluster.send(reader, "GET key7");
    assert_eq!(scene.cluster.reply_now(reader), None, "C11: the source may lose it");
    log_of(&mut scene, 0).holds_commits = false;
    assert_eq!(scene.cluster.reply(reader), bulk("new"));
}

pub(crate) fn log_of(scene: &mut Scene, node: usize) -> &mut TestLog {
    scene.cluster.nodes[node].log.as_mut().expect("it has one")
}

/// What is in the range of a migration: before it, and what clients change in its middle at the target, if
/// that serves then.
fn fill_everything(scene: &mut Scene) {
    scene.fill(keys("key", 60));
    for words in ["HSET hash f v", "RPUSH list a b", "SET gone x", "DEL gone", "SET number 41"] {
        scene.ask(0, words);
    }
    let value = "v".repeat(500);
    for part in 0..900 {
        scene.ask(0, &format!("RPUSH large {part}-{value}"));
    }
}

/// Whether the target serves in the middle.
fn serves_in_the_middle(scene: &Scene) -> bool {
    serves_while_it_fills(&scene.protocol) || by_cuts(&scene.protocol)
}

fn change_in_the_middle(scene: &mut Scene) {
    if by_cuts(&scene.protocol) {
        for words in ["SET key9 kept", "DEL key10", "HSET hash h x", "HDEL hash h"] {
            let reply = scene.ask(0, words);
            assert!(!matches!(reply, Value::Error(_)), "{words}: {reply:?}");
        }
    }
    if serves_in_the_middle(scene) {
        scene.ask(1, "SET key3 new");
        scene.ask(1, "SET fresh 1");
        for words in ["DEL key4", "DEL fresh", "DEL nothing", "GETDEL key6", "INCR number", "HSET hash g w"] {
            let reply = scene.client(words);
            assert!(!matches!(reply, Value::Error(_)), "{words}: {reply:?}");
        }
    }
}

fn check_everything(scene: &mut Scene, is_changed: bool) {
    let is_by_cuts = by_cuts(&scene.protocol);
    let expect = |key: &str| match key {
        "key9" if is_by_cuts => bulk("kept"),
        "key10" if is_by_cuts => Value::Null,
        "key3" if is_changed => bulk("new"),
        "key4" | "key6" if is_changed => Value::Null,
        _ => bulk(&format!("old-{key}")),
    };
    for key in keys("key", 60) {
        assert_eq!(scene.ask(1, &format!("GET {key}")), expect(&key), "{key}");
    }
    assert_eq!(scene.ask(1, "GET number"), bulk(if is_changed { "42" } else { "41" }));
    assert_eq!(scene.ask(1, "HGET hash f"), bulk("v"));
    assert_eq!(scene.ask(1, "HLEN hash"), int(if is_changed { 2 } else { 1 }));
    assert_eq!(scene.ask(1, "LLEN list"), int(2));
    assert_eq!(scene.ask(1, "LLEN large"), int(900));
    let last = scene.ask(1, "LINDEX large -1");
    assert!(last.as_bytes().is_some_and(|last| last.starts_with(b"899-")), "{last:?}");
    assert_eq!(scene.ask(1, "EXISTS gone fresh nothing"), int(0));
    let keys = 60 + 4 - if is_changed { 2 } else { 0 } - i64::from(is_by_cuts);
    assert_eq!(scene.ask(1, "DBSIZE"), int(keys));
    for (node, left) in scene.cluster.nodes.iter().zip([0, keys as u64]) {
        assert_eq!(node.parts.store.len(), left, "M8: the source's is released");
        assert_eq!(node.parts.store.tombstones_in(PositionRange::ALL), 0);
        assert_eq!(node.parts.store.noted_imports(), [], "it is over");
    }
}

/// Restarts these nodes in the middle of a migration, one after the other, while bulk frames are held.
fn restart_in_the_middle(nodes: &[usize]) {
    for_durable_protocols(|mut scene| {
        fill_everything(&mut scene);
        let id = scene.start(EVERYTHING, 1);
        scene.cluster.run_until("the source is frozen, or gives", |cluster| {
            let import = cluster.nodes[1].workers[0].ranges().import(id).cloned();
            let mut exports = cluster.nodes[0].workers[0].ranges().exports();
            let gives = exports.any(|view| view.phase() >= ExportPhase::Tracking);
            import.is_some_and(|view| view.source_is_frozen() || view.is_by_cuts() && gives)
        });
        scene.cluster.network.hold_bulk = true;
        change_in_the_middle(&mut scene);
        let phase = scene.cluster.nodes[1].workers[0].ranges().import(id).map(|view| view.phase());
        assert!(phase < Some(ImportPhase::Complete), "it is in the middle");
        for &node in nodes {
            restart(&mut scene, node);
        }
        assert_eq!(scene.state(id), "running");
        if serves_in_the_middle(&scene) {
            assert_eq!(scene.client("GET key5"), bulk("old-key5"), "it is pulled out of turn");
            assert_eq!(scene.client("GET key3"), bulk("new"), "M5");
            assert_eq!(scene.client("GET key4"), Value::Null, "M6");
            assert_eq!(scene.client("GET gone"), Value::Null);
            scene.ask(1, "SET key7 old-key7");
        }
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        let is_changed = serves_in_the_middle(&scene);
        check_everything(&mut scene, is_changed);
        // So it is in the logs.
        for node in [0, 1] {
            restart(&mut scene, node);
        }
        check_everything(&mut scene, is_changed);
    });
}

#[test]
fn a_source_that_restarts_in_the_middle_loses_nothing() {
    restart_in_the_middle(&[0]);
}

#[test]
fn a_target_that_restarts_in_the_middle_loses_nothing() {
    restart_in_the_middle(&[1]);
}

#[test]
fn both_nodes_that_restart_in_the_middle_lose_nothing() {
    restart_in_the_middle(&[0, 1]);
    restart_in_the_middle(&[1, 0]);
}

#[test]
fn nodes_that_restart_again_and_again_lose_nothing() {
    restart_in_the_middle(&[0, 0, 1, 1, 0, 1]);
}

/// The same at every moment: a node dies before the freeze, behind it, before the activation, and later.
#[test]
fn a_node_that_restarts_at_any_moment_loses_nothing() {
    for nodes in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        for_durable_protocols(|scene| {
            let protocol = scene.protocol;
            let mut ends = Vec::new();
            for at_us in (0..12_000).step_by(500) {
                let mut scene = Scene { protocol, ..self::scene() };
                scene.fill(keys("key", 40));
                let id = scene.start(EVERYTHING, 1);
                scene.cluster.run_for(at_us);
                for &node in nodes {
                    restart(&mut scene, node);
                }
                scene.finish(id);
                let state = scene.state(id);
                let owner = usize::from(state == "done");
                for key in keys("key", 40) {
                    assert_eq!(scene.ask(owner, &format!("GET {key}")), bulk(&format!("old-{key}")));
                }
                assert_eq!(scene.cluster.nodes[1 - owner].parts.store.len(), 0);
                ends.push(state);
            }
            assert!(ends.iter().any(|end| end == "done"), "{ends:?}");
        });
    }
}

/// Changes five keys, each where it is.
pub(crate) fn change_five(scene: &mut Scene) {
    let words = ["SET key1 new", "DEL key2", "APPEND key3 +", "SET fresh 1", "GETDEL key4"];
    for (to, words) in [0, 1, 0, 1, 0].into_iter().zip(words) {
        let reply = scene.ask(to, words);
        if matches!(reply, Value::Error(_)) {
            scene.ask(1 - to, words);
        }
    }
}

/// The node has these changes, and so many keys.
pub(crate) fn check_five(scene: &mut Scene, owner: usize, keys: i64, what: &str) {
    let changed = [
        ("key1", bulk("new")),
        ("key2", Value::Null),
        ("key3", bulk("old-key3+")),
        ("key4", Value::Null),
        ("fresh", bulk("1")),
        ("key5", bulk("old-key5")),
    ];
    for (key, value) in changed {
        assert_eq!(scene.ask(owner, &format!("GET {key}")), value, "{what}: {key}");
    }
    assert_eq!(scene.ask(owner, "DBSIZE"), int(keys), "{what}");
}

/// The same where much is given, cut by cut, and clients of both ends change what these own.
#[test]
fn a_node_that_restarts_between_two_cuts_loses_nothing() {
    let protocols = ["handoff,cut-period=1000", "handoff,uncovered=target", "handoff,hot-first=off", "fulva"];
    for (protocol, nodes) in protocols.iter().flat_map(|by| [(by, &[0][..]), (by, &[1]), (by, &[1, 0])]) {
        let mut in_the_middle = 0;
        for at_us in (0..100_000).step_by(5_000) {
            let mut scene = scene();
            scene.fill(keys("key", 300));
            // So that a partition takes several pulls.
            let value = "v".repeat(8_000);
            for key in keys("large", 200) {
                scene.ask(0, &format!("SET {key} {value}"));
            }
            let id = scene.start_by(&format!("{protocol} RATE 20000000"), EVERYTHING, 1);
            scene.cluster.run_for(at_us);
            change_five(&mut scene);
            let given = scene.cluster.nodes[1].workers[0].ranges().import(id).map(|view| view.owned());
            let has_some = given.is_some_and(|given| !given.ranges().is_empty());
            in_the_middle += u32::from(has_some && scene.state(id) == "running");
            for &node in nodes {
                restart(&mut scene, node);
            }
            scene.finish(id);
            let owner = usize::from(scene.state(id) == "done");
            check_five(&mut scene, owner, 499, &format!("{protocol}, {at_us} us"));
            assert_eq!(scene.cluster.nodes[1 - owner].parts.store.len(), 0);
        }
        assert!(in_the_middle > 2, "{protocol}: {in_the_middle}");
    }
}

/// It runs, and the target has a copy without the last round, when a node restarts.
#[test]
fn a_copy_without_its_last_round_is_made_anew_after_a_restart() {
    for nodes in [&[0][..], &[1], &[1, 0]] {
        let mut scene = Scene { protocol: SOURCE_DRIVEN, ..scene() };
        scene.fill(keys("key", 40));
        let id = scene.start_and_hold_freeze();
        assert_eq!(scene.cluster.nodes[1].parts.store.len(), 40, "it is copied");
        assert_eq!(scene.state(id), "running");
        for &node in nodes {
            restart(&mut scene, node);
        }
        scene.cluster.nodes[0].held_workers.clear();
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        for key in keys("key", 40) {
            assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")));
        }
        assert_eq!(scene.ask(1, "DBSIZE"), int(40));
    }
}

/// All of it is pulled anew from the restarted source before that reports the freeze.
#[test]
fn a_copy_that_is_made_anew_before_the_freeze_is_reported_is_served() {
    for serves in [SOURCE_DRIVEN.serves, Serves::AtActivation] {
        let mut scene = Scene { protocol: ProtocolChoices { serves, ..SOURCE_DRIVEN }, ..scene() };
        scene.fill(keys("key", 40));
        let id = scene.start_and_hold_freeze();
        scene.cluster.nodes[0].held_workers.clear();
        scene.cluster.network.hold_priority = true;
        restart(&mut scene, 0);
        assert_eq!(scene.cluster.nodes[1].parts.store.len(), 40, "it is copied again");
        assert_eq!(scene.state(id), "running");
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "DBSIZE"), int(40));
    }
}

/// What the source keeps is served there until all its workers know that it is given.
#[test]
fn a_target_that_restarted_waits_for_the_freeze_of_what_was_kept() {
    let mut scene = Scene { protocol: HANDOFF, ..scene() };
    scene.fill(keys("key", 40));
    let id = scene.start_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(1, "SET key3 new"), ok(), "it is taken");
    scene.cluster.nodes[0].held_workers = vec![1];
    restart(&mut scene, 1);
    assert_eq!(scene.state(id), "running");
    let reader = scene.to[1];
    scene.cluster.send(reader, "GET key5");
    assert_eq!(scene.cluster.reply_now(reader), None, "M1: the source's worker may change it");
    scene.cluster.nodes[0].held_workers.clear();
    assert_eq!(scene.cluster.reply(reader), bulk("old-key5"));
    assert_eq!(scene.ask(1, "GET key3"), bulk("new"));
    scene.finish(id);
    assert_eq!(scene.state(id), "done");
    assert_eq!(scene.ask(1, "DBSIZE"), int(40));
}

/// The last cut gives what is owed as it is frozen: nobody sees it before the source's log has it.
#[test]
fn what_is_owed_is_in_the_log_of_the_source_first() {
    let mut scene = Scene { protocol: HANDOFF, ..scene() };
    scene.fill(keys("key", 20));
    scene.cluster.run_for(5_000);
    log_of(&mut scene, 0).holds_commits = true;
    scene.ask(0, "DEL key7");
    scene.start_by("handoff,uncovered=target", EVERYTHING, 1);
    scene.cluster.run_for(2_000_000);
    let reader = scene.to[1];
    scene.cluster.send(reader, "GET key7");
    assert_eq!(scene.cluster.reply_now(reader), None, "C11: the source may lose it");
    log_of(&mut scene, 0).holds_commits = false;
    assert_eq!(scene.cluster.reply(reader), Value::Null);
}

/// A migration that is to turn back, and whose node restarts before it has, goes on to its end.
#[test]
fn a_migration_that_was_to_turn_back_goes_on_after_a_restart() {
    for node in [0, 1] {
        let mut scene = Scene { protocol: HANDOFF, ..scene() };
        scene.fill(keys("key", 40));
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.ask(1, "SET key3 new"), ok());
        scene.cluster.nodes[0].held_workers = vec![1];
        // In transit while it is to turn back.
        let taker = scene.cluster.connect(1, 0);
        scene.cluster.send(taker, "GET key4");
        scene.cluster.run_for(5_000);
        scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}"));
        restart(&mut scene, node);
        scene.cluster.nodes[0].held_workers.clear();
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "GET key3"), bulk("new"));
        assert_eq!(scene.ask(1, "DBSIZE"), int(40));
    }
}

/// A story of a named fault: the target restarts before it is activated, and what it had copied ahead has
/// changed at the source.
pub(crate) fn restart_behind_outdated_copies() {
    let (mut scene, id) = copied_ahead_by("fulva,hot-first=on", durable());
    assert_eq!(scene.ask(0, "SET key20 new"), ok());
    scene.cluster.nodes[0].held_workers = vec![1];
    scene.cluster.run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
    scene.cluster.run_for(5_000);
    restart(&mut scene, 1);
    scene.cluster.nodes[0].held_workers.clear();
    assert_eq!(scene.state(id), "running");
    scene.finish(id);
    assert_eq!(scene.state(id), "done");
    assert_eq!(scene.ask(1, "GET key20"), bulk("new"));
    assert_eq!(scene.ask(1, "DBSIZE"), int(200));
}

#[test]
fn copies_ahead_are_served_on_if_they_were_before_the_restart() {
    for nodes in [&[0][..], &[1], &[1, 0]] {
        let (mut scene, id) = copied_ahead_by("fulva,hot-first=on", durable());
        assert_eq!(scene.ask(0, "SET key20 new"), ok());
        assert_eq!(scene.ask(0, "DEL key40"), int(1));
        run_until_frozen(&mut scene, id);
        assert_eq!(scene.ask(1, "APPEND key60 +"), int(10), "it is here already");
        for &node in nodes {
            restart(&mut scene, node);
        }
        assert_eq!(scene.state(id), "running");
        scene.finish(id);
        let expected = [
            ("key20", bulk("new")),
            ("key40", Value::Null),
            ("key60", bulk("old-key60+")),
            ("key80", bulk("old-key80")),
        ];
        for (key, value) in expected {
            assert_eq!(scene.ask(1, &format!("GET {key}")), value, "{nodes:?}: {key}");
        }
        assert_eq!(scene.ask(1, "DBSIZE"), int(199));
    }
}

/// What a flush at the target left out is not pulled after a restart.
#[test]
fn a_flush_in_the_middle_is_not_undone_by_a_restart() {
    for_durable_protocols(|mut scene| {
        if !serves_in_the_middle(&scene) {
            return;
        }
        scene.fill(keys("key", 40));
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.ask(1, "SET key3 new"), ok());
        log_of(&mut scene, 1).holds_syncs = true;
        assert_eq!(scene.ask(1, "FLUSHALL"), ok());
        assert_eq!(scene.ask(1, "SET after 1"), ok());
        assert_eq!(scene.state(id), "running", "C10");
        restart(&mut scene, 1);
        log_of(&mut scene, 1).holds_syncs = false;
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "GET key5"), Value::Null);
        assert_eq!(scene.ask(1, "DBSIZE"), int(1));
    });
}

/// A flush that waits for the source outlasts the source's restart.
#[test]
fn a_flush_that_waits_for_a_source_that_restarts_is_answered() {
    for by in ["handoff,uncovered=source", "handoff,uncovered=load", "fulva"] {
        let mut scene = scene();
        scene.fill(keys("key", 40));
        scene.cluster.nodes[0].held_workers = vec![1];
        let id = scene.start_by(by, EVERYTHING, 1);
        scene
            .cluster
            .run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
        let flusher = scene.to[1];
        scene.cluster.send(flusher, "FLUSHALL");
        scene.cluster.run_for(5_000);
        assert_eq!(scene.cluster.reply_now(flusher), None, "{by}: the source has not given it all");
        restart(&mut scene, 0);
        scene.cluster.nodes[0].held_workers.clear();
        assert_eq!(scene.cluster.reply(flusher), ok(), "{by}");
        scene.finish(id);
        assert_eq!(scene.state(id), "done", "{by}");
        assert_eq!(scene.ask(1, "DBSIZE"), int(0), "{by}");
    }
}

/// What is larger than a piece is pulled out of turn after a restart, too, and once.
#[test]
fn large_values_are_pulled_out_of_turn_after_a_restart() {
    let value = "v".repeat(600_000);
    let large = keys("large", 8);
    for node in [0, 1] {
        let mut scene = scene();
        scene.fill(keys("key", 300));
        for key in &large {
            assert_eq!(scene.ask(0, &format!("SET {key} {value}")), ok());
        }
        let by = "handoff,cut-period=1000,cut-bytes=1000,hot-first=off RATE 20000000";
        let id = scene.start_by(by, EVERYTHING, 1);
        let given = |cluster: &TestCluster| {
            cluster.nodes[1].workers[0].ranges().import(id).map(|view| view.owned()).unwrap_or_default()
        };
        let first = PositionRange::ALL.first();
        scene.cluster.run_until("its first part is given", |cluster| given(cluster).has(first));
        let given = given(&scene.cluster);
        scene.cluster.network.hold_bulk = true;
        restart(&mut scene, node);
        let kept: Vec<_> = large.iter().filter(|key| !given.has(position(key))).collect();
        assert!(kept.len() > 2, "{}", kept.len());
        for key in &kept {
            assert_eq!(scene.ask(1, &format!("STRLEN {key}")), int(600_000), "{node} restarted");
        }
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "DBSIZE"), int(308));
    }
}

/// What was given before a restart is not pulled again, and stays counted.
#[test]
fn what_had_arrived_before_a_restart_stays_counted() {
    for node in [0, 1] {
        let mut scene = scene();
        scene.fill(keys("key", 300));
        let by = "handoff,cut-period=1000,cut-bytes=1000,hot-first=off RATE 20000000";
        let id = scene.start_by(by, EVERYTHING, 1);
        scene.cluster.run_until("some of it is given", |cluster| {
            let view = cluster.nodes[1].workers[0].ranges().import(id);
            view.is_some_and(|view| view.owned().has(PositionRange::ALL.first()))
        });
        scene.cluster.network.hold_bulk = true;
        // Until it is reported.
        scene.cluster.run_for(200_000);
        let before = scene.status(id);
        assert_eq!((&before["state"], &before["activated"]), (&"running".into(), &true.into()), "{before}");
        assert!(before["records_moved"].as_u64().is_some_and(|moved| moved > 0), "{before}");
        restart(&mut scene, node);
        scene.finish(id);
        let after = scene.status(id);
        assert_eq!((&after["state"], &after["gave_all"]), (&"done".into(), &"restart".into()), "{node}");
        let moved = after["records_moved"].as_u64().expect("a number");
        assert!((300..400).contains(&moved), "node {node} restarted: {moved}");
        assert_eq!(scene.ask(1, "DBSIZE"), int(300));
    }
}
