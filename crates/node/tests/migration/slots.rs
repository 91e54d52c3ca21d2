//! Hash tags, and ranges finer than a slot.

use crate::common::*;
use sidle_resp::Value;
use sidle_types::Slot;

#[test]
fn a_slot_full_of_one_hash_tag_moves() {
    for_every_protocol(|mut scene| {
        let keys = keys("{tag}", 300);
        scene.fill(keys.clone());
        scene.fill(["other".to_owned()]);
        let slot = Slot::of_key(b"{tag}");
        let id = scene.start_and_hold(&format!("SLOTS {slot}"), 1);
        let other = usize::from(copies_ahead(&scene.protocol));
        if !by_cuts(&scene.protocol) {
            assert_eq!(scene.ask(other, "GET {tag}1"), moved("{tag}", 1 - other));
        }
        assert_eq!(
            scene.client("MGET {tag}1 {tag}2"),
            Value::Array(vec![bulk("old-{tag}1"), bulk("old-{tag}2")])
        );
        scene.finish(id);
        for key in &keys {
            assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")));
        }
        assert_eq!(scene.ask(0, "GET other"), bulk("old-other"));
        assert_eq!(scene.ask(1, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), int(300));
        assert_eq!(scene.ask(0, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), int(0));
    });
}

#[test]
fn opted_in_clients_are_asked_to_go_to_the_upper_part_of_a_slot() {
    let mut scene = Scene::new();
    let (below, above, upper) = pair_in_one_slot();
    scene.fill([below.clone(), above.clone()]);
    let (here, there) = (scene.cluster.connect_aware(0, 0), scene.cluster.connect_aware(1, 0));
    let id = scene.start_and_hold(&upper, 1);
    for _ in 0..2 {
        let mut ask_at = |client, request: String| scene.cluster.ask(client, &request);
        assert_eq!(ask_at(here, format!("GET {below}")), bulk(&format!("old-{below}")));
        assert_eq!(ask_at(here, format!("SET {above} old-{above}")), ask("{tag}", 1), "they keep their maps");
        assert_eq!(ask_at(there, "ASKING".to_owned()), ok());
        assert_eq!(ask_at(there, format!("SET {above} old-{above}")), ok());
        assert_eq!(ask_at(there, format!("SET {below} old-{below}")), moved("{tag}", 0));
        let both = format!("MSET {below} old-{below} {above} old-{above}");
        assert_eq!(ask_at(there, both.clone()), ask("{tag}", 0), "the shown owner sees to all of it");
        scene.cluster.send(here, &both);
        scene.finish(id);
        assert_eq!(scene.cluster.reply(here), ok());
    }
}

#[test]
fn the_lower_part_of_a_slot_takes_the_slot_along() {
    for_every_protocol(|mut scene| {
        let (below, above, _) = pair_in_one_slot();
        scene.fill([below.clone(), above.clone()]);
        let (lower, _) = halves_of_the_slot();
        let id = scene.start_and_hold(&lower, 1);
        scene.finish(id);
        assert_eq!(scene.ask(0, &format!("GET {below}")), moved("{tag}", 1));
        assert_eq!(scene.ask(0, &format!("GET {above}")), bulk(&format!("old-{above}")));
        assert_eq!(scene.ask(1, &format!("GET {above}")), bulk(&format!("old-{above}")));
        let aware = scene.cluster.connect_aware(1, 0);
        assert_eq!(scene.cluster.ask(aware, &format!("GET {above}")), ask("{tag}", 0));
    });
}

#[test]
fn a_single_hot_key_moves() {
    for_every_protocol(|mut scene| {
        scene.fill(["hot".to_owned(), "{hot}2".to_owned()]);
        let hot = position("hot");
        let id = scene.start_and_hold(&format!("POSITIONS {hot}-{hot}"), 1);
        assert_eq!(scene.client("GET hot"), bulk("old-hot"));
        scene.finish(id);
        assert_eq!(scene.ask(0, "GET hot"), bulk("old-hot"));
        assert_eq!(scene.ask(0, "GET {hot}2"), bulk("old-{hot}2"));
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 1);
        let aware = scene.cluster.connect_aware(0, 0);
        assert_eq!(scene.cluster.ask(aware, "GET hot"), ask("hot", 1));
    });
}

#[test]
fn cluster_nodes_is_the_same_everywhere_but_for_myself() {
    let mut scene = Scene::new();
    let id = scene.start_and_hold("SLOTS 0-99", 1);
    let mut lines = |node: usize| match scene.ask(node, "CLUSTER NODES") {
        Value::Bulk(text) => String::from_utf8(text).expect("text").replace("myself,", ""),
        other => panic!("{other:?}"),
    };
    let (first, second) = (lines(0), lines(1));
    assert_eq!(first, second);
    assert!(first.contains(" 100-16383\n") && first.contains(" 0-99\n"), "{first}");
    assert!(!first.contains('['), "no markers of moving slots");
    scene.finish(id);
}
