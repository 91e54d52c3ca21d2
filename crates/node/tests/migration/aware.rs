//! Clients that opted in: "not here yet", frozen reads, progress, pushes. Clients that did not: none of it.

use crate::common::*;
use sidle_migration::{OnMissing, SourceReads};
use sidle_resp::Value;
use sidle_types::{MigrationId, Position};

fn empty(id: MigrationId) -> Value {
    Value::Simple(format!("EMPTY {id}"))
}

#[test]
fn a_read_that_misses_is_not_here_yet_and_the_source_has_it() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    let (target, source) = (scene.cluster.connect_aware(1, 0), scene.cluster.connect_aware(0, 0));
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    assert_eq!(scene.cluster.ask(target, "GET key"), empty(id));
    assert_eq!(scene.cluster.ask(source, &format!("SIDLE.FROZEN {id} GET key")), bulk("old-key"));
    assert_eq!(scene.cluster.ask(target, "GET never"), empty(id), "the target cannot know");
    assert_eq!(scene.cluster.ask(source, &format!("SIDLE.FROZEN {id} GET never")), Value::Null);
    assert_eq!(scene.cluster.ask(target, "SET key new"), ok());
    assert_eq!(scene.cluster.ask(target, "GET key"), bulk("new"));
    assert_eq!(scene.cluster.ask(target, "DEL key"), int(1));
    assert_eq!(scene.cluster.ask(target, "GET key"), Value::Null, "deleted here is not 'not here yet'");
    scene.finish(id);
    assert_eq!(scene.cluster.ask(target, "GET never"), Value::Null);
    assert_eq!(scene.cluster.ask(target, "GET key"), Value::Null);
}

/// By every protocol, the answer follows its choices if the target serves meanwhile, and every client gets
/// the value.
#[test]
fn the_answer_for_a_key_that_is_not_here_yet() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(keys("key", 10));
        let (target, source) = (scene.cluster.connect_aware(1, 0), scene.cluster.connect_aware(0, 0));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.send(target, "GET key1");
        let at_once = scene.cluster.reply_now(target);
        match scene.protocol.missing {
            OnMissing::SaysNotHereYet => assert_eq!(at_once, Some(empty(id))),
            OnMissing::Waits => {
                assert_eq!(at_once, None);
                assert_eq!(scene.cluster.reply(target), bulk("old-key1"));
            }
            OnMissing::SaysRetry { after_us } => {
                let again = error(&format!("SIDLERETRY {after_us} the key is on its way"));
                assert_eq!(at_once, Some(again.clone()));
                assert_eq!(scene.cluster.ask(target, "INCR counter"), again, "of any command");
                scene.cluster.run_for(5_000);
                assert_eq!(scene.cluster.ask(target, "GET key1"), bulk("old-key1"));
            }
        }
        let frozen = scene.cluster.ask(source, &format!("SIDLE.FROZEN {id} GET key2"));
        let expected = match scene.protocol.source_reads {
            SourceReads::AnswersFrozen => bulk("old-key2"),
            SourceReads::Redirects => {
                error("ERR the source of this migration answers no reads, ask the owner")
            }
        };
        assert_eq!(frozen, expected);
        assert_eq!(scene.cluster.ask(target, "INCR counter"), int(1));
        scene.finish(id);
        assert_eq!(scene.cluster.ask(target, "GET counter"), bulk("1"));
    });
}

#[test]
fn other_commands_of_an_aware_client_wait() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 10));
    let target = scene.cluster.connect_aware(1, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    assert_eq!(
        scene.cluster.ask(target, "MGET key1 key2"),
        Value::Array(vec![bulk("old-key1"), bulk("old-key2")])
    );
    assert_eq!(scene.cluster.ask(target, "STRLEN key3"), int(8));
    assert_eq!(scene.cluster.ask(target, "APPEND key4 x"), int(9));
    scene.finish(id);
}

