//! The record of the copies of a node's log: one change follows another, whatever is lost on the way.

use crate::world::{BAD, World, node_id};
use sidle_cluster::{CommitFailure, Incarnation, LogBackup, LogCopies};
use sidle_types::{LogId, ProtocolVersion, Speaks};

fn copies(epoch: u64, backups: &[u8]) -> LogCopies {
    let backup = |&number: &u8| LogBackup { node: node_id(number), incarnation: Incarnation(1) };
    let backups = backups.iter().map(backup).collect();
    LogCopies { log: LogId([7; 16]), epoch, backups, takeover_after_ms: None }
}

fn ask(world: &mut World, node: u8, copies: LogCopies) {
    let now = world.now;
    world.node(node).ask_for_copies(now, copies);
}

/// Asks, and waits for the answer.
fn answer(world: &mut World, node: u8, copies: LogCopies) -> Option<LogCopies> {
    let before = world.node(node).copies.len();
    ask(world, node, copies);
    let is_answered = |world: &World| world.nodes[usize::from(node) - 1].copies.len() > before;
    assert!(world.run_until(60_000_000, is_answered), "it is asked until it is answered");
    world.node(node).copies[before].clone()
}

#[test]
fn each_change_is_decided_once_whatever_is_lost() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3);
        world.links = BAD;
        assert_eq!(answer(&mut world, 2, copies(0, &[])), None, "nothing was decided");
        for epoch in 1..=12 {
            let wanted = copies(epoch, if epoch % 2 == 0 { &[3] } else { &[1, 3] });
            if epoch % 4 == 0 {
                ask(&mut world, 2, wanted.clone());
                let us = world.below(30_000);
                world.run_for(us);
                world.kill_coordinator();
                world.start_coordinator();
            }
            if epoch % 5 == 0 {
                world.fail_commits(Some(CommitFailure::Written));
                ask(&mut world, 2, wanted.clone());
                world.run_for(200_000);
                world.fail_commits(None);
            }
            assert_eq!(answer(&mut world, 2, wanted.clone()), Some(wanted));
        }
        assert_eq!(world.coordinator().data().copies_of(node_id(2)).map(|copies| copies.epoch), Some(12));
    }
}

#[test]
fn a_change_that_does_not_follow_is_answered_with_the_record() {
    let mut world = World::new(1, 3);
    let first = copies(1, &[3]);
    assert_eq!(answer(&mut world, 2, first.clone()), Some(first.clone()));
    ask(&mut world, 2, copies(3, &[1]));
    world.run_for(1_000_000);
    assert_eq!(world.coordinator().data().copies_of(node_id(2)), Some(&first), "epoch 2 was left out");
    assert_eq!(answer(&mut world, 2, copies(1, &[1])), Some(first.clone()), "it was decided otherwise");
    assert_eq!(answer(&mut world, 2, copies(0, &[])), Some(first));
    assert_eq!(answer(&mut world, 3, copies(0, &[])), None, "each node has a log of its own");
}

/// A node whose log is another one: what was decided about the former is replaced.
#[test]
fn a_new_log_counts_on() {
    let mut world = World::new(1, 3);
    assert!(answer(&mut world, 2, copies(1, &[3])).is_some());
    let other = LogCopies { log: LogId([8; 16]), ..copies(2, &[1]) };
    assert_eq!(answer(&mut world, 2, other.clone()), Some(other));
}

#[test]
fn a_cluster_of_an_earlier_version_is_not_asked() {
    let mut world = World::of_builds(1, &[Speaks::only(ProtocolVersion::PREVIOUS), Speaks::THIS_BUILD]);
    ask(&mut world, 2, copies(1, &[1]));
    world.run_for(2_000_000);
    assert_eq!(world.node(2).copies, []);
    assert_eq!(world.coordinator().data().copies_of(node_id(2)), None);
}
