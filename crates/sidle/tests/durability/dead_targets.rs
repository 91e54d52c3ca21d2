//! kill -9 of the target of a migration in its middle, which never comes back: the node with the other copy
//! of its log takes its place.

use super::dead_sources::{begin, begin_as, check, copying, filled, nodes_with_copies, take_over, write};
use super::support::eventually;

/// `restarts`: the node in its place is killed as well, and comes back.
fn ends_without_its_target(protocol: &str, is_served: bool, restarts: bool) {
    let mut cluster = filled("everysec");
    let changed = begin(&cluster, protocol, is_served);
    cluster.nodes[2].kill();
    take_over(&cluster, 2);
    if restarts {
        cluster.nodes[0].kill();
        cluster.nodes[0].restart();
    }
    let ended = cluster.wait_for_migration(2);
    // What had not begun to run has moved nothing.
    assert!(["done", "failed"].contains(&ended["state"].as_str().expect("a state")), "{protocol}: {ended}");
    assert!(!is_served || ended["state"] == "done", "{protocol}: {ended}");
    check(&cluster, protocol, &changed);
    // What it says is true after a restart as well.
    cluster.nodes[0].kill();
    cluster.nodes[0].restart();
    check(&cluster, protocol, &changed);
}

#[test]
fn a_migration_goes_on_with_another_target() {
    ends_without_its_target("fulva", true, false);
}

#[test]
fn a_hand_off_goes_on_with_another_target() {
    ends_without_its_target("handoff", true, false);
}

#[test]
fn a_migration_that_serves_nothing_before_its_end_goes_on_with_another_target() {
    ends_without_its_target("stop-and-copy", false, false);
}

#[test]
fn the_other_target_may_restart() {
    ends_without_its_target("fulva", true, true);
}

#[test]
fn the_other_target_of_a_hand_off_may_restart() {
    ends_without_its_target("handoff", true, true);
}

/// Nobody is left but the source. What is refused says what helps: one more node that joins takes the place.
fn ends_with_a_node_that_joins(protocol: &str) {
    let mut cluster = nodes_with_copies(2, "1", "everysec");
    write(&cluster, 0);
    let changed = begin_as(&cluster, 1, 1, protocol, true);
    cluster.nodes[1].kill();
    let dead = cluster.nodes[1].address();
    let said = eventually("it is refused with what helps", || {
        let output = cluster.nodes[0].run(&["takeover", &dead]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{output:?}");
        said.contains("have one more join").then_some(said)
    });
    assert!(said.contains("takes part in migration 1"), "{said}");
    let status = cluster.nodes[0].run(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("have one more join"), "{status}");
    assert!(!status.contains("or have those with copies of its log take over"), "{status}");
    cluster.join_some(&copying("1", "everysec"));
    take_over(&cluster, 1);
    assert_eq!(cluster.wait_for_migration(1)["state"], "done", "{protocol}");
    check(&cluster, protocol, &changed);
}

#[test]
fn a_migration_of_two_nodes_goes_on_with_a_third_one_that_joins() {
    ends_with_a_node_that_joins("fulva");
}

#[test]
fn a_hand_off_of_two_nodes_goes_on_with_a_third_one_that_joins() {
    ends_with_a_node_that_joins("handoff");
}
