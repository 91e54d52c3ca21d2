//! Nodes that are killed and start again, or are taken over, under the bank.

use crate::bank::{Bank, Weather};
use crate::moves::{fill, ranges};
use crate::support::{NodeOptions, TestCluster, eventually};
use std::time::Duration;

/// Transfers that are committed between two things that happen.
const BETWEEN: u64 = 40;
const PROTOCOLS: [&str; 3] = ["fulva", "handoff", "source-driven"];

fn spread(options: &NodeOptions) -> (TestCluster, Bank) {
    let cluster = TestCluster::start_with(3, options);
    let bank = Bank::open(&cluster, Weather::Foul);
    fill(&cluster, bank.tag());
    for (slots, target) in [("0-8191", 1), ("8192-12000", 2)] {
        let id = cluster.start_migration(slots, target);
        assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    }
    (cluster, bank)
}

fn addresses(cluster: &TestCluster) -> Vec<String> {
    cluster.nodes.iter().map(|node| node.address()).collect()
}

/// Begins to move a range, slowly enough for something to happen meanwhile. Where several nodes have taken
/// parts of it over, one of the parts, as the refusal advises.
fn start_move(cluster: &TestCluster, bank: &Bank, turn: usize, target: usize) -> u64 {
    let to = cluster.nodes[target].address();
    let range = ranges(bank.tag())[0];
    let mut what = ["--positions".to_owned(), format!("{}-{}", range.first(), range.last())];
    loop {
        let [flag, span] = what.each_ref().map(String::as_str);
        let flags = ["--to", &to, flag, span, "--protocol", PROTOCOLS[turn % PROTOCOLS.len()]];
        let line = [&["migrate"][..], &flags, &["--rate", "1", "--detach", "--json"]].concat();
        let output = cluster.nodes[0].run(&line);
        if output.status.success() {
            let begun: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("--json prints JSON");
            return begun["id"].as_u64().expect("the id is a number");
        }
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(refusal.contains("parts that other nodes own"), "{output:?}");
        let (_, advised) = refusal.split_once("`sidle migrate ").expect("it advises one");
        let mut words = advised.split(' ').map(str::to_owned);
        let part = [words.next(), words.next()].map(|word| word.expect("a flag and its range"));
        assert_ne!(what, part, "{refusal}");
        what = part;
    }
}

#[test]
fn nodes_with_a_log_start_again_with_all_transactions() {
    let options = NodeOptions::default().flag("--durability", "disk").flag("--fsync", "always");
    let (mut cluster, bank) = spread(&options);
    bank.run_at(&addresses(&cluster), || {
        for dead in [1, 2, 0] {
            bank.await_more(BETWEEN);
            cluster.nodes[dead].kill();
            std::thread::sleep(Duration::from_millis(300));
            cluster.nodes[dead].restart();
        }
        // The range is at node 1, and goes to node 2 and back.
        for (turn, target, dead) in [(0, 2, 2), (1, 1, 2), (2, 2, 1)] {
            bank.await_more(BETWEEN);
            let id = start_move(&cluster, &bank, turn, target);
            bank.await_more(BETWEEN);
            cluster.nodes[dead].kill();
            cluster.nodes[dead].restart();
            let state = cluster.wait_for_migration(id)["state"].clone();
            println!("the move to {target} by {}, {dead} killed: {state}", PROTOCOLS[turn]);
            bank.await_more(BETWEEN);
        }
        // All at once: what was prepared anywhere is decided when they are up again.
        for _ in 0..2 {
            cluster.nodes.iter_mut().for_each(|node| node.kill());
            cluster.nodes.iter_mut().for_each(|node| node.restart());
            bank.await_more(BETWEEN);
        }
    });
    println!("{:?}", bank.counts);
}

#[test]
fn nodes_that_are_taken_over_leave_all_transactions() {
    let options = NodeOptions::default()
        .flag("--durability", "replicated=2")
        .flag("--fsync", "everysec")
        .flag("--takeover-after", "1s");
    let (mut cluster, bank) = spread(&options);
    eventually("the logs have their copies", || {
        let copies = |node| {
            let reply = cluster.client(node).request(&["INFO", "persistence"]);
            let text = String::from_utf8_lossy(reply.as_bytes()?).into_owned();
            text.lines().find_map(|line| line.strip_prefix("sidle_log_copies:")).map(str::to_owned)
        };
        [0, 1, 2].into_iter().all(|node| copies(node).as_deref() == Some("2")).then_some(())
    });
    bank.run_at(&addresses(&cluster), || {
        // The coordinator is spared: nobody else takes over what it has.
        for (turn, dead) in [1, 2, 1, 2].into_iter().enumerate() {
            bank.await_more(BETWEEN);
            // In the middle of a move, by turns to it and from it.
            let id = (turn > 1).then(|| start_move(&cluster, &bank, turn, 1));
            bank.await_more(BETWEEN);
            cluster.nodes[dead].kill();
            bank.await_more(BETWEEN);
            cluster.nodes[dead].restart();
            let state = id.map(|id| cluster.wait_for_migration(id)["state"].clone());
            println!("{dead} was killed; the move: {state:?}");
            bank.await_more(BETWEEN);
        }
    });
    println!("{:?}", bank.counts);
}

#[test]
fn nodes_that_stand_still_for_a_while_lose_no_transaction() {
    let (cluster, bank) = spread(&NodeOptions::default());
    bank.run(&cluster, |cluster| {
        for (turn, still_ms) in [50, 1_300, 300, 1_500, 2_500, 100].into_iter().enumerate() {
            bank.await_more(BETWEEN);
            let node = &cluster.nodes[turn % 3];
            node.pause();
            std::thread::sleep(Duration::from_millis(still_ms));
            node.resume();
        }
        bank.await_more(BETWEEN);
    });
    println!("{:?}", bank.counts);
}
