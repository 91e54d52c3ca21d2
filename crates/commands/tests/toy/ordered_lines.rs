//! Random requests over lists and sorted sets.

use super::lines::line_of;
use proptest::prelude::*;

fn list() -> BoxedStrategy<&'static str> {
    prop_oneof![6 => Just("{t}l1"), 4 => Just("{t}l2"), 1 => Just("{t}z1"), 1 => Just("{t}none")].boxed()
}

fn sorted_set() -> BoxedStrategy<&'static str> {
    prop_oneof![
        6 => Just("{t}z1"),
        4 => Just("{t}z2"),
        2 => Just("{t}z3"),
        1 => Just("{t}l1"),
        1 => Just("{t}none"),
    ]
    .boxed()
}

/// A sorted set of one score.
const TEXTS: &str = "{t}texts";

/// An item or a member: often one of a few.
fn word() -> BoxedStrategy<String> {
    prop_oneof![
        8 => (-6i64..6).prop_map(|number| number.to_string()),
        6 => (0u8..60).prop_map(|number| format!("m{number}")),
        1 => (0u8..3).prop_map(|number| format!("a-word-that-is-longer-than-a-chunk-is-to-be-{number}")),
    ]
    .boxed()
}

fn words(most: usize) -> BoxedStrategy<String> {
    prop::collection::vec(word(), 1..most).prop_map(|words| words.join(" ")).boxed()
}

/// Few words, or many.
fn some_words() -> BoxedStrategy<String> {
    prop_oneof![5 => words(5), 1 => words(60)].boxed()
}

fn index() -> BoxedStrategy<String> {
    prop_oneof![-5i64..5, -70i64..70].prop_map(|index| index.to_string()).boxed()
}

fn indices() -> BoxedStrategy<String> {
    (index(), index()).prop_map(|(first, last)| format!("{first} {last}")).boxed()
}

fn side() -> BoxedStrategy<&'static str> {
    prop_oneof![Just("left"), Just("right")].boxed()
}

fn score() -> BoxedStrategy<String> {
    prop_oneof![
        6 => (-4i64..5).prop_map(|score| score.to_string()),
        2 => (-9i64..9).prop_map(|score| format!("{score}.5")),
        1 => prop_oneof![Just("-0"), Just("inf"), Just("-inf"), Just("1e300")].prop_map(str::to_owned),
    ]
    .boxed()
}

fn scored() -> BoxedStrategy<String> {
    let pair = (score(), word()).prop_map(|(score, member)| format!("{score} {member}"));
    prop_oneof![3 => prop::collection::vec(pair.clone(), 1..4), 1 => prop::collection::vec(pair, 1..60)]
        .prop_map(|pairs| pairs.join(" "))
        .boxed()
}

fn bound() -> BoxedStrategy<String> {
    (any::<bool>(), score()).prop_map(|(open, score)| if open { format!("({score}") } else { score }).boxed()
}

fn text_bound() -> BoxedStrategy<String> {
    prop_oneof![
        2 => Just("-".to_owned()),
        2 => Just("+".to_owned()),
        3 => word().prop_map(|word| format!("[{word}")),
        3 => word().prop_map(|word| format!("({word}")),
    ]
    .boxed()
}

fn limit() -> BoxedStrategy<String> {
    prop_oneof![
        2 => Just(String::new()),
        1 => (-1i64..30, -1i64..30).prop_map(|(offset, count)| format!(" limit {offset} {count}")),
    ]
    .boxed()
}

fn count() -> BoxedStrategy<String> {
    prop_oneof![2 => Just(String::new()), 1 => (0u8..40).prop_map(|count| format!(" {count}"))].boxed()
}

