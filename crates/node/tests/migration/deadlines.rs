//! Keys with a time to live, across a migration.

use crate::common::*;
use sidle_resp::Value;

fn pttl(scene: &mut Scene, node: usize, key: &str) -> i64 {
    match scene.ask(node, &format!("PTTL {key}")) {
        Value::Integer(left) => left,
        other => panic!("{other:?}"),
    }
}

/// At both nodes.
fn expired_keys(scene: &mut Scene) -> u64 {
    let counts = (0..2).map(|node| {
        let Value::Bulk(info) = scene.ask(node, "INFO stats") else { panic!("INFO is a text") };
        let info = String::from_utf8(info).expect("it is a text");
        let line = info.lines().find_map(|line| line.strip_prefix("expired_keys:")).expect("the line");
        line.parse::<u64>().expect("a number")
    });
    counts.sum()
}

#[test]
fn deadlines_travel() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "SET early v PX 100000");
        scene.ask(0, "SET bulk v PX 100000");
        let before = scene.ask(0, "PEXPIRETIME bulk");
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client("PEXPIRETIME early"), before, "in the middle");
        scene.finish(id);
        assert_eq!(scene.ask(1, "PEXPIRETIME bulk"), before, "at the end");
        assert!(pttl(&mut scene, 1, "bulk") < 100_000);
    });
}

#[test]
fn expired_at_the_target_stays_a_tombstone() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "SET key old");
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client("SET key short PX 20"), ok());
        scene.cluster.run_for(30_000);
        assert_eq!(scene.client("GET key"), Value::Null);
        // Active expiry removes it; a tombstone must keep the source's value out.
        let now = scene.cluster.now();
        let owner = usize::from(!copies_ahead(&scene.protocol));
        for _ in 0..10 {
            scene.cluster.nodes[owner].workers[0].expire(now, 100);
        }
        assert_eq!(scene.cluster.nodes[owner].parts.store.len(), 0);
        assert_eq!(scene.client("GET key"), Value::Null);
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key"), Value::Null, "M6: the old value came back from the dead");
    });
}

#[test]
fn expired_at_the_target_and_written_over_by_nobody_is_absent_to_writers() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "SET key 10");
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.client("SET key 5 PX 20");
        scene.cluster.run_for(30_000);
        assert_eq!(scene.client("INCR key"), int(1), "neither the expired value nor the source's");
        assert_eq!(expired_keys(&mut scene), 1, "it counts once");
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key"), bulk("1"));
    });
}

#[test]
fn the_frozen_source_does_not_expire() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        scene.ask(0, "SET key v PX 50");
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.run_for(60_000);
        let now = scene.cluster.now();
        for _ in 0..10 {
            scene.cluster.nodes[0].workers[0].expire(now, 100);
        }
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 1, "M2: a frozen record is gone");
        assert_eq!(scene.client("GET key"), Value::Null, "it is past its deadline all the same");
        assert_eq!(scene.client("SET key new NX"), ok());
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key"), bulk("new"));
    });
}

#[test]
fn expired_in_bulk_arrives_expired() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "SET key v PX 50");
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.run_for(60_000);
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key"), Value::Null);
        assert_eq!(scene.ask(1, "EXISTS key"), int(0));
    });
}
