//! Ranges that move on, or back.

use crate::common::*;
use sidle_resp::Value;

#[test]
fn there_and_back() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 100);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.client("SET key0 at-b");
        scene.client("DEL key1");
        scene.finish(id);
        let back = scene.start_and_hold("SLOTS 0-16383", 0);
        assert_ne!(back, id);
        assert_eq!(scene.client("GET key0"), bulk("at-b"));
        assert_eq!(scene.client("GET key1"), Value::Null);
        assert_eq!(scene.client("GET key2"), bulk("old-key2"));
        let owner = usize::from(copies_ahead(&scene.protocol));
        assert_eq!(scene.ask(1 - owner, "GET key2"), moved("key2", owner));
        scene.finish(back);
        assert_eq!(scene.ask(0, "DBSIZE"), int(99));
        assert_eq!(scene.ask(0, "GET key0"), bulk("at-b"));
        assert_eq!(scene.ask(0, "GET key1"), Value::Null);
    });
}

#[test]
fn back_at_once_waits_until_the_first_copy_is_gone() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 3000);
        scene.fill(keys.clone());
        let id = scene.start("SLOTS 0-16383", 1);
        let done = |scene: &mut Scene, id| {
            scene.cluster.run_until("it is done", |cluster| {
                cluster.nodes.iter().all(|node| {
                    let map = node.workers[0].ranges().map();
                    map.migration(id).is_none() && map.epoch().0 > 3
                })
            });
        };
        done(&mut scene, id);
        scene.ask(1, "DEL key1");
        scene.ask(1, "SET key2 at-b");
        // The old copy is still being freed in slices when the range is requested again.
        let back = scene.start("SLOTS 0-16383", 0);
        scene.finish(back);
        assert_eq!(scene.state(back), "done");
        assert_eq!(
            scene.ask(0, "GET key1"),
            Value::Null,
            "C4: a leftover was taken for newer than what arrived"
        );
        assert_eq!(scene.ask(0, "GET key2"), bulk("at-b"));
        assert_eq!(scene.ask(0, "DBSIZE"), int(2999));
    });
}

#[test]
fn on_to_a_third_node() {
    for_protocols_that(
        |_| true,
        3,
        |mut scene| {
            scene.fill(keys("key", 100));
            let first = scene.start_and_hold("SLOTS 0-16383", 1);
            scene.client("INCR counter");
            scene.finish(first);
            let second = scene.start_and_hold("SLOTS 0-16383", 2);
            // Clients with any older map are redirected step by step.
            let (owner, other) = if copies_ahead(&scene.protocol) { (1, 2) } else { (2, 1) };
            assert_eq!(scene.ask(0, "GET key7"), moved("key7", owner));
            if !by_cuts(&scene.protocol) {
                assert_eq!(scene.ask(other, "GET key7"), moved("key7", owner));
            }
            // The first migration's frozen copy no longer answers.
            let over = error(&format!("SIDLEDONE migration {first} is over, ask the owner"));
            assert_eq!(scene.ask(0, &format!("SIDLE.FROZEN {first} GET key7")), over);
            assert_eq!(scene.ask(1, &format!("SIDLE.FROZEN {first} GET key7")), over);
            assert_eq!(scene.client("INCR counter"), int(2));
            assert_eq!(scene.client("GET key7"), bulk("old-key7"));
            scene.finish(second);
            assert_eq!(scene.ask(2, "DBSIZE"), int(101));
            for node in 0..2 {
                assert_eq!(scene.cluster.nodes[node].parts.store.len(), 0);
                assert_eq!(
                    scene.cluster.nodes[node].parts.store.tombstones_in(sidle_types::PositionRange::ALL),
                    0
                );
            }
        },
    );
}
