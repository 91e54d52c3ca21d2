//! Hashes: each field is a register, judged like the others. So a lost, doubled or halved change of a
//! collection shows as one of a register.
//!
//! A register's name is the key, `#` and the field.

use super::asked::{Asked, Order, Purpose, Shape};
use super::{TAG, Turn, Workload, registers};
use sidle_client_core::Class;
use sidle_history::{Datum, Op, Operation};
use sidle_testbed::Random;

/// How many of a thousand operations are on hashes, of those on registers.
const HASHES_PERMILLE: u64 = 120;
/// The same of hashes with many fields.
const LONG_PERMILLE: u64 = 450;
/// The most fields of one request.
const MOST_AT_ONCE: u64 = 12;
/// How many fields a hash has, unless it has many.
pub const LEAST_FIELDS: u64 = 5;
/// Between the key and the field.
const MARK: char = '#';

/// Whether it is the name of a field.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with('h')
}

/// The key of a register: its name, unless it is a field.
pub fn stored_key(name: &str) -> &str {
    if is_name(name) { split(name).0 } else { name }
}

fn split(name: &str) -> (&str, &str) {
    name.split_once(MARK).expect("a field has a key and a name")
}

/// The names of all fields of the first few hashes.
pub(super) fn names(hashes: u64, fields: u64) -> impl Iterator<Item = String> {
    (0..hashes).flat_map(move |hash| (0..fields).map(move |field| name(hash, field)))
}

fn are_long(workload: &Workload) -> bool {
    workload.fields > LEAST_FIELDS
}

/// Every second pair of hashes shares a slot. Even fields hold integers.
fn name(hash: u64, field: u64) -> String {
    let tag = if (hash / 2).is_multiple_of(2) { "" } else { TAG };
    format!("h{tag}{hash}{MARK}{field}")
}

/// Whether the next operation is on a hash; nothing is drawn without hashes.
pub(super) fn is_next(workload: &Workload, random: &mut Random) -> bool {
    let permille = if are_long(workload) { LONG_PERMILLE } else { HASHES_PERMILLE };
    workload.hashes > 0 && random.permille(permille)
}

/// An operation on a hash: on one of its fields, on several, or on all.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let hash = workload.number(random, workload.hashes);
    if are_long(workload) {
        return draw_long(workload, random, turn, hash);
    }
    let is_write = random.permille(workload.writes_permille);
    match random.below(8) {
        0 | 1 => several(workload, random, turn, hash, is_write),
        2 if is_write => remove_all(workload, turn, hash),
        _ => one(workload, random, turn, hash, is_write),
    }
}

/// The same of a hash that grows long: many fields are set at once, and some are removed.
fn draw_long(workload: &Workload, random: &mut Random, turn: Turn, hash: u64) -> Asked {
    let is_write = random.permille(workload.writes_permille.max(400));
    match random.below(8) {
        0..=2 => several(workload, random, turn, hash, is_write),
        3 if is_write && random.one_in(8) => remove_all(workload, turn, hash),
        3 | 4 if is_write => {
            let field = random.below(workload.fields);
            let record = registers::record(turn.client, Op::Del, name(hash, field), Datum::Null, turn.now_us);
            asked("HDEL", vec![record], Shape::One)
        }
        _ => one(workload, random, turn, hash, is_write),
    }
}

fn one(workload: &Workload, random: &mut Random, turn: Turn, hash: u64, is_write: bool) -> Asked {
    let field = random.below(workload.fields);
    let is_number = field.is_multiple_of(2);
    let value = registers::value(workload, random, is_number, turn, 0);
    let (op, arg, command) = match (is_write, random.below(6)) {
        (true, 0 | 1) if is_number => (Op::IncrBy, Datum::Integer(random.between(1, 5) as i64), "HINCRBY"),
        (true, 2) => (Op::Del, Datum::Null, "HDEL"),
        (true, 3) => (Op::SetNx, value.whole(), "HSETNX"),
        (true, _) => (Op::Set, value.whole(), "HSET"),
        (false, 0) => (Op::StrLen, Datum::Null, "HSTRLEN"),
        (false, 1) => (Op::Exists, Datum::Null, "HEXISTS"),
        (false, _) => (Op::Get, Datum::Null, "HGET"),
    };
    let shape = if op == Op::Set { Shape::Done } else { Shape::One };
    asked(command, vec![registers::record(turn.client, op, name(hash, field), arg, turn.now_us)], shape)
}

/// HMGET or HSET of several fields.
fn several(workload: &Workload, random: &mut Random, turn: Turn, hash: u64, is_write: bool) -> Asked {
    let first = random.below(workload.fields);
    let fields = first..random.between(first + 1, workload.fields.min(first + MOST_AT_ONCE));
    let mut records = Vec::new();
    for (place, field) in fields.enumerate() {
        let (op, arg) = match is_write {
            true => {
                let is_number = field.is_multiple_of(2);
                (Op::Set, registers::value(workload, random, is_number, turn, place).short)
            }
            false => (Op::Get, Datum::Null),
        };
        records.push(registers::record(turn.client, op, name(hash, field), arg, turn.now_us));
    }
    let (command, shape) = if is_write { ("HSET", Shape::Done) } else { ("HMGET", Shape::Each) };
    asked(command, records, shape)
}

/// A DEL of the hash. Whether it was there says nothing about a field.
fn remove_all(workload: &Workload, turn: Turn, hash: u64) -> Asked {
    let remove =
        |field| registers::record(turn.client, Op::Flush, name(hash, field), Datum::Null, turn.now_us);
    let records: Vec<Operation> = (0..workload.fields).map(remove).collect();
    let words = vec!["DEL".to_owned(), stored_key(&records[0].key).to_owned()];
    let purpose = Purpose::Registers(records, Shape::Done);
    Asked { words, class: Class::Write, order: Order::Key(1), purpose }
}

/// A HGET that reads a field back.
pub(super) fn read_back(client: u64, name: String, now_us: u64) -> Asked {
    asked("HGET", vec![registers::record(client, Op::Get, name, Datum::Null, now_us)], Shape::One)
}

/// A HDEL that frees memory.
pub(super) fn delete(client: u64, name: String, now_us: u64) -> Asked {
    asked("HDEL", vec![registers::record(client, Op::Del, name, Datum::Null, now_us)], Shape::One)
}

/// The request with these records, all of one hash.
fn asked(command: &str, records: Vec<Operation>, shape: Shape) -> Asked {
    let mut words = vec![command.to_owned(), stored_key(&records[0].key).to_owned()];
    for record in &records {
        words.push(split(&record.key).1.to_owned());
        words.extend(registers::word(&record.arg));
    }
    let class = if records[0].op.is_read() { Class::Read } else { Class::Write };
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Registers(records, shape) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_key_and_its_fields() {
        let get = read_back(0, name(3, 2), 0);
        assert_eq!(get.words, ["HGET", "h{tag}3", "2"]);
        assert_eq!(get.key(), Some("h{tag}3"));
        assert_eq!(stored_key(&name(4, 1)), "h4");
        assert_eq!(stored_key("k{tag}3"), "k{tag}3");
        assert_eq!(names(2, LEAST_FIELDS).count() as u64, 2 * LEAST_FIELDS);
    }
}
