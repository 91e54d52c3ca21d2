//! A migration from beginning to end, and which node answers meanwhile.

use crate::common::*;
use sidle_resp::Value;

#[test]
fn everything_moves_and_is_served_throughout() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 300);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        for key in &keys[..20] {
            assert_eq!(scene.client(&format!("GET {key}")), bulk(&format!("old-{key}")));
            let other = usize::from(copies_ahead(&scene.protocol));
            assert_eq!(scene.ask(other, &format!("GET {key}")), moved(key, 1 - other));
        }
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        for key in &keys {
            assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")));
        }
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0, "the source gives everything back");
        assert_eq!(scene.cluster.nodes[1].parts.store.len(), 300);
        assert_eq!(scene.ask(1, "DBSIZE"), Value::Integer(300));
        assert_eq!(scene.ask(0, "DBSIZE"), Value::Integer(0));
    });
}

#[test]
fn clients_whose_commands_wait_are_counted_as_blocked() {
    for_every_protocol(|mut scene| {
        if copies_ahead(&scene.protocol) || serves_while_it_fills(&scene.protocol) {
            return;
        }
        scene.fill(keys("key", 10));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let (waits, asks) = (scene.to[1], scene.cluster.connect(1, 0));
        let blocked = |scene: &mut Scene| match scene.cluster.ask(asks, "INFO clients") {
            Value::Bulk(text) => {
                let text = String::from_utf8(text).expect("text");
                let line = text.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
                line.expect("it is shown").to_owned()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(blocked(&mut scene), "0");
        scene.cluster.send(waits, "GET key1");
        assert_eq!(scene.cluster.reply_now(waits), None);
        assert_eq!(blocked(&mut scene), "1");
        scene.finish(id);
        assert_eq!(scene.cluster.reply(waits), bulk("old-key1"));
        assert_eq!(blocked(&mut scene), "0");
    });
}
