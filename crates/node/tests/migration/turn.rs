//! A hand-off that turns back: at every step, and with deaths at the turn.

use crate::common::*;
use sidle_migration::Share;
use sidle_node::testing::TestCluster;
use sidle_resp::Value;
use sidle_types::{MigrationId, PositionRange};

const ALL: PositionRange = PositionRange::ALL;

/// Slow, in small steps.
const BY: &str = "handoff,cut-period=1000,cut-bytes=4000,hot-first=off";
const KEYS: usize = 600;

fn values() -> Vec<(String, String)> {
    keys("key", KEYS).into_iter().map(|key| (key.clone(), format!("old-{key}"))).collect()
}

/// A hand-off from node 0 to node 1 that has run for so long.
fn after(scene: &mut Scene, us: u64) -> MigrationId {
    scene.fill(keys("key", KEYS));
    let id = scene.start_by(BY, "SLOTS 0-16383", 1);
    scene.cluster.run_for(us);
    id
}

/// The same, in its middle: both nodes own much of it.
fn in_the_middle(scene: &mut Scene) -> MigrationId {
    let id = after(scene, 0);
    scene.cluster.run_until("much is given", |cluster| {
        let table = cluster.nodes[1].workers[0].ranges();
        table.import(id).is_some_and(|view| count(&view.owned()) > KEYS / 3)
    });
    id
}

fn count(share: &Share) -> usize {
    keys("key", KEYS).iter().filter(|key| share.has(position(key))).count()
}

/// The number of the migration that gives back what this one gave.
fn turn_back(scene: &mut Scene, id: MigrationId) -> MigrationId {
    match scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")) {
        Value::Integer(back) => MigrationId(back as u64),
        other => panic!("{other:?}"),
    }
}

fn told(scene: &mut Scene, id: MigrationId) -> serde_json::Value {
    status(scene, id).expect("it was begun")
}

fn status(scene: &mut Scene, id: MigrationId) -> Option<serde_json::Value> {
    let Value::Bulk(json) = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else { return None };
    Some(serde_json::from_slice(&json).expect("JSON"))
}

/// Runs until nothing moves.
fn settle(scene: &mut Scene) {
    scene.cluster.network.release();
    scene.cluster.run_until("nothing moves", |cluster| {
        cluster.nodes.iter().all(|node| {
            let table = node.workers[0].ranges();
            table.map().migrations().is_empty() && table.imports().next().is_none()
        })
    });
    scene.cluster.run_for(1_000_000);
}

/// The range is this node's, whole, with these values; nothing is left elsewhere.
fn assert_all_at(scene: &mut Scene, node: usize, expected: &[(String, String)]) {
    for (key, value) in expected {
        assert_eq!(scene.ask(node, &format!("GET {key}")), bulk(value), "{key}");
    }
    assert_eq!(scene.ask(node, "DBSIZE"), int(expected.len() as i64));
    assert_eq!(scene.ask(1 - node, "DBSIZE"), int(0));
    assert_eq!(scene.cluster.nodes[1 - node].parts.store.len(), 0);
    assert!(scene.cluster.nodes.iter().all(|node| node.movers_in_hand().is_empty()));
}

#[test]
fn a_hand_off_turns_back_in_its_middle() {
    let mut scene = Scene::new();
    let id = in_the_middle(&mut scene);
    let mut expected = values();
    let back = turn_back(&mut scene, id);
    assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")), int(back.0 as i64), "twice is once");
    for (n, (key, value)) in expected.iter_mut().enumerate() {
        if n % 3 == 0 {
            *value = format!("new-{key}");
            // A client with any map, which follows redirections.
            assert_eq!(follow(&mut scene, n % 2, &format!("SET {key} {value}")), ok());
        }
    }
    settle(&mut scene);
    assert_all_at(&mut scene, 0, &expected);
    let (turned, way_back) = (told(&mut scene, id), told(&mut scene, back));
    assert_eq!((&turned["state"], &way_back["state"]), (&"cancelled".into(), &"done".into()));
    assert_eq!(turned["turn"], format!("turned back: migration {back} continues"));
    assert_eq!(way_back["turn"], format!("turned back: continues migration {id}"));
    let moved = way_back["records_moved"].as_u64().expect("a number") as usize;
    assert!(moved < KEYS * 3 / 4, "only what was given comes back: {moved}");
    assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")), int(back.0 as i64), "after the end, too");
}

