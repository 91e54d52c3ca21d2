//! A value goes to another key while the range of one or both moves.

use crate::common::*;
use sidle_resp::Value;
use sidle_types::Slot;

fn values<const KEYS: usize>(values: [Option<&str>; KEYS]) -> Value {
    Value::Array(values.map(|value| value.map_or(Value::Null, bulk)).to_vec())
}

fn slot_of_the_tag() -> String {
    format!("SLOTS {}", Slot::of_key(b"{tag}"))
}

#[test]
fn both_keys_move() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("{tag}", 20));
        assert_eq!(scene.ask(0, "EXPIRE {tag}0 1000"), int(1));
        let id = scene.start_and_hold(&slot_of_the_tag(), 1);
        for (request, reply) in [
            ("RENAME {tag}0 {tag}new", ok()),
            ("RENAME {tag}0 {tag}1", error("ERR no such key")),
            ("RENAME {tag}none {tag}1", error("ERR no such key")),
            ("RENAME {tag}2 {tag}3", ok()),
            ("RENAMENX {tag}4 {tag}5", int(0)),
            ("RENAMENX {tag}6 {tag}2", int(1)),
            ("COPY {tag}7 {tag}0", int(1)),
            ("COPY {tag}8 {tag}9", int(0)),
            ("COPY {tag}none {tag}10 REPLACE", int(0)),
            ("COPY {tag}11 {tag}10 REPLACE", int(1)),
            ("RENAME {tag}new {tag}12", ok()),
            ("RENAME {tag}13 {tag}13", ok()),
            ("LCS {tag}14 {tag}15 LEN", int("old-{tag}1".len() as i64)),
        ] {
            assert_eq!(scene.client(request), reply, "{request}");
        }
        let all = |words: &str| {
            let keys: Vec<String> = words.split(' ').map(|name| format!("{{tag}}{name}")).collect();
            format!("MGET {}", keys.join(" "))
        };
        let expected = values([
            Some("old-{tag}7"),
            Some("old-{tag}1"),
            Some("old-{tag}6"),
            Some("old-{tag}2"),
            Some("old-{tag}4"),
            Some("old-{tag}5"),
            None,
            Some("old-{tag}9"),
            Some("old-{tag}11"),
            Some("old-{tag}0"),
            Some("old-{tag}13"),
            None,
            None,
        ]);
        let request = all("0 1 2 3 4 5 6 9 10 12 13 new none");
        assert_eq!(scene.client(&request), expected);
        scene.finish(id);
        assert_eq!(scene.ask(1, &request), expected);
        let Value::Integer(seconds) = scene.ask(1, "TTL {tag}12") else { panic!("no time to live") };
        assert!((900..=1000).contains(&seconds), "the expiry went along: {seconds}");
        assert_eq!(scene.ask(1, "TTL {tag}3"), int(-1));
        // One more is there: COPY made it, and a RENAME ended one.
        assert_eq!(scene.ask(1, &format!("CLUSTER COUNTKEYSINSLOT {}", Slot::of_key(b"{tag}"))), int(19));
        assert_eq!(scene.ask(0, "DBSIZE"), int(0));
    });
}

#[test]
fn a_rename_before_the_activation_waits_and_runs_once() {
    for_every_protocol(|mut scene| {
        scene.fill(["{tag}1".to_owned(), "{tag}2".to_owned()]);
        let id = scene.start_and_hold_freeze();
        let (one, two) = (scene.cluster.connect(1, 0), scene.cluster.connect(1, 1));
        scene.cluster.send(one, "RENAMENX {tag}1 {tag}new");
        scene.cluster.send(two, "COPY {tag}2 {tag}copy");
        scene.cluster.run_for(5_000);
        for client in [one, two] {
            assert_eq!(scene.cluster.reply_now(client), None, "M3: acknowledged before Activate");
        }
        scene.cluster.nodes[0].held_workers.clear();
        assert_eq!(scene.cluster.reply(one), int(1));
        assert_eq!(scene.cluster.reply(two), int(1));
        scene.finish(id);
        assert_eq!(
            scene.ask(1, "MGET {tag}1 {tag}new {tag}2 {tag}copy"),
            values([None, Some("old-{tag}1"), Some("old-{tag}2"), Some("old-{tag}2")])
        );
    });
}

/// While the source serves what is copied, it renames there, and both keys are copied once more.
#[test]
fn a_rename_into_what_is_copied_ahead_arrives() {
    for_protocols_that(
        |protocol| !freezes_first(protocol),
        2,
        |mut scene| {
            let (below, above) = keys_of_both_halves(3);
            scene.fill(below.iter().chain(&above).cloned());
            let (_, upper) = halves_of_the_slot();
            let id = scene.start_and_hold(&upper, 1);
            let renames = [
                format!("RENAME {} {}", below[0], above[0]),
                format!("RENAME {} {}", above[1], below[1]),
                format!("COPY {} {} REPLACE", below[2], above[2]),
            ];
            for request in &renames {
                assert!(!matches!(scene.ask(0, request), Value::Error(_)), "{request}");
            }
            scene.finish(id);
            let old = |key: &str| bulk(&format!("old-{key}"));
            for (node, key, value) in [
                (0, &below[0], Value::Null),
                (1, &above[0], old(&below[0])),
                (1, &above[1], Value::Null),
                (0, &below[1], old(&above[1])),
                (0, &below[2], old(&below[2])),
                (1, &above[2], old(&below[2])),
            ] {
                let client = scene.cluster.connect_aware(node, 0);
                assert_eq!(scene.cluster.ask(client, "ASKING"), ok());
                assert_eq!(scene.cluster.ask(client, &format!("GET {key}")), value, "{key}");
            }
        },
    );
}

