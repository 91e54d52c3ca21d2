//! What is asked: how the collections are filled, and which commands are measured.

/// The words of a request.
pub(super) type Words = Vec<String>;

/// A collection that is filled, one element by each request.
pub(super) struct Fill {
    pub(super) name: &'static str,
    pub(super) key: &'static str,
    /// The request for the element of this number, of so many.
    pub(super) request: fn(u64, u64) -> Words,
}

/// A command that is measured.
pub(super) struct Measured {
    pub(super) name: &'static str,
    /// The request of this number, at collections of so many elements.
    pub(super) request: fn(u64, u64) -> Words,
}

/// Visits all numbers below `of` in no order that a cache could use.
fn scattered(number: u64, of: u64) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    number.wrapping_mul(FACTOR) % of
}

fn words(line: String) -> Words {
    line.split(' ').map(str::to_owned).collect()
}

pub(super) const FILLS: &[Fill] = &[
    Fill { name: "hash", key: "hash", request: |n, _| words(format!("HSET hash field:{n} value:{n}")) },
    Fill { name: "set", key: "set", request: |n, _| words(format!("SADD set member:{n}")) },
    Fill {
        name: "sorted set",
        key: "zset",
        request: |n, of| words(format!("ZADD zset {} member:{n}", scattered(n, of))),
    },
    Fill { name: "list", key: "list", request: |n, _| words(format!("RPUSH list item:{n}")) },
];

pub(super) const MEASURED: &[Measured] = &[
    Measured { name: "HGET", request: |n, of| words(format!("HGET hash field:{}", scattered(n, of))) },
    Measured {
        name: "HSET of a field that is there",
        request: |n, of| words(format!("HSET hash field:{} other:{n}", scattered(n, of))),
    },
    Measured {
        name: "SISMEMBER",
        request: |n, of| words(format!("SISMEMBER set member:{}", scattered(n, of))),
    },
    Measured { name: "SADD of a new member", request: |n, _| words(format!("SADD set new:{n}")) },
    Measured { name: "ZSCORE", request: |n, of| words(format!("ZSCORE zset member:{}", scattered(n, of))) },
    Measured {
        name: "ZADD of another score",
        request: |n, of| words(format!("ZADD zset {} member:{}", scattered(n + 7, of), scattered(n, of))),
    },
    Measured { name: "ZRANGE 0 9", request: |_, _| words("ZRANGE zset 0 9".to_owned()) },
    Measured { name: "LPUSH", request: |n, _| words(format!("LPUSH list item:{n}")) },
    Measured { name: "RPOP", request: |_, _| words("RPOP list".to_owned()) },
    Measured { name: "GET of a string, beside", request: |_, _| words("GET none".to_owned()) },
];
