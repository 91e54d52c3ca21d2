//! The fields of CLUSTER and CLIENT LIST against a Redis Cluster's: their names and forms.
//!
//! Fields that only Redis shows are listed here with the reason, and the lists hold nothing else.

use crate::introspection::form;
use crate::server::RedisCluster;
use crate::support::{Client, TestCluster, eventually};
use sidle_resp::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Fields that are not shown: the command, the reason, the names.
const NOT_SHOWN: &[(&str, &str, &[&str])] = &[
    (
        "CLUSTER INFO",
        "there is no gossip, whose messages are of these kinds",
        &[
            "cluster_stats_messages_ping_sent",
            "cluster_stats_messages_ping_received",
            "cluster_stats_messages_pong_sent",
            "cluster_stats_messages_pong_received",
            "cluster_stats_messages_meet_sent",
            "cluster_stats_messages_meet_received",
            "cluster_stats_messages_update_sent",
            "cluster_stats_messages_update_received",
        ],
    ),
    (
        "CLUSTER INFO",
        "a connection that cannot take more loses messages, and is not closed",
        &["total_cluster_links_buffer_limit_exceeded"],
    ),
    (
        "CLUSTER LINKS",
        "what the buffers of messages have beyond the messages is not measured",
        &["send-buffer-allocated"],
    ),
    (
        "CLIENT LIST",
        "a connection has no reply buffer of its own: what waits is one piece, which oll and omem count",
        &["rbs", "rbp", "obl"],
    ),
];

/// Fields of later versions, or of a node only.
const UNKNOWN_TO_REDIS: &[&str] = &["sidle_coordinator_id", "lib-name", "lib-ver"];

fn text(client: &mut Client, request: &[&str]) -> String {
    let reply = client.request(request);
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_else(|| panic!("no text: {reply:?}"))).into_owned()
}

fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(elements) => elements,
        other => panic!("no array: {other:?}"),
    }
}

/// The fields must be the same except for the listed ones, and their values of one form.
fn compare(of: &str, redis: &BTreeMap<String, String>, sidle: &BTreeMap<String, String>) {
    let listed = NOT_SHOWN.iter().filter(|(what, ..)| *what == of).flat_map(|(.., names)| *names);
    let listed: BTreeSet<&str> = listed.copied().collect();
    for (name, value) in redis.iter().filter(|(name, _)| !listed.contains(name.as_str())) {
        let own = sidle.get(name).unwrap_or_else(|| panic!("{of}: {name} is not shown"));
        assert_eq!(form(value), form(own), "{of}, {name}: {value}, {own}");
    }
    for name in sidle.keys() {
        let is_known = redis.contains_key(name) || UNKNOWN_TO_REDIS.contains(&name.as_str());
        assert!(is_known && !listed.contains(name.as_str()), "{of}: Redis shows no {name}");
    }
}

