//! RESTORE in slices whose range leaves meanwhile.

use crate::common::*;
use sidle_node::testing::TestClient;
use sidle_rdb::Dumped;
use sidle_resp::Value;

/// It is redirected, and leaves nothing at the source.
#[test]
fn a_restore_in_the_middle_is_redirected() {
    for_every_protocol(|mut scene| {
        let names: Vec<String> = (0..30_000).map(|number| format!("name {number}")).collect();
        let members: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let payload = sidle_rdb::dump(Dumped::Set { members: &members, is_intset: false }).parts().concat();
        scene.fill(["other".to_owned()]);
        let now = scene.cluster.now();
        let mut client = TestClient::connect(&scene.cluster.nodes[0].parts.shared, now);
        client.send(&[b"RESTORE", b"key0", b"0", &payload]);
        for _ in 0..40 {
            assert!(!client.serve(&mut scene.cluster.nodes[0].workers[0], now), "it goes on");
            assert_eq!(client.receive(), None);
            let ticket = client.session().ticket().expect("it is parked");
            client.wake(ticket);
        }
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        let now = scene.cluster.now();
        client.serve(&mut scene.cluster.nodes[0].workers[0], now);
        let reply = client.receive();
        assert!(matches!(&reply, Some(Value::Error(text)) if text.starts_with("MOVED ")), "{reply:?}");
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0);
        assert_eq!(scene.ask(1, "DBSIZE"), int(1));
    });
}
