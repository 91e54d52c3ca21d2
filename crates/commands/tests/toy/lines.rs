//! Random requests over hashes and sets.

use proptest::prelude::*;
use sidle_collections::Limits;

/// Collections are converted, and chunks split and joined, all the time; encodings change soon, too.
pub const TINY: Limits = Limits { packed_bytes: 64, chunk_bytes: 32, ..HUGE };

/// Collections are never in chunks. The same encodings are reported.
pub const HUGE: Limits = Limits {
    hash_entries: 12,
    hash_value_bytes: 10,
    intset_entries: 12,
    zset_entries: 12,
    zset_value_bytes: 10,
    packed_bytes: usize::MAX,
    chunk_bytes: usize::MAX,
};

fn hash() -> BoxedStrategy<&'static str> {
    prop_oneof![6 => Just("{t}h1"), 4 => Just("{t}h2"), 1 => Just("{t}s1"), 1 => Just("{t}none")].boxed()
}

fn set() -> BoxedStrategy<&'static str> {
    prop_oneof![
        6 => Just("{t}s1"),
        4 => Just("{t}s2"),
        3 => Just("{t}s3"),
        1 => Just("{t}h1"),
        1 => Just("{t}none"),
    ]
    .boxed()
}

/// A field or a member: often an integer.
fn name() -> BoxedStrategy<String> {
    prop_oneof![
        8 => (-20i64..20).prop_map(|number| number.to_string()),
        4 => (0u8..30).prop_map(|number| format!("name{number}")),
        1 => (0u8..5).prop_map(|number| format!("a name that is longer than a chunk is to be {number}").replace(' ', "-")),
    ]
    .boxed()
}

fn joined(parts: &[String]) -> String {
    parts.join(" ")
}

fn names(most: usize) -> BoxedStrategy<String> {
    prop::collection::vec(name(), 1..most).prop_map(|names| joined(&names)).boxed()
}

fn pairs() -> BoxedStrategy<String> {
    let pair = (name(), name()).prop_map(|(field, value)| format!("{field} {value}"));
    prop_oneof![3 => prop::collection::vec(pair.clone(), 1..3), 1 => prop::collection::vec(pair, 1..40)]
        .prop_map(|pairs| joined(&pairs))
        .boxed()
}

fn count() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), (-30i64..30).prop_map(|count| format!(" {count}"))].boxed()
}

fn scan_options() -> BoxedStrategy<String> {
    let cursor = prop_oneof![Just(0u64), any::<u64>()];
    (cursor, 1u8..9, any::<bool>())
        .prop_map(|(cursor, count, all)| {
            format!("{cursor} count {count}{}", if all { "" } else { " match n*" })
        })
        .boxed()
}

/// A request of one of these names.
pub(super) fn line_of(
    names: &'static [&'static str],
    key: BoxedStrategy<&'static str>,
    rest: BoxedStrategy<String>,
) -> BoxedStrategy<String> {
    (prop::sample::select(names), key, rest)
        .prop_map(|(name, key, rest)| format!("{name} {key} {}", rest.trim()).trim().to_owned())
        .boxed()
}

/// A request over a hash.
pub fn hash_line() -> BoxedStrategy<String> {
    let none = || Just(String::new()).boxed();
    prop_oneof![
        6 => line_of(&["hset", "hset", "hmset"], hash(), pairs()),
        3 => line_of(&["hdel"], hash(), names(5)),
        1 => line_of(&["hdel"], hash(), names(60)),
        2 => line_of(&["hmget"], hash(), names(9)),
        2 => line_of(&["hget", "hexists", "hstrlen"], hash(), name()),
        2 => line_of(&["hgetall", "hkeys", "hvals", "hlen"], hash(), none()),
        1 => line_of(&["hsetnx"], hash(), (name(), name()).prop_map(|(field, value)| format!("{field} {value}")).boxed()),
        1 => line_of(&["hincrby", "hincrbyfloat"], hash(), name().prop_map(|field| format!("{field} 3")).boxed()),
        1 => line_of(&["hrandfield"], hash(), count()),
        1 => line_of(&["hrandfield"], hash(), (-30i64..30).prop_map(|count| format!("{count} withvalues")).boxed()),
        2 => line_of(&["hscan"], hash(), scan_options()),
        1 => key_line(hash()),
    ]
    .boxed()
}

/// A request over sets.
pub fn set_line() -> BoxedStrategy<String> {
    let none = || Just(String::new()).boxed();
    let sets = || prop::collection::vec(set(), 1..4);
    prop_oneof![
        6 => line_of(&["sadd"], set(), names(6)),
        2 => line_of(&["sadd"], set(), names(60)),
        3 => line_of(&["srem"], set(), names(6)),
        1 => line_of(&["srem"], set(), names(60)),
        2 => line_of(&["smismember"], set(), names(9)),
        1 => line_of(&["sismember"], set(), name()),
        2 => line_of(&["smembers", "scard"], set(), none()),
        1 => (set(), set(), name()).prop_map(|(from, to, member)| format!("smove {from} {to} {member}")),
        1 => line_of(&["srandmember"], set(), count()),
        2 => line_of(&["spop"], set(), count()),
        2 => line_of(&["sscan"], set(), scan_options()),
        3 => (prop::sample::select(&["sinter", "sunion", "sdiff"][..]), sets())
            .prop_map(|(name, sets)| format!("{name} {}", sets.join(" "))),
        2 => (prop::sample::select(&["sinterstore", "sunionstore", "sdiffstore"][..]), set(), sets())
            .prop_map(|(name, into, sets)| format!("{name} {into} {}", sets.join(" "))),
        1 => (sets(), 0u8..9)
            .prop_map(|(sets, limit)| format!("sintercard {} {} limit {limit}", sets.len(), sets.join(" "))),
        1 => key_line(set()),
    ]
    .boxed()
}

/// A request over a key of any type.
fn key_line(key: BoxedStrategy<&'static str>) -> BoxedStrategy<String> {
    let one = prop::sample::select(
        &["object encoding", "object encoding", "type", "ttl", "persist", "del", "exists"][..],
    );
    let two = prop::sample::select(&["rename", "renamenx", "copy", "copy"][..]);
    prop_oneof![
        4 => (one, key.clone()).prop_map(|(name, key)| format!("{name} {key}")),
        1 => key.clone().prop_map(|key| format!("expire {key} 100")),
        1 => (two.clone(), key.clone(), key.clone()).prop_map(|(name, from, to)| format!("{name} {from} {to}")),
        1 => (key.clone(), key).prop_map(|(from, to)| format!("copy {from} {to} replace")),
    ]
    .boxed()
}
