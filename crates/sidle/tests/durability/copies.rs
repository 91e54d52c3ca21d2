//! Copies of a node's log at other nodes: what they keep when the node's machine loses its end, and what
//! happens when they go.

use super::damage::refused;
use super::kills::{Progress, WRITERS, begin_anew, check, write};
use super::support::{Client, Node, NodeOptions, TestCluster, bulk, eventually};
use super::{files, info, number, text};
use sidle_resp::Value;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Nodes that keep so many copies of each other's logs, and sync each write.
fn replicated(nodes: usize, copies: usize) -> TestCluster {
    replicated_and_synced(nodes, copies, "always")
}

fn replicated_and_synced(nodes: usize, copies: usize, fsync: &str) -> TestCluster {
    let options = NodeOptions::default().flag("--durability", &format!("replicated={copies}"));
    let cluster = TestCluster::start_with(nodes, &options.flag("--fsync", fsync));
    wait_for_copies(&cluster.nodes[0], copies);
    cluster
}

fn wait_for_copies(node: &Node, copies: usize) {
    eventually("the log has its copies", || {
        (info(&mut node.client(), "sidle_log_copies") == copies.to_string()).then_some(())
    });
}

/// Waits until a node serves its keys.
fn wait_until_served(node: &Node) -> Client {
    eventually("the node serves its keys", || {
        let mut client = node.client();
        matches!(client.try_request(&["GET", "any"]), Some(Value::Null | Value::Bulk(_))).then_some(client)
    })
}

/// The machine of a killed node loses the last bytes of its log; how many there were in its last file.
fn lose_the_end(node: &Node, bytes: u64) -> u64 {
    let last = files(node).pop().expect("it has files");
    let file = std::fs::OpenOptions::new().write(true).open(last).expect("it is there");
    let length = file.metadata().expect("it has a length").len();
    file.set_len(length.saturating_sub(bytes)).expect("it is cut");
    length
}

/// What a file begins with.
const FILE_HEAD_BYTES: u64 = 64;
/// More than any file has.
const ALL_BYTES: u64 = 1 << 30;

/// All nodes are killed under load, and the one with the keys loses the end of its log; again and again.
fn takes_from_a_copy_what_it_lost(fsync: &str) {
    let mut cluster = replicated_and_synced(3, 2, fsync);
    for lost_bytes in [100, 20_000, ALL_BYTES] {
        begin_anew(&cluster.nodes[..1], |_| 0);
        let progress = Mutex::new([Progress::default(); WRITERS]);
        let address = cluster.nodes[0].address();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (address, progress) = (&address, &progress);
                scope.spawn(move || write(address, writer, progress));
            }
            std::thread::sleep(Duration::from_millis(1500));
            cluster.nodes.iter_mut().for_each(Node::kill);
        });
        let had_bytes = lose_the_end(&cluster.nodes[0], lost_bytes);
        // Each waits for the others' copies.
        cluster.nodes.iter_mut().for_each(Node::restart_unready);
        let mut client = wait_until_served(&cluster.nodes[0]);
        // It had written more than the copies, and may have as much without a little of that.
        let is_taken = cluster.nodes[0].log().contains("was taken from a copy");
        // The copies need not have a file that had just begun.
        let has_begun = had_bytes <= FILE_HEAD_BYTES;
        assert!(is_taken || lost_bytes < ALL_BYTES || has_begun, "{}", cluster.nodes[0].log());
        for (writer, Progress { acknowledged }) in
            progress.into_inner().expect("no writer panicked").into_iter().enumerate()
        {
            assert!(acknowledged > 0, "writer {writer} did nothing");
            check(&mut client, writer, acknowledged);
        }
        wait_for_copies(&cluster.nodes[0], 2);
    }
}

#[test]
fn what_a_machine_lost_is_taken_from_a_copy_synced_always() {
    takes_from_a_copy_what_it_lost("always");
}

#[test]
fn what_a_machine_lost_is_taken_from_a_copy_synced_each_second() {
    takes_from_a_copy_what_it_lost("everysec");
}

/// Writes go on meanwhile, each acknowledged; the longest took this long.
fn longest_write(node: &Node, meanwhile: impl FnOnce()) -> Duration {
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let address = node.address();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut client, mut longest) = (Client::connect(&address), Duration::ZERO);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(client.request(&["SET", "key", "value"]), Value::Simple("OK".into()));
                longest = longest.max(began.elapsed());
            }
            longest
        });
        meanwhile();
        std::thread::sleep(Duration::from_millis(300));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("each write is acknowledged")
    })
}

