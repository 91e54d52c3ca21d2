//! Forms for sorted sets.
//!
//! Scores are such that sums are exact or infinite. Commands that draw by lot are left out. Ranges of texts
//! are of keys whose members have one score: of others Redis says nothing.

use super::{Form, Pool};

const MEMBERS: Pool =
    Pool::Word(&["a", "b", "c", "d", "e", "aa", "ab", "B", "", "10", "-7", "3.25", "\u{e9}", "hello world"]);
const SCORES: Pool = Pool::Word(&[
    "0",
    "-0",
    "1",
    "1",
    "2",
    "-1",
    "1.5",
    "-2.25",
    "10",
    "1e3",
    "17179869184",
    "9007199254740992",
    "1e20",
    "-1e-5",
    "inf",
    "-inf",
    "+Inf",
    "0x10",
    ".5",
]);
const BAD_SCORES: Pool = Pool::Word(&["nan", "abc", "", " 1", "1 ", "1e400", "(1", "1e-400", "--1", "0x"]);
const BOUNDS: Pool = Pool::Word(&[
    "-inf", "+inf", "inf", "0", "(0", "1", "(1", "1.5", "(10", "-1", "(-1", "(inf", "(-inf", "abc", "(",
    "nan", "", "[1",
]);
const TEXT_BOUNDS: Pool =
    Pool::Word(&["-", "+", "[a", "(a", "[b", "(b", "[aa", "(ab", "[", "(", "[c", "(e", "a", "", "+x", "[B"]);
const RANKS: Pool =
    Pool::Word(&["0", "1", "-1", "2", "-2", "5", "-100", "100", "-3", "9223372036854775807", "abc", "1.5"]);
const COUNTS: Pool = Pool::Word(&["0", "1", "2", "3", "100", "-1", "abc", "9223372036854775807"]);
const KEY: Pool = Pool::Key;
/// With one score.
const EVEN_KEY: Pool = Pool::Word(&["{k}even", "{k}0"]);
const ZERO: Pool = Pool::Word(&["0"]);
const ADD_OPTIONS: Pool = Pool::Word(&["NX", "XX", "GT", "LT", "CH", "INCR", "ch", "foo"]);
const RANGE_OPTIONS: Pool =
    Pool::Word(&["WITHSCORES", "REV", "BYSCORE", "LIMIT", "0", "1", "2", "-1", "withscores", "foo"]);
const LIMITS: Pool = Pool::Word(&["WITHSCORES", "LIMIT", "0", "1", "2", "-1", "foo"]);
const SCAN_OPTIONS: Pool = Pool::Word(&["MATCH", "COUNT", "a*", "*", "5", "0", "abc", "foo"]);
const COMBINING_OPTIONS: Pool = Pool::Word(&[
    "WITHSCORES",
    "AGGREGATE",
    "SUM",
    "MIN",
    "max",
    "WEIGHTS",
    "1",
    "-1",
    "0",
    "inf",
    "2",
    "LIMIT",
    "foo",
]);
const NUMBERS: Pool = Pool::Word(&["1", "2", "2", "2", "3", "0", "abc"]);
const LIMIT: Pool = Pool::Word(&["LIMIT"]);
const WITH_SCORES: Pool = Pool::Word(&["WITHSCORES"]);
const WEIGHTS: Pool = Pool::Word(&["WEIGHTS"]);
const WEIGHT: Pool = Pool::Word(&["1", "-1", "0", "2.5", "inf", "-inf", "abc"]);
const AGGREGATE: Pool = Pool::Word(&["AGGREGATE"]);
const AGGREGATES: Pool = Pool::Word(&["SUM", "MIN", "MAX", "avg"]);
const ENDS: Pool = Pool::Word(&["MIN", "MAX", "min", "foo"]);
const TWO: Pool = Pool::Word(&["2"]);

