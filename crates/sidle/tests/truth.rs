//! A node's answers to clients about the cluster while a part of it is away.

#![allow(clippy::disallowed_methods)] // a test reads the clock

mod support;

use sidle_resp::Value;
use std::collections::BTreeMap;
use support::{Client, TestCluster, bulk, eventually};

fn text(client: &mut Client, request: &[&str]) -> String {
    let reply = client.request(request);
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_else(|| panic!("no text: {reply:?}"))).into_owned()
}

fn info(client: &mut Client) -> BTreeMap<String, String> {
    let text = text(client, &["CLUSTER", "INFO"]);
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The lines of CLUSTER NODES by address: flags, state of the link, slots.
fn nodes(client: &mut Client) -> BTreeMap<String, (String, String, String)> {
    let text = text(client, &["CLUSTER", "NODES"]);
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let address = words[1].split('@').next().expect("host:port").to_owned();
        (address, (words[2].to_owned(), words[7].to_owned(), words[8..].join(" ")))
    };
    text.lines().map(line).collect()
}

fn slot_runs(client: &mut Client) -> usize {
    match client.request(&["CLUSTER", "SLOTS"]) {
        Value::Array(runs) => runs.len(),
        other => panic!("no array: {other:?}"),
    }
}

/// Three nodes; the second has slots 0 to 8191.
fn three_nodes() -> TestCluster {
    let cluster = TestCluster::start(3);
    let id = cluster.start_migration("0-8191", 1);
    cluster.wait_for_migration(id);
    cluster
}

#[test]
fn a_killed_node_is_shown_as_failing_until_it_is_back() {
    let mut cluster = three_nodes();
    let dead = cluster.nodes[1].address();
    cluster.nodes[1].kill();
    for index in [0, 2] {
        let mut client = cluster.client(index);
        eventually("the others show it as failing", || {
            let (flags, link, slots) = nodes(&mut client).remove(&dead)?;
            assert_eq!(slots, "0-8191", "its slots stay its own");
            (flags == "master,fail" && link == "disconnected").then_some(())
        });
        let info = info(&mut client);
        let values = ["state", "slots_assigned", "slots_ok", "slots_fail"];
        let values = values.map(|name| info[&format!("cluster_{name}")].as_str());
        assert_eq!(values, ["fail", "16384", "8192", "8192"]);
        let shards = format!("{:?}", client.request(&["CLUSTER", "SHARDS"]));
        let count = |health: &str| shards.matches(&format!("{:?}", bulk(health))).count();
        assert_eq!((count("fail"), count("online")), (1, 2));
        assert_eq!(slot_runs(&mut client), 2);
    }
    assert_eq!(cluster.client(0).request(&["SET", "foo", "1"]), Value::Simple("OK".into()), "slot 12182");
    cluster.nodes[1].restart();
    eventually("all is well again", || {
        (0..3).all(|index| info(&mut cluster.client(index))["cluster_state"] == "ok").then_some(())
    });
    assert!(nodes(&mut cluster.client(2)).values().all(|(flags, ..)| !flags.contains("fail")));
}

/// Without the coordinator each node judges by which nodes it reaches.
#[test]
fn a_node_killed_after_the_coordinator_is_shown_as_failing_too() {
    let mut cluster = three_nodes();
    let [founder, dead] = [0, 1].map(|index| cluster.nodes[index].address());
    let mut client = cluster.client(2);
    let shown = |client: &mut Client, address: &str| {
        let (flags, link, _) = nodes(client).remove(address).expect("a member stays one");
        (flags, link)
    };
    let [well, failing] = [("master", "connected"), ("master,fail?", "disconnected")]
        .map(|(flags, link)| (flags.to_owned(), link.to_owned()));
    cluster.nodes[0].kill();
    eventually("the coordinator's silence is noticed", || {
        (shown(&mut client, &founder) == failing).then_some(())
    });
    assert_eq!(shown(&mut client, &dead), well, "it still answers");
    assert_eq!(info(&mut client)["cluster_slots_pfail"], "8192");

    cluster.nodes[1].kill();
    eventually("the other's is noticed", || (shown(&mut client, &dead) == failing).then_some(()));
    assert_eq!(shown(&mut client, &founder), failing);
    let told = info(&mut client);
    let values = ["state", "slots_assigned", "slots_ok", "slots_pfail", "slots_fail"];
    let values = values.map(|name| told[&format!("cluster_{name}")].as_str());
    assert_eq!(values, ["fail", "16384", "0", "16384", "0"]);
    let shards = format!("{:?}", client.request(&["CLUSTER", "SHARDS"]));
    let count = |health: &str| shards.matches(&format!("{:?}", bulk(health))).count();
    assert_eq!((count("fail"), count("online")), (2, 1));

    // It is back, though nobody can admit it.
    cluster.nodes[1].restart_unready();
    eventually("it is reached again", || (shown(&mut client, &dead) == well).then_some(()));
    assert_eq!(shown(&mut client, &founder), failing);
    cluster.nodes[0].restart();
    eventually("all is well again", || {
        (0..3).all(|index| info(&mut cluster.client(index))["cluster_state"] == "ok").then_some(())
    });
}

