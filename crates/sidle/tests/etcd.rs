//! Clusters of real processes whose metadata is in a real etcd: who coordinates when a coordinator dies or
//! stands still, or etcd does. A test whose etcd is not installed prints that it was skipped.

#![cfg(feature = "etcd")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests run processes and read clocks

mod support;

#[path = "../../meta-etcd/tests/support/etcd.rs"]
mod etcd;

use etcd::Etcd;
use sidle_resp::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Node, NodeOptions, StopWhenDropped, TestCluster, bulk, eventually};

/// Within this time another node coordinates when the one before has died: a lease of 5 s, half a second to
/// notice, and what a busy machine takes.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);

const KEYS: usize = 500;

fn options(etcd: &Etcd) -> NodeOptions {
    options_of(std::slice::from_ref(etcd))
}

fn options_of(members: &[Etcd]) -> NodeOptions {
    let members: Vec<String> = members.iter().map(Etcd::address).collect();
    NodeOptions::default().flag("--metadata", &format!("etcd://{}/test", members.join(",")))
}

/// Three nodes, of which the first has founded the cluster.
fn three(etcd: &Etcd) -> TestCluster {
    three_of(std::slice::from_ref(etcd))
}

fn three_of(members: &[Etcd]) -> TestCluster {
    let options = options_of(members);
    let cluster = TestCluster { nodes: (0..3).map(|_| Node::start(&options)).collect() };
    cluster.wait_until_known(3);
    cluster
}

fn write(node: &Node, round: &str) {
    let mut client = node.client();
    for number in 0..KEYS {
        let done = client.request_anywhere(&["SET", &format!("key:{number}"), &format!("{round}:{number}")]);
        assert!(matches!(&done, Value::Simple(_)), "{done:?}");
    }
}

fn assert_written(node: &Node, round: &str) {
    let mut client = node.client();
    for number in 0..KEYS {
        let found = client.request_anywhere(&["GET", &format!("key:{number}")]);
        assert_eq!(found, bulk(&format!("{round}:{number}")), "key {number}");
    }
}

/// The id of the node that coordinates, as this node reports it.
fn coordinator(node: &Node) -> Option<String> {
    Some(node.status()?["coordinator"].as_str()?.to_owned())
}

