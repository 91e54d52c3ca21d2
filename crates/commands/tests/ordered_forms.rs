//! Runs the same commands over lists and sorted sets where these are in chunks as soon as they have a few
//! elements, and where they never are. The replies and the final keys must be the same.

mod toy;

use bumpalo::Bump;
use proptest::prelude::*;
use sidle_collections::Limits;
use sidle_commands::{CommandTable, families};
use std::cell::{Cell, RefCell};
use toy::lines::{HUGE, TINY};
use toy::ordered_lines::{list_line, sorted_set_line};
use toy::{Log, Map, Plain, Request, Space, Toy, differences_of_elements, is_large, live_only, parse, run};
use typed_arena::Arena;

/// The words of a reply that are the same in both forms; in an order, where a reply has none.
fn comparable(line: &str, reply: &str) -> Vec<String> {
    let mut words: Vec<String> = reply.split(' ').map(str::to_owned).collect();
    match line.split(' ').next() {
        Some("zrandmember") => words.sort(),
        // Where a walk goes on depends on how many were returned, which are those of equal hashes, too.
        Some("zscan") if words.len() > 3 => {
            let mut members: Vec<&[String]> = words[3..].chunks(2).collect();
            members.sort();
            return [&words[1..2], &members.concat()].concat();
        }
        _ => {}
    }
    words
}

/// Runs the lines in both worlds; returns how many of the final values are in chunks.
fn check(lines: &[String]) -> usize {
    let table = CommandTable::<Toy>::new(families().into_iter());
    let requests: Vec<Request<'_>> = lines.iter().map(|line| parse(&table, line)).collect();
    let (arena, outlines) = (Bump::new(), Arena::new());
    let logs = [Log::new(&arena, &outlines), Log::new(&arena, &outlines)];
    let maps = [RefCell::new(Map::new()), RefCell::new(Map::new())];
    for (number, (line, request)) in lines.iter().zip(&requests).enumerate() {
        let reply = |world: usize, limits: Limits| {
            // The same draws in both worlds.
            let random = Cell::new(number as u64);
            let space = Plain {
                map: &maps[world],
                log: &logs[world],
                limits,
                random: arena.alloc(random),
                keys: &request.keys,
            };
            run(request, Space::Plain(space))
        };
        let (tiny, huge) = (reply(0, TINY), reply(1, HUGE));
        assert_eq!(comparable(line, &tiny), comparable(line, &huge), "{line}: {tiny} or {huge}");
    }
    let [tiny, huge] = maps.each_ref().map(|map| live_only(&map.borrow()));
    let differences = differences_of_elements(&tiny, &huge);
    assert!(differences.is_empty(), "{differences:?}");
    assert!(!huge.values().any(|value| is_large(*value)));
    tiny.values().filter(|value| is_large(**value)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn lists_are_the_same_in_chunks(lines in prop::collection::vec(list_line(), 1..80)) {
        check(&lines);
    }

    #[test]
    fn sorted_sets_are_the_same_in_chunks(lines in prop::collection::vec(sorted_set_line(), 1..80)) {
        check(&lines);
    }
}

#[test]
fn large_ones_are_in_chunks() {
    let words: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
    let scored: Vec<String> = words.iter().map(|word| format!("1 {word}")).collect();
    let lines = [
        format!("rpush {{t}}l {}", words.join(" ")),
        format!("zadd {{t}}z {}", scored.join(" ")),
        "zunionstore {t}other 2 {t}z {t}z".to_owned(),
        "sort {t}l alpha store {t}sorted".to_owned(),
    ];
    assert_eq!(check(&lines), 4);
}