pub(crate) const FORMS: &[Form] = &[
    ("ZADD", &[KEY, SCORES, MEMBERS], None),
    ("ZADD", &[KEY, SCORES, MEMBERS, SCORES, MEMBERS], None),
    ("ZADD", &[KEY, SCORES, MEMBERS, SCORES, MEMBERS, SCORES, MEMBERS, SCORES, MEMBERS], None),
    ("ZADD", &[EVEN_KEY, ZERO, MEMBERS, ZERO, MEMBERS], None),
    ("ZADD", &[EVEN_KEY, ZERO, MEMBERS, ZERO, MEMBERS, ZERO, MEMBERS, ZERO, MEMBERS], None),
    ("ZADD", &[KEY, ADD_OPTIONS, SCORES, MEMBERS], None),
    ("ZADD", &[KEY, ADD_OPTIONS, ADD_OPTIONS, SCORES, MEMBERS], Some(MEMBERS)),
    ("ZADD", &[KEY, SCORES, MEMBERS, BAD_SCORES, MEMBERS], None),
    ("ZADD", &[KEY, Pool::Word(&["INCR"]), SCORES, MEMBERS], None),
    ("ZINCRBY", &[KEY, SCORES, MEMBERS], None),
    ("ZINCRBY", &[KEY, BAD_SCORES, MEMBERS], None),
    ("ZREM", &[KEY, MEMBERS], Some(MEMBERS)),
    ("ZPOPMIN", &[KEY], Some(COUNTS)),
    ("ZPOPMAX", &[KEY], Some(COUNTS)),
    ("ZMPOP", &[NUMBERS, KEY, KEY, ENDS], None),
    ("ZMPOP", &[TWO, KEY, KEY, ENDS, Pool::Word(&["COUNT"]), COUNTS], None),
    ("ZCARD", &[KEY], None),
    ("ZPOPMIN", &[EVEN_KEY], Some(COUNTS)),
    ("ZRANGE", &[EVEN_KEY, RANKS, RANKS], Some(WITH_SCORES)),
    ("ZSCORE", &[KEY, MEMBERS], None),
    ("ZMSCORE", &[KEY, MEMBERS], Some(MEMBERS)),
    ("ZRANK", &[KEY, MEMBERS], None),
    ("ZREVRANK", &[KEY, MEMBERS], None),
    ("ZRANGE", &[KEY, RANKS, RANKS], Some(WITH_SCORES)),
    ("ZRANGE", &[KEY, RANKS, RANKS], Some(RANGE_OPTIONS)),
    ("ZRANGE", &[KEY, BOUNDS, BOUNDS, Pool::Word(&["BYSCORE"])], Some(RANGE_OPTIONS)),
    ("ZRANGE", &[EVEN_KEY, TEXT_BOUNDS, TEXT_BOUNDS, Pool::Word(&["BYLEX"])], Some(RANGE_OPTIONS)),
    ("ZRANGE", &[KEY, BOUNDS, BOUNDS, Pool::Word(&["BYSCORE"]), LIMIT, RANKS, RANKS], Some(WITH_SCORES)),
    ("ZRANGE", &[KEY, RANKS, RANKS, LIMIT, RANKS, Pool::Word(&["-1", "1"])], Some(WITH_SCORES)),
    ("ZRANGESTORE", &[KEY, KEY, RANKS, RANKS], Some(Pool::Word(&["REV"]))),
    ("ZRANGESTORE", &[KEY, KEY, BOUNDS, BOUNDS, Pool::Word(&["BYSCORE"])], Some(RANGE_OPTIONS)),
    ("ZREVRANGE", &[KEY, RANKS, RANKS], Some(WITH_SCORES)),
    ("ZRANGEBYSCORE", &[KEY, BOUNDS, BOUNDS], Some(LIMITS)),
    ("ZREVRANGEBYSCORE", &[KEY, BOUNDS, BOUNDS], Some(LIMITS)),
    ("ZRANGEBYSCORE", &[KEY, BOUNDS, BOUNDS, WITH_SCORES, LIMIT, RANKS, RANKS], None),
    ("ZRANGEBYLEX", &[EVEN_KEY, TEXT_BOUNDS, TEXT_BOUNDS], Some(LIMITS)),
    ("ZREVRANGEBYLEX", &[EVEN_KEY, TEXT_BOUNDS, TEXT_BOUNDS], Some(LIMITS)),
    ("ZCOUNT", &[KEY, BOUNDS, BOUNDS], None),
    ("ZLEXCOUNT", &[EVEN_KEY, TEXT_BOUNDS, TEXT_BOUNDS], None),
    ("ZREMRANGEBYRANK", &[KEY, RANKS, RANKS], None),
    ("ZREMRANGEBYSCORE", &[KEY, BOUNDS, BOUNDS], None),
    ("ZREMRANGEBYLEX", &[EVEN_KEY, TEXT_BOUNDS, TEXT_BOUNDS], None),
    ("ZUNION", &[NUMBERS, KEY, KEY], Some(COMBINING_OPTIONS)),
    ("ZUNION", &[TWO, KEY, KEY, WEIGHTS, WEIGHT, WEIGHT, WITH_SCORES], None),
    ("ZINTER", &[NUMBERS, KEY, KEY], Some(COMBINING_OPTIONS)),
    ("ZINTER", &[TWO, KEY, KEY, WEIGHTS, WEIGHT, WEIGHT, AGGREGATE, AGGREGATES, WITH_SCORES], None),
    ("ZDIFF", &[NUMBERS, KEY, KEY], Some(COMBINING_OPTIONS)),
    ("ZDIFF", &[TWO, KEY, KEY, WITH_SCORES], None),
    ("ZINTERCARD", &[NUMBERS, KEY, KEY], Some(COMBINING_OPTIONS)),
    ("ZINTERCARD", &[TWO, KEY, KEY, LIMIT, COUNTS], None),
    ("ZUNIONSTORE", &[KEY, NUMBERS, KEY, KEY], Some(COMBINING_OPTIONS)),
    ("ZUNIONSTORE", &[KEY, TWO, KEY, KEY, AGGREGATE, AGGREGATES], None),
    ("ZUNIONSTORE", &[KEY, TWO, KEY, KEY, WEIGHTS, WEIGHT, WEIGHT], None),
    ("ZINTERSTORE", &[KEY, TWO, KEY, KEY, WEIGHTS, WEIGHT, WEIGHT], None),
    ("ZDIFFSTORE", &[KEY, NUMBERS, KEY, KEY], None),
    ("SADD", &[KEY, MEMBERS], Some(MEMBERS)),
    ("COPY", &[KEY, KEY], Some(Pool::Word(&["REPLACE"]))),
    ("RENAME", &[KEY, KEY], None),
    ("TYPE", &[KEY], None),
    ("OBJECT", &[Pool::Word(&["ENCODING"]), KEY], None),
    ("DEL", &[KEY], None),
];

/// For sorted sets that are small in Redis: others it returns in an order of its own.
pub(crate) const OF_SMALL_ONES: &[Form] = &[("ZSCAN", &[KEY, Pool::Word(&["0", "x"])], Some(SCAN_OPTIONS))];