/// A request over lists.
pub fn list_line() -> BoxedStrategy<String> {
    let lists = || prop::collection::vec(list(), 1..3);
    let search = (
        word(),
        prop_oneof![Just(0i64), -3i64..4],
        prop_oneof![Just(None), (0u8..4).prop_map(Some)],
        prop_oneof![Just(None), (0u8..40).prop_map(Some)],
    )
        .prop_map(|(item, rank, count, most)| {
            let rank = if rank == 0 { String::new() } else { format!(" rank {rank}") };
            let count = count.map_or(String::new(), |count| format!(" count {count}"));
            let most = most.map_or(String::new(), |most| format!(" maxlen {most}"));
            format!("{item}{rank}{count}{most}")
        });
    let beside = (prop_oneof![Just("before"), Just("after")], word(), word())
        .prop_map(|(place, pivot, item)| format!("{place} {pivot} {item}"));
    prop_oneof![
        9 => line_of(&["lpush", "rpush", "lpushx", "rpushx"], list(), some_words()),
        4 => line_of(&["lpop", "rpop"], list(), count()),
        3 => (list(), list(), side(), side()).prop_map(|(a, b, from, to)| format!("lmove {a} {b} {from} {to}")),
        1 => (list(), list()).prop_map(|(a, b)| format!("rpoplpush {a} {b}")),
        1 => (lists(), side(), 1u8..9).prop_map(|(lists, side, count)| {
            format!("lmpop {} {} {side} count {count}", lists.len(), lists.join(" "))
        }),
        1 => lists().prop_map(|lists| format!("blpop {} 0", lists.join(" "))),
        2 => line_of(&["lindex"], list(), index()),
        3 => line_of(&["lrange"], list(), indices()),
        2 => line_of(&["ltrim"], list(), indices()),
        3 => line_of(&["lset"], list(), (index(), word()).prop_map(|(at, item)| format!("{at} {item}")).boxed()),
        3 => line_of(&["linsert"], list(), beside.boxed()),
        2 => line_of(&["lrem"], list(), (-3i64..4, word()).prop_map(|(count, item)| format!("{count} {item}")).boxed()),
        3 => line_of(&["lpos"], list(), search.boxed()),
        1 => line_of(&["llen", "dump"], list(), Just(String::new()).boxed()),
        1 => line_of(&["sort"], list(), prop_oneof![Just("alpha"), Just("alpha desc limit 2 9 store {t}l2")]
            .prop_map(str::to_owned).boxed()),
        1 => key_line(list()),
    ]
    .boxed()
}

/// A request over sorted sets.
pub fn sorted_set_line() -> BoxedStrategy<String> {
    let options = prop_oneof![
        4 => Just(""),
        1 => prop_oneof![Just("nx "), Just("xx ch "), Just("gt ch "), Just("lt "), Just("ch ")],
    ];
    let set = sorted_set;
    let member = || (word(), Just(())).prop_map(|(word, ())| word).boxed();
    prop_oneof![
        9 => line_of(&["zadd"], set(), (options, scored()).prop_map(|(options, scored)| format!("{options}{scored}")).boxed()),
        2 => line_of(&["zincrby"], set(), (score(), word()).prop_map(|(score, word)| format!("{score} {word}")).boxed()),
        3 => line_of(&["zrem"], set(), some_words()),
        2 => line_of(&["zpopmin", "zpopmax"], set(), count()),
        3 => line_of(&["zscore", "zrank", "zrevrank"], set(), member()),
        1 => line_of(&["zmscore"], set(), words(12)),
        1 => line_of(&["zcard", "dump"], set(), Just(String::new()).boxed()),
        4 => range_line(),
        3 => text_line(),
        3 => several_line(),
        2 => prop_oneof![
            line_of(&["zremrangebyrank"], set(), indices()),
            line_of(&["zremrangebyscore"], set(), (bound(), bound()).prop_map(|(a, b)| format!("{a} {b}")).boxed()),
        ],
        1 => line_of(&["zrandmember"], set(), prop_oneof![Just(String::new()), index()].boxed()),
        1 => line_of(&["zscan"], set(), (any::<u64>(), 1u8..9).prop_map(|(at, count)| format!("{at} count {count}")).boxed()),
        1 => line_of(&["sort"], set(), Just("by nosort alpha limit 1 7 store {t}l2".to_owned()).boxed()),
        1 => key_line(set()),
    ]
    .boxed()
}

