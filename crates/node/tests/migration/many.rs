//! Commands on many keys, and walks over all of them, across both sides of a migration.

use crate::common::*;
use sidle_resp::Value;
use std::collections::BTreeSet;

#[test]
fn mget_of_keys_here_not_here_yet_and_nowhere() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 60);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.client("SET key3 new");
        scene.client("DEL key4");
        let request = format!("MGET {} never", keys.join(" "));
        let Value::Array(values) = scene.client(&request) else { panic!("no array") };
        for (index, value) in values.iter().enumerate() {
            let expected = match index {
                3 => bulk("new"),
                4 | 60 => Value::Null,
                _ => bulk(&format!("old-key{index}")),
            };
            assert_eq!(value, &expected, "key{index}");
        }
        scene.finish(id);
        assert_eq!(scene.ask(1, &request), Value::Array(values));
    });
}

#[test]
fn mget_with_the_same_key_twice() {
    for_every_protocol(|mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let both = Value::Array(vec![bulk("old-key"), bulk("old-key")]);
        assert_eq!(scene.client("MGET key key"), both);
        scene.finish(id);
    });
}

#[test]
fn keys_with_different_owners_are_refused() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        // foo is in slot 12182, bar in slot 5061.
        scene.fill(["foo".to_owned(), "bar".to_owned()]);
        let id = scene.start_and_hold("SLOTS 0-8191", 1);
        let refused = error("CROSSSLOT Keys in request don't hash to the same slot");
        for node in 0..2 {
            assert_eq!(scene.ask(node, "MGET foo bar"), refused);
            assert_eq!(scene.ask(node, "MSET foo 1 bar 2"), refused);
            assert_eq!(scene.ask(node, "DEL bar foo"), refused);
        }
        scene.finish(id);
        assert_eq!(scene.ask(0, "GET foo"), bulk("old-foo"));
        assert_eq!(scene.ask(1, "GET bar"), bulk("old-bar"));
    });
}

#[test]
fn del_and_exists_count_across_what_is_here_and_what_is_not() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 10));
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.client("GET key0");
        assert_eq!(scene.client("EXISTS key0 key1 key2 never"), int(3));
        assert_eq!(scene.client("DEL key0 key1 key3 never"), int(3));
        scene.finish(id);
        assert_eq!(scene.ask(1, "EXISTS key0 key1 key2 key3"), int(1));
    });
}

fn scan_all(scene: &mut Scene, node: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let Value::Array(reply) = scene.ask(node, &format!("SCAN {cursor} COUNT 7")) else {
            panic!("no array")
        };
        let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("not a scan's reply") };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("not a key") };
            found.insert(String::from_utf8(key.clone()).expect("text"));
        }
        cursor = String::from_utf8(next.clone()).expect("text");
        if cursor == "0" {
            return found;
        }
        scene.cluster.run_for(100);
    }
}

#[test]
fn scan_finds_everything_once_it_has_arrived() {
    let mut scene = Scene::new();
    let all: BTreeSet<String> = keys("key", 200).into_iter().collect();
    scene.fill(all.clone());
    let id = scene.start_and_hold("SLOTS 0-8191", 1);
    // A walk over the target waits where nothing has arrived: it must not miss a key that exists throughout.
    let to = scene.to[1];
    let Value::Array(first) = scene.ask(1, "SCAN 0 COUNT 100") else { panic!("no array") };
    assert_ne!(first[0], bulk("0"), "the walk is not over");
    assert_eq!(first[1], Value::Array(vec![]));
    assert_eq!(scene.cluster.client(to).receive(), None);
    scene.cluster.network.release();
    let (at_source, at_target) = (scan_all(&mut scene, 0), scan_all(&mut scene, 1));
    assert!(at_source.is_disjoint(&at_target));
    assert_eq!(&at_source | &at_target, all);
    scene.finish(id);
}
