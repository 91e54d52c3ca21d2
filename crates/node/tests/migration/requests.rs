//! The coordinator's handling of requests, as clients see it.

use crate::common::*;
use sidle_migration::PROTOCOLS;
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;
use sidle_types::MigrationId;

fn refusal(scene: &mut Scene, request: &str) -> String {
    match scene.ask(0, request) {
        Value::Error(text) => text,
        other => panic!("{request} is not refused: {other:?}"),
    }
}

#[test]
fn an_overlapping_migration_is_refused() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 10));
        let id = scene.start_and_hold("SLOTS 0-8191", 1);
        let why = refusal(&mut scene, "SIDLE.MIGRATE START SLOTS 8000-9000 TO 127.0.0.1:7002");
        assert!(why.starts_with("ERR "), "{why}");
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
    });
}

#[test]
fn nonsense_is_refused() {
    let mut scene = Scene::new();
    for request in [
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:9999",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:7001",
        "SIDLE.MIGRATE START SLOTS 0-99999 TO 127.0.0.1:7002",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO nowhere",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:7002 PROTOCOL magic",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:7002 PROTOCOL fulva,speed=9",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:7002 FAST",
        "SIDLE.MIGRATE START SLOTS 0-8191 TO 127.0.0.1:7002 PROTOCOL fulva RATE 0",
        "SIDLE.MIGRATE SET 77 ADAPTIVE",
        "SIDLE.MIGRATE SET 77 SLOW",
        "SIDLE.MIGRATE CANCEL 77",
        "SIDLE.MIGRATE STATUS 77",
        "SIDLE.MIGRATE WAIT 77 10",
        "SIDLE.MIGRATE WAIT 77",
        "SIDLE.MIGRATE WAIT 77 5001",
        "SIDLE.MIGRATE WAIT 77 -1",
        "SIDLE.MIGRATE WAIT 77 18446744073709551615",
    ] {
        let why = refusal(&mut scene, request);
        assert!(why.starts_with("ERR "), "{request}: {why}");
    }
    assert_eq!(scene.ask(0, "SIDLE.MIGRATE STATUS"), bulk("[]"));
}

#[test]
fn a_second_migration_waits_for_the_first() {
    for_protocols_that(
        |_| true,
        3,
        |mut scene| {
            scene.fill(keys("key", 200));
            let first = scene.start_and_hold("SLOTS 0-4095", 1);
            let second = scene.start("SLOTS 4096-8191", 2);
            scene.cluster.run_for(100_000);
            assert_eq!(scene.state(second), "queued");
            scene.finish(first);
            scene.finish(second);
            assert_eq!((scene.state(first).as_str(), scene.state(second).as_str()), ("done", "done"));
            let count = |scene: &mut Scene, node: usize| match scene.ask(node, "DBSIZE") {
                Value::Integer(count) => count,
                other => panic!("{other:?}"),
            };
            let counts = [0, 1, 2].map(|node| count(&mut scene, node));
            assert_eq!(counts.iter().sum::<i64>(), 200);
            assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
        },
    );
}

#[test]
fn cancel_while_queued() {
    for_protocols_that(
        |_| true,
        3,
        |mut scene| {
            scene.fill(keys("key", 50));
            let first = scene.start_and_hold("SLOTS 0-4095", 1);
            let second = scene.start("SLOTS 4096-8191", 2);
            assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {second}")), ok());
            scene.finish(first);
            assert_eq!(scene.state(second), "cancelled");
            assert_eq!(scene.ask(2, "DBSIZE"), int(0));
        },
    );
}