/// Asks a node, and follows its redirection.
fn follow(scene: &mut Scene, node: usize, request: &str) -> Value {
    match scene.ask(node, request) {
        Value::Error(text) if text.starts_with("MOVED ") || text.starts_with("SIDLEGIVEN ") => {
            scene.ask(1 - node, request)
        }
        reply => reply,
    }
}

#[test]
fn it_turns_back_at_any_step() {
    let mut turned = 0;
    for step in 0..60 {
        let mut scene = Scene::new();
        let id = after(&mut scene, step * 400);
        let reply = scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}"));
        for n in 0..20 {
            assert_eq!(
                follow(&mut scene, n % 2, &format!("APPEND key{n} +")),
                int(format!("old-key{n}+").len() as i64)
            );
        }
        settle(&mut scene);
        let mut expected = values();
        expected[..20].iter_mut().for_each(|(_, value)| value.push('+'));
        let owner = usize::from(scene.state(id) == "done");
        turned += usize::from(told(&mut scene, id)["turn"].is_string());
        assert_all_at(&mut scene, owner, &expected);
        let state = scene.state(id);
        let fits = match reply {
            // The cut in transit may have been the last.
            Value::Integer(_) => state == "cancelled" || state == "done",
            Value::Simple(_) => state == "cancelled",
            _ => state == "done",
        };
        assert!(fits, "{reply:?}, and it is {state}");
    }
    assert!(turned >= 10, "{turned}");
}

#[test]
fn a_way_back_turns_again_and_again() {
    let mut scene = Scene::new();
    let mut id = in_the_middle(&mut scene);
    for _ in 0..4 {
        let back = turn_back(&mut scene, id);
        scene.cluster.run_until("it has turned", |cluster| {
            cluster.nodes.iter().all(|node| node.workers[0].ranges().map().migration(back).is_some())
        });
        scene.cluster.run_for(500);
        assert_eq!(scene.state(back), "running");
        id = back;
    }
    settle(&mut scene);
    assert_eq!(scene.state(id), "done");
    // Four turns: it goes where it went first.
    assert_all_at(&mut scene, 1, &values());
}

#[test]
fn each_position_has_one_owner_over_the_turn() {
    let mut scene = Scene::new();
    let id = in_the_middle(&mut scene);
    let back = turn_back(&mut scene, id);
    let mut shares = None;
    scene.cluster.run_until("it has turned", |cluster| {
        let [source, target] = [0, 1].map(|node| cluster.nodes[node].workers[0].ranges());
        let kept = source.exports().find(|view| view.id() == id).map(|view| view.kept());
        let owned = target.import(id).map(|view| view.owned());
        shares = kept.zip(owned).or(shares.take());
        source.import(back).is_some()
    });
    let (kept, owned) = shares.expect("it ran");
    assert_eq!(kept.rest_of(PositionRange::ALL), owned, "M20");
    let begun = scene.cluster.nodes[0].workers[0].ranges().import(back).expect("just seen").owned();
    assert!(kept.ranges().iter().all(|range| begun.has(range.first()) && begun.has(range.last())), "M21");
    settle(&mut scene);
    assert_all_at(&mut scene, 0, &values());
}

#[test]
fn a_cancel_before_anything_was_given_is_free() {
    let mut scene = Scene::new();
    scene.fill(keys("key", KEYS));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by(BY, "SLOTS 0-16383", 1);
    scene.cluster.run_until("both know", |cluster| {
        cluster.nodes.iter().all(|node| node.workers[0].ranges().map().migration(id).is_some())
    });
    turn_back(&mut scene, id);
    settle(&mut scene);
    let status = told(&mut scene, id);
    assert_eq!((&status["state"], &status["turn"]), (&"cancelled".into(), &serde_json::Value::Null));
    assert_all_at(&mut scene, 0, &values());
}

