//! A node that dies is taken over by those with copies of its log.

use super::support::{Client, Node, NodeOptions, TestCluster, bulk, eventually};
use super::{info, number};
use sidle_resp::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WRITERS: usize = 3;

/// Nodes with two copies each. The second one owns everything.
pub(super) fn cluster(nodes: usize, options: &NodeOptions) -> TestCluster {
    let options = options.clone().flag("--durability", "replicated=2").flag("--fsync", "everysec");
    let cluster = TestCluster::start_with(nodes, &options);
    let id = cluster.start_migration("0-16383", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    eventually("the log has its copies", || {
        let copies = (nodes - 1).min(2).to_string();
        (info(&mut cluster.client(1), "sidle_log_copies") == copies).then_some(())
    });
    cluster
}

fn slot_of(key: &str) -> u16 {
    sidle_types::Slot::of_key(key.as_bytes()).number()
}

/// A key of a slot of its own.
fn key(writer: usize, number: u64) -> String {
    format!("key:{writer}:{number}")
}

/// Writes until the node dies; how many writes were acknowledged, the first ones.
fn write(address: &str, writer: usize, dies: &AtomicBool) -> u64 {
    let mut client = Client::connect(address);
    for number in 0.. {
        let (key, value) = (key(writer, number), number.to_string());
        match client.try_request(&["SET", &key, &value]) {
            Some(Value::Simple(_)) => {}
            // Of the slots that are another node's.
            Some(Value::Error(text)) if text.starts_with("MOVED ") => {}
            _ => {
                assert!(dies.load(Ordering::Acquire), "writer {writer} was refused");
                return number;
            }
        }
    }
    unreachable!("the node dies")
}

fn take_over(cluster: &TestCluster, dead: usize) -> String {
    let address = cluster.nodes[dead].address();
    eventually("it is taken over", || {
        let output = cluster.nodes[0].run(&["takeover", &address]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        // Its silence has to be noticed.
        output.status.success().then_some(printed)
    })
}

#[test]
fn what_a_dead_node_had_is_taken_over_and_nothing_acknowledged_is_lost() {
    let mut cluster = cluster(3, &NodeOptions::default());
    // It owns two tablets then.
    let id = cluster.start_migration("3000-3010", 0);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    let refused = cluster.nodes[0].run(&["takeover", &cluster.nodes[1].address()]);
    assert!(!refused.status.success(), "it is up");
    let mut client = cluster.client(1);
    client.request(&["RPUSH", "list", "a", "b", "c"]);
    client.request(&["SET", "ends", "soon", "PX", "600000"]);
    client.request(&["SET", "gone", "1"]);
    client.request(&["DEL", "gone"]);
    let (address, dies) = (cluster.nodes[1].address(), AtomicBool::new(false));
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| (writer, address.clone()))
            .map(|(writer, address)| {
                let dies = &dies;
                scope.spawn(move || write(&address, writer, dies))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1000));
        dies.store(true, Ordering::Release);
        cluster.nodes[1].kill();
        writers.into_iter().map(|writer| writer.join().expect("no writer panicked")).collect()
    });
    let printed = take_over(&cluster, 1);
    assert!(printed.contains("is taken over"), "{printed}");
    let mut client = cluster.client(0);
    for (writer, &count) in acknowledged.iter().enumerate() {
        assert!(count > 0, "writer {writer} did nothing");
        for number in 0..count {
            let value = client.request_anywhere(&["GET", &key(writer, number)]);
            let is_elsewhere = (3000..=3010).contains(&slot_of(&key(writer, number)));
            let expected = if is_elsewhere { Value::Null } else { bulk(&number.to_string()) };
            assert_eq!(value, expected, "writer {writer}, {number} of {count}");
        }
    }
    let list = ["a", "b", "c"].map(bulk).to_vec();
    assert_eq!(client.request_anywhere(&["LRANGE", "list", "0", "-1"]), Value::Array(list));
    assert!(matches!(client.request_anywhere(&["PTTL", "ends"]), Value::Integer(1..=600_000)));
    assert_eq!(client.request_anywhere(&["GET", "gone"]), Value::Null);
    assert_eq!(client.request_anywhere(&["SET", "more", "1"]), Value::Simple("OK".into()));
    comes_back_empty(&mut cluster.nodes[1]);
    assert_eq!(cluster.client(1).request_anywhere(&["GET", "more"]), bulk("1"));
}

/// A node that was taken over sets its log aside by itself, and joins as an empty member in the same start.
fn comes_back_empty(node: &mut Node) {
    let (log, aside) = (node.file("durable-log"), node.file("durable-log.taken-over-1"));
    let named = std::fs::read(log.join("copies.json")).expect("it has copies");
    node.restart();
    assert!(node.log().contains("its durable log was moved to"), "{}", node.log());
    let kept = std::fs::read(aside.join("copies.json")).expect("nothing is removed");
    assert_eq!(named, kept);
    assert!(log.exists(), "it has a new one");
    assert!(node.is_running());
}

