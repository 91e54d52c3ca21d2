//! Nodes that hang, move to other addresses, lose their folders, or must be forgotten.

#![allow(clippy::disallowed_methods)] // a test reads the clock

mod support;

use sidle_resp::Value;
use std::time::{Duration, Instant};
use support::{Node, NodeOptions, TestCluster, eventually};

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// The node's answer to CLUSTER NODES.
fn cluster_nodes(node: &Node) -> String {
    let reply = node.client().request(&["CLUSTER", "NODES"]);
    String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned()
}

/// Whether the node announces to its clients that all slots are at this address.
fn names(node: &Node, address: &str) -> Option<()> {
    let reply = node.client().try_request(&["CLUSTER", "SLOTS"])?;
    let port: i64 = address.rsplit_once(':').expect("host:port").1.parse().expect("a port");
    format!("{reply:?}").contains(&format!("Integer({port})")).then_some(())
}

#[test]
fn a_founder_that_comes_back_elsewhere_is_found_by_its_members() {
    let mut cluster = TestCluster::start(3);
    let old = cluster.nodes[0].address();
    cluster.nodes[0].kill();
    cluster.nodes[0].restart_elsewhere();
    let new = cluster.nodes[0].address();
    assert_ne!(old, new);
    cluster.wait_until_known(3);
    for member in &cluster.nodes[1..] {
        eventually("MOVED and CLUSTER SLOTS name the new address", || names(member, &new));
        let reply = member.client().request(&["GET", "foo"]);
        assert_eq!(reply, Value::Error(format!("MOVED 12182 {new}")));
        assert!(member.log().contains("the coordinator calls from"), "{}", member.log());
    }
    let id = cluster.start_migration("0-8191", 2);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
}

#[test]
fn join_wins_over_what_the_data_directory_remembers() {
    let mut cluster = TestCluster::start(2);
    cluster.nodes[1].kill();
    cluster.nodes[0].kill();
    cluster.nodes[0].restart_elsewhere();
    let new = cluster.nodes[0].address();
    // On another port as well, where no call reaches it.
    cluster.nodes[1].restart_elsewhere_joining(&new);
    cluster.wait_until_known(2);
    let log = cluster.nodes[1].log();
    assert!(log.contains(&format!("following --join {new}")), "{log}");
}

#[test]
fn a_member_that_is_killed_starts_elsewhere_at_once() {
    let mut cluster = TestCluster::start(2);
    for _ in 0..2 {
        cluster.nodes[1].kill();
        cluster.nodes[1].restart_elsewhere();
        cluster.wait_until_known(2);
        let new = cluster.nodes[1].address();
        eventually("the others know its address", || {
            cluster_nodes(&cluster.nodes[0]).contains(&new).then_some(())
        });
    }
}

#[test]
fn a_member_that_hangs_and_is_asked_first_keeps_nobody_out() {
    let mut cluster = TestCluster::start(3);
    let hangs = cluster.nodes[1].bus_address();
    cluster.nodes[1].pause();
    cluster.nodes[2].kill();
    let path = cluster.nodes[2].folder().join("node.json");
    let mut identity: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    identity["found_at"] = serde_json::json!([hangs, cluster.nodes[0].bus_address()]);
    std::fs::write(&path, identity.to_string()).unwrap();
    cluster.nodes[2].restart_without_join();
    let log = cluster.nodes[2].log();
    assert!(log.contains(&format!("looking for the coordinator at {hangs}")), "{log}");
    cluster.nodes[1].resume();
}

#[test]
fn a_node_is_ready_once_it_is_a_member() {
    let cluster = TestCluster::start(1);
    cluster.nodes[0].pause();
    let options = NodeOptions::default().flag("--join", &cluster.nodes[0].address());
    let node = Node::start_unready(&options);
    eventually("the log says what is waited for", || {
        node.log().contains("cannot join the cluster").then_some(())
    });
    assert!(!node.log().contains("the node is ready"), "{}", node.log());
    assert!(node.log().contains("served once this node is a member"), "{}", node.log());
    cluster.nodes[0].resume();
    node.wait_until_ready();
}