/// With an owner for each key nothing is done; with one again, all is.
#[test]
fn keys_of_two_owners_are_refused_and_stay() {
    for_every_protocol(|mut scene| {
        let (below, above, upper) = pair_in_one_slot();
        scene.fill([below.clone(), above.clone()]);
        let id = scene.start_and_hold(&upper, 1);
        let requests = [
            format!("RENAME {below} {above}"),
            format!("RENAMENX {below} {above}"),
            format!("COPY {above} {below} REPLACE"),
            format!("LCS {below} {above}"),
        ];
        let refuse = |scene: &mut Scene| {
            for request in &requests {
                let Value::Error(text) = scene.ask(0, request) else { panic!("{request} ran") };
                assert!(text.starts_with("SIDLESPLIT "), "{request}: {text}");
            }
        };
        if freezes_first(&scene.protocol) {
            refuse(&mut scene);
        }
        scene.finish(id);
        refuse(&mut scene);
        let both = format!("MGET {below} {above}");
        let old = [&below, &above].map(|key| format!("old-{key}"));
        assert_eq!(scene.ask(0, &both), values([Some(&old[0]), Some(&old[1])]));
        let id = scene.start(&slot_of_the_tag(), 1);
        scene.finish(id);
        assert_eq!(scene.ask(1, &requests[0]), ok());
        assert_eq!(scene.ask(1, &both), values([None, Some(&old[0])]));
    });
}

/// Renames from before the move until after it, at whichever node serves the slot.
#[test]
fn a_value_that_goes_to_and_fro_arrives_once() {
    const PAIRS: usize = 8;
    for_every_protocol(|mut scene| {
        scene.fill(keys("{tag}fill", 400));
        scene.fill(keys("{tag}", PAIRS));
        let id = scene.start(&slot_of_the_tag(), 1);
        let (mut node, mut rounds) = (0, 0);
        let mut rounds_left = 4;
        while rounds_left > 0 {
            for pair in 0..PAIRS {
                let (one, other) = (format!("{{tag}}{pair}"), format!("{{tag}}other{pair}"));
                let request = match rounds % 2 {
                    0 => format!("RENAME {one} {other}"),
                    _ => format!("RENAME {other} {one}"),
                };
                let mut reply = scene.ask(node, &request);
                if reply == moved("{tag}", 1 - node) {
                    node = 1 - node;
                    reply = scene.ask(node, &request);
                }
                assert_eq!(reply, ok(), "round {rounds}: {request}");
            }
            rounds += 1;
            scene.cluster.run_for(11);
            let is_over = scene.cluster.nodes[1].workers[0].ranges().map().migration(id).is_none();
            rounds_left -= usize::from(is_over);
        }
        scene.finish(id);
        for pair in 0..PAIRS {
            let old = format!("old-{{tag}}{pair}");
            let there = [Some(old.as_str()), None];
            let expected = if rounds % 2 == 0 { there } else { [there[1], there[0]] };
            let request = format!("MGET {{tag}}{pair} {{tag}}other{pair}");
            assert_eq!(scene.ask(1, &request), values(expected), "after {rounds} rounds");
        }
        assert_eq!(scene.ask(1, "DBSIZE"), int(400 + PAIRS as i64));
    });
}

/// The copies are second keys only: all keys of a command are marked.
#[test]
fn copies_up_to_the_move_arrive() {
    const PAIRS: usize = 20;
    for_every_protocol(|mut scene| {
        scene.fill(keys("{tag}fill", 400));
        let id = scene.start(&slot_of_the_tag(), 1);
        let mut last = [0; PAIRS];
        let mut is_here = [true; PAIRS];
        for value in 1.. {
            for pair in (0..PAIRS).filter(|&pair| is_here[pair]).collect::<Vec<_>>() {
                // That it runs at the source is no matter: the copy may still be refused.
                scene.ask(0, &format!("SET {{tag}}{pair} {value}"));
                match scene.ask(0, &format!("COPY {{tag}}{pair} {{tag}}copy{pair} REPLACE")) {
                    Value::Integer(1) => last[pair] = value,
                    refused => {
                        assert_eq!(refused, moved("{tag}", 1));
                        is_here[pair] = false;
                    }
                }
                scene.cluster.run_for(1);
            }
            if is_here == [false; PAIRS] {
                break;
            }
        }
        scene.finish(id);
        for (pair, last) in last.into_iter().enumerate() {
            assert_eq!(scene.ask(1, &format!("GET {{tag}}copy{pair}")), bulk(&last.to_string()), "{pair}");
        }
    });
}