/// Nobody has a copy any more that could show it, and the node was stopped cleanly: the coordinator knows.
#[test]
fn a_node_that_was_stopped_and_taken_over_learns_it_before_it_joins() {
    let mut cluster = cluster(3, &NodeOptions::default());
    assert_eq!(cluster.client(1).request(&["SET", "key", "value"]), Value::Simple("OK".into()));
    assert!(cluster.nodes[1].stop().success());
    take_over(&cluster, 1);
    for node in [0, 2] {
        std::fs::remove_dir_all(cluster.nodes[node].file("log-backups")).expect("it has copies");
    }
    comes_back_empty(&mut cluster.nodes[1]);
    assert_eq!(number(&mut cluster.client(1), &["DBSIZE"]), 0);
    assert_eq!(cluster.client(1).request_anywhere(&["GET", "key"]), bulk("value"));
    // The next start goes on with its new log, as after a death between the two halves of that start.
    cluster.nodes[1].kill();
    cluster.nodes[1].restart();
    assert!(!cluster.nodes[1].file("durable-log.taken-over-2").exists());
}

/// The copies show a later epoch, since an older state was put back. The log was not taken over: it stays.
#[test]
fn a_log_that_nobody_took_over_is_not_moved() {
    let mut cluster = cluster(3, &NodeOptions::default());
    assert_eq!(cluster.client(1).request(&["SET", "key", "value"]), Value::Simple("OK".into()));
    assert!(cluster.nodes[1].stop().success());
    let (log, kept) = (cluster.nodes[1].file("durable-log"), cluster.nodes[1].file("kept"));
    let copy = std::process::Command::new("cp").arg("-a").arg(&log).arg(&kept).status();
    assert!(copy.expect("it runs").success());
    cluster.nodes[1].restart();
    let copies = |cluster: &TestCluster| info(&mut cluster.client(1), "sidle_log_copies");
    eventually("it has both copies", || (copies(&cluster) == "2").then_some(()));
    cluster.nodes[2].kill();
    eventually("one is left out", || (copies(&cluster) == "1").then_some(()));
    cluster.nodes[1].kill();
    std::fs::rename(&log, cluster.nodes[1].file("newest")).expect("it is there");
    std::fs::rename(&kept, &log).expect("it is there");
    let node = &mut cluster.nodes[1];
    node.restart_unready();
    assert!(!node.wait().success());
    assert!(node.log().contains("an older state of the data directory was put back"), "{}", node.log());
    assert!(log.exists() && !node.file("durable-log.taken-over-1").exists());
    // As told.
    std::fs::remove_dir_all(&log).expect("it is there");
    std::fs::rename(node.file("newest"), &log).expect("it is there");
    node.restart();
    let mut client = cluster.client(1);
    eventually("it serves", || (client.request(&["GET", "key"]) == bulk("value")).then_some(()));
}

/// Whether no thread of a process runs any more.
fn is_stopped(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it is there");
    let status =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
    tasks.map(|task| status(task.expect("an entry"))).all(|status| status.contains("(stopped)"))
}

/// A process that stands still is taken over, too, and shows nothing of the past when it goes on.
#[test]
fn a_node_that_stands_still_is_taken_over_by_itself_and_shows_nothing_stale() {
    let mut cluster = cluster(3, &NodeOptions::default().flag("--takeover-after", "2s"));
    let mut old = cluster.client(1);
    assert_eq!(old.request(&["SET", "key", "old"]), Value::Simple("OK".into()));
    eventually("it has leases", || {
        let status = cluster.nodes[0].status()?;
        status["nodes"][0]["log_copies"].as_array().map(|_| ())
    });
    cluster.nodes[1].pause();
    eventually("all of its threads stand still", || is_stopped(cluster.nodes[1].process_id()).then_some(()));
    // They are read once the process goes on.
    old.send(&["GET", "key"]);
    old.send(&["SET", "key", "late"]);
    let (mut new, value) = eventually("others serve it", || {
        [0, 2].into_iter().find_map(|node| {
            let mut client = cluster.client(node);
            match client.try_request(&["GET", "key"]) {
                Some(Value::Bulk(value)) => Some((client, value)),
                _ => None,
            }
        })
    });
    assert_eq!(value, b"old");
    assert_eq!(new.request(&["SET", "key", "new"]), Value::Simple("OK".into()));
    cluster.nodes[1].resume();
    let read = old.reply_within(Duration::from_secs(5));
    assert_ne!(read, Some(bulk("old")), "a stale read");
    let written = old.reply_within(Duration::from_secs(5));
    assert!(
        !matches!(written, Some(Value::Simple(_))),
        "a write that the new owner does not have: {written:?}"
    );
    assert_eq!(new.request(&["GET", "key"]), bulk("new"));
    assert_eq!(cluster.nodes[1].wait().code(), Some(1), "its end is no success");
    let log = cluster.nodes[1].log();
    assert!(log.contains("other nodes have taken over what this"), "{log}");
}

