//! Several nodes: joining, migrations, redirections, refusals, restarts and failures.

#![allow(clippy::disallowed_methods)] // a test reads the clock

mod support;

use serde_json::Value as Json;
use sidle_resp::Value;
use std::time::{Duration, Instant};
use support::{Client, NodeOptions, StopWhenDropped, TestCluster, bulk, eventually};

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn key(n: usize) -> String {
    format!("key:{n}")
}

fn value(n: usize) -> String {
    format!("value of {n} {}", "x".repeat(n % 97))
}

/// Writes keys `0..count` at a node that owns them all.
fn fill(client: &mut Client, count: usize) {
    for first in (0..count).step_by(1000) {
        let requests: Vec<Vec<String>> =
            (first..count.min(first + 1000)).map(|n| vec!["SET".into(), key(n), value(n)]).collect();
        assert!(client.pipeline(&requests).iter().all(|reply| *reply == ok()));
    }
}

/// Reads keys `0..count` at a node, following redirections one key at a time. Returns how many the node
/// owned.
fn check(client: &mut Client, count: usize) -> usize {
    let mut owned = 0;
    let mut elsewhere: std::collections::BTreeMap<String, Client> = std::collections::BTreeMap::new();
    for first in (0..count).step_by(1000) {
        let numbers: Vec<usize> = (first..count.min(first + 1000)).collect();
        let requests: Vec<Vec<String>> = numbers.iter().map(|&n| vec!["GET".into(), key(n)]).collect();
        for (n, reply) in numbers.into_iter().zip(client.pipeline(&requests)) {
            let reply = match reply {
                Value::Error(text) => {
                    let words: Vec<&str> = text.split(' ').collect();
                    assert_eq!(words[0], "MOVED", "{text}");
                    let there =
                        elsewhere.entry(words[2].to_owned()).or_insert_with(|| Client::connect(words[2]));
                    there.request(&["GET", &key(n)])
                }
                other => {
                    owned += 1;
                    other
                }
            };
            assert_eq!(reply, bulk(&value(n)), "{}", key(n));
        }
    }
    owned
}

#[test]
fn joined_nodes_redirect_to_the_owner() {
    let cluster = TestCluster::start(3);
    let mut owner = cluster.client(0);
    assert_eq!(owner.request(&["SET", "foo", "bar"]), ok());
    for index in [1, 2] {
        let reply = cluster.client(index).request(&["GET", "foo"]);
        assert_eq!(reply, Value::Error(format!("MOVED 12182 {}", cluster.nodes[0].address())));
        assert_eq!(cluster.client(index).request_anywhere(&["GET", "foo"]), bulk("bar"));
    }
}

/// Two keys of slot 12182, one in each half, and the upper half, which moves to the second node.
fn split_slot(cluster: &TestCluster) -> (String, String) {
    let (middle, upper) = upper_half();
    let position = |key: &String| sidle_types::Position::of_key(key.as_bytes()).0;
    let (below, above): (Vec<String>, Vec<String>) =
        (0..20).map(|n| format!("{{foo}}{n}")).partition(|key| position(key) < middle);
    move_positions(cluster, &upper, 1);
    (below[0].clone(), above[0].clone())
}

/// The middle of slot 12182, and its upper half.
fn upper_half() -> (u64, String) {
    const SLOT: u64 = 12182;
    let middle = (SLOT << 50) + (1 << 49);
    (middle, format!("{middle}-{}", ((SLOT + 1) << 50) - 1))
}

fn move_positions(cluster: &TestCluster, range: &str, to: usize) {
    let id = cluster.start_migration_of("--positions", range, to);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
}