#[test]
fn a_member_that_restarts_without_the_coordinator_shows_the_last_map_and_serves_nothing() {
    let mut cluster = three_nodes();
    // foo lies in slot 12182, bar in slot 5061.
    assert_eq!(cluster.client(1).request(&["SET", "bar", "1"]), Value::Simple("OK".into()));
    let [founder, restarted] = [0, 1].map(|index| cluster.nodes[index].address());
    cluster.nodes[0].kill();
    cluster.nodes[1].stop();
    cluster.nodes[1].restart_unready();
    let mut client = cluster.client(1);
    assert_eq!(slot_runs(&mut client), 2, "it remembers");
    assert_eq!(client.request(&["GET", "foo"]), Value::Error(format!("MOVED 12182 {founder}")));
    let down = Value::Error("CLUSTERDOWN Hash slot not served".into());
    assert_eq!(client.request(&["GET", "bar"]), down, "it may be another's by now, and its value is lost");
    assert_eq!(client.request(&["SET", "bar", "2"]), down);
    let shown = nodes(&mut client);
    assert_eq!(shown[&restarted].2, "0-8191");
    assert_eq!(shown[&founder].2, "8192-16383");
    assert_eq!(shown.len(), 3);
    assert_eq!(info(&mut client)["cluster_state"], "fail");
    eventually("the coordinator's silence is noticed", || {
        (nodes(&mut client)[&founder].0 == "master,fail?").then_some(())
    });
    // A damaged file is ignored: then it knows of no slots.
    cluster.nodes[1].stop();
    let folder = cluster.nodes[1].folder();
    std::fs::write(folder.join("last-map.json"), "{\"format\":1,").expect("it can be written");
    cluster.nodes[1].restart_unready();
    assert!(cluster.nodes[1].log().contains("last-map.json is ignored"), "{}", cluster.nodes[1].log());
    let mut client = cluster.client(1);
    assert_eq!(slot_runs(&mut client), 0);
    let info_now = info(&mut client);
    assert_eq!(info_now["cluster_slots_assigned"], "0");
    assert_eq!(client.request(&["GET", "foo"]), down);

    cluster.nodes[0].restart();
    cluster.wait_until_known(3);
    assert_eq!(slot_runs(&mut cluster.client(1)), 2);
    assert_eq!(cluster.client(1).request(&["GET", "bar"]), Value::Null, "confirmed as its own, and empty");
}

#[test]
fn counts_add_up_while_a_range_moves() {
    let cluster = TestCluster::start(2);
    const KEYS: i64 = 40_000;
    // More than a pull transfers at this rate.
    const BATCH_RECORDS: i64 = 2_000;
    let mut client = cluster.client(0);
    for first in (0..KEYS).step_by(1000) {
        let set = |n: i64| vec!["SET".into(), format!("key:{n}"), "x".repeat(100)];
        let replies = client.pipeline(&(first..first + 1000).map(set).collect::<Vec<Vec<String>>>());
        assert!(replies.iter().all(|reply| *reply == Value::Simple("OK".into())));
    }
    let to = cluster.nodes[1].address();
    let start = ["migrate", "--to", &to, "--slots", "0-16383", "--rate", "1", "--detach"];
    assert!(cluster.nodes[0].run(&start).status.success());
    let size = |index: usize| match cluster.client(index).request(&["DBSIZE"]) {
        Value::Integer(size) => size,
        other => panic!("{other:?}"),
    };
    eventually("the target counts", || (size(1) > 0).then_some(()));
    let mut moments = 0;
    while cluster.migration(1).is_some_and(|migration| migration["state"] == "running") && moments < 50 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The records of a batch being inserted count twice for that instant.
        let exact = || {
            let sum = size(0) + size(1);
            assert!((KEYS..KEYS + BATCH_RECORDS).contains(&sum), "{sum} keys at moment {moments}");
            (sum == KEYS).then_some(())
        };
        eventually("the count is exact", exact);
        moments += 1;
    }
    assert!(moments > 10, "{moments} moments");
    // A walk waits at the end of the arrived keys: few calls, and all keys.
    let set = cluster.nodes[0].run(&["migrate", "set", "1", "--deadline", "1"]);
    assert!(set.status.success(), "{set:?}");
    let mut walker = cluster.client(1);
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), 0, 0);
    loop {
        let Value::Array(reply) = walker.request(&["SCAN", &cursor, "COUNT", "1000"]) else {
            panic!("no array")
        };
        let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("no cursor") };
        (cursor, found, calls) = (String::from_utf8_lossy(next).into_owned(), found + keys.len(), calls + 1);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found as i64, KEYS);
    assert!(calls < 2_000, "{calls} calls");
}