#[test]
fn cancel_while_preparing() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 50));
        // The target cannot report that it is ready, since it is not connected yet.
        scene.cluster.network.hold_opening = true;
        let other = scene.cluster.connect(0, 1);
        let start =
            format!("SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7002 PROTOCOL {}", scene.protocol.name);
        scene.cluster.send(other, &start);
        scene.cluster.run_for(10_000);
        let id = MigrationId(1);
        assert_eq!(scene.state(id), "preparing");
        assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")), ok());
        assert!(matches!(scene.cluster.reply(other), Value::Error(_) | Value::Integer(1)));
        scene.cluster.network.release();
        scene.cluster.run_for(1_000_000);
        assert_eq!(scene.state(id), "cancelled");
        assert_eq!(scene.ask(0, "GET key7"), bulk("old-key7"));
        assert_eq!(scene.ask(1, "GET key7"), moved("key7", 0));
        // It leaves no trace: the same range moves at once.
        let again = scene.start("SLOTS 0-16383", 1);
        scene.finish(again);
        assert_eq!(scene.ask(1, "GET key7"), bulk("old-key7"));
    });
}

#[test]
fn an_unreachable_source_is_a_clear_refusal() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 5));
        scene.cluster.network.is_cut = true;
        let start =
            format!("SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7002 PROTOCOL {}", scene.protocol.name);
        let why = refusal(&mut scene, &start);
        assert!(why.contains("cannot reach the source"), "{why}");
        assert_eq!(scene.state(MigrationId(1)), "failed");
        assert_eq!(scene.ask(0, "GET key1"), bulk("old-key1"));
    });
}

#[test]
fn what_is_no_migrations_id_is_refused_with_what_an_id_is() {
    let mut scene = Scene::new();
    for id in ["0", "-1", "x", "9007199254740992", "9223372036854775807", "18446744073709551616"] {
        for request in [format!("CANCEL {id}"), format!("STATUS {id}")] {
            let why = refusal(&mut scene, &format!("SIDLE.MIGRATE {request}"));
            let expected = "ERR a migration's id is a number from 1 to 9007199254740991";
            assert!(why.starts_with(expected), "{request}: {why}");
        }
    }
    let why = refusal(&mut scene, "SIDLE.MIGRATE CANCEL 9007199254740991");
    assert!(why.contains("no migration"), "an id without a migration: {why}");
}

#[test]
fn cancel_while_running_is_refused() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        scene.fill(keys("key", 50));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let why = refusal(&mut scene, &format!("SIDLE.MIGRATE CANCEL {id}"));
        assert!(why.starts_with("ERR "), "{why}");
        assert_eq!(scene.client("GET key7"), bulk("old-key7"));
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
    });
}

#[test]
fn cancel_after_the_end_is_refused() {
    for_every_protocol(|mut scene| {
        let id = scene.start("SLOTS 0-16383", 1);
        scene.finish(id);
        let why = refusal(&mut scene, &format!("SIDLE.MIGRATE CANCEL {id}"));
        assert!(why.starts_with("ERR "), "{why}");
    });
}

#[test]
fn a_target_without_memory_refuses_before_anything_changes() {
    let setup = ClusterSetup { memory_bytes: vec![64 << 20, 16 << 20], ..ClusterSetup::default() };
    let mut scene = Scene::of(setup);
    let value = "v".repeat(100_000);
    for index in 0..200 {
        assert_eq!(scene.ask(0, &format!("SET key{index} {value}")), ok());
    }
    let why = refusal(&mut scene, "SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7002");
    assert!(why.contains("no memory"), "{why}");
    assert_eq!(scene.state(MigrationId(1)), "failed");
    assert_eq!(scene.ask(0, "STRLEN key7"), int(100_000));
    assert_eq!(scene.ask(1, "STRLEN key7"), moved("key7", 0));
}

