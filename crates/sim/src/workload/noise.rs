//! Noise: every command of a node except those that end it, on keys that are not judged or on none. An answer
//! must arrive, and must be of the right kind.

use super::asked::{Asked, Order, Purpose};
use super::kind::Kind;
use super::{TAG, Workload};
use sidle_client_core::Class;
use sidle_testbed::Random;

/// A request: its words, with `K` for a key, `M` for one in the slot that many share, `I` for a number and
/// `V` for a value.
type Template = (&'static str, Class, Kind);

use Class::{Read, Write};

/// Requests on keys, the first of which decides where they go.
const KEYED: &[Template] = &[
    ("SET K V", Write, Kind::Status),
    ("SETEX K 1 V", Write, Kind::Status),
    ("PSETEX K I V", Write, Kind::Status),
    ("GETSET K V", Write, Kind::TextOrNull),
    ("GETDEL K", Write, Kind::TextOrNull),
    ("GETEX K PX I", Write, Kind::TextOrNull),
    ("SET K V KEEPTTL GET", Write, Kind::TextOrNull),
    ("SET K V NX PX I", Write, Kind::StatusOrNull),
    ("MGET M M M", Read, Kind::Array),
    ("MSET M V M V", Write, Kind::Status),
    ("MSETNX M V M V M V", Write, Kind::Integer),
    ("DEL M M M M", Write, Kind::Integer),
    ("UNLINK K", Write, Kind::Integer),
    ("UNLINK M M", Write, Kind::Integer),
    ("EXISTS M M M M", Read, Kind::Integer),
    ("TOUCH K", Read, Kind::Integer),
    ("TYPE K", Read, Kind::Status),
    ("STRLEN K", Read, Kind::Integer),
    ("GETRANGE K 1 -2", Read, Kind::Text),
    ("SUBSTR K -3 I", Read, Kind::Text),
    ("SETRANGE K I V", Write, Kind::Integer),
    ("APPEND K V", Write, Kind::Integer),
    ("INCR K", Write, Kind::Number),
    ("DECR K", Write, Kind::Number),
    ("DECRBY K I", Write, Kind::Number),
    ("INCRBYFLOAT K 0.5", Write, Kind::Number),
    ("TTL K", Read, Kind::Integer),
    ("EXPIRETIME K", Read, Kind::Integer),
    ("EXPIRE K 1", Write, Kind::Integer),
    ("PEXPIRE K I XX LT", Write, Kind::Integer),
    ("EXPIREAT K 1", Write, Kind::Integer),
    ("PERSIST K", Write, Kind::Integer),
    ("HSET K a V b V", Write, Kind::Integer),
    ("HGETALL K", Read, Kind::Map),
    ("HKEYS K", Read, Kind::Array),
    ("HINCRBYFLOAT K a 0.5", Write, Kind::Text),
    ("HRANDFIELD K -3 WITHVALUES", Read, Kind::Array),
    ("HSCAN K 0", Read, Kind::Array),
    ("RPUSH M V I", Write, Kind::Integer),
    ("LPUSHX K V", Write, Kind::Integer),
    ("LPOP K", Write, Kind::TextOrNull),
    ("LRANGE K 0 -1", Read, Kind::Array),
    ("LMOVE M M LEFT RIGHT", Write, Kind::TextOrNull),
    ("LMPOP 2 M M RIGHT COUNT 2", Write, Kind::Any),
    ("SADD M V I", Write, Kind::Integer),
    ("SREM K V", Write, Kind::Integer),
    ("SMOVE M M V", Write, Kind::Integer),
    ("SMEMBERS K", Read, Kind::Array),
    ("SPOP K 2", Write, Kind::Array),
    ("SUNIONSTORE M M M", Write, Kind::Integer),
    ("SINTER M M", Read, Kind::Array),
    ("SINTERCARD 2 M M", Read, Kind::Integer),
    ("ZADD M I V I a", Write, Kind::Integer),
    ("ZADD K GT CH I a", Write, Kind::Integer),
    ("ZINCRBY K 0.5 a", Write, Kind::Score),
    ("ZSCORE M a", Read, Kind::ScoreOrNull),
    ("ZRANGE K 0 -1 WITHSCORES", Read, Kind::Array),
    ("ZPOPMIN K 2", Write, Kind::Array),
    ("ZMPOP 2 M M MAX COUNT 2", Write, Kind::Any),
    ("ZREMRANGEBYSCORE M 0 I", Write, Kind::Integer),
    ("ZRANGESTORE M M 0 I BYSCORE", Write, Kind::Integer),
    ("ZUNIONSTORE M 2 M M WEIGHTS 1 2", Write, Kind::Integer),
    ("ZINTER 2 M M", Read, Kind::Array),
    ("SORT K DESC", Write, Kind::Any),
    ("SORT M ALPHA STORE M", Write, Kind::Integer),
    ("SORT M BY nosort GET # LIMIT 1 2 STORE M", Write, Kind::Integer),
    ("SORT_RO K ALPHA LIMIT 0 3", Read, Kind::Array),
    ("DUMP K", Read, Kind::Any),
    ("OBJECT ENCODING K", Read, Kind::TextOrNull),
    ("OBJECT REFCOUNT K", Read, Kind::IntegerOrNull),
    ("OBJECT IDLETIME K", Read, Kind::Any),
    ("OBJECT FREQ K", Read, Kind::Any),
    ("MEMORY USAGE K", Read, Kind::IntegerOrNull),
];

/// Requests without keys.
const KEYLESS: &[Template] = &[
    ("KEYS n*", Read, Kind::Array),
    ("KEYS *", Read, Kind::Array),
    ("RANDOMKEY", Read, Kind::TextOrNull),
    ("DBSIZE", Read, Kind::Integer),
    ("SCAN I COUNT 100 MATCH n* TYPE string", Read, Kind::Array),
    ("SCAN 0 TYPE hash", Read, Kind::Array),
    ("SCAN 0 TYPE list", Read, Kind::Array),
    ("SCAN 0 TYPE zset", Read, Kind::Array),
    ("PING", Read, Kind::Status),
    ("PING hello", Read, Kind::Text),
    ("ECHO hello", Read, Kind::Text),
    ("TIME", Read, Kind::Array),
    ("WAIT 0 10", Read, Kind::Integer),
    ("SELECT 0", Read, Kind::Status),
    ("SELECT 1", Read, Kind::Error),
    ("READONLY", Read, Kind::Status),
    ("READWRITE", Read, Kind::Status),
    ("ASKING", Read, Kind::Status),
    ("AUTH default any", Read, Kind::Status),
    ("AUTH wrong any", Read, Kind::Error),
    ("HELLO 3", Read, Kind::Map),
    ("CLIENT ID", Read, Kind::Integer),
    ("CLIENT INFO", Read, Kind::Text),
    ("CLIENT LIST", Read, Kind::Text),
    ("CLIENT GETNAME", Read, Kind::TextOrNull),
    ("CLIENT SETNAME somebody", Read, Kind::Status),
    ("CLIENT SETINFO lib-name simulated", Read, Kind::Status),
    ("CLIENT NO-EVICT on", Read, Kind::Status),
    ("CLIENT NO-TOUCH off", Read, Kind::Status),
    ("CLIENT HELP", Read, Kind::Array),
    ("COMMAND COUNT", Read, Kind::Integer),
    ("COMMAND DOCS get", Read, Kind::Map),
    ("COMMAND INFO get nothing", Read, Kind::Array),
    ("COMMAND LIST", Read, Kind::Array),
    ("COMMAND GETKEYS MSET a 1 b 2", Read, Kind::Array),
    ("COMMAND HELP", Read, Kind::Array),
    ("CONFIG GET maxmemory*", Read, Kind::Map),
    ("CONFIG SET nothing 1", Write, Kind::Error),
    ("CONFIG RESETSTAT", Write, Kind::Status),
    ("CONFIG HELP", Read, Kind::Array),
    ("INFO", Read, Kind::Text),
    ("INFO keyspace", Read, Kind::Text),
    ("SLOWLOG GET", Read, Kind::Array),
    ("SLOWLOG LEN", Read, Kind::Integer),
    ("SLOWLOG RESET", Write, Kind::Status),
    ("SLOWLOG HELP", Read, Kind::Array),
    ("LATENCY LATEST", Read, Kind::Array),
    ("LATENCY HISTORY command", Read, Kind::Array),
    ("LATENCY HISTOGRAM get", Read, Kind::Map),
    ("LATENCY RESET", Write, Kind::Integer),
    ("LATENCY HELP", Read, Kind::Array),
    ("MEMORY HELP", Read, Kind::Array),
    ("OBJECT HELP", Read, Kind::Array),
    ("CLUSTER INFO", Read, Kind::Text),
    ("CLUSTER NODES", Read, Kind::Text),
    ("CLUSTER SLOTS", Read, Kind::Array),
    ("CLUSTER SHARDS", Read, Kind::Array),
    ("CLUSTER LINKS", Read, Kind::Array),
    ("CLUSTER MYID", Read, Kind::Text),
    ("CLUSTER KEYSLOT n1", Read, Kind::Integer),
    ("CLUSTER COUNTKEYSINSLOT I", Read, Kind::Integer),
    ("CLUSTER GETKEYSINSLOT I 10", Read, Kind::Array),
    ("CLUSTER REPLICAS nobody", Read, Kind::Error),
    ("CLUSTER COUNT-FAILURE-REPORTS nobody", Read, Kind::Any),
    ("CLUSTER HELP", Read, Kind::Array),
    ("CLUSTER ADDSLOTS 1", Write, Kind::Error),
    ("CLUSTER SETSLOT 1 STABLE", Write, Kind::Error),
    ("CLUSTER FAILOVER", Write, Kind::Error),
    ("CLUSTER RESET", Write, Kind::Error),
    ("DEBUG SLEEP 0", Write, Kind::Error),
    ("SIDLE.MAP", Read, Kind::Text),
    ("SIDLE.STATUS", Read, Kind::Told),
    ("SIDLE.MIGRATE STATUS", Read, Kind::Told),
    ("SIDLE.MIGRATE STATUS 1", Read, Kind::Any),
    ("SIDLE.MIGRATE CANCEL 1000000", Write, Kind::Error),
    ("SIDLE.FROZEN 1000000 GET n1", Read, Kind::Error),
    ("NOTHING", Write, Kind::Error),
    ("GET", Write, Kind::Error),
];

/// A command whose effect is not judged.
pub(super) fn draw(workload: &Workload, random: &mut Random) -> Asked {
    let is_keyed = !random.one_in(3);
    let table = if is_keyed { KEYED } else { KEYLESS };
    let (template, class, kind) = table[random.index(table.len())];
    let words: Vec<String> = template.split(' ').map(|word| fill_in(workload, word, random)).collect();
    let first_key = words.iter().position(|word| word.starts_with('n') && word.ends_with('n'));
    let order = match first_key {
        Some(index) if is_keyed => Order::Key(index),
        _ => Order::Any,
    };
    Asked { words, class, order, purpose: Purpose::Noise(kind) }
}

fn fill_in(workload: &Workload, word: &str, random: &mut Random) -> String {
    match word {
        "K" => format!("n{}n", workload.number(random, workload.noise_keys)),
        "M" => format!("n{TAG}{}n", workload.number(random, workload.noise_keys)),
        "I" => random.magnitude(1, 2_000).to_string(),
        "V" => random.magnitude(1, 1 << 40).to_string(),
        word => word.to_owned(),
    }
}

/// A DEL that frees memory.
pub(super) fn delete(key: String) -> Asked {
    let purpose = Purpose::Noise(Kind::Integer);
    Asked { words: vec!["DEL".to_owned(), key], class: Write, order: Order::Key(1), purpose }
}
