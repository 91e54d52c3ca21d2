//! kill -9 of the source of a migration in its middle, which never comes back: the target goes on with
//! its copy of the source's log. And copies that are damaged where only the process that keeps them can
//! know it.

use super::info;
use super::support::{Client, NodeOptions, TestCluster, bulk, eventually};
use sidle_resp::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const RECORDS: usize = 600;
const RECORD_BYTES: usize = 2_000;

fn record(number: usize) -> String {
    format!("record {number}")
}

/// Three nodes with copies of each other's logs, of which the second has everything.
pub(super) fn filled(fsync: &str) -> TestCluster {
    let cluster = with_copies("2", fsync);
    fill(&cluster, 1);
    cluster
}

/// Three nodes with so many copies of each one's log.
pub(super) fn with_copies(copies: &str, fsync: &str) -> TestCluster {
    nodes_with_copies(3, copies, fsync)
}

pub(super) fn nodes_with_copies(nodes: usize, copies: &str, fsync: &str) -> TestCluster {
    let cluster = TestCluster::start_with(nodes, &copying(copies, fsync));
    for node in 0..nodes {
        eventually("the log has its copies", || {
            (info(&mut cluster.client(node), "sidle_log_copies") == copies).then_some(())
        });
    }
    cluster
}

/// How such nodes are started.
pub(super) fn copying(copies: &str, fsync: &str) -> NodeOptions {
    NodeOptions::default().flag("--durability", &format!("replicated={copies}")).flag("--fsync", fsync)
}

/// Gives this node everything.
pub(super) fn fill(cluster: &TestCluster, owner: usize) {
    let id = cluster.start_migration("0-16383", owner);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    write(cluster, owner);
}

/// Writes what [`check`] looks for, where this node has everything.
pub(super) fn write(cluster: &TestCluster, owner: usize) {
    let mut client = cluster.client(owner);
    let value = "v".repeat(RECORD_BYTES);
    let sets = (0..RECORDS).map(|number| vec!["SET".to_owned(), record(number), value.clone()]);
    client.pipeline(&sets.collect::<Vec<_>>());
    let pushes =
        (0..RECORDS).map(|number| vec!["RPUSH".to_owned(), "large".to_owned(), format!("{number} {value}")]);
    client.pipeline(&pushes.collect::<Vec<_>>());
}

pub(super) fn take_over(cluster: &TestCluster, dead: usize) {
    let address = cluster.nodes[dead].address();
    eventually("its silence is noticed, and it is taken over", || {
        let output = cluster.nodes[0].run(&["takeover", &address]);
        output.status.success().then_some(())
    });
}

/// Changes some of what is moving, at whoever serves it. Which records are changed, and which are gone.
fn change(client: &mut Client) -> (Vec<usize>, Vec<usize>) {
    let (changed, gone): (Vec<usize>, Vec<usize>) = ((0..20).collect(), (20..40).collect());
    for &number in &changed {
        assert_eq!(client.request_anywhere(&["SET", &record(number), "new"]), Value::Simple("OK".into()));
    }
    for &number in &gone {
        assert_eq!(client.request_anywhere(&["DEL", &record(number)]), Value::Integer(1));
    }
    (changed, gone)
}

/// What a migration has changed, and removed, while it runs.
pub(super) struct Changed(Vec<usize>, Vec<usize>);

/// Begins a migration to the third node, which is slow, and changes some of what is moving.
pub(super) fn begin(cluster: &TestCluster, protocol: &str, is_served: bool) -> Changed {
    begin_to(cluster, 2, protocol, is_served)
}

/// The same to another node.
pub(super) fn begin_to(cluster: &TestCluster, target: usize, protocol: &str, is_served: bool) -> Changed {
    begin_as(cluster, 2, target, protocol, is_served)
}

