//! Lists as queues: items that are pushed once, and taken by clients that may wait for them.
//!
//! A few lists form a set: they are judged together (`checks/lists`), since an item moves from one to the
//! other, and a client may wait for several. Each set lies in the slot of a group (`groups`), which is moved
//! as a whole.

use super::asked::{Asked, Order, Purpose};
use super::list_operation::{End, LISTS, ListOp, ListOperation, key, place_of, words};
use super::{Turn, Workload};
use sidle_client_core::Class;
use sidle_testbed::Random;

/// How many of a thousand operations are on lists, of those neither noise nor on keys with a time to live.
const LISTS_PERMILLE: u64 = 60;
/// The most sets of lists.
pub const MOST_SETS: u64 = super::MOST_GROUPS;
/// Whether it is the key of a list.
pub(super) fn is_name(key: &str) -> bool {
    key.starts_with('l')
}

/// The keys of the first few sets.
pub(super) fn names(sets: u64) -> impl Iterator<Item = String> {
    (0..sets).flat_map(|set| (0..LISTS).map(move |list| key(set, list)))
}

/// Whether the next operation is on lists; nothing is drawn without them.
pub(super) fn is_next(workload: &Workload, random: &mut Random) -> bool {
    workload.list_sets > 0 && random.permille(LISTS_PERMILLE)
}

/// The item that is pushed by this turn's operation.
pub(crate) fn item(turn: Turn) -> String {
    format!("{}.{}", turn.client, turn.serial)
}

/// An operation on the lists of a set that does not wait.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let (set, list) = (random.below(workload.list_sets), random.index(LISTS));
    let (end, to) = (End::draw(random), End::draw(random));
    let op = match random.below(12) {
        0..=4 => ListOp::Push(list, to, item(turn)),
        5..=8 => ListOp::Pop(vec![list], end),
        9 => ListOp::Move([list, random.index(LISTS)], [end, to]),
        _ => ListOp::Look(list),
    };
    asked(ListOperation::begun(turn.client, set, op, turn.now_us))
}

/// An LRANGE that reads a list back.
pub(super) fn read_back(client: u64, name: &str, now_us: u64) -> Asked {
    let (set, list) = place_of(name);
    asked(ListOperation::begun(client, set, ListOp::Look(list), now_us))
}

/// A DEL of a list.
pub(super) fn delete(client: u64, name: &str, now_us: u64) -> Asked {
    let (set, list) = place_of(name);
    asked(ListOperation::begun(client, set, ListOp::Clear(list), now_us))
}

fn asked(record: ListOperation) -> Asked {
    let class = if matches!(record.op, ListOp::Look(_)) { Class::Read } else { Class::Write };
    let words = words(&record);
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Lists(Box::new(record)) }
}
