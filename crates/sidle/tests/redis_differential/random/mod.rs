//! Random sequences of commands, the same for the same seed: of all types, of sorted sets,
//! and of SORT.
//!
//! Arguments come from small pools of awkward values. Ttl times are far apart and far from now, so that a
//! millisecond more or less changes no reply beyond the margin of `near`. DBSIZE is left out: both count
//! expired keys until they find them, but not at the same moment.

pub(crate) mod sorted_sets;
pub(crate) mod sorting;

use crate::script::Expectation;
use sidle_testbed::Random;

const STEPS: usize = 120;

/// The pool of an argument.
#[derive(Clone, Copy)]
pub(crate) enum Pool {
    Key,
    Value,
    Integer,
    Float,
    Ttl,
    Restored,
    Payload,
    Word(&'static [&'static str]),
}

const KEYS: &[&str] = &["{k}1", "{k}2", "{k}3", ""];
const VALUES: &[&str] = &[
    "",
    "a",
    "hello world",
    "10",
    "-7",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "3.25",
    "1e3",
    " 1",
    "01",
    "-0",
    "0",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "-3",
    "5",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "abc",
    "",
    "+1",
    "007",
    " 1",
];
const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "-0.1",
    "0.2",
    "1e-3",
    "1e17",
    "3.0",
    "-3.14159",
    "1e4000",
    "123456789.987654321",
    "1e-20",
    "0x10",
    "0x1.8p1",
    "inf",
    "-inf",
    "nan",
    "abc",
    "",
    " 1",
    "1 ",
    "+5",
    ".5",
    "5.",
    "1e",
    "99999999999999999999",
    "1e308",
    "1e-4950",
    "1e-5000",
    "1e5000",
    "0.000000000000000005",
    "12345678901234567.5",
];
const TTLS: &[&str] = &[
    "60000",
    "9000",
    "200000",
    "0",
    "-1",
    "-100",
    "abc",
    "",
    "1.5",
    "10000000000",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
    "99999999999999999999",
    "3000000000000",
];
const SET_OPTIONS: &[&str] =
    &["NX", "XX", "GET", "KEEPTTL", "EX", "px", "EXAT", "PXAT", "PERSIST", "foo", "60000", "9000"];
const GETEX_OPTIONS: &[&str] = &["EX", "PX", "EXAT", "pxat", "PERSIST", "KEEPTTL", "60000", "9000", "foo"];
const RESTORE_OPTIONS: &[&str] = &["REPLACE", "ABSTTL", "replace", "IDLETIME", "FREQ", "5", "-1", "foo"];
/// Their sums are short: a hash with a long value has no order.
const SHORT_FLOATS: &[&str] = &["0.1", "-1", "1e3", "abc", "inf", "3.0", ".5", "nan"];
const HSCAN_OPTIONS: &[&str] = &["MATCH", "COUNT", "1*", "*", "5", "0", "abc", "foo"];
const LCS_OPTIONS: &[&str] = &["LEN", "IDX", "MINMATCHLEN", "WITHMATCHLEN", "2", "-1", "foo"];
/// An overflow of RESTORE's time to live is an error here, and none in Redis: these are far from it.
const RESTORED: &[&str] = &["0", "60000", "9000", "-1", "abc", "", "1.5", "3000000000000"];
/// Of Redis 7.0: strings, an integer, a compressed string; damaged ones.
const PAYLOADS: &[&[u8]] = &[
    b"\x00\x05hello\n\x00cr\xdfve4 \n",
    b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5",
    b"\x00\xc2p\x11\x01\x00\n\x00\x01\xa4\x08\xfe\x950\x95\xa5",
    b"\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aa\n\x00Es|\xbb+d{\xbb",
    b"\x00\x05Hello\n\x00cr\xdfve4 \n",
    b"",
];
const CONDITIONS: &[&str] = &["NX", "XX", "nx", "foo"];
const ABSOLUTE_CONDITIONS: &[&str] = &["NX", "XX", "GT", "LT", "foo"];

/// A command, its usual arguments, and optional ones.
pub(crate) type Form = (&'static str, &'static [Pool], Option<Pool>);

