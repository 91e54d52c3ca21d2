//! The freeze: reads and writes that race it, from clients with old and new maps.

use crate::common::*;
use sidle_migration::{ProtocolChoices, SourceReads};
use sidle_resp::Value;

fn answers_frozen(protocol: &ProtocolChoices) -> bool {
    protocol.source_reads == SourceReads::AnswersFrozen
}

#[test]
fn requests_at_the_target_wait_for_activation() {
    for_every_protocol(|mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold_freeze();
        let reader = scene.cluster.connect(1, 0);
        let writer = scene.cluster.connect(1, 1);
        scene.cluster.send(reader, "GET key");
        scene.cluster.send(writer, "SET other 1");
        scene.cluster.run_for(5_000);
        assert_eq!(scene.cluster.reply_now(reader), None, "M3: a read was answered before Activate");
        assert_eq!(scene.cluster.reply_now(writer), None, "M3: a write was acknowledged before Activate");
        scene.cluster.nodes[0].held_workers.clear();
        assert_eq!(scene.cluster.reply(reader), bulk("old-key"));
        assert_eq!(scene.cluster.reply(writer), ok());
        scene.finish(id);
    });
}

#[test]
fn a_worker_with_the_old_table_still_acknowledges_and_nothing_is_lost() {
    let freezes = |protocol: &ProtocolChoices| !by_cuts(protocol);
    for_protocols_that(freezes, 2, |mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold_freeze();
        // The held worker has the old table; what it acknowledges before its next boundary must reach the
        // target. Its boundary is at the start of the call that serves it, so such a command must have run
        // before.
        let late = scene.cluster.connect(0, 1);
        scene.cluster.send(late, "SET key late");
        assert_eq!(scene.cluster.reply_now(late), None, "the worker has no turn");
        scene.cluster.nodes[0].held_workers.clear();
        assert_eq!(scene.cluster.reply(late), moved("key", 1), "M2: written after the freeze");
        assert_eq!(scene.ask(1, "GET key"), bulk("old-key"));
        scene.finish(id);
    });
}

#[test]
fn writes_up_to_the_freeze_arrive() {
    for_every_protocol(|mut scene| {
        let writer = scene.cluster.connect(0, 1);
        let protocol = scene.protocol.name;
        let request = format!("SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7002 PROTOCOL {protocol}");
        let to = scene.to[0];
        scene.cluster.send(to, &request);
        let mut last = 0;
        for value in 1.. {
            match scene.cluster.ask(writer, &format!("SET key {value}")) {
                Value::Simple(_) => last = value,
                refused => {
                    assert_eq!(refused, moved("key", 1));
                    break;
                }
            }
            scene.cluster.run_for(7);
        }
        assert!(last > 1);
        assert_eq!(scene.ask(1, "GET key"), bulk(&last.to_string()), "the last acknowledged write");
    });
}

#[test]
fn a_frozen_read_before_the_freeze_is_refused() {
    for_protocols_that(answers_frozen, 2, |mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold_freeze();
        let early = error(&format!("SIDLENOTFROZEN migration {id} is not frozen here, ask the owner"));
        assert_eq!(scene.ask(0, &format!("SIDLE.FROZEN {id} GET key")), early, "M4: it may still change");
        scene.cluster.nodes[0].held_workers.clear();
        scene.cluster.network.hold_bulk = true;
        scene.cluster.run_for(5_000);
        assert_eq!(scene.ask(0, &format!("SIDLE.FROZEN {id} GET key")), bulk("old-key"));
        scene.finish(id);
        let over = error(&format!("SIDLEDONE migration {id} is over, ask the owner"));
        assert_eq!(
            scene.ask(0, &format!("SIDLE.FROZEN {id} GET key")),
            over,
            "M8: it must not answer absent"
        );
    });
}

#[test]
fn a_frozen_read_of_another_migration_is_refused() {
    let mut scene = Scene::new();
    scene.fill(["foo".to_owned(), "bar".to_owned()]);
    let id = scene.start_and_hold("SLOTS 0-8191", 1);
    assert_eq!(scene.ask(0, &format!("SIDLE.FROZEN {id} GET bar")), bulk("old-bar"));
    let other = error("SIDLEDONE migration 99 is over, ask the owner");
    assert_eq!(scene.ask(0, "SIDLE.FROZEN 99 GET bar"), other);
    // foo does not move: this node may change it at any time.
    let outside = scene.ask(0, &format!("SIDLE.FROZEN {id} GET foo"));
    assert!(matches!(outside, Value::Error(_)), "M4: {outside:?}");
    scene.finish(id);
}

#[test]
fn a_connection_that_goes_away_while_it_waits_is_forgotten() {
    for_every_protocol(|mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold_freeze();
        let gone = scene.cluster.connect(1, 0);
        scene.cluster.send(gone, "GET key");
        assert_eq!(scene.cluster.reply_now(gone), None);
        assert_eq!(scene.cluster.nodes[1].workers[0].parked(), 1);
        scene.cluster.disconnect(gone);
        assert_eq!(scene.cluster.nodes[1].workers[0].parked(), 0);
        scene.cluster.nodes[0].held_workers.clear();
        scene.finish(id);
    });
}
