//! Counting and listing keys while they move: each key counts once, at its owner, arrived or not.

use crate::common::*;
use sidle_node::testing::TestCluster;
use sidle_resp::Value;
use std::collections::BTreeSet;

/// The longest that the last blind write waits for its probe: two intervals and the ways.
const PROBED_US: u64 = 10_000;

fn number(reply: Value) -> i64 {
    match reply {
        Value::Integer(number) => number,
        other => panic!("not a number: {other:?}"),
    }
}

/// The sum of the nodes' own key counts. No time passes.
fn sum(scene: &mut Scene) -> i64 {
    (0..scene.to.len()).map(|node| number(scene.ask(node, "DBSIZE"))).sum()
}

/// The same sum from INFO and from the coordinator's report.
fn shown_sums(scene: &mut Scene) -> (i64, i64) {
    let keyspace = |scene: &mut Scene, node: usize| {
        let Value::Bulk(text) = scene.ask(node, "INFO keyspace") else { panic!("no text") };
        let text = String::from_utf8(text).expect("text");
        let keys = text.split_once("keys=").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        keys.unwrap_or(0)
    };
    let info = (0..scene.to.len()).map(|node| keyspace(scene, node)).sum();
    let Value::Bulk(json) = scene.ask(0, "SIDLE.STATUS") else { panic!("no status") };
    let status: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let nodes = status["nodes"].as_array().expect("nodes");
    (info, nodes.iter().map(|node| node["keys"].as_i64().expect("a number")).sum())
}

fn texts(reply: Value) -> BTreeSet<String> {
    let Value::Array(items) = reply else { panic!("no array: {reply:?}") };
    let text = |item| match item {
        Value::Bulk(text) => String::from_utf8(text).expect("text"),
        other => panic!("no text: {other:?}"),
    };
    items.into_iter().map(text).collect()
}

/// Sets keys with values long enough for several pulls.
fn fill_with_long_values(scene: &mut Scene, keys: &[String]) {
    let value = "x".repeat(700);
    for key in keys {
        assert_eq!(scene.ask(0, &format!("SET {key} {value}")), ok());
    }
}

#[test]
fn dbsize_adds_up_while_a_range_is_handed_over() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 100));
        let id = scene.start("SLOTS 0-16383", 1);
        let mut doubled = 0;
        for _ in 0..200 {
            scene.cluster.run_for(10);
            let sum = sum(&mut scene);
            // In transit nobody counts what is given bit by bit.
            let other = if by_cuts(&scene.protocol) { 0 } else { 200 };
            assert!(sum == 100 || sum == other, "{sum} of 100 are counted");
            doubled += u64::from(sum == other);
        }
        assert!(doubled * 10 <= TestCluster::ROUND_TRIP_US, "both or none counted for {doubled} steps");
        scene.finish(id);
        assert_eq!(sum(&mut scene), 100);
    });
}

#[test]
fn counts_add_up_in_the_middle_with_deletions_and_overwrites() {
    for_every_protocol(|mut scene| {
        let old = keys("key", 200);
        scene.fill(old.clone());
        let mut model: BTreeSet<String> = old.into_iter().collect();
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.run_for(PROBED_US);
        assert_eq!(sum(&mut scene), 200);
        for index in 0..20 {
            scene.client(&format!("SET key{index} new"));
            scene.client(&format!("SET fresh{index} new"));
            model.insert(format!("fresh{index}"));
            scene.client(&format!("GET key{}", 40 + index));
            scene.client(&format!("DEL key{}", 50 + index));
            model.remove(&format!("key{}", 50 + index));
            scene.client(&format!("INCRBY number{index} 1"));
            model.insert(format!("number{index}"));
            scene.client(&format!("DEL never{index}"));
        }
        // Overwritten, then deleted; made here, then deleted.
        scene.client("DEL key0");
        scene.client("DEL fresh0");
        model.remove("key0");
        model.remove("fresh0");
        scene.cluster.run_for(PROBED_US);
        let expected = model.len() as i64;
        assert_eq!(sum(&mut scene), expected);
        scene.cluster.run_for(500_000);
        assert_eq!(shown_sums(&mut scene), (expected, expected));
        scene.finish(id);
        assert_eq!(sum(&mut scene), expected);
    });
}

#[test]
fn counts_add_up_while_records_arrive() {
    for_every_protocol(|mut scene| {
        let old = keys("key", 1_500);
        fill_with_long_values(&mut scene, &old);
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let expected = 1_500;
        let mut in_the_middle = 0;
        for step in 0..200 {
            scene.cluster.network.release();
            scene.cluster.run_for(30);
            scene.cluster.network.hold_bulk = true;
            if serves_while_it_fills(&scene.protocol) {
                // One is overwritten, one is made, one is deleted; some of them have arrived.
                scene.client(&format!("SET key{} new", 7 * step));
                scene.client(&format!("SET fresh{step} new"));
                scene.client(&format!("DEL key{}", 7 * step + 1));
            }
            scene.cluster.run_for(PROBED_US);
            assert_eq!(sum(&mut scene), expected, "step {step}");
            let table = scene.cluster.nodes[1].workers[0].ranges().clone();
            let Some(view) = table.import(id) else { break };
            let arrived = view.progress().filter(Option::is_none).count();
            in_the_middle += usize::from(view.activated() && arrived < view.partitions().len());
        }
        assert!(in_the_middle > 3 || !serves_while_it_fills(&scene.protocol), "{in_the_middle} moments");
        scene.finish(id);
        assert_eq!(sum(&mut scene), expected);
    });
}