pub(crate) const FORMS: &[Form] = &[
    ("GET", &[Pool::Key], None),
    ("SET", &[Pool::Key, Pool::Value], None),
    ("SET", &[Pool::Key, Pool::Value], Some(Pool::Word(SET_OPTIONS))),
    ("SET", &[Pool::Key, Pool::Value, Pool::Word(&["EX", "PX", "EXAT", "PXAT"]), Pool::Ttl], None),
    ("SET", &[Pool::Key, Pool::Value, Pool::Word(&["NX", "XX", "GET", "KEEPTTL"])], None),
    ("SETNX", &[Pool::Key, Pool::Value], None),
    ("SETEX", &[Pool::Key, Pool::Ttl, Pool::Value], None),
    ("PSETEX", &[Pool::Key, Pool::Ttl, Pool::Value], None),
    ("GETSET", &[Pool::Key, Pool::Value], None),
    ("GETDEL", &[Pool::Key], None),
    ("GETEX", &[Pool::Key], Some(Pool::Word(GETEX_OPTIONS))),
    ("GETEX", &[Pool::Key, Pool::Word(&["EX", "PX", "EXAT", "PXAT"]), Pool::Ttl], None),
    ("MGET", &[Pool::Key, Pool::Key], Some(Pool::Key)),
    ("MSET", &[Pool::Key, Pool::Value], Some(Pool::Key)),
    ("MSETNX", &[Pool::Key, Pool::Value, Pool::Key, Pool::Value], Some(Pool::Key)),
    ("DEL", &[Pool::Key], Some(Pool::Key)),
    ("UNLINK", &[Pool::Key], Some(Pool::Key)),
    ("EXISTS", &[Pool::Key], Some(Pool::Key)),
    ("TOUCH", &[Pool::Key], Some(Pool::Key)),
    ("TYPE", &[Pool::Key], None),
    ("APPEND", &[Pool::Key, Pool::Value], None),
    ("STRLEN", &[Pool::Key], None),
    ("GETRANGE", &[Pool::Key, Pool::Integer, Pool::Integer], None),
    ("SUBSTR", &[Pool::Key, Pool::Integer, Pool::Integer], None),
    ("SETRANGE", &[Pool::Key, Pool::Integer, Pool::Value], None),
    ("INCR", &[Pool::Key], None),
    ("DECR", &[Pool::Key], None),
    ("INCRBY", &[Pool::Key, Pool::Integer], None),
    ("DECRBY", &[Pool::Key, Pool::Integer], None),
    ("INCRBYFLOAT", &[Pool::Key, Pool::Float], None),
    ("EXPIRE", &[Pool::Key, Pool::Ttl], Some(Pool::Word(CONDITIONS))),
    ("PEXPIRE", &[Pool::Key, Pool::Ttl], Some(Pool::Word(CONDITIONS))),
    ("EXPIREAT", &[Pool::Key, Pool::Ttl], Some(Pool::Word(ABSOLUTE_CONDITIONS))),
    ("PEXPIREAT", &[Pool::Key, Pool::Ttl], Some(Pool::Word(ABSOLUTE_CONDITIONS))),
    ("TTL", &[Pool::Key], None),
    ("PTTL", &[Pool::Key], None),
    ("EXPIRETIME", &[Pool::Key], None),
    ("PEXPIRETIME", &[Pool::Key], None),
    ("PERSIST", &[Pool::Key], None),
    ("DUMP", &[Pool::Key], None),
    ("RESTORE", &[Pool::Key, Pool::Restored, Pool::Payload], None),
    ("RESTORE", &[Pool::Key, Pool::Restored, Pool::Payload, Pool::Word(&["REPLACE"])], None),
    ("RESTORE", &[Pool::Key, Pool::Restored, Pool::Payload], Some(Pool::Word(RESTORE_OPTIONS))),
    ("COPY", &[Pool::Key, Pool::Key], None),
    ("COPY", &[Pool::Key, Pool::Key], Some(Pool::Word(&["REPLACE", "DB", "0", "foo"]))),
    ("RENAME", &[Pool::Key, Pool::Key], None),
    ("RENAMENX", &[Pool::Key, Pool::Key], None),
    ("HSET", &[Pool::Key, Pool::Value, Pool::Value], None),
    ("HSET", &[Pool::Key, Pool::Value, Pool::Value], Some(Pool::Value)),
    ("HMSET", &[Pool::Key, Pool::Value, Pool::Value], Some(Pool::Value)),
    ("HSETNX", &[Pool::Key, Pool::Value, Pool::Value], None),
    ("HGET", &[Pool::Key, Pool::Value], None),
    ("HMGET", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("HDEL", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("HEXISTS", &[Pool::Key, Pool::Value], None),
    ("HSTRLEN", &[Pool::Key, Pool::Value], None),
    ("HLEN", &[Pool::Key], None),
    ("HGETALL", &[Pool::Key], None),
    ("HKEYS", &[Pool::Key], None),
    ("HVALS", &[Pool::Key], None),
    ("HINCRBY", &[Pool::Key, Pool::Value, Pool::Integer], None),
    ("HINCRBYFLOAT", &[Pool::Key, Pool::Value, Pool::Word(SHORT_FLOATS)], None),
    ("HSCAN", &[Pool::Key, Pool::Word(&["0", "x"])], Some(Pool::Word(HSCAN_OPTIONS))),
    ("SADD", &[Pool::Key, Pool::Integer], Some(Pool::Integer)),
    ("SADD", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("SREM", &[Pool::Key, Pool::Value], Some(Pool::Integer)),
    ("SMOVE", &[Pool::Key, Pool::Key, Pool::Value], None),
    ("SCARD", &[Pool::Key], None),
    ("SISMEMBER", &[Pool::Key, Pool::Value], None),
    ("SMISMEMBER", &[Pool::Key, Pool::Value], Some(Pool::Integer)),
    ("SINTERSTORE", &[Pool::Key, Pool::Key], Some(Pool::Key)),
    ("SUNIONSTORE", &[Pool::Key, Pool::Key], Some(Pool::Key)),
    ("SDIFFSTORE", &[Pool::Key, Pool::Key], Some(Pool::Key)),
    ("SINTERCARD", &[Pool::Word(&["1", "2", "3"]), Pool::Key, Pool::Key], Some(Pool::Word(&["LIMIT", "1"]))),
    ("LPUSH", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("RPUSH", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("RPUSHX", &[Pool::Key, Pool::Value], Some(Pool::Value)),
    ("LPOP", &[Pool::Key], Some(Pool::Integer)),
    ("RPOP", &[Pool::Key], None),
    ("LRANGE", &[Pool::Key, Pool::Integer, Pool::Integer], None),
    ("LINDEX", &[Pool::Key, Pool::Integer], None),
    ("LSET", &[Pool::Key, Pool::Integer, Pool::Value], None),
    ("LINSERT", &[Pool::Key, Pool::Word(&["BEFORE", "after", "foo"]), Pool::Value, Pool::Value], None),
    ("LREM", &[Pool::Key, Pool::Integer, Pool::Value], None),
    ("LTRIM", &[Pool::Key, Pool::Integer, Pool::Integer], None),
    ("LPOS", &[Pool::Key, Pool::Value], Some(Pool::Word(&["RANK", "COUNT", "MAXLEN", "1", "0", "-2"]))),
    ("LMOVE", &[Pool::Key, Pool::Key, Pool::Word(&["LEFT", "RIGHT"]), Pool::Word(&["LEFT", "RIGHT"])], None),
    ("RPOPLPUSH", &[Pool::Key, Pool::Key], None),
    ("LMPOP", &[Pool::Word(&["2", "3"]), Pool::Key, Pool::Key, Pool::Word(&["LEFT", "RIGHT"])], None),
    ("LCS", &[Pool::Key, Pool::Key], None),
    ("LCS", &[Pool::Key, Pool::Key], Some(Pool::Word(LCS_OPTIONS))),
];

fn draw(random: &mut Random, pool: Pool) -> Vec<u8> {
    let words = match pool {
        Pool::Key => KEYS,
        Pool::Value => VALUES,
        Pool::Integer => INTEGERS,
        Pool::Float => FLOATS,
        Pool::Ttl => TTLS,
        Pool::Restored => RESTORED,
        Pool::Payload => return PAYLOADS[random.index(PAYLOADS.len())].to_vec(),
        Pool::Word(words) => words,
    };
    words[random.index(words.len())].into()
}

pub(crate) fn sequence(forms: &[Form], seed: u64) -> Vec<(Expectation, Vec<Vec<u8>>)> {
    let mut random = Random::new(seed);
    (0..STEPS)
        .map(|_| {
            let (name, pools, more) = forms[random.index(forms.len())];
            let mut args = vec![name.as_bytes().to_vec()];
            args.extend(pools.iter().map(|&pool| draw(&mut random, pool)));
            if let Some(pool) = more {
                let count = random.index(4);
                args.extend((0..count).map(|_| draw(&mut random, pool)));
            }
            // Now and then an argument is missing.
            if args.len() > 1 && random.index(40) == 0 {
                args.pop();
            }
            let expectation = match name {
                "PTTL" | "PEXPIRETIME" => Expectation::Near(3000),
                "TTL" | "EXPIRETIME" => Expectation::Near(3),
                // A set of texts has an order of its own.
                "DUMP" => Expectation::Kind,
                _ => Expectation::Exact,
            };
            (expectation, args)
        })
        .collect()
}