#[test]
fn a_backup_that_dies_is_left_out_and_comes_back() {
    let mut cluster = replicated(3, 2);
    let (first, others) = cluster.nodes.split_first_mut().expect("three nodes");
    assert_eq!(number(&mut first.client(), &["WAIT", "2", "5000"]), 2);
    let longest = longest_write(first, || {
        others[0].kill();
        wait_for_copies(first, 1);
    });
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    let mut client = first.client();
    let status = first.run(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("LOG COPIES AT"), "{status}");
    client.request(&["SET", "with one", "1"]);
    assert_eq!(number(&mut client, &["WAIT", "2", "300"]), 1, "its time is over");
    assert_eq!(
        client.request(&["WAITAOF", "1", "1", "5000"]),
        Value::Array(vec![Value::Integer(1), Value::Integer(1)])
    );
    // One that stands still is left out as well.
    let longest = longest_write(first, || {
        others[1].pause();
        wait_for_copies(first, 0);
        others[1].resume();
    });
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    others[0].restart();
    wait_for_copies(first, 2);
    assert_eq!(number(&mut client, &["WAIT", "2", "5000"]), 2);
}

/// Its replies wait where they would outlast the promise of a copy, and no longer.
#[test]
fn a_node_with_leases_answers_again_once_its_copies_promise() {
    let options = NodeOptions::default().flag("--durability", "replicated=1").flag("--takeover-after", "5s");
    let cluster = TestCluster::start_with(2, &options);
    let (first, other) = (&cluster.nodes[0], &cluster.nodes[1]);
    wait_for_copies(first, 1);
    let mut client = first.client();
    let set =
        |client: &mut Client| assert_eq!(client.request(&["SET", "k", "v"]), Value::Simple("OK".into()));
    set(&mut client);
    // Idle for longer than a promise lasts, and paused for as long.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(client.request(&["GET", "k"]), bulk("v"));
    first.pause();
    std::thread::sleep(Duration::from_millis(1200));
    first.resume();
    assert_eq!(client.request(&["GET", "k"]), bulk("v"));
    other.pause();
    std::thread::sleep(Duration::from_millis(600));
    let began = Instant::now();
    assert_eq!(client.request(&["GET", "k"]), bulk("v"), "the copy is left out");
    assert!(began.elapsed() < Duration::from_secs(10));
    wait_for_copies(first, 0);
    set(&mut client);
    other.resume();
    wait_for_copies(first, 1);
    set(&mut client);
}

#[test]
fn with_too_few_copies_writes_are_refused() {
    let mut cluster = replicated(2, 1);
    let mut client = cluster.client(0);
    assert_eq!(client.request(&["CONFIG", "SET", "min-replicas-to-write", "1"]), Value::Simple("OK".into()));
    client.request(&["SET", "key", "before"]);
    cluster.nodes[1].kill();
    eventually("writes are refused", || match client.request(&["SET", "key", "after"]) {
        Value::Error(error) => {
            assert_eq!(error, "NOREPLICAS Not enough good replicas to write.");
            Some(())
        }
        _ => None,
    });
    assert_ne!(client.request(&["GET", "key"]), Value::Null, "reads go on");
    cluster.nodes[1].restart();
    wait_for_copies(&cluster.nodes[0], 1);
    assert_eq!(client.request(&["SET", "key", "again"]), Value::Simple("OK".into()));
}

/// Only the coordinator leaves a copy out. While its node is down, and with it the copy there, nothing
/// becomes safe: what waits goes on to wait, and new writes are refused.
#[test]
fn writes_are_refused_while_the_coordinator_is_down_with_a_copy_that_counts() {
    let mut cluster = replicated(2, 1);
    cluster.wait_for_migration(cluster.start_migration("0-16383", 1));
    wait_for_copies(&cluster.nodes[1], 1);
    let (coordinator, others) = cluster.nodes.split_first_mut().expect("two nodes");
    let node = &others[0];
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "{a}key", "safe"]), Value::Simple("OK".into()));
    coordinator.kill();
    let mut waiting = node.client();
    waiting.send(&["SET", "{b}key", "waits"]);
    let status = |node: &Node| info(&mut node.client(), "aof_last_write_status");
    eventually("writes are refused", || (status(node) == "err").then_some(()));
    let refused = client.request(&["SET", "{a}key", "refused"]);
    let Value::Error(why) = &refused else { panic!("{refused:?}") };
    let part = format!("start {}", coordinator.address());
    assert!(why.starts_with("NOREPLICAS ") && why.contains(&part), "{why}");
    assert_eq!(client.request(&["GET", "{a}key"]), bulk("safe"), "reads go on");
    assert_eq!(waiting.reply_within(Duration::from_millis(200)), None, "it may yet be done");
    coordinator.restart();
    assert_eq!(waiting.reply(), Value::Simple("OK".into()));
    eventually("writes are accepted", || (status(node) == "ok").then_some(()));
    assert_eq!(client.request(&["SET", "{a}key", "again"]), Value::Simple("OK".into()));
    assert_eq!(client.request(&["GET", "{b}key"]), bulk("waits"));
    for line in ["new writes are refused: ", "writes are made safe again"] {
        assert_eq!(node.log().matches(line).count(), 1, "{}", node.log());
    }
}