/// One call of SCAN over this connection: the next cursor, and the keys.
fn scan(reply: Value) -> (String, BTreeSet<String>) {
    let Value::Array(reply) = reply else { panic!("no array: {reply:?}") };
    let [Value::Bulk(next), keys] = <[Value; 2]>::try_from(reply).expect("a cursor and keys") else {
        panic!("no cursor")
    };
    (String::from_utf8(next).expect("text"), texts(keys))
}

#[test]
fn scan_waits_where_keys_have_not_arrived_and_finds_all_of_them() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        let all = keys("key", 300);
        scene.fill(all.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let walker = scene.cluster.connect(1, 1);
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        let held_until = scene.cluster.now().mono.plus_us(5_500_000);
        let (mut calls, mut calls_while_held) = (0, 0);
        loop {
            let (next, keys) = scan(scene.cluster.ask(walker, &format!("SCAN {cursor} COUNT 20")));
            calls += 1;
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
            if scene.cluster.now().mono < held_until {
                calls_while_held += 1;
            } else {
                scene.cluster.network.release();
            }
        }
        assert!((4..=8).contains(&calls_while_held), "{calls_while_held} calls in five seconds");
        assert!(calls < 60, "{calls} calls");
        assert_eq!(found, all.into_iter().collect());
        scene.finish(id);
    });
}

#[test]
fn scan_goes_on_as_soon_as_keys_arrive() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        scene.fill(keys("key", 50));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let walker = scene.cluster.connect(1, 1);
        scene.cluster.send(walker, "SCAN 0 COUNT 1000");
        scene.cluster.run_for(500_000);
        assert_eq!(scene.cluster.reply_now(walker), None, "it waits");
        scene.cluster.network.release();
        let released_at = scene.cluster.now().mono;
        let reply = scene.cluster.reply(walker);
        assert!(scene.cluster.now().mono.since(released_at) < 100_000, "the keys woke it");
        assert!(!scan(reply).1.is_empty());
        scene.finish(id);
    });
}

#[test]
fn whole_listings_wait_until_all_keys_have_arrived() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        // All in slot 5061, bar's.
        let all: BTreeSet<String> = (0..30).map(|index| format!("{{bar}}{index}")).collect();
        scene.fill(all.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let requests =
            ["KEYS *", "CLUSTER COUNTKEYSINSLOT 5061", "CLUSTER GETKEYSINSLOT 5061 100", "RANDOMKEY"];
        let waiting: Vec<_> = requests
            .iter()
            .map(|request| {
                let client = scene.cluster.connect(1, 0);
                scene.cluster.send(client, request);
                assert_eq!(scene.cluster.reply_now(client), None, "{request}");
                client
            })
            .collect();
        scene.cluster.run_for(2_000_000);
        scene.cluster.network.release();
        assert_eq!(texts(scene.cluster.reply(waiting[0])), all);
        assert_eq!(number(scene.cluster.reply(waiting[1])), 30);
        assert_eq!(texts(scene.cluster.reply(waiting[2])), all);
        let Value::Bulk(any) = scene.cluster.reply(waiting[3]) else { panic!("there are keys") };
        assert!(all.contains(std::str::from_utf8(&any).expect("text")));
        // Each of them waited, and ran again.
        let Value::Bulk(stats) = scene.ask(1, "INFO commandstats") else { panic!("no text") };
        let stats = String::from_utf8(stats).expect("text");
        for name in ["keys", "cluster|countkeysinslot", "cluster|getkeysinslot", "randomkey"] {
            assert!(stats.contains(&format!("cmdstat_{name}:calls=1,")), "{name} in {stats}");
        }
        scene.finish(id);
    });
}

#[test]
fn whole_listings_give_up_when_keys_do_not_arrive() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        scene.fill(keys("key", 30));
        let id = scene.start_and_hold("SLOTS 0-8191", 1);
        for request in ["KEYS *", "CLUSTER COUNTKEYSINSLOT 5061", "CLUSTER GETKEYSINSLOT 5061 100"] {
            let asked_at = scene.cluster.now().mono;
            let Value::Error(text) = scene.ask(1, request) else { panic!("{request} was answered") };
            assert!(text.starts_with("TRYAGAIN ") && text.contains("SCAN"), "{text}");
            assert!(scene.cluster.now().mono.since(asked_at) < 11_000_000);
            // Requests outside the migration are answered at once.
            let other = request.replace("5061", "12182").replace("KEYS *", "CLUSTER COUNTKEYSINSLOT 12182");
            let at_source = scene.ask(0, &other);
            assert!(!matches!(at_source, Value::Error(_)), "{at_source:?}");
            assert_eq!(scene.cluster.now().mono.since(asked_at) / 1_000_000, 10);
        }
        assert_eq!(scene.cluster.nodes[1].workers[0].parked(), 0);
        scene.finish(id);
    });
}

#[test]
fn listings_end_when_the_import_is_given_up() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(keys("key", 30));
        let _given_up = scene.start_and_hold("SLOTS 0-16383", 1);
        let waits = scene.cluster.connect(1, 1);
        scene.cluster.send(waits, "KEYS *");
        assert_eq!(scene.cluster.reply_now(waits), None);
        scene.cluster.restart(0);
        scene.cluster.network.release();
        assert_eq!(texts(scene.cluster.reply(waits)), BTreeSet::new(), "what had not arrived is lost");
        scene.to[0] = scene.cluster.connect(0, 0);
        assert_eq!(sum(&mut scene), 0);
    });
}