fn colon_separated(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn pairs(value: Value) -> BTreeMap<String, String> {
    let words: Vec<String> = elements(value)
        .into_iter()
        .map(|element| match element {
            Value::Integer(number) => number.to_string(),
            Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("no word: {other:?}"),
        })
        .collect();
    words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// The names in order and the forms of values, for a reply of names, numbers and addresses.
fn shape(value: &Value) -> String {
    match value {
        Value::Integer(_) => "an integer".to_owned(),
        Value::Array(elements) => format!("[{}]", elements.iter().map(shape).collect::<Vec<_>>().join(", ")),
        Value::Bulk(text) => match std::str::from_utf8(text).expect("no binary") {
            id if id.len() == 40 => "an id".to_owned(),
            word if word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => word.to_owned(),
            other => form(other).to_owned(),
        },
        other => panic!("{other:?}"),
    }
}

/// One line of CLUSTER NODES by the form of each of its fields.
fn line_shape(line: &str) -> Vec<&str> {
    let field = |(index, field): (usize, &'_ str)| match index {
        0 => {
            if field.len() == 40 && field.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                "an id"
            } else {
                "?"
            }
        }
        1 => {
            let port = |port: &str| port.parse::<u16>().is_ok();
            let parts = field.rsplit_once('@').and_then(|(at, bus)| Some((at.rsplit_once(':')?.1, bus)));
            if parts.is_some_and(|(client, bus)| port(client) && port(bus)) { "an address" } else { "?" }
        }
        2 => {
            if field.contains("myself") {
                "myself,master"
            } else {
                "master"
            }
        }
        3 => {
            if field == "-" {
                "-"
            } else {
                "?"
            }
        }
        4..7 => form(field),
        7 => {
            if field == "connected" {
                "connected"
            } else {
                "?"
            }
        }
        _ => "slots",
    };
    line.split(' ').enumerate().map(field).collect()
}

fn shapes_of_nodes(client: &mut Client) -> BTreeSet<Vec<String>> {
    let text = text(client, &["CLUSTER", "NODES"]);
    text.lines().map(|line| line_shape(line).into_iter().map(str::to_owned).collect()).collect()
}

/// The shapes of a reply's elements, each once: the nodes' order is by chance.
fn shapes(client: &mut Client, request: &[&str]) -> BTreeSet<String> {
    elements(client.request(request)).iter().map(shape).collect()
}

/// Fields of a line of CLIENT LIST, in order.
fn client_fields(client: &mut Client) -> (Vec<String>, BTreeMap<String, String>) {
    let line = text(client, &["CLIENT", "INFO"]);
    let pairs: Vec<(String, String)> = line
        .split_whitespace()
        .map(|field| field.split_once('=').expect("name=value"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (pairs.iter().map(|(name, _)| name.clone()).collect(), pairs.into_iter().collect())
}

#[test]
fn patterns_of_sort_are_refused_as_in_a_redis_cluster() {
    let Some(redis) = RedisCluster::start() else { return };
    // Where one node has everything, they are served: the names may lie anywhere.
    let cluster = TestCluster::start(2);
    let mut clients = [redis.client(), cluster.client(0)];
    cluster.wait_for_migration(cluster.start_migration("0-99", 1));
    let key = "l";
    let mut ask = |request: &[&str]| {
        let [redis, sidle] = clients.each_mut().map(|client| client.request(request));
        assert_eq!(redis, sidle, "{request:?}");
        redis
    };
    ask(&["RPUSH", key, "2", "1"]);
    for command in ["SORT", "SORT_RO"] {
        for options in
            [&["BY", "w_*"][..], &["GET", "w_*"], &["BY", "nosort", "GET", "*->f"], &["DESC", "BY", "*"]]
        {
            let reply = ask(&[&[command, key], options].concat());
            assert!(matches!(reply, Value::Error(_)), "{options:?}");
        }
        ask(&[command, key, "BY", "w_"]);
    }
}

#[test]
fn cluster_and_clients_are_shown_in_redis_s_forms() {
    let Some(redis_cluster) = RedisCluster::start() else { return };
    let cluster = TestCluster::start(2);
    let (mut redis, mut sidle) = (redis_cluster.client(), cluster.client(0));
    let info = ["CLUSTER", "INFO"];
    let infos = [&mut redis, &mut sidle].map(|client| colon_separated(&text(client, &info)));
    compare("CLUSTER INFO", &infos[0], &infos[1]);

    let links = [&mut redis, &mut sidle].map(|client| elements(client.request(&["CLUSTER", "LINKS"])));
    let [redis_links, sidle_links] = links.map(|links| links.into_iter().map(pairs).collect::<Vec<_>>());
    assert!(!redis_links.is_empty() && !sidle_links.is_empty());
    for own in &sidle_links {
        compare("CLUSTER LINKS", &redis_links[0], own);
    }
    assert_eq!(shapes_of_nodes(&mut redis), shapes_of_nodes(&mut sidle));
    for what in ["SHARDS", "SLOTS"] {
        let request = ["CLUSTER", what];
        assert_eq!(shapes(&mut redis, &request), shapes(&mut sidle, &request), "CLUSTER {what}");
    }

    let (redis_order, redis_fields) = client_fields(&mut redis);
    let (sidle_order, sidle_fields) = client_fields(&mut sidle);
    compare("CLIENT LIST", &redis_fields, &sidle_fields);
    let common = |names: &[String], others: &BTreeMap<String, String>| -> Vec<String> {
        names.iter().filter(|name| others.contains_key(*name)).cloned().collect()
    };
    assert_eq!(common(&redis_order, &sidle_fields), common(&sidle_order, &redis_fields));
}

/// Redis knows CLUSTER SLOT-STATS since 8.2.
#[test]
fn slot_stats_are_shown_in_redis_s_form() {
    let Some(redis_cluster) = RedisCluster::start() else { return };
    let cluster = TestCluster::start(1);
    let (mut redis, mut sidle) = (redis_cluster.client(), cluster.client(0));
    if let Value::Error(why) = redis.request(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", "0"]) {
        eprintln!("skipped: this redis-server is older than CLUSTER SLOT-STATS: {why}");
        return;
    }
    redis.request(&["CONFIG", "SET", "cluster-slot-stats-enabled", "yes"]);
    for request in [
        "SLOTSRANGE 0 3",
        "ORDERBY key-count LIMIT 2",
        "ORDERBY cpu-usec ASC LIMIT 2",
        "ORDERBY network-bytes-in DESC LIMIT 2",
        "ORDERBY network-bytes-out LIMIT 2",
        "SLOTSRANGE 3",
        "SLOTSRANGE 3 2",
        "SLOTSRANGE x 2",
        "ORDERBY keys",
        "ORDERBY key-count LIMIT 0",
        "ORDERBY key-count ASC ASC",
        "ORDERBY key-count UP",
    ] {
        let words: Vec<&str> = ["CLUSTER", "SLOT-STATS"].into_iter().chain(request.split(' ')).collect();
        let replies = [&mut redis, &mut sidle].map(|client| without_memory(client.request(&words)));
        match replies {
            [Value::Array(theirs), Value::Array(ours)] => {
                assert_eq!(shape(&Value::Array(theirs)), shape(&Value::Array(ours)), "{request}");
            }
            [theirs, ours] => assert_eq!(theirs, ours, "{request}"),
        }
    }
}

/// The same without `memory-bytes`, which Redis shows since 8.4.
fn without_memory(value: Value) -> Value {
    let Value::Array(mut elements) = value else { return value };
    if let Some(at) = elements.iter().position(|element| element.as_bytes() == Some(b"memory-bytes")) {
        elements.drain(at..at + 2);
    }
    Value::Array(elements.into_iter().map(without_memory).collect())
}

/// And the figures of messages and connections are measured.
#[test]
fn messages_and_links_between_nodes_are_counted() {
    let cluster = TestCluster::start(2);
    let [founder, member] = [0, 1].map(|index| {
        let mut client = cluster.client(index);
        text(&mut client, &["CLUSTER", "MYID"])
    });
    for (index, other, direction) in [(0, &member, "from"), (1, &founder, "to")] {
        let mut client = cluster.client(index);
        let messages = |client: &mut Client| {
            let info = colon_separated(&text(client, &["CLUSTER", "INFO"]));
            ["sent", "received"]
                .map(|way| info[&format!("cluster_stats_messages_{way}")].parse::<u64>().expect("a number"))
        };
        let before = messages(&mut client);
        // Each heartbeat is answered.
        eventually("messages are counted", || {
            let now = messages(&mut client);
            (now[0] >= before[0] + 3 && now[1] >= before[1] + 3).then_some(())
        });
        let links: Vec<_> = elements(client.request(&["CLUSTER", "LINKS"])).into_iter().map(pairs).collect();
        assert_eq!(links.len(), 1, "{links:?}");
        assert_eq!((links[0]["node"].as_str(), links[0]["direction"].as_str()), (other.as_str(), direction));
        let now_ms =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later").as_millis();
        let opened_ms: u128 = links[0]["create-time"].parse().expect("a number");
        assert!(
            (now_ms.saturating_sub(120_000)..=now_ms + 1_000).contains(&opened_ms),
            "{opened_ms} {now_ms}"
        );
        for line in text(&mut client, &["CLUSTER", "NODES"]).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let pong_ms: u128 = words[5].parse().expect("a number");
            match words[0] == other {
                true => assert!(now_ms.abs_diff(pong_ms) < 5_000, "{line}"),
                false => assert_eq!(pong_ms, 0, "a node has no messages of its own: {line}"),
            }
        }
    }
}