#[test]
fn a_start_waits_for_a_copy_unless_it_is_salvaged() {
    let mut cluster = replicated(2, 1);
    let mut client = cluster.client(0);
    client.request(&["SET", "key", "value"]);
    cluster.nodes.iter_mut().for_each(Node::kill);
    let other = cluster.nodes[1].address();
    let node = &mut cluster.nodes[0];
    node.restart_unready();
    eventually("it waits", || node.log().contains("waits for a copy of its durable log").then_some(()));
    let refused = node.client().request(&["GET", "key"]);
    assert!(matches!(&refused, Value::Error(error) if error.starts_with("LOADING")), "{refused:?}");
    let other = other.as_str();
    let output = node.run(&["status"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in ["has waited for a copy of its durable log", other, "Connection refused", "--salvage"] {
        assert!(printed.contains(part) && !output.status.success(), "{printed}");
    }
    let waits = info(&mut node.client(), "sidle_log_waits_for");
    assert!(waits.ends_with(&format!("@{other}")) && waits.len() > 41, "{waits}");
    assert!(node.stop().success(), "it can be stopped meanwhile");
    node.restart_with_switch("--salvage");
    assert_eq!(node.client().request(&["GET", "key"]), bulk("value"), "its own disk has it");
    // It begins its copies anew, and says no word of the others'.
    cluster.nodes[1].restart();
    wait_for_copies(&cluster.nodes[0], 1);
    assert_eq!(cluster.client(0).request(&["GET", "key"]), bulk("value"));
}

/// Two of three that were stopped serve without the third, and need its copies again after a crash.
#[test]
fn after_a_clean_stop_nobody_is_waited_for_and_after_a_later_crash_somebody_is() {
    let mut cluster = replicated_and_synced(3, 2, "everysec");
    cluster.client(0).request(&["SET", "key", "value"]);
    for node in &mut cluster.nodes {
        assert!(node.stop().success());
        assert!(node.file("clean-stop.json").exists(), "{}", node.log());
    }
    let [first, second, _] = cluster.nodes.as_mut_slice() else { panic!("three nodes") };
    first.restart_unready();
    second.restart_unready();
    let mut client = wait_until_served(first);
    assert_eq!(client.request(&["GET", "key"]), bulk("value"));
    assert!(!first.file("clean-stop.json").exists(), "the log goes on");
    assert_eq!(client.request(&["SET", "key", "later"]), Value::Simple("OK".into()));
    // At the second one's present process: what counts before that may be its earlier one, which then goes.
    eventually("a copy has it", || (number(&mut client, &["WAIT", "1", "1000"]) == 1).then_some(()));
    // The machine of the first loses what it wrote, and an earlier stop says nothing of that.
    let stopped = std::fs::read(cluster.nodes[2].file("clean-stop.json")).expect("the third was stopped");
    let [first, second, _] = cluster.nodes.as_mut_slice() else { panic!("three nodes") };
    first.kill();
    second.kill();
    // A file's head is synced before the record names the file (G6): no crash loses it.
    let last = std::fs::metadata(files(first).pop().expect("it has files")).expect("it is there");
    lose_the_end(first, last.len().saturating_sub(FILE_HEAD_BYTES));
    std::fs::write(first.file("clean-stop.json"), stopped).expect("it is written");
    first.restart_unready();
    eventually("it waits", || first.log().contains("waits for a copy of its durable log").then_some(()));
    second.restart_unready();
    assert_eq!(wait_until_served(first).request(&["GET", "key"]), bulk("later"));
}

/// An older state of the log's folder was put back, and what was kept of its stop too.
#[test]
fn a_copy_that_has_more_outweighs_a_clean_stop() {
    let mut cluster = replicated(2, 1);
    cluster.client(0).request(&["SET", "key", "old"]);
    let node = &mut cluster.nodes[0];
    assert!(node.stop().success());
    let (log, kept, stop) = (node.file("durable-log"), node.file("kept"), node.file("clean-stop.json"));
    let copy = std::process::Command::new("cp").arg("-a").arg(&log).arg(&kept).status();
    assert!(copy.expect("it runs").success());
    let stopped = std::fs::read(&stop).expect("it was stopped");
    node.restart();
    wait_for_copies(node, 1);
    node.client().request(&["SET", "key", "new"]);
    node.kill();
    std::fs::remove_dir_all(&log).expect("it is there");
    std::fs::rename(&kept, &log).expect("it is there");
    std::fs::write(&stop, stopped).expect("it is written");
    node.restart_unready();
    eventually("it gives in", || {
        let refused = node.log().contains("an older state of the data directory was put back");
        let taken = node.log().contains("was taken from a copy");
        (refused || taken).then_some(())
    });
    if node.log().contains("was taken from a copy") {
        assert_eq!(wait_until_served(node).request(&["GET", "key"]), bulk("new"));
    }
}

#[test]
fn a_log_that_is_to_have_no_copies_gives_them_up() {
    let mut cluster = replicated(2, 1);
    cluster.client(0).request(&["SET", "key", "value"]);
    assert!(cluster.nodes[0].stop().success());
    cluster.nodes[0].restart_with_flags(&["--durability", "disk"]);
    wait_for_copies(&cluster.nodes[0], 0);
    cluster.nodes[1].kill();
    assert_eq!(cluster.client(0).request(&["SET", "key", "alone"]), Value::Simple("OK".into()));
    cluster.nodes[0].kill();
    cluster.nodes[0].restart();
    assert_eq!(cluster.client(0).request(&["GET", "key"]), bulk("alone"), "it asks nobody");
}

#[test]
fn copies_sync_as_the_next_start_is_told() {
    let mut cluster = replicated(2, 1);
    cluster.client(0).request(&["SET", "key", "value"]);
    for fsync in ["everysec", "always"] {
        let node = &mut cluster.nodes[0];
        assert!(node.stop().success());
        node.restart_with_flags(&["--fsync", fsync]);
        wait_for_copies(node, 1);
        let mut client = node.client();
        let refused = client.request(&["CONFIG", "SET", "appendfsync", "everysec"]);
        assert_eq!(matches!(refused, Value::Error(_)), fsync == "always", "{refused:?}");
        let kept = std::fs::read_to_string(node.file("durable-log").join("copies.json")).expect("it is kept");
        assert!(kept.contains(&format!("\"synced\": {}", fsync == "always")), "{kept}");
        assert_eq!(client.request(&["GET", "key"]), bulk("value"));
    }
}

/// How many logs a node keeps files of.
fn kept_copies(node: &Node) -> usize {
    let entries = |path: &std::path::Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let is_file = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "log");
    let has_files = |folder: &std::path::PathBuf| entries(folder).iter().any(is_file);
    entries(&node.file("log-backups")).iter().filter(|folder| has_files(folder)).count()
}

/// The first nodes had all copies while there were no others. Each has as many as it keeps files of.
#[test]
fn copies_are_spread_over_the_nodes_that_join_later() {
    let cluster = replicated_and_synced(5, 2, "everysec");
    cluster.client(0).request(&["SET", "key", "value"]);
    eventually("each node has two", || {
        let counts: Vec<String> =
            cluster.nodes.iter().map(|node| info(&mut node.client(), "sidle_log_copies")).collect();
        let kept: Vec<usize> = cluster.nodes.iter().map(kept_copies).collect();
        (counts.iter().all(|count| count == "2") && kept == [2; 5]).then_some(())
    });
    assert_eq!(cluster.client(0).request(&["GET", "key"]), bulk("value"));
}

/// A copy whose files were damaged is refused, and the node with the log goes on without it.
#[test]
fn a_damaged_copy_is_no_copy() {
    let mut cluster = replicated(2, 1);
    let mut client = cluster.client(0);
    client.request(&["SET", "key", "value"]);
    cluster.nodes[1].kill();
    let folder = cluster.nodes[1].file("log-backups");
    let log =
        std::fs::read_dir(&folder).expect("it has copies").next().expect("one").expect("an entry").path();
    std::fs::write(log.join("files"), "nonsense").expect("it is written");
    cluster.nodes[1].restart();
    eventually("it is reported", || {
        let log = cluster.nodes[1].log();
        (log.contains("cannot be used") && log.contains("files")).then_some(())
    });
    assert_eq!(client.request(&["SET", "key", "other"]), Value::Simple("OK".into()));
    assert_eq!(info(&mut client, "sidle_log_copies"), "0");
    assert_eq!(text(&client.request(&["GET", "key"])).as_deref(), Some("other"));
}

/// What is kept of the copies is gone: a start does not take the own disk for all there is.
#[test]
fn a_start_without_its_record_of_copies_is_refused_unless_it_is_salvaged() {
    let mut cluster = replicated(2, 1);
    cluster.client(0).request(&["SET", "key", "value"]);
    let node = &mut cluster.nodes[0];
    assert!(node.stop().success());
    let record = node.file("durable-log").join("copies.json");
    for damage in [Some("{"), None] {
        match damage {
            Some(text) => std::fs::write(&record, text).expect("it is written"),
            None => std::fs::remove_file(&record).expect("it is there"),
        }
        node.restart_unready();
        assert!(!node.wait().success());
        assert!(node.log().contains("copies.json") && node.log().contains("--salvage"), "{}", node.log());
    }
    node.restart_with_switch("--salvage");
    assert_eq!(node.client().request(&["GET", "key"]), bulk("value"));
    wait_for_copies(node, 1);
}

/// Its disk was lost, and one of its copies is put in its place.
#[test]
fn a_log_that_is_gone_is_put_back_from_a_copy() {
    let mut cluster = replicated(2, 1);
    cluster.client(0).request(&["SET", "key", "value"]);
    cluster.nodes.iter_mut().for_each(Node::kill);
    let [node, other] = cluster.nodes.as_mut_slice() else { panic!("two nodes") };
    let log = node.file("durable-log");
    std::fs::remove_dir_all(&log).expect("it is there");
    let refused = refused(node, &["--durability", "replicated=1"]);
    for part in ["and there is none in", "`sidle takeover`", "copy log-backups/", "--salvage"] {
        assert!(refused.contains(part), "{refused}");
    }
    let copies = std::fs::read_dir(other.file("log-backups")).expect("it has copies");
    let copies: Vec<_> = copies.map(|entry| entry.expect("an entry")).collect();
    let named = copies.iter().find(|copy| {
        let name = copy.file_name().into_string().expect("a plain name");
        refused.contains(&format!("log-backups/{name}"))
    });
    let copy =
        std::process::Command::new("cp").arg("-a").arg(named.expect("it is named").path()).arg(&log).status();
    assert!(copy.expect("it runs").success());
    node.restart_with_switch("--salvage");
    other.restart_unready();
    assert_eq!(wait_until_served(node).request(&["GET", "key"]), bulk("value"));
    wait_for_copies(node, 1);
}

/// A backup that has lost its copy does not vouch for the log's own end.
#[test]
fn a_copy_that_is_gone_shows_nothing() {
    let mut cluster = replicated(3, 2);
    cluster.client(0).request(&["SET", "key", "value"]);
    cluster.nodes.iter_mut().for_each(Node::kill);
    lose_the_end(&cluster.nodes[0], ALL_BYTES);
    std::fs::remove_dir_all(cluster.nodes[1].file("log-backups")).expect("it has copies");
    let [first, second, third] = cluster.nodes.as_mut_slice() else { panic!("three nodes") };
    first.restart_unready();
    second.restart_unready();
    eventually("it waits", || first.log().contains("waits for a copy of its durable log").then_some(()));
    third.restart_unready();
    assert_eq!(wait_until_served(first).request(&["GET", "key"]), bulk("value"));
}

#[test]
fn a_copy_that_is_removed_while_its_node_runs_does_not_count() {
    let cluster = replicated(2, 1);
    let mut client = cluster.client(0);
    client.request(&["SET", "key", "value"]);
    std::fs::remove_dir_all(cluster.nodes[1].file("log-backups")).expect("it has copies");
    eventually("it is noticed", || cluster.nodes[1].log().contains("was moved or removed").then_some(()));
    let copies = cluster.nodes[1].file("log-backups");
    eventually("it is begun anew", || {
        client.request(&["SET", "key", "other"]);
        std::fs::read_dir(&copies).is_ok_and(|copies| copies.count() == 1).then_some(())
    });
    wait_for_copies(&cluster.nodes[0], 1);
}

/// What was acknowledged is at all copies: nothing is to be waited for.
#[test]
fn wait_behind_an_acknowledged_write_answers_at_once() {
    let cluster = replicated(2, 1);
    let mut client = cluster.client(0);
    let began = Instant::now();
    for number in 0..100 {
        client.request(&["SET", "key", &number.to_string()]);
        assert_eq!(client.request(&["WAIT", "1", "1000"]), Value::Integer(1));
    }
    // A tick each would be ten seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