#[test]
fn a_node_is_named_by_the_first_digits_of_its_id() {
    let mut cluster = TestCluster::start(2);
    let (first, second) = (cluster.nodes[0].address(), cluster.nodes[1].address());
    let report = cluster.nodes[0].status().expect("it answers");
    let nodes = report["nodes"].as_array().expect("a list");
    let id = nodes.iter().find(|node| node["client_addr"] == second.as_str()).expect("it is a member");
    let id = id["id"].as_str().expect("a text").to_owned();
    for (digits, slots) in [(&id[..8], "0-5"), (&id[..], "6-7")] {
        let moved = cluster.nodes[0].run(&["migrate", "--to", digits, "--slots", slots]);
        assert!(moved.status.success(), "{}", text(&moved));
    }
    let refused = cluster.nodes[0].run(&["migrate", "--to", &id[..3], "--slots", "8"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("at least 4 digits of its id"), "{}", text(&refused));

    let back = cluster.nodes[0].run(&["migrate", "--to", &first, "--slots", "0-7"]);
    assert!(back.status.success(), "{}", text(&back));
    cluster.nodes[1].stop();
    eventually("it is known to be down", || {
        cluster.nodes[0].run(&["forget", &id[..8]]).status.success().then_some(())
    });
}

#[test]
fn commands_give_a_stopped_server_up() {
    let node = Node::start(&NodeOptions::default());
    node.pause();
    for arguments in [
        &["status"][..],
        &["migrate", "--cancel", "1"],
        &["migrate", "set", "1", "--adaptive"],
        &["migrate", "--to", "127.0.0.1:1", "--slots", "0-5"],
        &["forget", "127.0.0.1:1"],
    ] {
        let begun = Instant::now();
        let output = node.run(&[arguments, &["--timeout", "1"]].concat());
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains("did not answer in 1 second"), "{}", text(&output));
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}");
    }
    node.resume();
}

#[test]
fn a_coordinator_that_is_down_is_named_within_the_timeout() {
    let mut cluster = TestCluster::start(2);
    let (first, second) = (cluster.nodes[0].address(), cluster.nodes[1].address());
    cluster.nodes[0].kill();
    for arguments in [
        &["status"][..],
        &["migrate", "--cancel", "1"],
        &["migrate", "set", "1", "--adaptive"],
        &["migrate", "--to", &second, "--slots", "0-5"],
        &["forget", &first],
    ] {
        let begun = Instant::now();
        let output = cluster.nodes[1].run(&[arguments, &["--timeout", "1"]].concat());
        let said = text(&output);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {said}");
        let named = format!(
            "the coordinator, which runs on the node at {first}: if that node is down, start it again"
        );
        assert!(said.contains(&named), "{arguments:?}: {said}");
        // A second of its own, and a busy machine's delay.
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}");
    }
    let output = cluster.nodes[1].run(&["migrate", "--cancel", "1", "--timeout", "1"]);
    let line = format!("`sidle status --via {second}`");
    assert!(text(&output).contains(&line), "a line that works as it stands: {}", text(&output));
}

#[test]
fn the_port_for_nodes_is_told_from_one_for_clients() {
    let cluster = TestCluster::start(1);
    let report = cluster.nodes[0].status().expect("it answers");
    let bus = report["nodes"][0]["bus_addr"].as_str().expect("an address").to_owned();
    let output = support::sidle().args(["status", "--via", &bus]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("does not speak the Redis protocol"), "{}", text(&output));
    assert!(text(&output).contains("port for nodes"), "{}", text(&output));
}