#[test]
fn a_frozen_read_of_an_expired_record_is_absent() {
    let mut scene = Scene::new();
    scene.ask(0, "SET key v PX 20");
    let source = scene.cluster.connect_aware(0, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    scene.cluster.run_for(30_000);
    assert_eq!(scene.cluster.ask(source, &format!("SIDLE.FROZEN {id} GET key")), Value::Null);
    scene.finish(id);
}

/// The migration and the partitions' positions of a progress attribute.
fn progress((name, value): &(Value, Value)) -> (MigrationId, Vec<Option<Position>>) {
    assert_eq!(name, &Value::Simple("sidle-progress".into()));
    let Value::Array(items) = value else { panic!("not an array: {value:?}") };
    let Value::Integer(id) = items[0] else { panic!("no migration") };
    let positions = items[1..].iter().map(|item| match item {
        Value::Bulk(text) if text == b"done" => None,
        Value::Bulk(text) => Some(String::from_utf8_lossy(text).parse().expect("a position")),
        other => panic!("not a position: {other:?}"),
    });
    (MigrationId(id as u64), positions.collect())
}

#[test]
fn progress_is_sent_when_it_moved_and_never_to_others() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 2000));
    let (aware, plain) = (scene.cluster.connect_aware(1, 0), scene.to[1]);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    scene.cluster.ask(aware, "GET key1");
    let first = scene.cluster.client(aware).take_attributes();
    assert_eq!(first.len(), 1, "the first reply carries it");
    assert_eq!(progress(&first[0]).0, id);
    scene.cluster.run_for(5_000);
    scene.cluster.ask(aware, "GET key1");
    assert_eq!(scene.cluster.client(aware).take_attributes(), [], "it has not moved");
    scene.cluster.network.release();
    let mut seen = progress(&first[0]).1;
    let mut tellings = 0;
    for round in 0..400 {
        scene.cluster.run_for(20);
        scene.cluster.ask(aware, &format!("GET key{round}"));
        for attribute in scene.cluster.client(aware).take_attributes() {
            let (of, now) = progress(&attribute);
            assert_eq!(of, id);
            let later = |position: &Option<Position>| position.map_or(u64::MAX, |position| position.0);
            assert!(seen.iter().zip(&now).all(|(a, b)| later(a) <= later(b)), "M7: progress went back");
            seen = now;
            tellings += 1;
        }
        scene.cluster.ask(plain, "GET key1");
    }
    assert!(tellings > 0);
    assert_eq!(scene.cluster.client(plain).take_attributes(), [], "no other client receives it");
    scene.finish(id);
    scene.cluster.ask(aware, "GET key1");
    assert_eq!(scene.cluster.client(aware).take_attributes(), [], "it is over");
}

#[test]
fn hot_keys_arrive_out_of_turn_by_sampling() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 50));
    let target = scene.cluster.connect_aware(1, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    // One miss in a hundred is offered for a sampled pull; nothing else brings a record here now.
    for _ in 0..100 {
        (0..20).for_each(|_| scene.cluster.send(target, "GET key7"));
        scene.cluster.run_for(200);
        let replies: Vec<Value> = std::iter::from_fn(|| scene.cluster.client(target).receive()).collect();
        if replies.contains(&bulk("old-key7")) {
            assert_eq!(scene.cluster.ask(target, "GET key8"), empty(id), "nobody asked for this one");
            return scene.finish(id);
        }
    }
    panic!("none of two thousand misses of one key was sampled");
}

#[test]
fn attributes_do_not_stand_before_pushes_or_waiting_commands() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 10));
    let target = scene.cluster.connect_aware(1, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    // It waits, and runs again: the progress is sent once, with the reply.
    assert_eq!(scene.cluster.ask(target, "INCR number"), int(1));
    assert_eq!(scene.cluster.client(target).take_attributes().len(), 1);
    scene.finish(id);
}

#[test]
fn the_map_is_pushed_to_clients_that_opted_in() {
    let mut scene = Scene::new();
    let aware = scene.cluster.connect_aware(0, 1);
    let plain = scene.cluster.connect(0, 1);
    scene.cluster.ask(plain, "HELLO 3");
    let id = scene.start("SLOTS 0-99", 1);
    scene.finish(id);
    let mut epochs = Vec::new();
    while let Some(push) = scene.cluster.client(aware).receive_push() {
        let Value::Push(items) = push else { panic!("not a push") };
        assert_eq!(items[0], bulk("sidle-map"));
        let Value::Integer(epoch) = items[1] else { panic!("no epoch") };
        epochs.push(epoch);
    }
    assert!(epochs.len() >= 2 && epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    assert_eq!(scene.cluster.client(plain).receive_push(), None);
    let Value::Bulk(json) = scene.cluster.ask(aware, "SIDLE.MAP") else { panic!("no map") };
    let map: sidle_cluster::TabletMap = serde_json::from_slice(&json).expect("a map");
    assert_eq!(map.epoch().0 as i64, *epochs.last().expect("a push was received"));
}

#[test]
fn capa_over_resp2_changes_nothing() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    let client = scene.cluster.connect(1, 0);
    scene.cluster.ask(client, "CLIENT CAPA sidle");
    assert_eq!(scene.cluster.ask(client, "GET key"), bulk("old-key"));
    assert_eq!(scene.cluster.client(client).take_attributes(), []);
    scene.finish(id);
}
