//! kill -9 of the nodes of a migration in its middle, under load: it goes on, and nothing is lost.

use super::kills::{Progress, TRANSACTION, WRITERS, begin_anew, check, round};
use super::support::{Client, Node, StopWhenDropped, TestCluster, bulk, eventually};
use super::{durable, number};
use sidle_resp::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So many records of this size take seconds at a megabyte a second.
const RECORDS: usize = 1_000;
const RECORD_BYTES: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Carries requests out at whoever has their keys, as a client of a cluster does: it follows MOVED, and
/// begins again where nothing was carried out. `None` when the connection breaks.
fn carry_out(client: &mut Client, requests: &[Vec<String>]) -> Option<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let mut refused = None;
        for words in requests {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Value::Error(error) = client.try_request(&words)? {
                refused = refused.or(Some(error));
            }
        }
        let Some(error) = refused else { return Some(()) };
        let words: Vec<&str> = error.split(' ').collect();
        match words[0] {
            "MOVED" => *client = Client::connect(words[2]),
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" => std::thread::sleep(Duration::from_millis(5)),
            _ => panic!("{requests:?}: {error}"),
        }
    }
    panic!("{requests:?} is never carried out")
}

/// Runs rounds until the node is gone, or until it is to stop.
fn write(address: &str, writer: usize, progress: &Mutex<[Progress; WRITERS]>, stops: &AtomicBool) {
    let mut client = Client::connect(address);
    let mut acknowledged = 0;
    while !stops.load(Ordering::Relaxed) {
        let requests = round(writer, acknowledged + 1);
        let (transaction, others) = requests.split_at(TRANSACTION);
        for together in std::iter::once(transaction).chain(others.chunks(1)) {
            if carry_out(&mut client, together).is_none() {
                return;
            }
        }
        acknowledged += 1;
        progress.lock().expect("no writer panics")[writer].acknowledged = acknowledged;
    }
}

fn fill(client: &mut Client) {
    let record = "v".repeat(RECORD_BYTES);
    let sets = (0..RECORDS).map(|n| vec!["SET".to_owned(), format!("record {n}"), record.clone()]);
    client.pipeline(&sets.collect::<Vec<_>>());
    let pushes = (0..RECORDS).map(|n| vec!["RPUSH".to_owned(), "large".to_owned(), format!("{n} {record}")]);
    client.pipeline(&pushes.collect::<Vec<_>>());
}

fn is_filled(client: &mut Client) {
    let record = bulk(&"v".repeat(RECORD_BYTES));
    let gets = (0..RECORDS).map(|n| vec!["GET".to_owned(), format!("record {n}")]);
    let found = client.pipeline(&gets.collect::<Vec<_>>());
    let lost = found.iter().filter(|found| **found != record).count();
    assert_eq!(lost, 0, "of {RECORDS}");
    assert_eq!(number(client, &["LLEN", "large"]), RECORDS as i64);
}

/// A migration of everything, slow enough to be in its middle for seconds.
fn begin(cluster: &TestCluster, protocol: &str) {
    let to = cluster.nodes[1].address();
    let flags = ["--to", &to, "--slots", "0-16383", "--protocol", protocol, "--rate", "1", "--detach"];
    let begun = cluster.nodes[0].run(&[&["migrate"], &flags[..], &["--json"]].concat());
    assert!(begun.status.success(), "{begun:?}");
}

/// Waits until a migration runs.
fn runs(cluster: &TestCluster, id: u64) {
    eventually("it runs", || {
        let state = cluster.migration(id)?["state"].as_str()?.to_owned();
        (state == "running").then_some(())
    });
}

/// Everything moves from the first node, the coordinator's, to the second, and these are killed meanwhile.
fn goes_on(protocol: &str, fsync: &str, killed: &[usize]) {
    goes_on_or_back(protocol, fsync, killed, false);
}

/// The same; or it turns back, and these are killed on its way back.
fn goes_on_or_back(protocol: &str, fsync: &str, killed: &[usize], turns: bool) {
    let (last, owner) = if turns { (2, 0) } else { (1, 1) };
    let mut cluster = TestCluster::start_with(2, &durable(fsync));
    begin_anew(&cluster.nodes[..1], |_| 0);
    fill(&mut cluster.client(0));
    let progress = Mutex::new([Progress::default(); WRITERS]);
    let (address, stops) = (cluster.nodes[0].address(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stops = StopWhenDropped(&stops);
        for writer in 0..WRITERS {
            let (address, progress, stops) = (&address, &progress, &stops);
            scope.spawn(move || write(address, writer, progress, stops));
        }
        eventually("every writer has written", || {
            let progress = progress.lock().expect("no writer panics");
            progress.iter().all(|writer| writer.acknowledged > 3).then_some(())
        });
        begin(&cluster, protocol);
        runs(&cluster, 1);
        if turns {
            std::thread::sleep(Duration::from_millis(1_500));
            let reply = cluster.client(0).request(&["SIDLE.MIGRATE", "CANCEL", "1"]);
            assert_eq!(reply, Value::Integer(2), "{protocol}");
            runs(&cluster, 2);
        } else {
            std::thread::sleep(Duration::from_millis(500));
        }
        killed.iter().for_each(|&node| cluster.nodes[node].kill());
        std::thread::sleep(Duration::from_millis(200));
        killed.iter().for_each(|&node| cluster.nodes[node].restart());
        std::thread::sleep(Duration::from_millis(500));
    });
    let over = cluster.wait_for_migration(last);
    assert_eq!(over["state"], "done", "{over}");
    let log = cluster.nodes[0].log();
    assert!(log.contains(&format!("migration {last} goes on")), "it was killed in the middle: {log}");
    let progress = *progress.lock().expect("no writer panicked");
    for (writer, Progress { acknowledged }) in progress.into_iter().enumerate() {
        check(&mut cluster.client(owner), writer, acknowledged);
    }
    is_filled(&mut cluster.client(owner));
    cluster.nodes.iter_mut().for_each(Node::kill);
    cluster.nodes.iter_mut().for_each(Node::restart);
    is_filled(&mut cluster.client(owner));
    assert_eq!(number(&mut cluster.client(1 - owner), &["DBSIZE"]), 0);
}

#[test]
fn a_migration_goes_on_with_a_source_that_was_killed() {
    goes_on("fulva", "everysec", &[0]);
}

#[test]
fn a_migration_goes_on_with_a_target_that_was_killed() {
    goes_on("fulva", "always", &[1]);
}

#[test]
fn a_migration_goes_on_when_both_were_killed() {
    goes_on("rocksteady", "everysec", &[0, 1]);
    goes_on("zephyr", "everysec", &[0, 1]);
}

#[test]
fn so_does_one_that_serves_when_all_is_there() {
    goes_on("stop-and-copy", "everysec", &[0, 1]);
}

/// The source serves what it has not given until it is killed.
#[test]
fn so_does_one_that_gives_bit_by_bit() {
    goes_on("handoff", "everysec", &[0]);
    goes_on("handoff", "always", &[1]);
    goes_on("handoff", "everysec", &[0, 1]);
}

#[test]
fn so_does_its_way_back() {
    for killed in [&[0][..], &[1], &[0, 1]] {
        goes_on_or_back("handoff", "everysec", killed, true);
    }
}
