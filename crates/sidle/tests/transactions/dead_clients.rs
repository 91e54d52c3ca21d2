//! Clients that vanish in the middle of a commit: the nodes decide for them, and free their keys (X9).

use crate::bank::{Bank, Weather, on_runtime};
use crate::support::{Client, TestCluster};
use sidle_resp::Value;
use sidle_workload::Random;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

/// Clients that vanish one after the other.
const VANISHING: u64 = 20;
/// What the nodes need to decide for one that is gone.
const LIMIT: Duration = Duration::from_secs(5);

fn two_nodes() -> TestCluster {
    let cluster = TestCluster::start(2);
    let id = cluster.start_migration("0-8191", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    cluster
}

/// Two keys of different nodes, the first one of the node with this number.
fn keys(first: usize) -> [String; 2] {
    let is_upper = |key: &String| sidle_types::Slot::of_key(key.as_bytes()).number() > 8191;
    let of = |upper| (0..).map(|number| format!("key:{number}")).find(|key| is_upper(key) == upper);
    let [upper, lower] = [of(true), of(false)].map(|key| key.expect("half of all keys"));
    if first == 0 { [upper, lower] } else { [lower, upper] }
}

/// Has the node of a key prepare its part of a transaction over both: to set it.
fn prepare(client: &mut Client, id: u32, keys: &[String; 2], of: usize) {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis().to_string();
    let list: String = keys.iter().map(|key| format!("{}\0\0\0{key}", key.len() as u8 as char)).collect();
    let (id, list) = (format!("{id:032x}"), if of == 0 { list } else { String::new() });
    let words = ["SIDLE.TX", "PREPARE", &id, &now, &now, "0", &keys[0], &list, "1"];
    let command = ["", "3", "SET", &keys[of], "new"];
    let reply = client.request_anywhere(&[&words[..], &command].concat());
    assert_eq!(reply, Value::Array(vec![Value::Simple("OK".into())]));
}

fn value(cluster: &TestCluster, key: &str) -> Option<String> {
    let began = Instant::now();
    let reply = cluster.client(0).request_anywhere(&["GET", key]);
    assert!(began.elapsed() < LIMIT, "{key} was locked for {:?}", began.elapsed());
    reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn what_a_vanished_client_had_prepared_is_decided_by_the_nodes() {
    let cluster = two_nodes();
    for first in 0..2 {
        let keys = keys(first);
        for (id, voted, expected) in [(10, &[0][..], "old"), (20, &[1], "old"), (30, &[0, 1], "new")] {
            for key in &keys {
                cluster.client(0).request_anywhere(&["SET", key, "old"]);
            }
            let began = Instant::now();
            for &of in voted {
                prepare(&mut cluster.client(0), id + first as u32, &keys, of);
            }
            let listed = cluster.nodes[0].run(&["tx", "list", "--json"]);
            let listed: Vec<serde_json::Value> =
                serde_json::from_slice(&listed.stdout).expect("--json prints JSON");
            let locked: Vec<_> = listed.iter().map(|locked| locked["key"].as_str().expect("a key")).collect();
            let prepared = voted.iter().map(|&of| keys[of].as_str());
            // Unless the machine was so busy that it is decided by now.
            if began.elapsed() < Duration::from_millis(900) {
                assert_eq!(BTreeSet::from_iter(locked), BTreeSet::from_iter(prepared), "{listed:?}");
            }
            for key in &keys {
                assert_eq!(value(&cluster, key).as_deref(), Some(expected), "{voted:?} of {keys:?}, {key}");
            }
        }
    }
}

/// `sidle tx resolve` of this transaction: its exit status, and all it prints.
fn resolve(cluster: &TestCluster, id: u32) -> (Option<i32>, String) {
    let ended = cluster.nodes[0].run(&["tx", "resolve", &format!("{id:032x}"), "--timeout", "2"]);
    let printed = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn an_operator_has_a_transaction_decided_at_once() {
    let cluster = two_nodes();
    for (id, voted, expected, word) in [(40, &[0][..], "old", "aborted"), (50, &[0, 1], "new", "committed")] {
        let keys = keys(0);
        for key in &keys {
            cluster.client(0).request_anywhere(&["SET", key, "old"]);
        }
        let began = Instant::now();
        for &of in voted {
            prepare(&mut cluster.client(0), id, &keys, of);
        }
        let (status, printed) = resolve(&cluster, id);
        // Unless the machine was so busy that the nodes have decided it.
        if began.elapsed() < Duration::from_millis(900) {
            assert_eq!(status, Some(0), "{printed}");
            assert!(printed.contains(&format!("is {word}, and all of its keys know it")), "{printed}");
        }
        for key in &keys {
            assert_eq!(value(&cluster, key).as_deref(), Some(expected), "{voted:?}, {key}");
        }
        let (status, printed) = resolve(&cluster, id);
        assert_eq!(status, Some(1), "{printed}");
        assert!(printed.contains("it is decided, or never was"), "{printed}");
    }
}

#[test]
fn nothing_is_decided_for_a_key_whose_node_is_down() {
    let mut cluster = two_nodes();
    let keys = keys(0);
    prepare(&mut cluster.client(0), 60, &keys, 1);
    prepare(&mut cluster.client(0), 60, &keys, 0);
    cluster.nodes[1].kill();
    let (status, printed) = resolve(&cluster, 60);
    let listed = String::from_utf8_lossy(&cluster.nodes[0].run(&["tx", "list"]).stdout).into_owned();
    if status == Some(1) {
        // The machine was so busy that it was decided before the node was killed.
        assert!(printed.contains("it is decided, or never was"), "{printed}");
        return;
    }
    assert_eq!(status, Some(4), "{printed}");
    let at = format!("{} at {}: ", keys[1], cluster.nodes[1].address());
    assert!(printed.contains("is not decided") && printed.contains(&at), "{printed}");
    assert!(listed.contains(&keys[0]), "it is locked still: {listed}");
}

#[test]
fn keys_of_vanished_clients_are_free_again() {
    let cluster = two_nodes();
    let bank = Bank::open(&cluster, Weather::Foul);
    let addresses: Vec<String> = cluster.nodes.iter().map(|node| node.address()).collect();
    let mut random = Random::new(11, 1);
    bank.run(&cluster, |_| {
        for number in 0..VANISHING {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            let client = runtime.block_on(sidle_client::Client::connect(&addresses)).expect("it connects");
            let rest = Duration::from_micros(2_000 + random.below(10_000));
            runtime.block_on(async {
                let transfers = async {
                    let mut random = Random::new(12, number);
                    loop {
                        // What it was answered is of no importance: it is gone.
                        _ = bank.transfer(&client, &mut random, 1_000 + number).await;
                    }
                };
                _ = tokio::time::timeout(rest, transfers).await;
            });
            // All of its tasks and connections end here.
            drop(runtime);
            bank.await_more(5);
        }
    });
    let counts = &bank.counts;
    assert_eq!(counts.unknown.load(Relaxed), 0, "{counts:?}");
    println!("{counts:?}");
    on_runtime(async {
        let client = sidle_client::Client::connect(&addresses).await.expect("it connects");
        bank.await_free(&client).await;
    });
}
