//! Runs the same commands where collections are in chunks as soon as they have a few elements, and where
//! they never are. The replies and the final keys must be the same.

mod toy;

use bumpalo::Bump;
use proptest::prelude::*;
use sidle_collections::Limits;
use sidle_commands::{CommandTable, families};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use toy::lines::{HUGE, TINY, hash_line, set_line};
use toy::{Log, Map, Plain, Request, Space, Toy, elements_of, is_large, live_only, parse, run};
use typed_arena::Arena;

/// A key space of its own.
struct World<'g> {
    map: &'g RefCell<Map<'g>>,
    log: &'g Log<'g>,
    limits: Limits,
    random: &'g Cell<u64>,
}

impl<'g> World<'g> {
    fn run(&self, request: &'g Request<'g>) -> String {
        let plain = Plain {
            map: self.map,
            log: self.log,
            limits: self.limits,
            random: self.random,
            keys: &request.keys,
        };
        run(request, Space::Plain(plain))
    }
}

/// How much of a reply is the same in both forms.
fn comparable(line: &str, reply: &str, keeps_order: bool) -> Vec<String> {
    let mut words: Vec<String> = reply.split(' ').map(str::to_owned).collect();
    let name = line.split(' ').next().unwrap_or_default();
    let is_error = !words[0].ends_with([':', '%', '~', '=']);
    if is_error && !matches!(name, "hrandfield" | "srandmember") {
        return words;
    }
    match name {
        // Drawn by lot: all that is the same is how many there are.
        "hrandfield" | "srandmember" if is_error => vec![(reply == "null").to_string()],
        "hrandfield" | "srandmember" => vec![words[0].clone(), words.len().to_string()],
        "hgetall" => in_order(&words, 1, 2),
        "hscan" => in_order(&words, 3, 2),
        "sscan" if !keeps_order => in_order(&words, 3, 1),
        "hkeys" | "hvals" | "sunion" | "sinter" | "sdiff" => in_order(&words, 1, 1),
        "smembers" if !keeps_order => in_order(&words, 1, 1),
        _ => std::mem::take(&mut words),
    }
}

/// The words, those behind the first few sorted in groups.
fn in_order(words: &[String], first: usize, group: usize) -> Vec<String> {
    let (head, rest) = words.split_at(first);
    let mut groups: Vec<&[String]> = rest.chunks(group).collect();
    groups.sort();
    head.iter().chain(groups.into_iter().flatten()).cloned().collect()
}

