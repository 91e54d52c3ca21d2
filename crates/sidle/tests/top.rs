//! `sidle top` on real nodes.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod support;

use serde_json::Value as Json;
use support::{TestCluster, eventually};

/// Two nodes own half of the slots each. A second after a load the keys of both are shown.
#[test]
fn the_hottest_keys_of_all_nodes_are_shown() {
    let mut cluster = TestCluster::start(2);
    let id = cluster.start_migration("8192-16383", 1);
    cluster.wait_for_migration(id);
    // Slots 15495 and 3300.
    let mut client = cluster.client(0);
    let top = eventually("both keys are shown", || {
        (0..30).for_each(|_| drop(client.request_anywhere(&["GET", "a"])));
        (0..10).for_each(|_| drop(client.request_anywhere(&["SET", "b", "1"])));
        let output = cluster.nodes[0].run(&["top", "--once", "--json", "--seconds", "60"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let top: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        // In its first second a node samples: so few requests may count for nothing, or for many.
        (top["keys"].as_array()?.len() == 2 && top["keys"][0]["key"] == "a").then_some(top)
    });
    let nodes: Vec<&Json> = top["nodes"].as_array().expect("a list").iter().map(|node| &node["id"]).collect();
    for (place, key, slot, address) in [(0, "a", 15495, 1), (1, "b", 3300, 0)] {
        let shown = &top["keys"][place];
        assert_eq!((&shown["key"], &shown["slot"]), (&Json::from(key), &Json::from(slot)), "{top}");
        let node = nodes.iter().position(|&id| *id == shown["node"]).expect("a node of the cluster");
        assert_eq!(top["nodes"][node]["client_addr"], Json::from(cluster.nodes[address].address()), "{top}");
    }
    let text =
        String::from_utf8(cluster.nodes[1].run(&["top", "--once", "--seconds", "60"]).stdout).expect("text");
    assert!(text.starts_with("Accesses to keys in the last ") && text.contains("\na "), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    // A node that is down is named, and the others are shown.
    cluster.nodes[1].kill();
    let text = eventually("the node is left out", || {
        let output = cluster.nodes[0].run(&["top", "--once", "--seconds", "60"]);
        let text = String::from_utf8(output.stdout).expect("text");
        text.contains("is left out").then_some(text)
    });
    let warning = format!("WARNING: node {} is left out: ", cluster.nodes[1].address());
    assert!(text.contains(&warning) && text.contains("\nb "), "{text}");
}
