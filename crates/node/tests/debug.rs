//! DEBUG: refused by default; digests, and expired keys that stay.

use sidle_node::testing::SoloNode;
use sidle_resp::Value;

fn text(value: Value) -> String {
    match value {
        Value::Simple(text) => text,
        Value::Error(text) => text,
        Value::Array(mut elements) => text(elements.remove(0)),
        other => panic!("no text: {other:?}"),
    }
}

fn node() -> SoloNode {
    let node = SoloNode::new();
    node.parts.shared.config.apply(vec![("enable-debug-command", "yes".to_owned())]);
    node
}

#[test]
fn it_is_refused_unless_it_was_allowed_at_the_start() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for request in ["DEBUG DIGEST", "DEBUG HELP", "DEBUG SET-ACTIVE-EXPIRE 0"] {
        assert!(
            text(node.ask(&mut client, request)).starts_with("ERR DEBUG command not allowed"),
            "{request}"
        );
    }
    let refused = text(node.ask(&mut client, "CONFIG SET enable-debug-command yes"));
    assert!(refused.ends_with("can't set immutable config"), "{refused}");
}

#[test]
fn digests_tell_values_apart_and_not_their_history() {
    let mut node = node();
    let mut client = node.connect();
    let mut ask = |request: &str| text(node.ask(&mut client, request));
    let nothing = ask("DEBUG DIGEST");
    assert_eq!(nothing, "0".repeat(40));
    node.ask(&mut client, "SET a 1");
    node.ask(&mut client, "HSET h x 1 y 2");
    let mut ask = |request: &str| text(node.ask(&mut client, request));
    let (all, hash) = (ask("DEBUG DIGEST"), ask("DEBUG DIGEST-VALUE h"));
    assert_ne!(all, nothing);
    assert_eq!(ask("DEBUG DIGEST-VALUE none"), nothing);
    node.ask(&mut client, "DEL h");
    node.ask(&mut client, "HSET h y 2 x 1");
    let mut ask = |request: &str| text(node.ask(&mut client, request));
    assert_eq!((ask("DEBUG DIGEST"), ask("DEBUG DIGEST-VALUE h")), (all.clone(), hash.clone()));
    node.ask(&mut client, "EXPIRE a 100");
    let mut ask = |request: &str| text(node.ask(&mut client, request));
    assert_ne!(ask("DEBUG DIGEST"), all);
    node.ask(&mut client, "HSET h x 3");
    assert_ne!(text(node.ask(&mut client, "DEBUG DIGEST-VALUE h")), hash);
}

#[test]
fn expired_keys_stay_until_they_are_removed_again() {
    let mut node = node();
    let mut client = node.connect();
    node.ask(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0");
    node.ask(&mut client, "SET a 1 PX 5");
    node.now.wall.0 += 10;
    node.worker.expire(node.now, 1_000);
    assert_eq!(node.ask(&mut client, "DBSIZE"), Value::Integer(1));
    assert_eq!(node.ask(&mut client, "EXISTS a"), Value::Integer(0));
    node.ask(&mut client, "DEBUG SET-ACTIVE-EXPIRE 1");
    node.worker.expire(node.now, 1_000);
    assert_eq!(node.ask(&mut client, "DBSIZE"), Value::Integer(0));
}

#[test]
fn an_object_is_described() {
    let mut node = node();
    let mut client = node.connect();
    node.ask(&mut client, "SET a 17");
    let shown = text(node.ask(&mut client, "DEBUG OBJECT a"));
    assert!(shown.contains(" encoding:int serializedlength:2 "), "{shown}");
    node.ask(&mut client, "INCR a");
    assert_eq!(text(node.ask(&mut client, "DEBUG OBJECT a")), shown);
    assert_eq!(text(node.ask(&mut client, "DEBUG OBJECT b")), "ERR no such key");
}