/// Twenty keys of one slot are written together and read together, while half of the slot moves there and
/// back.
#[test]
fn nobody_sees_half_of_an_mset_while_a_half_of_its_slot_moves() {
    let cluster = TestCluster::start(2);
    let (_, upper) = upper_half();
    let keys: Vec<String> = (0..20).map(|n| format!("{{foo}}{n}")).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let goes_on = || !is_over.load(std::sync::atomic::Ordering::Relaxed);
    let mset = |client: &mut Client, value: &str| {
        let pairs = keys.iter().flat_map(|key| [key.as_str(), value]);
        let words: Vec<&str> = std::iter::once("MSET").chain(pairs).collect();
        assert_eq!(client.request(&words), ok());
    };
    mset(&mut cluster.client(0), "0");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = cluster.client(0);
            (1_u64..).take_while(|_| goes_on()).for_each(|n| mset(&mut client, &n.to_string()));
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = cluster.client(0);
                    let mget: Vec<&str> =
                        std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
                    let (mut seen, mut last) = (0, 0);
                    while goes_on() {
                        let Value::Array(values) = client.request(&mget) else { panic!("no values") };
                        assert!(
                            values.iter().all(|value| *value == values[0]),
                            "half of an MSET: {values:?}"
                        );
                        let text =
                            String::from_utf8_lossy(values[0].as_bytes().expect("a value")).into_owned();
                        let value: u64 = text.parse().expect("a number");
                        assert!(value >= last, "{value} after {last}");
                        (seen, last) = (seen + 1, value);
                    }
                    seen
                })
            })
            .collect();
        for to in [1, 0, 1] {
            move_positions(&cluster, &upper, to);
            std::thread::sleep(Duration::from_millis(300));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let seen: Vec<u64> =
            readers.into_iter().map(|reader| reader.join().expect("it saw no half")).collect();
        assert!(seen.iter().all(|&seen| seen > 100), "{seen:?}");
    });
}

#[test]
fn a_slot_that_is_split_is_served_by_the_owner_that_is_shown() {
    let mut cluster = TestCluster::start(2);
    let (a, x) = split_slot(&cluster);
    let mut client = cluster.client(0);
    for version in ["2", "3"] {
        assert!(!matches!(client.request(&["HELLO", version]), Value::Error(_)));
        assert_eq!(client.request(&["MSET", &a, "1", &x, "2"]), ok());
        assert_eq!(client.request(&["MGET", &x, &a]), Value::Array(vec![bulk("2"), bulk("1")]));
        assert_eq!(client.request(&["EXISTS", &x, &a]), Value::Integer(2));
        assert_eq!(client.request(&["DEL", &x, &a]), Value::Integer(2));
        assert_eq!(client.request(&["GET", &x]), Value::Null);
    }
    // More than any buffer on the path holds at once.
    let large = "v".repeat(3 << 20);
    assert_eq!(client.request(&["SET", &x, &large]), ok());
    let requests: Vec<Vec<String>> = (0..4).map(|_| vec!["GET".into(), x.clone()]).collect();
    assert!(client.pipeline(&requests).iter().all(|reply| *reply == bulk(&large)));
    cluster.nodes[1].kill();
    let started = std::time::Instant::now();
    match client.request(&["SET", &x, "3"]) {
        Value::Error(text) => {
            assert!(text.starts_with("CLUSTERDOWN ") || text.starts_with("SIDLEUNKNOWN "), "{text}")
        }
        other => panic!("a node that is dead answered {other:?}"),
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!(client.request(&["SET", &a, "3"]), ok(), "what is here is served");
    cluster.nodes[1].restart();
    eventually("the node is back, empty", || (client.request(&["GET", &x]) == Value::Null).then_some(()));
    assert_eq!(client.request(&["MGET", &a, &x]), Value::Array(vec![bulk("3"), Value::Null]));
}

#[test]
fn migration_moves_half_of_the_keys_and_every_key_is_found() {
    let cluster = TestCluster::start(2);
    const KEYS: usize = 50_000;
    fill(&mut cluster.client(0), KEYS);
    let to = cluster.nodes[1].address();
    let output = cluster.nodes[0].run(&["migrate", "--to", &to, "--slots", "0-8191"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("Migration 1 is done: slots 0-8191"), "{text}");
    assert!(text.contains(" in ") && text.ends_with("/s).\n"), "how long it took is known: {text}");
    let at_source = check(&mut cluster.client(0), KEYS);
    let at_target = check(&mut cluster.client(1), KEYS);
    assert_eq!(at_source + at_target, KEYS);
    assert!(at_target > KEYS / 3 && at_target < KEYS * 2 / 3, "{at_target} of {KEYS} have moved");
    let migration = cluster.migration(1).expect("the cluster remembers it");
    assert_eq!(migration["state"], "done");
    assert_eq!(migration["records_moved"], at_target);
    eventually("the source gives its memory back", || {
        (cluster.client(0).request(&["DBSIZE"]) == Value::Integer(at_source as i64)).then_some(())
    });
}

/// A value of 100 MB arrives in pieces of 256 KiB at most, and keys are read on both sides meanwhile.
#[test]
fn a_large_value_moves_in_pieces() {
    const BYTES: usize = 100 << 20;
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0), 1_000);
    let large = "v".repeat(BYTES);
    assert_eq!(cluster.client(0).request(&["SET", "large", &large]), ok());
    let to = cluster.nodes[1].address();
    let mover = cluster.nodes[0].spawn_command(&["migrate", "--to", &to, "--slots", "0-16383"]);
    let mut client = cluster.client(0);
    (0..3).for_each(|_| {
        check(&mut client, 1_000);
    });
    let output = mover.wait_with_output().expect("it was started");
    assert!(output.status.success(), "{output:?}");
    assert!(cluster.client(1).request(&["GET", "large"]) == bulk(&large), "it is another value");
    assert_eq!(check(&mut cluster.client(1), 1_000), 1_000);
    let info = cluster.client(1).request(&["INFO", "migration"]);
    let info = String::from_utf8_lossy(info.as_bytes().expect("a text")).into_owned();
    let pieces = info.lines().find_map(|line| line.strip_prefix("migration_pieces:"));
    let pieces: usize = pieces.expect("a line of it").trim().parse().expect("a number");
    assert!(pieces >= BYTES / (256 << 10), "{pieces} pieces");
}

