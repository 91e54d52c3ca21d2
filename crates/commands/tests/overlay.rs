//! Runs several commands on an overlay before publishing. Each must see the writes before it, others must see
//! none, and publishing must give the same keys.

mod toy;

use bumpalo::Bump;
use proptest::prelude::*;
use sidle_collections::Limits;
use sidle_commands::{Change, CommandFlags, CommandSpec, CommandTable, Overlay, families, memory_usage};
use std::cell::{Cell, RefCell};
use toy::lines::{TINY, hash_line, set_line};
use toy::ordered_lines::{list_line, sorted_set_line};
use toy::{Below, Log, Map, Plain, Request, Space, Toy, differences, live_only, parse, run};
use typed_arena::Arena;

/// What an executor of its own has beside the families.
const MEMORY: &[CommandSpec<Toy>] =
    &[CommandSpec::container("memory", CommandFlags::NONE, &[memory_usage()])];

/// Runs these lines on a map that changes at once, and on an overlay over the map after the first `before`
/// lines. The replies and the final keys must be the same. Returns the replies.
fn check(lines: &[impl AsRef<str>], before: usize) -> Vec<String> {
    check_within(lines, before, Limits::default())
}

fn check_within(lines: &[impl AsRef<str>], before: usize, limits: Limits) -> Vec<String> {
    let table = CommandTable::<Toy>::new(families().into_iter().chain([MEMORY]));
    let requests: Vec<Request<'_>> = lines.iter().map(|line| parse(&table, line.as_ref())).collect();
    let (arena, outlines) = (Bump::new(), Arena::new());
    let log = Log::new(&arena, &outlines);
    let (map, random) = (RefCell::new(Map::new()), Cell::new(0));
    let mut below = Below { map: Map::new(), log: &log, limits, random: Cell::new(0) };
    let mut replies = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        if number == before {
            below.map = map.borrow().clone();
            below.random.set(random.get());
        }
        let plain = Plain { map: &map, log: &log, limits, random: &random, keys: &request.keys };
        replies.push(run(request, Space::Plain(plain)));
    }

    let overlay = RefCell::new(Overlay::new(&below, &arena, &outlines, &[]));
    for number in before..requests.len() {
        overlay.borrow_mut().next_command(&requests[number].keys);
        let reply = run(&requests[number], Space::Overlay(&overlay));
        assert_eq!(reply, replies[number], "{}", lines[number].as_ref());
    }
    let mut published = below.map.clone();
    for (key, change) in overlay.replace(Overlay::new(&below, &arena, &outlines, &[])).into_changes() {
        match change {
            Change::Put(value) => drop(published.insert(key.bytes().to_vec(), value)),
            Change::Remove => drop(published.remove(key.bytes())),
        }
    }
    let differences = differences(&live_only(&published), &live_only(&map.borrow()));
    assert!(differences.is_empty(), "{differences:?}");
    replies
}

#[test]
fn a_command_reads_earlier_writes() {
    let replies = check(
        &[
            "set a 1",
            "set b two ex 100",
            "incr a",
            "mset c 3 c 4 d 5",
            "mget a b c d e",
            "append b s",
            "ttl b",
            "setrange c 3 x",
            "del a a e d",
            "msetnx a 1 b 2",
            "msetnx a 1 d 2",
            "expire d -1",
            "exists a b c d e",
            "getex b persist",
            "ttl b",
        ],
        2,
    );
    assert_eq!(
        replies[2..],
        ["2", "OK", "5: '2' 'two' '4' '5' null", "4", "100", "4", "2", "0", "1", "1", "3", "'twos'", "-1"]
    );
}

#[test]
fn a_value_goes_from_key_to_key() {
    let replies = check(
        &[
            "set a 1 ex 100",
            "set b 2",
            "rename a b",
            "mget a b",
            "ttl b",
            "renamenx b a",
            "copy a b",
            "append b x",
            "copy a b",
            "renamenx a b",
            "copy b a replace",
            "mget a b",
            "ttl a",
            "rename c a",
            "rename a a",
            "renamenx a a",
            "copy a a",
            "restore c 0 PAYLOAD",
            "restore c 0 PAYLOAD",
            "lcs a c",
            "rename c a",
            "dump a",
            "restore a 1 PAYLOAD absttl replace",
            "copy a d replace",
            "renamenx a d",
            "mget a b c d",
        ],
        4,
    );
    assert_eq!(
        replies[2..],
        [
            "OK",
            "2: null '1'",
            "100",
            "1",
            "1",
            "2",
            "0",
            "0",
            "1",
            "2: '1x' '1x'",
            "100",
            "ERR no such key",
            "OK",
            "0",
            "ERR source and destination objects are the same",
            "OK",
            "BUSYKEY Target key name already exists.",
            "''",
            "OK",
            r"'\x00\x05hello\n\x00cr\xdfve4 \n'",
            "OK",
            "0",
            "ERR no such key",
            "4: null '1x' null null",
        ]
    );
}