#[test]
fn the_clusters_record_survives_the_removal_of_its_folder() {
    let mut cluster = TestCluster::start(2);
    std::fs::remove_dir_all(cluster.nodes[0].folder()).unwrap();
    eventually("all of it is written anew", || {
        let log = cluster.nodes[0].log();
        let record =
            log.contains("the cluster's record had gone from the data directory, and was written anew");
        let secret = log.contains("the cluster's secret had gone from the data directory");
        (record && secret && log.contains("the node's identity had gone")).then_some(())
    });
    let id = cluster.start_migration("0-99", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    cluster.nodes[0].kill();
    cluster.nodes[0].restart();
    cluster.wait_until_known(2);
    assert_eq!(cluster.migration(1).expect("it is remembered")["state"], "done");
}

#[test]
fn a_record_that_cannot_be_written_is_in_the_status() {
    let mut cluster = TestCluster::start(2);
    let folder = cluster.nodes[0].folder();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    eventually("the status warns", || {
        let shown = text(&cluster.nodes[1].run(&["status"]));
        let record = shown.contains("WARNING: the cluster's record is in danger");
        let node = shown.contains(&format!("WARNING: node {}: ", cluster.nodes[0].address()));
        (record && node).then_some(())
    });
    let to = cluster.nodes[1].address();
    let output = cluster.nodes[0].run(&["migrate", "--to", &to, "--slots", "0-5"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("could not write it down"), "{}", text(&output));
    std::fs::remove_file(&folder).unwrap();
    eventually("it is in order again", || {
        let shown = text(&cluster.nodes[1].run(&["status"]));
        (!shown.contains("WARNING")).then_some(())
    });
    let id = cluster.start_migration("0-99", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    // Without its record the coordinator founds no second cluster.
    cluster.nodes[0].kill();
    std::fs::remove_file(folder.join("coordinator.meta")).unwrap();
    let folder = folder.to_str().expect("temporary folders have plain names");
    let output =
        support::sidle().args(["server", "--port", "0", "--bus-port", "0", "--dir", folder]).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("coordinator.meta, is missing: put it back"), "{}", text(&output));
}

#[test]
fn a_node_that_is_gone_for_good_is_forgotten() {
    let mut cluster = TestCluster::start(4);
    let address = cluster.nodes[2].address();
    let id = |node: &Node| match node.client().request(&["CLUSTER", "MYID"]) {
        Value::Bulk(id) => String::from_utf8(id).expect("hex digits"),
        other => panic!("{other:?}"),
    };
    let (third, fourth) = (id(&cluster.nodes[2]), id(&cluster.nodes[3]));
    let output = cluster.nodes[1].run(&["forget", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("is up: stop it first"), "{}", text(&output));
    cluster.nodes[2].kill();
    cluster.nodes[3].kill();
    let mut client = cluster.client(1);
    let mut forget = |node: &str| client.request(&["CLUSTER", "FORGET", node]);
    assert_eq!(forget(&"0".repeat(40)), Value::Error(format!("ERR Unknown node {}", "0".repeat(40))));
    let own = id(&cluster.nodes[1]);
    assert_eq!(forget(&own), Value::Error("ERR I tried hard but I can't forget myself...".into()));
    assert!(
        matches!(forget(&id(&cluster.nodes[0])), Value::Error(text) if text.contains("runs the coordinator"))
    );
    eventually("it counts as down, and is forgotten", || {
        (forget(&third) == Value::Simple("OK".into())).then_some(())
    });
    eventually("by the first digits of its id, too", || {
        cluster.nodes[1].run(&["forget", &fourth[..8]]).status.success().then_some(())
    });
    assert!(cluster_nodes(&cluster.nodes[0]).contains(&own));
    eventually("nobody lists them", || {
        let lists = |node: &Node| {
            let nodes = cluster_nodes(node);
            nodes.contains(&third) || nodes.contains(&fourth)
        };
        (!cluster.nodes[..2].iter().any(lists)).then_some(())
    });
    // One that comes back anyway joins anew.
    cluster.nodes[2].restart();
    eventually("it is a member again", || {
        let report = cluster.nodes[0].status()?;
        let nodes = report["nodes"].as_array()?.clone();
        nodes.iter().any(|node| node["id"] == *third && node["state"] == "up").then_some(())
    });
}