/// What the command tells of a new owner that is down, and that it waits for nobody without end.
#[test]
fn a_takeover_ends_with_what_to_do_when_a_new_owner_is_down() {
    let mut cluster = cluster(3, &NodeOptions::default());
    let [dead, new] = [1, 2].map(|node| cluster.nodes[node].address());
    cluster.nodes[1].kill();
    eventually("its silence is noticed", || {
        let status = cluster.nodes[0].status()?;
        let nodes = status["nodes"].as_array()?;
        nodes.iter().any(|node| node["client_addr"] == *dead && node["state"] == "fail").then_some(())
    });
    let shown = |cluster: &TestCluster, arguments: &[&str]| {
        let output = cluster.nodes[0].run(arguments);
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
    };
    let (_, status) = shown(&cluster, &["status"]);
    let told = format!("{dead} is down and owns");
    assert!(status.contains(&told) && status.contains(&format!("`sidle takeover {dead}")), "{status}");
    // It is up for two seconds more: a new owner, which reads nothing.
    cluster.nodes[2].pause();
    let (code, printed) = shown(&cluster, &["takeover", &dead, "--timeout", "1"]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains(&format!("{new} has 1 range to read and is down")), "{printed}");
    assert!(printed.contains(&format!("`sidle takeover {new}")), "{printed}");
    let (_, status) = shown(&cluster, &["status"]);
    assert!(status.contains(&format!("{new} is to take ")) && status.contains(", and is down: "), "{status}");
    cluster.nodes[2].resume();
    let printed = take_over(&cluster, 1);
    assert!(printed.contains("is taken over") || printed.contains("nothing is left"), "{printed}");
    let (code, printed) = shown(&cluster, &["takeover", &dead]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(printed, format!("Of node {dead} nothing is left to be taken over.\n"));
    let status = cluster.nodes[0].status().expect("a status");
    let node = status["nodes"].as_array().expect("nodes").iter().find(|node| node["client_addr"] == *dead);
    let node = node.expect("a member");
    assert_eq!((&node["keys"], &node["memory_used_bytes"]), (&0.into(), &0.into()), "{node}");
}

/// All nodes are killed while the takeover is under way: it goes on when they are back.
#[test]
fn a_takeover_that_is_cut_short_goes_on_at_the_next_start() {
    let mut cluster = cluster(3, &NodeOptions::default());
    let mut client = cluster.client(1);
    for number in 0..20_000u64 {
        client.send(&["SET", &key(0, number), &number.to_string()]);
        if number % 500 == 499 {
            (0..500).for_each(|_| assert_eq!(client.reply(), Value::Simple("OK".into())));
        }
    }
    let address = cluster.nodes[1].address();
    cluster.nodes[1].kill();
    let begun = eventually("its silence is noticed", || {
        let mut operator = cluster.client(0);
        let reply = operator.request(&["SIDLE.TAKEOVER", &address]);
        matches!(reply, Value::Integer(1..)).then_some(reply)
    });
    assert_eq!(begun, Value::Integer(2));
    [2, 0].into_iter().for_each(|node| cluster.nodes[node].kill());
    [0, 2].into_iter().for_each(|node| cluster.nodes[node].restart_unready());
    eventually("it has gone on", || {
        let status = cluster.nodes[0].status()?;
        status["takeovers"].as_array()?.is_empty().then_some(())
    });
    let mut client = cluster.client(0);
    for number in (0..20_000).step_by(97) {
        let value = client.request_anywhere(&["GET", &key(0, number)]);
        assert_eq!(value, bulk(&number.to_string()));
    }
}

/// A copy that is damaged is not served, and nobody waits for it; it is taken over once it is whole again.
#[test]
fn a_damaged_copy_is_reported_and_taken_over_once_it_is_mended() {
    let mut cluster = cluster(2, &NodeOptions::default());
    cluster.client(1).request(&["SET", "key", "value"]);
    cluster.nodes[1].kill();
    let copies = cluster.nodes[0].file("log-backups");
    let log =
        std::fs::read_dir(&copies).expect("it has copies").next().expect("one").expect("an entry").path();
    let file = log.join("000000000001.log");
    let whole = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, vec![7; whole.len()]).expect("it is written");
    let address = cluster.nodes[1].address();
    let mut client = cluster.client(0);
    eventually("its silence is noticed", || {
        matches!(client.request(&["SIDLE.TAKEOVER", &address]), Value::Integer(1)).then_some(())
    });
    // The node may not know yet that it is the owner.
    eventually("it is refused", || {
        let refused = client.request(&["GET", "key"]);
        matches!(&refused, Value::Error(text) if text.starts_with("CLUSTERDOWN")).then_some(())
    });
    eventually("it is reported", || cluster.nodes[0].log().contains("cannot be taken over").then_some(()));
    std::fs::write(&file, whole).expect("it is written");
    eventually("it is taken over", || (client.request(&["GET", "key"]) == bulk("value")).then_some(()));
}
