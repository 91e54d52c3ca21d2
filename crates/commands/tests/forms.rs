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
