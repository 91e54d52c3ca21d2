//! Coordinator messages that arrive late, or twice: by then the range may have another owner (M10, C7).

use crate::common::*;
use sidle_cluster::{CoordinatorSays, TargetStage};
use sidle_resp::Value;

const EVERYTHING: &str = "SLOTS 0-16383";

/// A migration from node 0 to node 1 whose coordinator messages of this kind are kept.
fn start_and_keep(scene: &mut Scene, is_kind: fn(&CoordinatorSays) -> bool) {
    scene.fill(keys("key", 100));
    scene.cluster.network.keep = Some(is_kind);
    let id = scene.start(EVERYTHING, 1);
    scene.finish(id);
    scene.cluster.network.keep = None;
}

/// Moves everything back and forth, from node 1 on, until that migration is forgotten and this node owns
/// everything.
fn move_about(scene: &mut Scene, until: usize) {
    let turns = sidle_cluster::HISTORY + 1;
    for turn in 0..turns + usize::from(turns % 2 == until) {
        let id = scene.start(EVERYTHING, turn % 2);
        scene.finish(id);
    }
}

fn assert_everything_is_at(scene: &mut Scene, node: usize) {
    scene.cluster.run_for(5_000_000);
    assert_eq!(scene.ask(node, "DBSIZE"), int(100));
    for key in keys("key", 100) {
        assert_eq!(scene.ask(node, &format!("GET {key}")), bulk(&format!("old-{key}")));
    }
    assert!(scene.cluster.nodes.iter().all(|node| node.control.in_hand().is_empty()));
}

/// A node that has long owned the range is asked whether it can take it: its records are no leftovers.
#[test]
fn a_delayed_question_to_prepare_an_owned_range() {
    for_every_protocol(|mut scene| {
        start_and_keep(&mut scene, |message| matches!(message, CoordinatorSays::Prepare { .. }));
        move_about(&mut scene, 1);
        scene.cluster.network.repeat_kept();
        assert_everything_is_at(&mut scene, 1);
    });
}

/// A node that owns the range again receives another notice that it has given it away.
#[test]
fn a_delayed_end_after_the_range_came_back() {
    for_every_protocol(|mut scene| {
        start_and_keep(&mut scene, |message| {
            matches!(message, CoordinatorSays::Survey { .. } | CoordinatorSays::Over { .. })
        });
        move_about(&mut scene, 0);
        scene.cluster.network.repeat_kept();
        assert_everything_is_at(&mut scene, 0);
    });
}

/// The request to copy a range arrives again, while a later migration copies it: that one is not disturbed.
#[test]
fn a_question_to_track_what_another_migration_tracks() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        start_and_keep(&mut scene, |message| matches!(message, CoordinatorSays::Track { .. }));
        move_about(&mut scene, 0);
        assert_eq!(scene.ask(0, "SET more x"), ok());
        let there = scene.copy_and_hold(EVERYTHING, 1);
        assert_eq!(scene.ask(0, "DEL more"), int(1));
        scene.cluster.network.repeat_kept();
        scene.cluster.run_for(5_000);
        assert_eq!(scene.ask(0, "SET key0 new"), ok());
        assert_eq!(scene.ask(0, "SET key0 old-key0"), ok());
        scene.finish(there);
        assert_eq!(scene.state(there), "done");
        assert_eq!(scene.ask(1, "GET more"), Value::Null);
        assert_everything_is_at(&mut scene, 1);
    });
}

/// The question to prepare a migration that is over and forgotten arrives while another of the range is
/// prepared: what is copied for it would overlap what that one takes in.
#[test]
fn a_delayed_question_to_prepare_what_another_migration_prepares() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        start_and_keep(&mut scene, |message| matches!(message, CoordinatorSays::Prepare { .. }));
        move_about(&mut scene, 0);
        let target = scene.cluster.nodes[1].info.id;
        scene.cluster.network.lose =
            Some((target, |message| matches!(message, CoordinatorSays::MapUpdate { .. })));
        let there = scene.start_by("stop-and-copy", EVERYTHING, 1);
        scene.cluster.run_until("it is prepared", |cluster| {
            let targets = &cluster.nodes[1].control.agent().migrations.targets;
            targets.get(&there).is_some_and(|target| target.stage() == TargetStage::Ready)
        });
        scene.cluster.network.repeat_kept();
        scene.cluster.run_for(5_000);
        scene.cluster.network.lose = None;
        scene.finish(there);
        assert_eq!(scene.state(there), "done");
        assert_everything_is_at(&mut scene, 1);
    });
}