#[test]
fn a_target_that_runs_out_of_memory_in_the_middle_stalls_and_serves() {
    let setup = ClusterSetup { memory_bytes: vec![64 << 20, 24 << 20], ..ClusterSetup::default() };
    let mut scene = Scene::of(setup);
    let value = "v".repeat(100_000);
    for index in 0..150 {
        assert_eq!(scene.ask(0, &format!("SET key{index} {value}")), ok());
    }
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    // Clients' writes at the target take the planned room.
    let mut filled = Vec::new();
    for index in 0..200 {
        match scene.ask(1, &format!("SET fill{index} {value}")) {
            Value::Simple(_) => filled.push(index),
            Value::Error(text) => {
                assert!(text.starts_with("OOM "), "{text}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    scene.cluster.network.release();
    scene.cluster.run_for(2_000_000);
    assert_eq!(scene.state(id), "running");
    let Value::Bulk(json) = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else { panic!("no status") };
    assert!(String::from_utf8_lossy(&json).contains("out of memory"), "{}", String::from_utf8_lossy(&json));
    assert_eq!(scene.ask(1, &format!("STRLEN fill{}", filled[0])), int(100_000), "the range is served");
    let early = scene.ask(1, "STRLEN key149");
    let refused = matches!(&early, Value::Error(text) if text.starts_with("OOM "));
    assert!(refused || early == int(100_000), "{early:?}");
    // Room again: it continues by itself.
    for index in filled {
        scene.ask(1, &format!("DEL fill{index}"));
    }
    let mut cleaner = scene.cluster.nodes[1].parts.store.cleaner();
    for _ in 0..2_000 {
        let _ = cleaner.step(64 << 10);
    }
    scene.finish(id);
    for index in 0..150 {
        assert_eq!(scene.ask(1, &format!("STRLEN key{index}")), int(100_000));
    }
}

#[test]
fn status_reports_nodes_tablets_and_migrations() {
    let mut scene = Scene::new();
    let id = scene.start_and_hold("SLOTS 0-99", 1);
    let Value::Bulk(json) = scene.ask(1, "SIDLE.STATUS") else { panic!("no status") };
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(report["nodes"].as_array().expect("nodes").len(), 2);
    assert_eq!(report["migrations"][0]["id"], serde_json::json!(id));
    assert_eq!(id, MigrationId(1));
    scene.finish(id);
}

#[test]
fn a_wait_ends_with_its_migration_or_its_time() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 100));
    let id = scene.start_and_hold("SLOTS 0-8191", 1);
    let state = |answer: Value| {
        let json = answer.as_bytes().expect("a status").to_vec();
        let status: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(status["id"], serde_json::json!(id));
        status["state"].as_str().expect("a name").to_owned()
    };
    assert_eq!(state(scene.ask(1, &format!("SIDLE.MIGRATE WAIT {id} 20"))), "running");
    scene.cluster.network.release();
    assert_eq!(state(scene.ask(1, &format!("SIDLE.MIGRATE WAIT {id} 5000"))), "done");
    assert_eq!(state(scene.ask(0, &format!("SIDLE.MIGRATE WAIT {id} 0"))), "done");
}

#[test]
fn a_policy_is_followed_and_may_change() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::new();
        let value = "v".repeat(1_000);
        for key in keys("key", 1_000) {
            scene.ask(0, &format!("SET {key} {value}"));
        }
        let start = format!("SLOTS 0-16383 TO 127.0.0.1:7002 PROTOCOL {} RATE 100000", protocol.name);
        let id = match scene.ask(0, &format!("SIDLE.MIGRATE START {start}")) {
            Value::Integer(id) => MigrationId(id as u64),
            other => panic!("{other:?}"),
        };
        scene.cluster.run_for(2_000_000);
        let report = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")).as_bytes().unwrap().to_vec();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let moved = report["bytes_moved"].as_u64().unwrap();
        assert!((50_000..400_000).contains(&moved), "{}: {moved} bytes in two seconds", protocol.name);
        assert_eq!(report["policy"], serde_json::json!({ "rate": { "bytes_per_s": 100_000 } }));
        assert_eq!(scene.ask(1, &format!("SIDLE.MIGRATE SET {id} DEADLINE 500")), ok());
        scene.cluster.run_for(1_000_000);
        assert_eq!(scene.state(id), "done", "{}", protocol.name);
        let why = refusal(&mut scene, &format!("SIDLE.MIGRATE SET {id} ADAPTIVE"));
        assert!(why.contains("is over"), "{why}");
    }
}