#[test]
fn a_failed_command_changes_nothing() {
    let replies = check(&["set a x", "incr a", "getset b 1", "incrby b 9223372036854775807", "get b"], 0);
    assert_eq!(replies[1], "ERR value is not an integer or out of range");
    assert_eq!(replies[3], "ERR increment or decrement would overflow");
    assert_eq!(replies[4], "'1'");
}

/// One of a few keys.
fn key() -> impl Strategy<Value = String> {
    (0..6u8).prop_map(|number| format!("{{t}}{number}"))
}

/// A request over few keys.
fn line() -> impl Strategy<Value = String> {
    let word = || {
        prop_oneof!["[a-z]{0,6}", (-20i64..20).prop_map(|number| number.to_string())]
            .prop_map(|word: String| if word.is_empty() { "0".to_owned() } else { word })
    };
    let option = prop_oneof![
        Just(""),
        Just(" nx"),
        Just(" xx"),
        Just(" get"),
        Just(" keepttl"),
        Just(" ex 5"),
        Just(" pxat 7"),
        Just(" nx get"),
        Just(" xx ex 9 get"),
    ];
    let one = prop_oneof![
        Just("get"),
        Just("incr"),
        Just("decr"),
        Just("getdel"),
        Just("ttl"),
        Just("pttl"),
        Just("persist"),
        Just("strlen"),
        Just("type"),
        Just("getex"),
        Just("expiretime"),
        Just("object encoding"),
        Just("memory usage"),
        Just("dump"),
    ];
    let with_word = prop_oneof![
        Just("append"),
        Just("getset"),
        Just("setnx"),
        Just("incrby"),
        Just("incrbyfloat"),
        Just("expire"),
        Just("pexpireat"),
        Just("decrby"),
    ];
    let many = prop_oneof![Just("mget"), Just("del"), Just("unlink"), Just("exists"), Just("touch")];
    let two = prop_oneof![
        Just("rename"),
        Just("renamenx"),
        Just("copy"),
        Just("copy replace"),
        Just("lcs"),
        Just("lcs idx"),
    ];
    let restored = prop_oneof![
        Just("0 PAYLOAD"),
        Just("0 PAYLOAD replace"),
        Just("7 PAYLOAD replace absttl"),
        Just("5000 PAYLOAD replace freq 3"),
    ];
    let pairs = prop_oneof![Just("mset"), Just("msetnx")];
    prop_oneof![
        (key(), word(), option).prop_map(|(key, word, option)| format!("set {key} {word}{option}")),
        (one, key()).prop_map(|(name, key)| format!("{name} {key}")),
        (with_word, key(), word()).prop_map(|(name, key, word)| format!("{name} {key} {word}")),
        (many, prop::collection::vec(key(), 1..6))
            .prop_map(|(name, keys)| format!("{name} {}", keys.join(" "))),
        (pairs, prop::collection::vec((key(), word()), 1..5)).prop_map(|(name, pairs)| {
            pairs.iter().fold(name.to_owned(), |line, (key, word)| format!("{line} {key} {word}"))
        }),
        (two, key(), key()).prop_map(|(form, from, to)| {
            let (name, options) = form.split_once(' ').unwrap_or((form, ""));
            format!("{name} {from} {to} {options}").trim_end().to_owned()
        }),
        (key(), restored).prop_map(|(key, rest)| format!("restore {key} {rest}")),
        (key(), 0..9u8, word()).prop_map(|(key, at, word)| format!("setrange {key} {at} {word}")),
    ]
}

proptest! {
    #[test]
    fn commands_do_the_same_on_an_overlay(
        lines in prop::collection::vec(line(), 1..40), before in 0..20usize,
    ) {
        check(&lines, before.min(lines.len() - 1));
    }

    #[test]
    fn changes_of_large_hashes_and_sets_do_the_same_on_an_overlay(
        lines in prop::collection::vec(prop_oneof![hash_line(), set_line()], 1..60), before in 0..40usize,
    ) {
        check_within(&lines, before.min(lines.len() - 1), TINY);
    }

    #[test]
    fn changes_of_large_lists_and_sorted_sets_do_the_same_on_an_overlay(
        lines in prop::collection::vec(prop_oneof![list_line(), sorted_set_line()], 1..60), before in 0..40usize,
    ) {
        check_within(&lines, before.min(lines.len() - 1), TINY);
    }
}