#[test]
fn keys_survive_there_and_back_again() {
    let cluster = TestCluster::start(2);
    const KEYS: usize = 5_000;
    fill(&mut cluster.client(0), KEYS);
    for (target, owned) in [(1, 0), (0, KEYS), (1, 0)] {
        let to = cluster.nodes[target].address();
        // Through a node without the coordinator.
        let output = cluster.nodes[1].run(&["migrate", "--to", &to, "--slots", "0-16383", "--json"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(check(&mut cluster.client(0), KEYS), owned);
    }
}

#[test]
fn writes_during_a_migration_are_neither_lost_nor_doubled() {
    let cluster = TestCluster::start(2);
    const COUNTERS: usize = 200;
    fill(&mut cluster.client(0), 100_000);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut clients = [cluster.client(0), cluster.client(1)];
            let mut at = vec![0; COUNTERS];
            let mut counts = vec![0i64; COUNTERS];
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let counter = n % COUNTERS;
                n += 1;
                let name = format!("counter:{counter}");
                let mut reply = clients[at[counter]].request(&["INCR", &name]);
                // While the map is on its way, the two may redirect to each other for a moment.
                let deadline = std::time::Instant::now() + support::PATIENCE;
                while matches!(&reply, Value::Error(text) if text.starts_with("MOVED")) {
                    assert!(std::time::Instant::now() < deadline, "redirected in circles: {reply:?}");
                    at[counter] = 1 - at[counter];
                    reply = clients[at[counter]].request(&["INCR", &name]);
                }
                counts[counter] += 1;
                assert_eq!(reply, Value::Integer(counts[counter]), "{name}");
            }
            counts
        });
        let stopping = StopWhenDropped(&stop);
        for target in [1, 0] {
            let id = cluster.start_migration("0-16383", target);
            assert_eq!(cluster.wait_for_migration(id)["state"], "done");
        }
        drop(stopping);
        writer.join().expect("every increment counts once")
    });
    assert!(counts.iter().sum::<i64>() > 0);
    assert_eq!(check(&mut cluster.client(0), 100_000), 100_000);
}

