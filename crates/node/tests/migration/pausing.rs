//! CLIENT PAUSE while a range moves.

use crate::common::*;

#[test]
fn what_waits_for_its_keys_waits_for_the_end_of_the_pause_too() {
    for_every_protocol(|mut scene| {
        if copies_ahead(&scene.protocol) || serves_while_it_fills(&scene.protocol) {
            return;
        }
        scene.fill(keys("key", 10));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let (waits, operator) = (scene.to[1], scene.cluster.connect(1, 1));
        scene.cluster.send(waits, "APPEND key1 x");
        assert_eq!(scene.cluster.reply_now(waits), None);
        assert_eq!(scene.cluster.ask(operator, "CLIENT PAUSE 100000000 WRITE"), ok());
        scene.finish(id);
        assert_eq!(scene.cluster.reply_now(waits), None);
        assert_eq!(scene.cluster.ask(operator, "GET key1"), bulk("old-key1"), "it has not run");
        assert_eq!(scene.cluster.ask(operator, "CLIENT UNPAUSE"), ok());
        assert_eq!(scene.cluster.reply_now(waits), Some(int(9)));
    });
}

#[test]
fn a_paused_command_is_redirected_when_its_range_has_moved() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 10));
        let writer = scene.cluster.connect(0, 1);
        assert_eq!(scene.ask(0, "CLIENT PAUSE 100000000 WRITE"), ok());
        scene.cluster.send(writer, "SET key1 new");
        assert_eq!(scene.cluster.reply_now(writer), None);
        let id = scene.start("SLOTS 0-16383", 1);
        scene.finish(id);
        assert_eq!(scene.cluster.reply_now(writer), Some(moved("key1", 1)));
        assert_eq!(scene.ask(1, "GET key1"), bulk("old-key1"));
        // Others learn it at once.
        assert_eq!(scene.ask(0, "SET key2 new"), moved("key2", 1));
    });
}
