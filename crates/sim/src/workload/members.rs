//! Sorted sets (`z`) and sets (`m`) of a few members, judged as the map from members to scores that each is.

use super::asked::{Asked, Order, Purpose};
use super::members_operation::{MEMBERS, MembersOp, MembersOperation, is_sorted, words};
use super::{Turn, Workload};
use sidle_client_core::Class;
use sidle_testbed::Random;

/// How many of a thousand operations are on members, of those neither noise nor on keys with a time to live.
const MEMBERS_PERMILLE: u64 = 100;
/// The most sorted sets, and the most sets.
pub const MOST_MEMBER_KEYS: u64 = 4;
/// How many scores are given again and again, so that members have equal ones.
const EQUAL_SCORES: u64 = 3;

/// Whether it is the key of a sorted set or of a set.
pub(super) fn is_name(key: &str) -> bool {
    key.starts_with(['z', 'm'])
}

/// The keys of the first few.
pub(super) fn names(workload: &Workload) -> impl Iterator<Item = String> {
    (0..workload.member_keys).flat_map(|number| ['z', 'm'].map(|space| workload.named(space, number)))
}

/// Whether the next operation is on members; nothing is drawn without such keys.
pub(super) fn is_next(workload: &Workload, random: &mut Random) -> bool {
    workload.member_keys > 0 && random.permille(MEMBERS_PERMILLE)
}

/// An operation on a sorted set or a set.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let space = if random.one_in(3) { 'm' } else { 'z' };
    let key = workload.named(space, random.below(workload.member_keys));
    let is_write = random.permille(workload.writes_permille.max(300));
    let op = if is_write { change(&key, random, turn) } else { look(&key, random) };
    asked(MembersOperation::begun(turn.client, key, op, turn.now_us))
}

fn change(key: &str, random: &mut Random, turn: Turn) -> MembersOp {
    let member = random.index(MEMBERS);
    match random.below(16) {
        0..=7 => {
            let several = random.between(1, 3) as usize;
            let mut score = |place: usize| match (is_sorted(key), random.one_in(3)) {
                (false, _) => 0,
                (true, true) => random.below(EQUAL_SCORES) as i64,
                (true, false) => (turn.serial * 1_000 + turn.client * 10) as i64 + place as i64,
            };
            MembersOp::Add((0..several).map(|place| ((member + place) % MEMBERS, score(place))).collect())
        }
        8..=10 if is_sorted(key) => MembersOp::Increment(member, random.between(1, 3) as i64),
        8..=12 => {
            let several = random.between(1, 2) as usize;
            MembersOp::Remove((0..several).map(|place| (member + place) % MEMBERS).collect())
        }
        15 if random.one_in(3) => MembersOp::Clear,
        _ => MembersOp::Pop,
    }
}

fn look(key: &str, random: &mut Random) -> MembersOp {
    let member = random.index(MEMBERS);
    match random.below(8) {
        0 | 1 if is_sorted(key) => MembersOp::Rank(member),
        0..=2 => MembersOp::Score(member),
        3 => MembersOp::Count,
        _ => MembersOp::Look,
    }
}

/// A ZRANGE or SMEMBERS that reads a key back.
pub(super) fn read_back(client: u64, key: String, now_us: u64) -> Asked {
    asked(MembersOperation::begun(client, key, MembersOp::Look, now_us))
}

/// A DEL that frees memory.
pub(super) fn delete(client: u64, key: String, now_us: u64) -> Asked {
    asked(MembersOperation::begun(client, key, MembersOp::Clear, now_us))
}

fn asked(record: MembersOperation) -> Asked {
    let class = match record.op {
        MembersOp::Rank(_) | MembersOp::Score(_) | MembersOp::Count | MembersOp::Look => Class::Read,
        _ => Class::Write,
    };
    Asked { words: words(&record), class, order: Order::Key(1), purpose: Purpose::Members(Box::new(record)) }
}
