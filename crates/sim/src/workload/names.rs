//! Names: keys of one slot between which values move, by RENAME, RENAMENX and COPY.
//!
//! A few names form a set, which is judged as one object (`checks/names`): nobody may find a value under two
//! names or under none while it is renamed. Each set lies in the slot of a group (`groups`), which is moved
//! as a whole.

use super::asked::{Asked, Order, Purpose};
use super::name_operation::{NAMES, NameOp, NameOperation, key, place_of, words};
use super::{Turn, Workload};
use sidle_client_core::Class;
use sidle_testbed::Random;

/// How many of a thousand operations are on names, of those neither noise nor on keys with a time to live.
const NAMES_PERMILLE: u64 = 80;
/// The most sets of names.
pub const MOST_NAME_SETS: u64 = super::MOST_GROUPS;

/// Whether it is the key of a name.
pub(super) fn is_name(key: &str) -> bool {
    key.starts_with('r')
}

/// The keys of the first few sets.
pub(super) fn all(sets: u64) -> impl Iterator<Item = String> {
    (0..sets).flat_map(|set| (0..NAMES).map(move |name| key(set, name)))
}

/// Whether the next operation is on names; nothing is drawn without them.
pub(super) fn is_next(workload: &Workload, random: &mut Random) -> bool {
    workload.name_sets > 0 && random.permille(NAMES_PERMILLE)
}

/// An operation on the names of a set. Rarely from a name to itself.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let (set, name) = (random.below(workload.name_sets), random.index(NAMES));
    let other = if random.one_in(16) { name } else { (name + 1 + random.index(NAMES - 1)) % NAMES };
    let op = match random.below(16) {
        0..=3 => NameOp::Set(name, format!("{}.{}", turn.client, turn.serial)),
        4..=6 => NameOp::Rename([name, other]),
        7 => NameOp::RenameNx([name, other]),
        8 | 9 if name != other => NameOp::Copy { names: [name, other], replaces: random.one_in(2) },
        10 => NameOp::Delete(name),
        11..=13 => NameOp::Get(name),
        _ => NameOp::Look,
    };
    asked(NameOperation::begun(turn.client, set, op, turn.now_us))
}

/// A GET that reads a name back.
pub(super) fn read_back(client: u64, name: &str, now_us: u64) -> Asked {
    let (set, name) = place_of(name);
    asked(NameOperation::begun(client, set, NameOp::Get(name), now_us))
}

/// A DEL of a name.
pub(super) fn delete(client: u64, name: &str, now_us: u64) -> Asked {
    let (set, name) = place_of(name);
    asked(NameOperation::begun(client, set, NameOp::Delete(name), now_us))
}

fn asked(record: NameOperation) -> Asked {
    let class = match record.op {
        NameOp::Get(_) => Class::Get,
        NameOp::Look => Class::Read,
        _ => Class::Write,
    };
    let words = words(&record);
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Names(Box::new(record)) }
}
