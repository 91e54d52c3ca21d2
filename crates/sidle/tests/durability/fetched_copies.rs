//! kill -9 of a node of a migration in its middle, which never comes back, where whoever takes its place has
//! no copy of its log: one is fetched from the node that has it. Each log has one copy.

use super::dead_sources::{begin_to, check, fill, take_over, with_copies};
use super::support::{TestCluster, eventually};
use super::{info, text};

/// Which node has the copy of this one's log.
fn copy_of(cluster: &TestCluster, node: usize) -> usize {
    eventually("one of the nodes has it", || {
        let at = info(&mut cluster.client(node), "sidle_log_copies_at");
        let id = |other: usize| text(&cluster.client(other).request(&["CLUSTER", "MYID"])).expect("an id");
        (0..3).find(|other| id(*other) == at)
    })
}

/// Three nodes, each with the copy of another one's log. The first ones to join had theirs where they could,
/// and these go where they belong.
fn cluster() -> TestCluster {
    let cluster = with_copies("1", "everysec");
    eventually("each has one copy", || {
        let at: std::collections::BTreeSet<usize> = (0..3).map(|node| copy_of(&cluster, node)).collect();
        (at.len() == 3).then_some(())
    });
    cluster
}

/// The third one.
fn other(first: usize, second: usize) -> usize {
    3 - first - second
}

/// Whether the node has fetched a copy, and has removed it by now. `earlier`: what an earlier process of it
/// has logged.
fn has_fetched(cluster: &TestCluster, node: usize, earlier: &str) {
    let log = earlier.to_owned() + &cluster.nodes[node].log();
    assert!(log.contains("fetched the copy of log"), "{log}");
    eventually("what was fetched is removed", || {
        (!cluster.nodes[node].file("fetched-logs").exists()).then_some(())
    });
}

/// What happens while the copy is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// The node that has the copy is killed, and comes back.
    CopyRestarts,
    /// The node that fetches it.
    ReaderRestarts,
}

fn ends_without_its_source(protocol: &str, is_served: bool, meanwhile: Meanwhile) {
    let mut cluster = cluster();
    fill(&cluster, 1);
    let copy = copy_of(&cluster, 1);
    let target = other(1, copy);
    let changed = begin_to(&cluster, target, protocol, is_served);
    cluster.nodes[1].kill();
    take_over(&cluster, 1);
    let mut earlier = String::new();
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::CopyRestarts => {
            cluster.nodes[copy].kill();
            cluster.nodes[copy].restart();
        }
        Meanwhile::ReaderRestarts => {
            cluster.nodes[target].kill();
            // It may have fetched all of it by then.
            earlier = cluster.nodes[target].log();
            cluster.nodes[target].restart();
        }
    }
    let ended = cluster.wait_for_migration(2);
    assert!(["done", "failed"].contains(&ended["state"].as_str().expect("a state")), "{protocol}: {ended}");
    assert!(!is_served || ended["state"] == "done", "{protocol}: {ended}");
    check(&cluster, protocol, &changed);
    if is_served {
        has_fetched(&cluster, target, &earlier);
    }
    // What was fetched is in the node's own log by now.
    cluster.nodes[target].kill();
    cluster.nodes[target].restart();
    check(&cluster, protocol, &changed);
}

#[test]
fn a_target_fetches_what_had_not_arrived_from_its_dead_source() {
    ends_without_its_source("fulva", true, Meanwhile::Nothing);
}

#[test]
fn a_target_of_a_hand_off_fetches_what_had_not_arrived_from_its_dead_source() {
    ends_without_its_source("handoff", true, Meanwhile::Nothing);
}

#[test]
fn a_migration_that_serves_nothing_before_its_end_ends_without_its_source_and_a_copy() {
    ends_without_its_source("stop-and-copy", false, Meanwhile::Nothing);
}

#[test]
fn the_node_with_the_copy_may_restart() {
    ends_without_its_source("fulva", true, Meanwhile::CopyRestarts);
}

#[test]
fn the_target_that_fetches_may_restart() {
    ends_without_its_source("fulva", true, Meanwhile::ReaderRestarts);
}

/// The disk takes nothing: it is tried again until it does.
#[test]
fn a_copy_is_fetched_once_the_disk_takes_it() {
    let mut cluster = cluster();
    fill(&cluster, 1);
    let target = other(1, copy_of(&cluster, 1));
    let changed = begin_to(&cluster, target, "fulva", true);
    let in_the_way = cluster.nodes[target].file("fetched-logs");
    std::fs::write(&in_the_way, "no folder").expect("it can be written");
    cluster.nodes[1].kill();
    take_over(&cluster, 1);
    eventually("it says why", || {
        cluster.nodes[target].log().contains("the copy of its log cannot be fetched into").then_some(())
    });
    std::fs::remove_file(&in_the_way).expect("it is there");
    assert_eq!(cluster.wait_for_migration(2)["state"], "done");
    check(&cluster, "fulva", &changed);
    has_fetched(&cluster, target, "");
}

/// Only the source has a copy of its target's log: the third node fetches that, and takes its place.
fn ends_without_its_target(protocol: &str, is_served: bool) {
    let mut cluster = cluster();
    let (source, target) = if copy_of(&cluster, 1) == 2 { (2, 1) } else { (1, 2) };
    assert_eq!(copy_of(&cluster, target), source);
    fill(&cluster, source);
    let changed = begin_to(&cluster, target, protocol, is_served);
    cluster.nodes[target].kill();
    take_over(&cluster, target);
    let ended = cluster.wait_for_migration(2);
    assert!(["done", "failed"].contains(&ended["state"].as_str().expect("a state")), "{protocol}: {ended}");
    assert!(!is_served || ended["state"] == "done", "{protocol}: {ended}");
    check(&cluster, protocol, &changed);
    if is_served {
        has_fetched(&cluster, 0, "");
    }
}

#[test]
fn a_node_without_a_copy_takes_a_dead_targets_place() {
    ends_without_its_target("fulva", true);
}

#[test]
fn a_node_without_a_copy_takes_the_place_of_a_hand_offs_dead_target() {
    ends_without_its_target("handoff", true);
}