#[test]
fn a_cancel_after_all_was_given_is_refused() {
    let mut scene = Scene::new();
    scene.fill(keys("key", KEYS));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff,uncovered=target", "SLOTS 0-16383", 1);
    scene.cluster.run_for(300_000);
    let Value::Error(why) = scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")) else { panic!("it turns") };
    assert!(why.contains("cannot be cancelled any more: all of"), "{why}");
    settle(&mut scene);
    assert_eq!(scene.state(id), "done");
    assert_all_at(&mut scene, 1, &values());
}

/// The owner of a key that waits at the target, and a flush there, over the turn.
#[test]
fn commands_that_wait_at_the_turn_run_after_it() {
    let mut scene = Scene::new();
    let id = in_the_middle(&mut scene);
    scene.cluster.network.hold_priority = true;
    let kept = scene.cluster.nodes[0].workers[0].ranges().exports().next().expect("it gives").kept();
    let key = keys("key", KEYS).into_iter().find(|key| kept.has(position(key))).expect("much is kept");
    let to = scene.to[1];
    scene.cluster.send(to, &format!("GET {key}"));
    let flusher = scene.cluster.connect(1, 0);
    scene.cluster.send(flusher, "FLUSHALL");
    let asker = scene.cluster.connect(0, 0);
    scene.cluster.send(asker, &format!("SIDLE.MIGRATE CANCEL {id}"));
    scene.cluster.run_for(50_000);
    scene.cluster.network.release();
    assert!(matches!(scene.cluster.reply(asker), Value::Integer(_)));
    let reply = scene.cluster.reply(to);
    assert!(
        reply == moved(&key, 0) || reply == bulk(&format!("old-{key}")) || reply == Value::Null,
        "{reply:?}"
    );
    assert_eq!(scene.cluster.reply(flusher), ok());
    settle(&mut scene);
    assert_eq!(scene.cluster.nodes[1].parts.store.len(), 0);
}

/// A command over keys of both ends, part of which is on its way to the target when the migration turns back.
pub(crate) fn a_command_over_both_ends_does_not_hold_the_turn_up() {
    let mut scene = Scene::new();
    let (below, above) = keys_of_both_halves(40);
    scene.fill(below.iter().chain(&above).cloned());
    let slow = "handoff,cut-period=100000,cut-bytes=100,hot-first=off";
    let id = scene.start_by(slow, &halves_of_the_slot().1, 1);
    let owned = |cluster: &TestCluster| {
        let table = cluster.nodes[1].workers[0].ranges();
        table.import(id).map(|view| view.owned())
    };
    let has =
        |share: &Share, wanted: bool| above.iter().find(|key| share.has(position(key)) == wanted).cloned();
    scene.cluster.run_until("both own some of it", |cluster| {
        owned(cluster).is_some_and(|share| has(&share, true).is_some() && has(&share, false).is_some())
    });
    let share = owned(&scene.cluster).expect("it runs");
    let [given, kept] = [true, false].map(|wanted| has(&share, wanted).expect("some are"));
    scene.cluster.network.hold_forwarded = true;
    let to = scene.to[0];
    scene.cluster.send(to, &format!("MGET {} {given} {kept}", below[0]));
    scene.cluster.settle();
    let asker = scene.cluster.connect(0, 0);
    scene.cluster.send(asker, &format!("SIDLE.MIGRATE CANCEL {id}"));
    scene.cluster.run_for(50_000);
    assert!(matches!(scene.cluster.reply_now(asker), Some(Value::Integer(_))), "it turns back");
    let before_us = scene.cluster.now().mono.0;
    scene.cluster.network.release();
    let old = [&below[0], &given, &kept].map(|key| bulk(&format!("old-{key}")));
    assert_eq!(scene.cluster.reply(to), Value::Array(old.to_vec()));
    let took_us = scene.cluster.now().mono.0 - before_us;
    assert!(took_us < 1_000_000, "F9: it and the turn wait for each other: {took_us} us");
    settle(&mut scene);
}

#[test]
fn commands_over_both_ends_do_not_hold_the_turn_up() {
    a_command_over_both_ends_does_not_hold_the_turn_up();
}