/// The same, which gets this number.
pub(super) fn begin_as(
    cluster: &TestCluster,
    migration: u64,
    target: usize,
    protocol: &str,
    is_served: bool,
) -> Changed {
    let to = cluster.nodes[target].address();
    let flags = ["--to", &to, "--slots", "0-12287", "--protocol", protocol, "--rate", "0.5", "--detach"];
    let begun = cluster.nodes[0].run(&[&["migrate"], &flags[..]].concat());
    assert!(begun.status.success(), "{begun:?}");
    eventually("it runs", || (cluster.migration(migration)?["state"].as_str()? != "preparing").then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    let mut client = cluster.client(target);
    let (changed, gone) = if is_served { change(&mut client) } else { Default::default() };
    Changed(changed, gone)
}

/// Whether nothing is lost, and nothing has come back.
pub(super) fn check(cluster: &TestCluster, protocol: &str, Changed(changed, gone): &Changed) {
    let mut client = cluster.client(0);
    let old = "v".repeat(RECORD_BYTES);
    for number in 0..RECORDS {
        let expected = match number {
            _ if changed.contains(&number) => bulk("new"),
            _ if gone.contains(&number) => Value::Null,
            _ => bulk(&old),
        };
        let found = client.request_anywhere(&["GET", &record(number)]);
        assert!(found == expected, "{protocol}: {number} is not what it was");
    }
    assert_eq!(client.request_anywhere(&["LLEN", "large"]), Value::Integer(RECORDS as i64), "{protocol}");
    assert_eq!(client.request_anywhere(&["SET", "more", "1"]), Value::Simple("OK".into()));
}

fn ends_without_its_source(protocol: &str, is_served: bool) {
    let mut cluster = filled("everysec");
    let changed = begin(&cluster, protocol, is_served);
    cluster.nodes[1].kill();
    take_over(&cluster, 1);
    let ended = cluster.wait_for_migration(2);
    // What had not begun to run has moved nothing.
    assert!(["done", "failed"].contains(&ended["state"].as_str().expect("a state")), "{protocol}: {ended}");
    assert!(!is_served || ended["state"] == "done", "{protocol}: {ended}");
    check(&cluster, protocol, &changed);
}

#[test]
fn a_migration_ends_without_its_source() {
    ends_without_its_source("fulva", true);
}

#[test]
fn a_hand_off_ends_without_its_source() {
    ends_without_its_source("handoff", true);
}

#[test]
fn a_migration_that_serves_nothing_before_its_end_ends_without_its_source() {
    ends_without_its_source("stop-and-copy", false);
}

/// The last file of a node's copy of another's log.
fn last_file(cluster: &TestCluster, node: usize) -> PathBuf {
    let copies = fs::read_dir(cluster.nodes[node].file("log-backups")).expect("it keeps copies");
    let copies = copies.map(|copy| copy.expect("an entry").path()).filter(|path| path.is_dir());
    let files = copies
        .flat_map(|copy| fs::read_dir(copy).expect("a copy"))
        .map(|file| file.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    files.max_by_key(|path| fs::metadata(path).expect("it is there").len()).expect("it has a file")
}

/// A start would take it for a torn end. The process that keeps the copy knows what it wrote.
#[test]
fn a_copy_with_a_damaged_end_is_not_taken_over_but_the_other_one() {
    let mut cluster = filled("everysec");
    let file = last_file(&cluster, 2);
    let mut bytes = fs::read(&file).expect("it is there");
    let at = bytes.len() - 6_000;
    bytes[at..at + 16].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&file, bytes).expect("it is there");
    cluster.nodes[1].kill();
    take_over(&cluster, 1);
    let mut client = cluster.client(0);
    let value = bulk(&"v".repeat(RECORD_BYTES));
    for number in 0..RECORDS {
        assert!(client.request_anywhere(&["GET", &record(number)]) == value, "{number} is lost");
    }
    assert_eq!(client.request_anywhere(&["LLEN", "large"]), Value::Integer(RECORDS as i64));
    assert!(cluster.nodes[2].log().contains("does not end as it was written"), "{}", cluster.nodes[2].log());
}
