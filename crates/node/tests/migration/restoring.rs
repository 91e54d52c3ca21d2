//! RESTORE in slices whose range leaves meanwhile.

use crate::common::*;
use sidle_node::testing::{SoloNode, TestClient};
use sidle_rdb::Dumped;
use sidle_resp::Value;

/// More than one slice's.
const MEMBERS: usize = 30_000;

/// A large set, as DUMP writes it.
fn payload() -> Vec<u8> {
    let names: Vec<String> = (0..MEMBERS).map(|number| format!("name {number}")).collect();
    let members: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    sidle_rdb::dump(Dumped::Set { members: &members, is_intset: false }).parts().concat()
}

/// Between two slices another client reads the value before, and then all of the new one.
pub(crate) fn restore_beside_a_reader() {
    let mut node = SoloNode::new();
    let (mut client, mut reader) = (node.connect(), node.connect());
    assert_eq!(node.ask(&mut reader, "SADD k old"), int(1));
    client.send(&[b"RESTORE", b"k", b"0", &payload(), b"REPLACE"]);
    loop {
        let now = node.now;
        client.serve(&mut node.worker, now);
        if let Some(reply) = client.receive() {
            assert_eq!(reply, ok());
            break;
        }
        assert_eq!(node.ask(&mut reader, "SISMEMBER k old"), int(1), "X1: the old value is gone");
        assert_eq!(node.ask(&mut reader, "SCARD k"), int(1), "X1: half of the new one");
        let ticket = client.session().ticket().expect("it is parked");
        client.wake(ticket);
    }
    assert_eq!(node.ask(&mut reader, "SISMEMBER k old"), int(0));
    assert_eq!(node.ask(&mut reader, "SCARD k"), int(MEMBERS as i64));
}

/// It is redirected, and leaves nothing at the source.
#[test]
fn a_restore_in_the_middle_is_redirected() {
    for_every_protocol(|mut scene| {
        scene.fill(["other".to_owned()]);
        let now = scene.cluster.now();
        let mut client = TestClient::connect(&scene.cluster.nodes[0].parts.shared, now);
        client.send(&[b"RESTORE", b"key0", b"0", &payload()]);
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
