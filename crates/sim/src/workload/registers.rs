//! Registers: keys that never expire, written with unique values, and judged key by key.

use super::asked::{Asked, Order, Purpose, Shape};
use super::{Turn, Workload};
use sidle_client_core::Class;
use sidle_history::{Datum, Op, Operation};
use sidle_testbed::Random;

/// The smallest size of a large value.
const LARGE_BYTES: u64 = 4_000;
/// The most keys of one operation.
const MULTI_KEYS: u64 = 5;

/// An operation on one register.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let number = workload.number(random, workload.keys);
    let is_number = number.is_multiple_of(2);
    let value = value(workload, random, is_number, turn, 0);
    let (op, arg, name) = if random.permille(workload.writes_permille) {
        match random.below(8) {
            0 | 1 => (Op::Set, value.whole(), "SET"),
            2 | 3 if is_number => (Op::IncrBy, Datum::Integer(random.between(1, 5) as i64), "INCRBY"),
            2 | 3 => (Op::Append, value.short, "APPEND"),
            4 => (Op::GetSet, value.whole(), "GETSET"),
            5 => (Op::Del, Datum::Null, "DEL"),
            6 => (Op::SetNx, value.whole(), "SETNX"),
            _ => (Op::GetDel, Datum::Null, "GETDEL"),
        }
    } else {
        match random.below(8) {
            0 => (Op::StrLen, Datum::Null, "STRLEN"),
            1 => (Op::Exists, Datum::Null, "EXISTS"),
            _ => (Op::Get, Datum::Null, "GET"),
        }
    };
    let class = match op {
        Op::Get => Class::Get,
        op if op.is_read() => Class::Read,
        _ => Class::Write,
    };
    one(name, class, record(turn.client, op, workload.key(number), arg, turn.now_us))
}

/// MGET or MSET of keys that share a slot.
pub(super) fn draw_several(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let mut numbers: Vec<u64> =
        (0..random.between(1, MULTI_KEYS)).map(|_| workload.number(random, workload.keys) | 2).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let is_write = random.permille(workload.writes_permille);
    let mut words = vec![if is_write { "MSET" } else { "MGET" }.to_owned()];
    let mut records = Vec::new();
    for (place, number) in numbers.into_iter().enumerate() {
        let key = workload.key(number);
        words.push(key.clone());
        let (op, arg) = match is_write {
            true => (Op::Set, value(workload, random, number.is_multiple_of(2), turn, place).short),
            false => (Op::Get, Datum::Null),
        };
        words.extend(word(&arg));
        records.push(record(turn.client, op, key, arg, turn.now_us));
    }
    let (class, shape) = if is_write { (Class::Write, Shape::All) } else { (Class::Read, Shape::Each) };
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Registers(records, shape) }
}

pub(super) fn value(
    workload: &Workload,
    random: &mut Random,
    is_number: bool,
    turn: Turn,
    place: usize,
) -> Value {
    let Turn { client, serial, .. } = turn;
    if is_number {
        let number = (client * 1_000_000_000 + serial * 100 + place as u64 * 10) as i64;
        return Value { short: Datum::Integer(number), padding: 0 };
    }
    let padding = match random.permille(workload.large_permille) {
        true => random.between(LARGE_BYTES, workload.large_bytes.max(LARGE_BYTES)) as usize,
        false => 0,
    };
    Value { short: Datum::Text(format!("{client}.{serial}.{place}")), padding }
}

/// A value that is written once.
pub(super) struct Value {
    /// Without its padding. Large values are set, not appended to each other.
    pub(super) short: Datum,
    /// The bytes that make it large.
    padding: usize,
}

impl Value {
    pub(super) fn whole(self) -> Datum {
        match self.short {
            Datum::Text(mut text) => {
                text.extend(std::iter::repeat_n('x', self.padding));
                Datum::Text(text)
            }
            other => other,
        }
    }
}

/// A GET that reads a key back.
pub(super) fn read_back(client: u64, key: String, now_us: u64) -> Asked {
    one("GET", Class::Get, record(client, Op::Get, key, Datum::Null, now_us))
}

/// A DEL that frees memory.
pub(super) fn delete(client: u64, key: String, now_us: u64) -> Asked {
    one("DEL", Class::Write, record(client, Op::Del, key, Datum::Null, now_us))
}

pub(super) fn one(name: &str, class: Class, record: Operation) -> Asked {
    let mut words = vec![name.to_owned(), record.key.clone()];
    words.extend(word(&record.arg));
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Registers(vec![record], Shape::One) }
}

pub(super) fn record(client: u64, op: Op, key: String, arg: Datum, now_us: u64) -> Operation {
    Operation::begun(client, op, key, arg, now_us * 1000)
}

pub(super) fn word(arg: &Datum) -> Option<String> {
    match arg {
        Datum::Null => None,
        Datum::Integer(number) => Some(number.to_string()),
        Datum::Text(text) => Some(text.clone()),
    }
}
