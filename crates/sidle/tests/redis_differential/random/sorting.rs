//! Forms for SORT. Values are within a double's range: one that is not has Redis refuse later ones, too.

use super::{Form, Pool};

const NUMBERS: Pool =
    Pool::Word(&["1", "2", "10", "-3", "1.5", "01", "1.0", "1e2", ".5", "-inf", " 7", "", "+4"]);
const TEXTS: Pool = Pool::Word(&["a", "b", "ab", "B", "10", "9", "", "\u{e9}"]);
const OPTIONS: Pool = Pool::Word(&[
    "DESC", "asc", "ALPHA", "LIMIT", "0", "1", "2", "-1", "GET", "#", "nothing", "STORE", "{k}1", "foo",
]);
const KEY: Pool = Pool::Key;
const ALPHA: Pool = Pool::Word(&["ALPHA"]);
const LIMIT: Pool = Pool::Word(&["LIMIT"]);
const LIMITS: Pool = Pool::Word(&["0", "1", "2", "100", "-1", "-5", "9223372036854775807", "x"]);
const STORE: Pool = Pool::Word(&["STORE"]);
const BY: Pool = Pool::Word(&["BY", "by"]);
const NOSORT: Pool = Pool::Word(&["nosort", "", "x"]);
const DIRECTION: Pool = Pool::Word(&["DESC", "ASC"]);

pub(crate) const FORMS: &[Form] = &[
    ("RPUSH", &[KEY, NUMBERS, NUMBERS], Some(NUMBERS)),
    ("RPUSH", &[KEY, TEXTS, TEXTS], Some(TEXTS)),
    ("SADD", &[KEY, NUMBERS, NUMBERS], Some(NUMBERS)),
    ("SADD", &[KEY, TEXTS, TEXTS], Some(TEXTS)),
    ("ZADD", &[KEY, Pool::Word(&["1", "2", "3"]), NUMBERS, Pool::Word(&["0", "2"]), NUMBERS], None),
    ("ZADD", &[KEY, Pool::Word(&["1", "2", "3"]), TEXTS], None),
    ("DEL", &[KEY], None),
    ("DEL", &[KEY], None),
    ("LPOP", &[KEY], None),
    ("LRANGE", &[KEY, Pool::Word(&["0"]), Pool::Word(&["-1"])], None),
    ("SORT", &[KEY], Some(OPTIONS)),
    ("SORT", &[KEY, DIRECTION], None),
    ("SORT", &[KEY, ALPHA], Some(OPTIONS)),
    ("SORT", &[KEY, LIMIT, LIMITS, LIMITS], Some(Pool::Word(&["DESC", "ALPHA"]))),
    ("SORT", &[KEY, LIMIT, LIMITS, LIMITS, ALPHA, STORE, KEY], None),
    ("SORT", &[KEY, STORE, KEY, BY, NOSORT], Some(DIRECTION)),
    ("SORT", &[KEY, STORE, KEY, ALPHA, DIRECTION, Pool::Word(&["GET"]), Pool::Word(&["#", "x"])], None),
    ("SORT_RO", &[KEY, ALPHA, DIRECTION], Some(OPTIONS)),
    ("SORT_RO", &[KEY], Some(Pool::Word(&["GET", "#", "DESC"]))),
    ("TYPE", &[KEY], None),
];

/// For lists and sorted sets: sets Redis returns in an order of its own.
pub(crate) const OF_ORDERED_ONES: &[Form] = &[
    ("RPUSH", &[Pool::Word(&["{k}list"]), TEXTS, TEXTS], Some(NUMBERS)),
    ("ZADD", &[Pool::Word(&["{k}scored"]), Pool::Word(&["1", "2", "3"]), TEXTS], None),
    ("SORT", &[Pool::Word(&["{k}list", "{k}scored"]), BY, NOSORT], Some(DIRECTION)),
    ("SORT_RO", &[Pool::Word(&["{k}list", "{k}scored"]), LIMIT, LIMITS, LIMITS, BY, NOSORT], Some(DIRECTION)),
];
