//! How many chunks of a long list or sorted set commands read and write.

mod toy;

use bumpalo::Bump;
use sidle_collections::Limits;
use sidle_commands::{CommandTable, families};
use std::cell::{Cell, RefCell};
use toy::{Log, Map, Plain, Request, Space, Toy, is_large, parse, run};
use typed_arena::Arena;

const LENGTH: usize = 100_000;
/// A search in a sequence of so many chunks looks at the first element of one after the other.
const SEARCH: usize = 14;

/// A request, and how many chunks it may read and write at most.
type Case = (&'static str, usize, usize);

const OF_LISTS: &[Case] = &[
    ("llen l", 0, 0),
    ("lindex l 0", 1, 0),
    ("lindex l -1", 1, 0),
    ("lindex l 50000", 1, 0),
    ("lrange l 0 9", 2, 0),
    ("lrange l 70000 70009", 2, 0),
    ("lrange l -10 -1", 2, 0),
    ("lpos l item5", 1, 0),
    ("lpos l item99995 rank -1", 1, 0),
    ("lpos l nothing maxlen 20", 2, 0),
    ("lpush l a", 2, 2),
    ("rpush l a b c", 2, 2),
    ("lpop l", 2, 1),
    ("rpop l 2", 2, 1),
    ("lmove l l left right", 3, 3),
    ("lmove l other right left", 2, 2),
    ("rpoplpush l l", 3, 3),
    ("lmpop 1 l left count 5", 2, 1),
    ("blpop l 0", 2, 1),
    ("lset l 50000 x", 1, 2),
    ("linsert l before item20 x", 2, 2),
    ("lrem l 1 item30", 2, 2),
    ("lrem l -1 item99950", 2, 2),
    ("ltrim l 10 -10", 4, 2),
    ("ltrim l 20000 29999", 4, 2),
    ("ltrim l 5000 5004", 2, 0),
];

const OF_SORTED_SETS: &[Case] = &[
    ("zcard z", 0, 0),
    ("zscore z member5", 1, 0),
    ("zmscore z member5 member6 nothing", 3, 0),
    ("zrange z 0 9", 2, 0),
    ("zrange z 70000 70009 rev withscores", 2, 0),
    ("zrevrange z 0 9", 2, 0),
    ("zrangebyscore z 100 +inf limit 50 10", 2 * SEARCH + 2, 0),
    ("zrangebylex z [member5 + limit 0 10", 2 * SEARCH + 2, 0),
    ("zrank z member77777", 1 + SEARCH + 1, 0),
    ("zrevrank z member77777", 1 + SEARCH + 1, 0),
    ("zcount z 5 50000", 2 * SEARCH + 2, 0),
    ("zlexcount z [member3 [member4", 2 * SEARCH + 2, 0),
    ("zrandmember z 3", 3, 0),
    ("zscan z 77777 count 10", 4, 0),
    ("zinter 2 few z", 10, 0),
    ("zdiff 2 few z", 10, 0),
    ("zintercard 2 z z limit 2", 4, 0),
    ("zadd z 5.5 new", SEARCH + 4, 4),
    ("zadd z 77.5 member5", 2 * SEARCH + 6, 5),
    ("zincrby z 0.5 member5", 2 * SEARCH + 6, 5),
    ("zrem z member500 member501", 2 * SEARCH + 8, 4),
    ("zpopmin z 2", SEARCH + 4, 3),
    ("zpopmax z", SEARCH + 6, 2),
    ("zmpop 1 z min", SEARCH + 6, 2),
    ("bzpopmax z 0", SEARCH + 6, 2),
    ("zremrangebyrank z 40 49", SEARCH + 14, 13),
    ("zremrangebyscore z 100 100", 3 * SEARCH + 8, 13),
    ("zrangestore other z 5 9", 2, 0),
    ("zremrangebyrank z 5 -6", 4, 0),
];

/// Runs the cases one after the other, after what the keys have was set.
fn check(set_up: &[String], cases: &[Case]) {
    let table = CommandTable::<Toy>::new(families().into_iter());
    let requests: Vec<Request<'_>> = set_up.iter().map(|line| parse(&table, line)).collect();
    let measured: Vec<Request<'_>> = cases.iter().map(|(line, ..)| parse(&table, line)).collect();
    let (arena, outlines) = (Bump::new(), Arena::new());
    let (log, map, random) = (Log::new(&arena, &outlines), RefCell::new(Map::new()), Cell::new(0));
    let limits = Limits::default();
    for request in &requests {
        let space = Plain { map: &map, log: &log, limits, random: &random, keys: &request.keys };
        run(request, Space::Plain(space));
    }
    assert!(is_large(map.borrow()[&b"l"[..]]) && is_large(map.borrow()[&b"z"[..]]));
    for (request, (line, reads, writes)) in measured.iter().zip(cases) {
        let (_, published) = (log.different_reads(), log.published());
        let space = Plain { map: &map, log: &log, limits, random: &random, keys: &request.keys };
        let reply = run(request, Space::Plain(space));
        assert!(!reply.starts_with("ERR") && !reply.starts_with("WRONG"), "{line}: {reply}");
        let (read, written) = (log.different_reads(), log.published() - published);
        assert!(read <= *reads, "{line} reads {read} chunks, not {reads}");
        assert!(written <= *writes, "{line} writes {written} chunks, not {writes}");
    }
}

/// A list, and a sorted set with scores by the member's number.
fn set_up(score: fn(usize) -> usize) -> [String; 3] {
    let items: Vec<String> = (0..LENGTH).map(|number| format!("item{number}")).collect();
    let scored: Vec<String> = (0..LENGTH).map(|number| format!("{} member{number}", score(number))).collect();
    [
        format!("rpush l {}", items.join(" ")),
        format!("zadd z {}", scored.join(" ")),
        "zadd few 1 member1 2 member2 3 nothing".to_owned(),
    ]
}

#[test]
fn commands_over_a_long_list_read_and_write_few_chunks() {
    check(&set_up(|number| number), OF_LISTS);
}

#[test]
fn commands_over_a_long_sorted_set_read_and_write_few_chunks() {
    check(&set_up(|number| number), OF_SORTED_SETS);
}

#[test]
fn members_of_one_score_are_found_as_soon() {
    check(&set_up(|_| 7), OF_SORTED_SETS);
}
