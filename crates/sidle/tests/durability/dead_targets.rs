//! kill -9 of the target of a migration in its middle, which never comes back: the node with the other copy
//! of its log takes its place.

use super::dead_sources::{begin, check, filled, take_over};

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