/// Runs the lines in both worlds; returns how many of the final values are in chunks.
fn check(lines: &[String]) -> usize {
    let table = CommandTable::<Toy>::new(families().into_iter());
    let requests: Vec<Request<'_>> = lines.iter().map(|line| parse(&table, line)).collect();
    let encodings: Vec<String> = requests
        .iter()
        .map(|request| format!("object encoding {}", request.keys[0].bytes().escape_ascii()))
        .collect();
    let encodings: Vec<Request<'_>> = encodings.iter().map(|line| parse(&table, line)).collect();
    let (arena, outlines) = (Bump::new(), Arena::new());
    let removals = Arena::new();
    let (tiny_log, huge_log) = (Log::new(&arena, &outlines), Log::new(&arena, &outlines));
    let (tiny_map, huge_map) = (RefCell::new(Map::new()), RefCell::new(Map::new()));
    let random = Cell::new(0);
    let tiny = World { map: &tiny_map, log: &tiny_log, limits: TINY, random: &random };
    let huge = World { map: &huge_map, log: &huge_log, limits: HUGE, random: &random };
    for (number, (line, request)) in lines.iter().zip(&requests).enumerate() {
        let is_intset = tiny.run(&encodings[number]) == "'intset'";
        let reply = tiny.run(request);
        if line.starts_with("spop") && reply.contains('\'') {
            // The same members are to go in the other world.
            let words = reply.split(' ').filter(|word| word.starts_with('\''));
            let members: BTreeSet<&str> = words.map(|word| word.trim_matches('\'')).collect();
            let members: Vec<&str> = members.into_iter().collect();
            let removal = format!("srem {} {}", request.keys[0].bytes().escape_ascii(), members.join(" "));
            let removal = removals.alloc(parse(&table, arena.alloc_str(&removal)));
            assert_eq!(huge.run(removal), members.len().to_string(), "{line}: {reply}");
            continue;
        }
        let other = huge.run(request);
        assert_eq!(
            comparable(line, &reply, is_intset),
            comparable(line, &other, is_intset),
            "{line}: {reply} or {other}"
        );
    }
    let (tiny_map, huge_map) = (live_only(&tiny_map.borrow()), live_only(&huge_map.borrow()));
    assert!(tiny_map.keys().eq(huge_map.keys()));
    for (key, value) in &tiny_map {
        let other = huge_map[key];
        assert_eq!((value.kind, value.expires_at), (other.kind, other.expires_at));
        assert_eq!(elements_of(*value), elements_of(other));
        assert!(!is_large(other));
    }
    tiny_map.values().filter(|value| is_large(**value)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn hashes_are_the_same_in_chunks(lines in prop::collection::vec(hash_line(), 1..60)) {
        check(&lines);
    }

    #[test]
    fn sets_are_the_same_in_chunks(lines in prop::collection::vec(set_line(), 1..60)) {
        check(&lines);
    }
}

#[test]
fn large_ones_are_in_chunks() {
    let all: Vec<String> = (0..100).map(|number| format!("name{number}")).collect();
    let pairs: Vec<String> = all.iter().map(|name| format!("{name} {name}")).collect();
    let lines = [
        format!("hset {{t}}h {}", pairs.join(" ")),
        format!("sadd {{t}}s {}", all.join(" ")),
        "sunionstore {t}other {t}s {t}s".to_owned(),
    ];
    assert_eq!(check(&lines), 3);
}

/// Runs lines one by one, within limits; shows each its reply, and how many chunks it read.
fn watch(lines: &[String], limits: Limits, mut shown: impl FnMut(&str, &str, usize)) {
    let table = CommandTable::<Toy>::new(families().into_iter());
    let requests: Vec<Request<'_>> = lines.iter().map(|line| parse(&table, line)).collect();
    let (arena, outlines) = (Bump::new(), Arena::new());
    let log = Log::new(&arena, &outlines);
    let (map, random) = (RefCell::new(Map::new()), Cell::new(0));
    let world = World { map: &map, log: &log, limits, random: &random };
    for (line, request) in lines.iter().zip(&requests) {
        let reply = world.run(request);
        shown(line, &reply, log.reads());
    }
}

/// The cost of a command is that of what it asks for, not that of the collection.
#[test]
fn commands_read_few_chunks() {
    let names: Vec<String> = (0..4_000).map(|number| format!("name{number}")).collect();
    let some = names[..10].join(" ");
    let mut lines = vec![
        format!("hset h {}", names.iter().map(|name| format!("{name} 1")).collect::<Vec<_>>().join(" ")),
        format!("sadd s {}", names.join(" ")),
        format!("sadd {{s}}few {some} other"),
    ];
    let made = lines.len();
    for (line, most) in [
        ("hget h name7", 1),
        ("hget h nothing", 1),
        ("hexists h name7", 1),
        ("hstrlen h name7", 1),
        ("hmget h name1 name2 name3", 3),
        ("hlen h", 0),
        ("hset h name1 2 new 3", 12),
        ("hsetnx h new 3", 6),
        ("hincrby h name9 1", 6),
        ("hdel h name1 name2 new", 18),
        ("hrandfield h", 1),
        ("hrandfield h 10 withvalues", 10),
        ("hrandfield h -10", 10),
        ("hscan h 0 count 10", 3),
        ("hscan h 9223372036854775808 count 100", 8),
        ("object encoding h", 0),
        ("sismember s name7", 1),
        ("smismember s name1 name2 nothing", 3),
        ("scard s", 0),
        ("sadd s name1 new", 10),
        ("srem s name1 new", 12),
        ("spop s", 7),
        ("spop s 10", 70),
        ("srandmember s", 1),
        ("srandmember s 10", 10),
        ("srandmember s -10", 10),
        ("sscan s 0 count 10", 3),
        ("sscan s 9223372036854775808 count 100", 8),
        ("sinter s {s}few", 11),
        ("sintercard 2 s {s}few limit 3", 11),
        ("sdiff {s}few s", 11),
        ("sinterstore {s}into {s}few s", 11),
        ("smove s {s}few name5", 7),
        ("smove {s}few s name5", 7),
    ] {
        lines.push(line.to_owned());
        watch_last(&lines, made, most);
        lines.truncate(made);
    }
}

fn watch_last(lines: &[String], made: usize, most: usize) {
    let mut number = 0;
    watch(lines, Limits::default(), |line, reply, reads| {
        number += 1;
        assert!(number <= made || reads <= most, "{line}: {reads} chunks");
        assert!(!reply.starts_with("ERR") && !reply.starts_with("WRONG"), "{line}: {reply}");
    });
}

/// What is drawn by lot from chunks is any element as often as any other.
#[test]
fn draws_from_chunks_are_even() {
    const MEMBERS: usize = 50;
    let names: Vec<String> = (0..MEMBERS).map(|number| format!("n{:0>1$}", number, 1 + number % 7)).collect();
    let pairs: Vec<String> = names.iter().map(|name| format!("{name} 1")).collect();
    for (line, drawn) in [
        ("srandmember {t}s", 1),
        ("srandmember {t}s 7", 7),
        ("srandmember {t}s -7", 7),
        ("hrandfield {t}h", 1),
        ("hrandfield {t}h 7", 7),
        ("hrandfield {t}h -7", 7),
        ("spop {t}copy", 1),
        ("spop {t}copy 7", 7),
    ] {
        let mut lines =
            vec![format!("sadd {{t}}s {}", names.join(" ")), format!("hset {{t}}h {}", pairs.join(" "))];
        let rounds = 20_000 / drawn;
        (0..rounds).for_each(|_| lines.extend(["copy {t}s {t}copy replace".to_owned(), line.to_owned()]));
        let mut times = vec![0usize; MEMBERS];
        watch(&lines, TINY, |shown, reply, reads| {
            if shown == line {
                assert!(reads > 0, "{line} reads no chunk");
                let words = reply.split(' ').filter(|word| word.starts_with('\''));
                let found = words.map(|word| names.iter().position(|name| *name == word.trim_matches('\'')));
                found.for_each(|place| times[place.expect("a member")] += 1);
            }
        });
        let expected = (rounds * drawn) as f64 / MEMBERS as f64;
        assert_eq!(times.iter().sum::<usize>(), rounds * drawn, "{line}");
        let chi_square: f64 = times.iter().map(|times| (*times as f64 - expected).powi(2) / expected).sum();
        // Of 49 degrees of freedom: one in 10,000 even draws is above 95.
        assert!(chi_square < 95.0, "{line}: {chi_square} {times:?}");
    }
}
