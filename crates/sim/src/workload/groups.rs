//! Groups: keys that are always written together, and judged as one register.
//!
//! An MSET gives all keys of a group one value, which is written once; a DEL removes all of them. The group
//! is a register by the name of its first key, for accesses to any key. An MGET that finds two values has
//! seen half of an MSET. So has a client that reads one key's new value and then another's old one.
//!
//! A flush takes the keys one by one, and so does the death of a node that some of them have not reached. An
//! absent key therefore means nothing while another one has a value; only all of them mean an empty register.
//!
//! Some clients do the same by a transaction, with a command for each key (`transaction`).
//!
//! A command over keys of several nodes may end with an unknown effect on some of them. So each group has its
//! own slot, which the operator moves as a whole ([`keep_whole`]); where nothing goes wrong, it splits them.

use super::asked::{Asked, Order, Purpose};
use super::{Turn, Workload, registers};
use sidle_client_core::Class;
use sidle_history::{Datum, Op, Operation};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_types::{Position, Slot};

/// How many of a thousand operations are on groups, of those neither noise nor on keys with a time to live.
const GROUPS_PERMILLE: u64 = 180;
/// The most groups.
pub const MOST_GROUPS: u64 = 3;
/// How many keys a group has.
const KEYS: u64 = 4;

/// Where to cut instead of at `cut`, so that no group is split: the start of its slot.
pub fn keep_whole(cut: Position) -> Position {
    let mut slots = (0..MOST_GROUPS).map(|group| Slot::of_key(key(group, 0).as_bytes()));
    match slots.find(|slot| *slot == cut.slot()) {
        Some(slot) => Position::first_of(slot),
        None => cut,
    }
}

/// Where to cut a group: at one of its keys.
pub fn inside_a_group(random: &mut Random) -> Position {
    Position::of_key(key(random.below(MOST_GROUPS), random.below(KEYS)).as_bytes())
}

/// Whether it is the name of a group.
pub(super) fn is_name(key: &str) -> bool {
    key.starts_with('g')
}

/// The names of the first few groups.
pub(super) fn names(groups: u64) -> impl Iterator<Item = String> {
    (0..groups).map(|group| key(group, 0))
}

fn key(group: u64, number: u64) -> String {
    format!("g{{g{group}}}{number}")
}

/// The keys of the group with this name.
fn keys_of(name: &str) -> impl Iterator<Item = String> + '_ {
    (0..KEYS).map(|number| format!("{}{number}", &name[..name.len() - 1]))
}

/// Whether the next operation is on a group; nothing is drawn without groups.
pub(super) fn is_next(workload: &Workload, random: &mut Random) -> bool {
    workload.groups > 0 && random.permille(GROUPS_PERMILLE)
}

/// An operation on a group, or on one of its keys.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let name = key(random.below(workload.groups), 0);
    match random.below(16) {
        0..=4 => set(turn, &name),
        5 => delete(turn.client, &name, turn.now_us),
        6..=10 => read_back(turn.client, &name, turn.now_us),
        _ => {
            let key = keys_of(&name).nth(random.below(KEYS) as usize).expect("one of its keys");
            let record = registers::record(turn.client, Op::Get, name, Datum::Null, turn.now_us);
            asked(vec!["GET".to_owned(), key], Class::Get, record)
        }
    }
}

fn set(turn: Turn, name: &str) -> Asked {
    let value = format!("{}.{}.g", turn.client, turn.serial);
    let pairs = keys_of(name).flat_map(|key| [key, value.clone()]);
    let words = std::iter::once("MSET".to_owned()).chain(pairs).collect();
    let record = registers::record(turn.client, Op::Set, name.to_owned(), Datum::Text(value), turn.now_us);
    asked(words, Class::Write, record)
}

/// An MGET of a group.
pub(super) fn read_back(client: u64, name: &str, now_us: u64) -> Asked {
    let words = std::iter::once("MGET".to_owned()).chain(keys_of(name)).collect();
    asked(words, Class::Read, registers::record(client, Op::Get, name.to_owned(), Datum::Null, now_us))
}

/// A DEL of a group.
pub(super) fn delete(client: u64, name: &str, now_us: u64) -> Asked {
    let words = std::iter::once("DEL".to_owned()).chain(keys_of(name)).collect();
    // The number of removed keys means nothing, as one absent key means nothing.
    asked(words, Class::Write, registers::record(client, Op::Flush, name.to_owned(), Datum::Null, now_us))
}

fn asked(words: Vec<String>, class: Class, record: Operation) -> Asked {
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Group(record) }
}

/// The answer's information on the group; `None` if it has none.
pub(super) fn result(op: Op, reply: Value) -> Result<Option<Datum>, String> {
    match (op, reply) {
        (Op::Set, Value::Simple(text)) => Ok(Some(Datum::Text(text))),
        (Op::Flush, Value::Integer(_)) => Ok(Some(Datum::from("OK"))),
        (Op::Get, Value::Array(values)) => {
            let mut values = values.into_iter().filter(|value| *value != Value::Null);
            let Some(first) = values.next() else { return Ok(Some(Datum::Null)) };
            match values.find(|value| *value != first) {
                Some(other) => Err(format!("half of an MSET: {first:?} and {other:?}")),
                None => text(first).map(Some),
            }
        }
        (Op::Get, Value::Null) => Ok(None),
        (Op::Get, value) => text(value).map(Some),
        (op, other) => Err(format!("{op:?} of a group was answered {other:?}")),
    }
}

fn text(value: Value) -> Result<Datum, String> {
    match value {
        Value::Bulk(bytes) => {
            String::from_utf8(bytes).map(Datum::Text).map_err(|error| format!("{error} came back"))
        }
        other => Err(format!("a key of a group has {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_two_values_is_half_of_a_change() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let mget = |values: &[Value]| result(Op::Get, Value::Array(values.to_vec()));
        assert_eq!(mget(&[bulk("a"), bulk("a")]), Ok(Some("a".into())));
        assert_eq!(mget(&[Value::Null, Value::Null]), Ok(Some(Datum::Null)));
        assert_eq!(mget(&[Value::Null, bulk("a")]), Ok(Some("a".into())));
        assert!(mget(&[bulk("a"), Value::Null, bulk("b")]).is_err());
        assert_eq!(result(Op::Get, Value::Null), Ok(None));
    }

    #[test]
    fn no_cut_splits_a_group() {
        for name in names(MOST_GROUPS) {
            let slot = Slot::of_key(name.as_bytes());
            for key in keys_of(&name) {
                let position = Position::of_key(key.as_bytes());
                assert_eq!(keep_whole(position), Position::first_of(slot));
            }
        }
        let elsewhere = Position::of_key(b"another");
        assert_eq!(keep_whole(elsewhere), elsewhere);
    }
}