/// One end dies at some time after the turn was asked for: the other one's share stays.
#[test]
fn a_death_at_the_turn_costs_the_share_of_who_died() {
    for dies in [0, 1] {
        for step in 0..24 {
            let mut scene = Scene::new();
            let id = in_the_middle(&mut scene);
            let back = turn_back(&mut scene, id);
            scene.cluster.run_for(step * 250);
            let survivor = 1 - dies;
            let share = |scene: &Scene| {
                let table = scene.cluster.nodes[survivor].workers[0].ranges();
                let import = table.imports().next().map(|view| view.owned());
                import.or_else(|| table.exports().next().map(|view| view.kept()))
            };
            // Once all is given back, nothing turns any more.
            let moves = |share: &Share| ![share, &share.rest_of(ALL)].iter().any(|at| at.ranges().is_empty());
            let Some(share) = share(&scene).filter(moves) else { continue };
            scene.cluster.restart(dies);
            scene.cluster.run_for(6_000_000);
            scene.to[dies] = scene.cluster.connect(dies, 0);
            // There is no way back if the turn had not come.
            let states = [id, back].map(|id| status(&mut scene, id).map(|told| told["state"].clone()));
            assert!(
                states.iter().flatten().any(|state| state == "failed"),
                "{states:?}, {dies} dies at step {step}"
            );
            for (key, value) in values().into_iter().filter(|(key, _)| share.has(position(key))) {
                let reply = follow(&mut scene, survivor, &format!("GET {key}"));
                assert_eq!(reply, bulk(&value), "{key}, {dies} dies at step {step}");
            }
            assert_eq!(scene.ask(survivor, "SET key1 again"), ok(), "the survivor owns all of it");
        }
    }
}

/// Whoever asked the source before, and the target now, would find the keys at neither.
#[test]
fn listings_that_wait_for_what_goes_back_are_to_be_asked_again() {
    let mut scene = Scene::new();
    let id = in_the_middle(&mut scene);
    let requests = ["KEYS *", "CLUSTER COUNTKEYSINSLOT 5061"];
    let waiting = requests.map(|request| {
        let client = scene.cluster.connect(1, 0);
        scene.cluster.send(client, request);
        assert_eq!(scene.cluster.reply_now(client), None, "{request}");
        client
    });
    turn_back(&mut scene, id);
    settle(&mut scene);
    for client in waiting {
        let Value::Error(text) = scene.cluster.reply(client) else { panic!("it was answered") };
        assert!(text.starts_with("TRYAGAIN ") && text.contains("belong to another one"), "{text}");
    }
    assert_eq!(scene.ask(1, "KEYS *"), Value::Array(Vec::new()), "asked again, it is answered at once");
    let Value::Array(all) = scene.ask(0, "KEYS *") else { panic!("no list") };
    assert_eq!(all.len(), KEYS);
}

/// Copies that are thrown away were not counted, and are not taken off.
#[test]
fn counts_add_up_while_the_copies_of_a_turned_hand_off_go() {
    const MANY: usize = 20_000;
    let mut scene = Scene::new();
    scene.fill(keys("key", MANY));
    let id = scene.start_by("handoff,cut-period=100000,cut-bytes=4000", "SLOTS 0-16383", 1);
    scene.cluster.run_until("many copies lie at the target", |cluster| {
        let table = cluster.nodes[1].workers[0].ranges();
        table.import(id).is_some_and(|view| view.inert_records() > 3000)
    });
    let operator = scene.cluster.connect(0, 0);
    scene.cluster.send(operator, &format!("SIDLE.MIGRATE CANCEL {id}"));
    let mut least_copies = u64::MAX;
    while let Some(view) = scene.cluster.nodes[1].workers[0].ranges().import(id) {
        let copies = view.inert_records();
        let counted = scene.cluster.nodes.iter().map(|node| {
            let table = node.workers[0].ranges();
            table.key_count(&node.parts.store)
        });
        let all: u64 = counted.sum();
        assert_eq!(all, MANY as u64, "{copies} copies are left");
        least_copies = least_copies.min(copies);
        scene.cluster.run_for(100);
    }
    assert_eq!(least_copies, 0, "they went meanwhile");
    settle(&mut scene);
    assert_eq!(scene.ask(0, "DBSIZE"), int(MANY as i64));
}