fn migrate(through: &Node, slots: &str, target: &Node) -> u64 {
    let to = target.address();
    let output = through.run(&["migrate", "--to", &to, "--slots", slots, "--detach", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let begun: serde_json::Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    begun["id"].as_u64().expect("the id is a number")
}

fn wait_until_done(through: &Node, id: u64) {
    let state = eventually("the migration is over", || {
        let state = through.migration(id)?["state"].as_str()?.to_owned();
        matches!(state.as_str(), "done" | "failed" | "cancelled").then_some(state)
    });
    assert_eq!(state, "done");
}

/// Waits until one of these nodes coordinates, and all of them report the same one.
fn wait_for_another(nodes: &[&Node], before: &str) -> String {
    let begun = Instant::now();
    let next = eventually("another node coordinates", || {
        let seen: Option<Vec<String>> = nodes.iter().map(|node| coordinator(node)).collect();
        let seen = seen?;
        (seen[0] != before && seen.iter().all(|one| *one == seen[0])).then(|| seen[0].clone())
    });
    eprintln!("another node coordinates after {:.1} s", begun.elapsed().as_secs_f64());
    assert!(begun.elapsed() < TAKEN_OVER_WITHIN, "after {:?}", begun.elapsed());
    next
}

#[test]
fn when_the_coordinators_node_is_killed_another_coordinates() {
    let Some(etcd) = Etcd::start("when_the_coordinators_node_is_killed_another_coordinates") else { return };
    let mut cluster = three(&etcd);
    // Without a durable log its data dies with it: so it has none.
    let id = migrate(&cluster.nodes[2], "0-16383", &cluster.nodes[1]);
    wait_until_done(&cluster.nodes[2], id);
    write(&cluster.nodes[1], "first");
    let before = coordinator(&cluster.nodes[1]).expect("it answers");
    assert!(cluster.nodes[0].log().contains("this node coordinates"), "the founder does");
    cluster.nodes[0].kill();
    let asked = cluster.nodes[1].run(&["status", "--timeout", "1"]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.contains("wait: another one coordinates within seconds"), "{said}");
    assert!(said.contains(&cluster.nodes[0].address()) && !said.contains("start it again"), "{said}");
    assert_written(&cluster.nodes[1], "first");
    let [gone, left @ ..] = &cluster.nodes[..] else { panic!("three") };
    let next = wait_for_another(&left.iter().collect::<Vec<_>>(), &before);
    let id = migrate(&left[0], "0-8191", &left[1]);
    wait_until_done(&left[0], id);
    assert_written(&left[0], "first");
    // One that coordinated is a node as any other, once it has been silent for long enough.
    eventually("it is forgotten", || {
        left[0].run(&["forget", &gone.address()]).status.success().then_some(())
    });
    cluster.nodes[0].restart();
    cluster.wait_until_known(3);
    assert_eq!(coordinator(&cluster.nodes[0]), Some(next), "who comes back follows");
}

#[test]
fn a_coordinator_that_stood_still_is_deposed_and_serves_on() {
    let Some(etcd) = Etcd::start("a_coordinator_that_stood_still_is_deposed_and_serves_on") else { return };
    let cluster = three(&etcd);
    let [first, left @ ..] = &cluster.nodes[..] else { panic!("three") };
    write(first, "first");
    let before = coordinator(first).expect("it answers");
    first.pause();
    let next = wait_for_another(&left.iter().collect::<Vec<_>>(), &before);
    first.resume();
    cluster.wait_until_known(3);
    for node in &cluster.nodes {
        eventually("all follow the same one", || (coordinator(node)? == next).then_some(()));
    }
    eventually("it notices", || {
        first.log().contains("does not coordinate the cluster any more").then_some(())
    });
    assert_written(first, "first");
    let id = migrate(first, "0-4095", &left[0]);
    wait_until_done(first, id);
    assert_written(&left[1], "first");
    let leaders = cluster.nodes.iter().filter(|node| node.log().contains("this node coordinates"));
    assert_eq!(leaders.count(), 2, "one after the other");
}

#[test]
fn etcd_may_die_and_come_back_under_a_migration() {
    let Some(mut etcd) = Etcd::start("etcd_may_die_and_come_back_under_a_migration") else { return };
    let cluster = three(&etcd);
    write(&cluster.nodes[0], "first");
    let id = migrate(&cluster.nodes[0], "0-16383", &cluster.nodes[1]);
    etcd.kill();
    let begun = Instant::now();
    // Longer than a lease: nobody coordinates, and clients notice nothing.
    for round in 0.. {
        let round = format!("round-{round}");
        write(&cluster.nodes[2], &round);
        assert_written(&cluster.nodes[0], &round);
        if begun.elapsed() > Duration::from_secs(7) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(cluster.nodes.iter().any(|node| node.log().contains("does not answer")), "the log states why");
    etcd.restart();
    wait_until_done(&cluster.nodes[2], id);
    write(&cluster.nodes[2], "last");
    assert_written(&cluster.nodes[1], "last");
    cluster.wait_until_known(3);
}

/// Writes a key over and over and reads it back, at each node in turn, until `ended`; counts the rounds.
fn load(nodes: &[Node], ended: &AtomicBool, rounds: &AtomicU64) {
    let mut clients: Vec<_> = nodes.iter().map(Node::client).collect();
    while !ended.load(Relaxed) {
        let round = rounds.load(Relaxed) as usize;
        let (key, value) = (format!("load:{}", round % 100), round.to_string());
        let count = clients.len();
        let done = clients[round % count].request_anywhere(&["SET", &key, &value]);
        assert!(matches!(&done, Value::Simple(_)), "{done:?}");
        assert_eq!(clients[(round + 1) % count].request_anywhere(&["GET", &key]), bulk(&value));
        rounds.fetch_add(1, Relaxed);
    }
}

/// Moves these slots slowly enough for something to happen meanwhile.
fn migrate_slowly(through: &Node, slots: &str, target: &Node) -> u64 {
    let to = target.address();
    let slowly = ["--rate", "4", "--detach", "--json"];
    let output = through.run(&[&["migrate", "--to", &to, "--slots", slots][..], &slowly].concat());
    assert!(output.status.success(), "{output:?}");
    let begun: serde_json::Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    begun["id"].as_u64().expect("the id is a number")
}

/// What the load does while nobody can change the cluster, and after.
fn goes_on(rounds: &AtomicU64, what: &str) {
    let before = rounds.load(Relaxed);
    eventually(what, || (rounds.load(Relaxed) > before + 50).then_some(()));
}

#[test]
fn members_of_etcd_may_die_under_load_and_a_migration() {
    let test = "members_of_etcd_may_die_under_load_and_a_migration";
    let Some(mut etcd) = Etcd::start_members(test, 3) else { return };
    let cluster = three_of(&etcd);
    let [first, second, third] = &cluster.nodes[..] else { panic!("three") };
    let value = "x".repeat(20_000);
    let mut client = first.client();
    for number in 0..KEYS {
        assert_eq!(client.request(&["SET", &format!("large:{number}"), &value]), Value::Simple("OK".into()));
    }
    let before = coordinator(first).expect("it answers");
    let (ended, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ending = StopWhenDropped(&ended);
        let load = scope.spawn(|| load(&cluster.nodes, &ended, &rounds));

        // One of three: nothing stops, and nobody else coordinates.
        let id = migrate_slowly(first, "0-16383", second);
        let follower = etcd.iter().position(|member| !member.leads()).expect("one leads");
        etcd[follower].kill();
        let state = first.migration(id).expect("it is known")["state"].clone();
        assert_eq!(state, "running", "it died under the migration");
        wait_until_done(third, id);
        goes_on(&rounds, "the load goes on without a member");
        assert_eq!(coordinator(third), Some(before.clone()));

        // Two of three, the leader among them, under the next one.
        let id = migrate_slowly(third, "0-16383", third);
        let leader = eventually("one of two leads", || etcd.iter().position(Etcd::leads));
        etcd[leader].kill();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            goes_on(&rounds, "the load goes on without etcd");
        }
        let to = first.address();
        let asked = second.run(&["migrate", "--to", &to, "--slots", "5", "--detach", "--timeout", "1"]);
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert_eq!(asked.status.code(), Some(4), "a change waits: {said}");
        assert!(!said.contains("start it again"), "{said}");
        assert!(
            cluster.nodes.iter().any(|node| node.log().contains("does not answer")),
            "the log states why"
        );

        etcd[leader].restart_unready();
        etcd[follower].restart_unready();
        etcd.iter_mut().for_each(Etcd::wait_until_ready);
        eventually("somebody coordinates", || coordinator(second));
        wait_until_done(second, id);
        // The change without an answer may have been made.
        let id = migrate(second, "0-99", first);
        wait_until_done(first, id);
        goes_on(&rounds, "the load goes on at the end");
        drop(ending);
        load.join().expect("every request was answered");
    });
    cluster.wait_until_known(3);
    for number in 0..KEYS {
        let found = third.client().request_anywhere(&["GET", &format!("large:{number}")]);
        assert_eq!(found, bulk(&value), "key {number}");
    }
    eprintln!("{} rounds of load", rounds.load(Relaxed));
}

/// The coordinator's node has keys, and copies of its log at both others: nothing of it is lost.
#[test]
fn what_a_dead_coordinators_node_had_is_taken_over_by_itself() {
    let Some(etcd) = Etcd::start("what_a_dead_coordinators_node_had_is_taken_over_by_itself") else { return };
    let durable = ["--durability", "--takeover-after"].into_iter().zip(["replicated=2", "2s"]);
    let options = durable.fold(options(&etcd), |options, (flag, value)| options.flag(flag, value));
    let mut cluster = TestCluster { nodes: (0..3).map(|_| Node::start(&options)).collect() };
    cluster.wait_until_known(3);
    eventually("both others have copies", || {
        let reply = cluster.client(0).try_request(&["INFO", "everything"])?;
        String::from_utf8_lossy(reply.as_bytes()?).contains("sidle_log_copies:2").then_some(())
    });
    write(&cluster.nodes[0], "first");
    let before = coordinator(&cluster.nodes[0]).expect("it answers");
    cluster.nodes[0].kill();
    let left: Vec<&Node> = cluster.nodes[1..].iter().collect();
    wait_for_another(&left, &before);
    eventually("each has read its half", || {
        left.iter().all(|node| node.log().contains("keys taken over in")).then_some(())
    });
    assert_written(left[0], "first");
}

#[test]
fn a_node_that_stops_in_order_is_followed_at_once() {
    let Some(etcd) = Etcd::start("a_node_that_stops_in_order_is_followed_at_once") else { return };
    let mut cluster = three(&etcd);
    let before = coordinator(&cluster.nodes[1]).expect("it answers");
    assert!(cluster.nodes[0].stop().success());
    let begun = Instant::now();
    wait_for_another(&cluster.nodes[1..].iter().collect::<Vec<_>>(), &before);
    assert!(begun.elapsed() < Duration::from_secs(5), "it gives its lease back: {:?}", begun.elapsed());
}

#[test]
fn a_cluster_in_a_file_is_not_taken_elsewhere_and_a_second_one_is_not_founded() {
    let test = "a_cluster_in_a_file_is_not_taken_elsewhere_and_a_second_one_is_not_founded";
    let Some(etcd) = Etcd::start(test) else { return };
    let mut founder = Node::start(&NodeOptions::default());
    founder.stop();
    let folder = founder.folder();
    let metadata = format!("etcd://{}/test", etcd.address());
    let mut server = support::sidle();
    server.args(["server", "--port", "0", "--bus-port", "0", "--max-memory", "64mb", "--durability", "none"]);
    server.arg("--dir").arg(&folder).args(["--metadata", &metadata]);
    let refused = server.output().expect("the program runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("without --metadata"), "{text}");
    let mut node = Node::start(&options(&etcd));
    node.stop();
    let elsewhere = options(&etcd).flag("--metadata", &format!("etcd://{}/other", etcd.address()));
    let folder = folder_of(&node);
    let again = Node::start_unready(&elsewhere.flag("--dir", &folder));
    eventually("the log states what is missing", || {
        again.log().contains("the record of this node's cluster is not there").then_some(())
    });
}

fn folder_of(node: &Node) -> String {
    node.folder().to_str().expect("temporary folders have plain names").to_owned()
}
