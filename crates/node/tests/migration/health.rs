//! A node's view, for clients of Redis Cluster, of a cluster with failing members.

use crate::common::*;
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;

fn three_nodes() -> Scene {
    let mut scene = Scene::of(ClusterSetup { nodes: 3, ..ClusterSetup::default() });
    let id = scene.start("SLOTS 0-99", 1);
    scene.finish(id);
    scene
}

fn text(scene: &mut Scene, node: usize, request: &str) -> String {
    let Value::Bulk(text) = scene.ask(node, request) else { panic!("no text") };
    String::from_utf8(text).expect("text")
}

fn field(info: &str, name: &str) -> String {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} is not in {info}")).to_owned()
}

/// A node's view of each member: the flags without `myself`, the state of the link, and the health in SHARDS.
fn members(scene: &mut Scene, node: usize) -> Vec<(String, String, String)> {
    let nodes = text(scene, node, "CLUSTER NODES");
    let Value::Array(shards) = scene.ask(node, "CLUSTER SHARDS") else { panic!("no array") };
    let health = |shard: &Value| {
        let text = format!("{shard:?}");
        let words = [b"online".as_slice(), b"fail", b"loading"];
        let bulk = |word: &&[u8]| text.contains(&format!("{:?}", Value::Bulk(word.to_vec())));
        String::from_utf8(words.into_iter().find(bulk).expect("a health").to_vec()).expect("text")
    };
    let lines = nodes.lines().zip(&shards).map(|(line, shard)| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[2].trim_start_matches("myself,").to_owned(), words[7].to_owned(), health(shard))
    });
    lines.collect()
}

fn up() -> (String, String, String) {
    ("master".into(), "connected".into(), "online".into())
}

fn suspected() -> (String, String, String) {
    ("master,fail?".into(), "disconnected".into(), "fail".into())
}

fn failed() -> (String, String, String) {
    ("master,fail".into(), "disconnected".into(), "fail".into())
}

#[test]
fn a_silent_node_is_shown_as_failing_by_all_others() {
    let mut scene = three_nodes();
    for node in 0..3 {
        assert_eq!(members(&mut scene, node), [up(), up(), up()]);
    }
    scene.cluster.network.mute = Some(scene.cluster.nodes[1].info.id);
    scene.cluster.run_for(2_600_000);
    for node in [0, 2] {
        assert_eq!(members(&mut scene, node), [up(), failed(), up()], "as node {node} sees it");
        let info = text(&mut scene, node, "CLUSTER INFO");
        let fields = ["state", "slots_assigned", "slots_ok", "slots_pfail", "slots_fail", "size"];
        let values = fields.map(|name| field(&info, &format!("cluster_{name}")));
        assert_eq!(values, ["fail", "16384", "16284", "0", "100", "2"], "as node {node} sees it");
    }
    // Clients still find the slots' owner, and the other nodes continue.
    let Value::Array(slots) = scene.ask(2, "CLUSTER SLOTS") else { panic!("no array") };
    assert_eq!(slots.len(), 2);
    assert_eq!(scene.ask(0, "SET foo 1"), ok());
    let id = scene.cluster.nodes[1].info.id;
    assert_eq!(scene.ask(0, &format!("CLUSTER COUNT-FAILURE-REPORTS {id}")), int(1));

    scene.cluster.network.mute = None;
    scene.cluster.run_for(600_000);
    for node in 0..3 {
        assert_eq!(members(&mut scene, node), [up(), up(), up()]);
        let info = text(&mut scene, node, "CLUSTER INFO");
        assert_eq!(field(&info, "cluster_state"), "ok");
        assert_eq!(field(&info, "cluster_slots_ok"), "16384");
    }
}

#[test]
fn every_node_shows_which_node_the_coordinator_runs_on() {
    let mut scene = three_nodes();
    let id = scene.cluster.nodes[0].info.id.to_string();
    for node in 0..3 {
        for command in ["CLUSTER INFO", "INFO cluster", "INFO"] {
            let info = text(&mut scene, node, command);
            assert_eq!(field(&info, "sidle_coordinator_id"), id, "{command} of node {node}");
            match command {
                // Clients split its lines at each colon.
                "CLUSTER INFO" => assert!(info.lines().all(|line| line.matches(':').count() == 1), "{info}"),
                _ => {
                    assert_eq!(field(&info, "sidle_coordinator"), "127.0.0.1:7001");
                    assert_eq!(field(&info, "sidle_metadata"), "file");
                }
            }
        }
    }
}

#[test]
fn a_node_without_the_coordinator_shows_its_node_as_failing() {
    let mut scene = three_nodes();
    scene.cluster.network.lose = Some((scene.cluster.nodes[2].info.id, |_| true));
    scene.cluster.run_for(2_600_000);
    // No other node agrees.
    assert_eq!(members(&mut scene, 2), [suspected(), up(), up()]);
    let info = text(&mut scene, 2, "CLUSTER INFO");
    let slots = ["ok", "pfail", "fail"].map(|name| field(&info, &format!("cluster_slots_{name}")));
    assert_eq!(slots, ["100", "16284", "0"]);
    assert_eq!(members(&mut scene, 1), [up(), up(), up()]);
    scene.cluster.network.lose = None;
    scene.cluster.run_for(600_000);
    assert_eq!(members(&mut scene, 2), [up(), up(), up()]);
}