fn range_line() -> BoxedStrategy<String> {
    let scores = || if_scores(any::<bool>().boxed());
    prop_oneof![
        line_of(
            &["zrange", "zrevrange"],
            sorted_set(),
            (indices(), scores()).prop_map(|(range, with)| format!("{range}{with}")).boxed()
        ),
        line_of(&["zrange"], sorted_set(), indices().prop_map(|range| format!("{range} rev")).boxed()),
        line_of(
            &["zrangebyscore", "zrevrangebyscore"],
            sorted_set(),
            (bound(), bound(), limit(), scores())
                .prop_map(|(a, b, limit, with)| format!("{a} {b}{limit}{with}"))
                .boxed()
        ),
        line_of(&["zcount"], sorted_set(), (bound(), bound()).prop_map(|(a, b)| format!("{a} {b}")).boxed()),
        (sorted_set(), sorted_set(), bound(), bound(), limit()).prop_map(|(into, from, a, b, limit)| {
            format!("zrangestore {into} {from} {a} {b} byscore{limit}")
        }),
    ]
    .boxed()
}

fn if_scores(with: BoxedStrategy<bool>) -> BoxedStrategy<&'static str> {
    with.prop_map(|with| if with { " withscores" } else { "" }).boxed()
}

/// Over members of one score.
fn text_line() -> BoxedStrategy<String> {
    let bounds = || (text_bound(), text_bound()).prop_map(|(a, b)| format!("{a} {b}"));
    prop_oneof![
        5 => words(20).prop_map(|words| {
            let scored: Vec<String> = words.split(' ').map(|word| format!("0 {word}")).collect();
            format!("zadd {TEXTS} {}", scored.join(" "))
        }),
        1 => words(20).prop_map(|words| format!("zrem {TEXTS} {words}")),
        1 => bounds().prop_map(|bounds| format!("zremrangebylex {TEXTS} {bounds}")),
        2 => bounds().prop_map(|bounds| format!("zlexcount {TEXTS} {bounds}")),
        3 => (prop_oneof![Just("zrangebylex"), Just("zrevrangebylex")], bounds(), limit())
            .prop_map(|(name, bounds, limit)| format!("{name} {TEXTS} {bounds}{limit}")),
    ]
    .boxed()
}

fn several_line() -> BoxedStrategy<String> {
    let keys = || {
        let key = prop_oneof![6 => sorted_set(), 2 => Just("{t}s1"), 1 => Just(TEXTS)];
        prop::collection::vec(key, 1..4)
    };
    let options = prop_oneof![Just(""), Just(" aggregate min"), Just(" aggregate max")];
    prop_oneof![
        3 => (prop_oneof![Just("zunion"), Just("zinter")], keys(), options.clone(), any::<bool>())
            .prop_map(|(name, keys, options, with)| {
                let with = if with { " withscores" } else { "" };
                format!("{name} {} {}{options}{with}", keys.len(), keys.join(" "))
            }),
        1 => keys().prop_map(|keys| format!("zdiff {} {} withscores", keys.len(), keys.join(" "))),
        1 => (keys(), 0u8..9)
            .prop_map(|(keys, limit)| format!("zintercard {} {} limit {limit}", keys.len(), keys.join(" "))),
        2 => (prop_oneof![Just("zunionstore"), Just("zinterstore")], sorted_set(), keys(), options)
            .prop_map(|(name, into, keys, options)| {
                format!("{name} {into} {} {}{options}", keys.len(), keys.join(" "))
            }),
        1 => (sorted_set(), keys())
            .prop_map(|(into, keys)| format!("zdiffstore {into} {} {}", keys.len(), keys.join(" "))),
        1 => words(30).prop_map(|words| format!("sadd {{t}}s1 {words}")),
        1 => keys().prop_map(|keys| format!("zmpop {} {} min count 3", keys.len(), keys.join(" "))),
        1 => keys().prop_map(|keys| format!("bzpopmax {} 0", keys.join(" "))),
    ]
    .boxed()
}

/// A request over a key of any type.
fn key_line(key: BoxedStrategy<&'static str>) -> BoxedStrategy<String> {
    let one =
        prop::sample::select(&["object encoding", "object encoding", "type", "ttl", "del", "exists"][..]);
    let two = prop::sample::select(&["rename", "renamenx", "copy"][..]);
    prop_oneof![
        4 => (one, key.clone()).prop_map(|(name, key)| format!("{name} {key}")),
        1 => key.clone().prop_map(|key| format!("expire {key} 100")),
        1 => (two, key.clone(), key.clone()).prop_map(|(name, from, to)| format!("{name} {from} {to}")),
        1 => (key.clone(), key).prop_map(|(from, to)| format!("copy {from} {to} replace")),
    ]
    .boxed()
}