/// A source once redirected to a target without notice of the migration, which redirected back. Clients do
/// not wait between redirections, and give up after 3 (go-redis) to 16 (redis-py) of them.
#[test]
fn owner_is_found_within_two_redirections_while_ranges_move() {
    let cluster = TestCluster::start(2);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ending = StopWhenDropped(&ended);
        for worker in 0..3 {
            let (cluster, ended) = (&cluster, &ended);
            scope.spawn(move || {
                let mut clients = [cluster.client(0), cluster.client(1)];
                let mut at = 0;
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut redirections = 0;
                    while let Value::Error(text) = clients[at].request(&["INCR", &format!("foo{worker}")]) {
                        redirections += 1;
                        assert!(text.starts_with("MOVED"), "{text}");
                        assert!(redirections <= 2, "sent from one to the other: {text}");
                        at = 1 - at;
                    }
                }
            });
        }
        for round in 0..30 {
            let id = cluster.start_migration("0-16383", (round + 1) % 2);
            assert_eq!(cluster.wait_for_migration(id)["state"], "done");
        }
    });
}

#[test]
fn requests_that_cannot_be_are_refused_and_change_nothing() {
    let cluster = TestCluster::start(2);
    let refused = |arguments: &[&str], word: &str| {
        let output = cluster.nodes[1].run(&[&["migrate"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
    };
    let first = cluster.nodes[0].address();
    refused(&["--to", &first, "--slots", "0-100"], "already");
    refused(&["--to", "127.0.0.1:1", "--slots", "0-100"], "no node");
    refused(&["--cancel", "77"], "no migration 77");
    let id = cluster.start_migration("0-100", 1);
    cluster.wait_for_migration(id);
    refused(&["--cancel", &id.to_string()], "is over");
    // The target's part is left out, so one part is left.
    let id = cluster.start_migration("50-200", 1);
    cluster.wait_for_migration(id);
    let id = cluster.start_migration("300-400", 1);
    cluster.wait_for_migration(id);
    refused(&["--to", &first, "--slots", "0-500"], "2 parts that other nodes own");
    let report = cluster.nodes[0].status().expect("the status");
    assert_eq!(report["migrations"].as_array().map(Vec::len), Some(3));
}

#[test]
fn status_shows_nodes_tablets_and_migrations() {
    let cluster = TestCluster::start(2);
    let id = cluster.start_migration("0-99", 1);
    cluster.wait_for_migration(id);
    let output = cluster.nodes[1].run(&["status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for part in
        ["slots 0-99", "slots 100-16383", "done", &cluster.nodes[0].address(), &cluster.nodes[1].address()]
    {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let output = cluster.nodes[1].run(&["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn coordinator_restarts_while_others_migrate() {
    let mut cluster = TestCluster::start(3);
    const KEYS: usize = 200_000;
    let id = cluster.start_migration("0-16383", 1);
    cluster.wait_for_migration(id);
    fill(&mut cluster.client(1), KEYS);
    let id = cluster.start_migration("0-16383", 2);
    cluster.nodes[0].kill();
    // Neither end needs the coordinator to continue serving.
    assert_eq!(cluster.client(1).request_anywhere(&["SET", "during", "it"]), ok());
    cluster.nodes[0].restart();
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    assert_eq!(check(&mut cluster.client(2), KEYS), KEYS);
    assert_eq!(cluster.client(0).request_anywhere(&["GET", "during"]), bulk("it"));
}

#[test]
fn killed_node_is_missed_and_comes_back_to_its_cluster_by_itself() {
    let mut cluster = TestCluster::start(2);
    let id = cluster.start_migration("0-8191", 1);
    cluster.wait_for_migration(id);
    let (here, there) = ("foo", "bar"); // slots 12182 and 5061
    assert_eq!(cluster.client(0).request(&["SET", here, "1"]), ok());
    assert_eq!(cluster.client(1).request(&["SET", there, "2"]), ok());
    cluster.nodes[1].kill();
    assert_eq!(cluster.client(0).request(&["GET", here]), bulk("1"), "the others go on");
    eventually("the dead node is missed", || {
        let report = cluster.nodes[0].status()?;
        report["nodes"].as_array()?.iter().any(|node| node["state"] == "fail").then_some(())
    });
    cluster.nodes[1].restart_without_join();
    cluster.wait_until_known(2);
    // Its records are lost with its memory; it keeps the slots.
    assert_eq!(cluster.client(0).request_anywhere(&["GET", there]), Value::Null);
    assert_eq!(cluster.client(0).request_anywhere(&["SET", there, "3"]), ok());
    assert_eq!(cluster.client(1).request(&["GET", there]), bulk("3"));
}

#[test]
fn coordinator_does_not_join_another_cluster() {
    let mut cluster = TestCluster::start(1);
    let other = TestCluster::start(1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("temporary folders have plain names");
    cluster.nodes[0] = support::Node::start(&NodeOptions::default().flag("--dir", path));
    cluster.nodes[0].kill();
    let to = other.nodes[0].address();
    let output = support::sidle().args(["server", "--port", "0", "--dir", path, "--join", &to]).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("without --join"));
}

#[test]
fn node_joins_with_the_password_of_the_cluster() {
    let options = NodeOptions::default().flag("--password", "secret");
    let first = support::Node::start(&options);
    let second = support::Node::start(&options.clone().flag("--join", &first.address()));
    eventually("the second node knows the first", || {
        let mut client = second.client();
        client.request(&["AUTH", "secret"]);
        let reply = client.request(&["GET", "foo"]);
        (reply == Value::Error(format!("MOVED 12182 {}", first.address()))).then_some(())
    });
}

#[test]
fn queued_migration_is_cancelled_and_the_other_one_goes_on() {
    let cluster = TestCluster::start(3);
    fill(&mut cluster.client(0), 5_000);
    // Nothing of the first can move while its target is paused.
    cluster.nodes[1].pause();
    let output = cluster.nodes[0].run(&["migrate", "--cancel", "1"]);
    assert_eq!(output.status.code(), Some(1), "there is nothing to cancel yet");
    let to = cluster.nodes[1].address();
    let mut first = cluster.nodes[0].spawn_command(&["migrate", "--to", &to, "--slots", "0-8191", "--json"]);
    eventually("the first migration is known", || cluster.nodes[0].migration(1));
    let to = cluster.nodes[2].address();
    let mut second = cluster.nodes[0].spawn_command(&["migrate", "--to", &to, "--slots", "8192-9000"]);
    let queued = eventually("the second migration is known", || cluster.nodes[0].migration(2));
    assert_eq!(queued["state"], "queued");
    let output = cluster.nodes[0].run(&["migrate", "--cancel", "2"]);
    assert!(output.status.success(), "{output:?}");
    let status = second.wait().expect("a child can be waited for");
    assert_eq!(status.code(), Some(1), "a cancelled migration has moved nothing");
    cluster.nodes[1].resume();
    assert_eq!(first.wait().expect("a child can be waited for").code(), Some(0));
    assert_eq!(check(&mut cluster.client(2), 5_000), 0);
}

/// Many clients that wait for the end of a migration block no request for the status, and no cancel.
#[test]
fn clients_that_wait_for_a_migration_hold_up_no_status_and_no_cancel() {
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0), 5_000);
    let to = cluster.nodes[1].address();
    let begin = |slots: &str| {
        let start = ["migrate", "--to", &to, "--slots", slots, "--rate", "0.02", "--detach"];
        assert!(cluster.nodes[0].run(&start).status.success());
    };
    begin("0-8191");
    eventually("the first runs", || (cluster.migration(1)?["state"] == "running").then_some(()));
    begin("8192-9000");
    eventually("the second waits for it", || (cluster.migration(2)?["state"] == "queued").then_some(()));
    for at in [0, 1] {
        let mut waiting: Vec<Client> = (0..64).map(|_| cluster.client(at)).collect();
        let mut operator = cluster.client(at);
        let begun = Instant::now();
        waiting.iter_mut().for_each(|client| client.send(&["SIDLE.MIGRATE", "WAIT", "1", "5000"]));
        for _ in 0..3 {
            let status = operator.request(&["SIDLE.STATUS"]);
            let report: Json = serde_json::from_slice(status.as_bytes().expect("JSON")).expect("JSON");
            assert_eq!(report["migrations"][0]["state"], "running", "none of them can be answered yet");
        }
        if at == 1 {
            assert_eq!(operator.request(&["SIDLE.MIGRATE", "CANCEL", "2"]), ok());
            let cancelled = cluster.migration(2).expect("it is known");
            assert_eq!(cancelled["state"], "cancelled");
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}: as long as the others wait");
        for client in &mut waiting {
            let reply = client.reply();
            let migration: Json =
                serde_json::from_slice(reply.as_bytes().unwrap_or_default()).unwrap_or_default();
            assert_eq!(migration["state"], "running", "{reply:?}");
        }
    }
}

#[test]
fn interrupted_display_leaves_the_migration_running() {
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0), 5_000);
    let to = cluster.nodes[1].address();
    // A paused target keeps the migration from ending before it is checked.
    let id = {
        let mut display = cluster.nodes[0].spawn_command(&["migrate", "--to", &to, "--slots", "0-16383"]);
        let id = eventually("the migration is known", || cluster.nodes[0].migration(1))["id"].clone();
        cluster.nodes[1].pause();
        let process = rustix::process::Pid::from_child(&display);
        rustix::process::kill_process(process, rustix::process::Signal::INT).expect("the display runs");
        let status = display.wait().expect("a child can be waited for");
        // It may have ended before the target was paused.
        assert!(matches!(status.code(), Some(130 | 0)), "{status}");
        id
    };
    cluster.nodes[1].resume();
    let id = id.as_u64().expect("the id is a number");
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    assert_eq!(check(&mut cluster.client(1), 5_000), 5_000);
}

#[test]
fn target_killed_in_the_middle_ends_the_migration_and_the_cluster_goes_on() {
    let mut cluster = TestCluster::start(2);
    const KEYS: usize = 100_000;
    fill(&mut cluster.client(0), KEYS);
    let id = cluster.start_migration("0-16383", 1);
    eventually("it runs", || (cluster.migration(id)?["state"] != "preparing").then_some(()));
    cluster.nodes[1].kill();
    cluster.nodes[1].restart();
    let migration = cluster.wait_for_migration(id);
    assert!(migration["state"] == "failed" || migration["state"] == "done", "{migration}");
    // Only the records in memory are lost with the process, and no answer is wrong.
    cluster.wait_until_known(2);
    let mut client = cluster.client(0);
    for n in (0..KEYS).step_by(997) {
        let reply = client.request_anywhere(&["GET", &key(n)]);
        assert!(reply == Value::Null || reply == bulk(&value(n)), "{}: {reply:?}", key(n));
        assert_eq!(client.request_anywhere(&["SET", &key(n), "new"]), ok());
        assert_eq!(client.request_anywhere(&["GET", &key(n)]), bulk("new"));
    }
}

#[test]
fn a_policy_slows_a_migration_down_until_it_is_changed() {
    let cluster = TestCluster::start(2);
    const KEYS: usize = 50_000;
    fill(&mut cluster.client(0), KEYS);
    let to = cluster.nodes[1].address();
    let start = ["migrate", "--to", &to, "--slots", "0-16383", "--rate", "0.1", "--detach"];
    let output = cluster.nodes[0].run(&start);
    assert!(output.status.success(), "{output:?}");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let status = cluster.migration(1).expect("it is known");
    assert_eq!(status["state"], "running", "5 MB at 0.1 MB/s take 50 s");
    let shown = cluster.nodes[1].run(&["status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("at most 0.1 MB/s"), "{shown:?}");
    let set = |arguments: &[&str]| cluster.nodes[1].run(&[&["migrate", "set"], arguments].concat());
    let output = set(&["1", "--deadline", "1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Migration 1: within 1.0 s.\n");
    let ended = cluster.wait_for_migration(1);
    assert_eq!(ended["state"], "done");
    assert!(ended["elapsed_us"].as_u64().is_some_and(|us| us < 20_000_000), "{ended}");
    assert_eq!(check(&mut cluster.client(1), KEYS), KEYS);
    for (arguments, code) in [
        (&["1", "--adaptive"][..], 1),
        (&["77", "--rate", "5"], 1),
        (&["1"], 2),
        (&["1", "--rate", "0"], 2),
        (&["1", "--rate", "5", "--deadline", "5"], 2),
    ] {
        assert_eq!(set(arguments).status.code(), Some(code), "{arguments:?}");
    }
}
