//! A migration from beginning to end, and who answers what while it runs.

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
