//! Keys with a time to live: the draws of operations.

use super::asked::{Asked, Order, Purpose};
use super::timed_operation::{Condition, NewEnd, TimedOp, TimedOperation, When, words};
use super::{Turn, Workload};
use crate::clock::WALL_START_MS;
use sidle_client_core::Class;
use sidle_testbed::Random;

/// A GET that reads a key back.
pub(super) fn read_back(client: u64, key: String, now_us: u64) -> Asked {
    asked(TimedOperation::begun(client, key, TimedOp::Get, now_us))
}

/// An operation on a key with a time to live.
pub(super) fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Asked {
    let key = workload.timed_key(workload.number(random, workload.timed_keys));
    let op = match random.permille(workload.writes_permille) {
        true => draw_change(workload, random, turn),
        false => match random.below(8) {
            0 => TimedOp::Exists,
            1 => TimedOp::PTtl,
            2 => TimedOp::PExpireTime,
            _ => TimedOp::Get,
        },
    };
    asked(TimedOperation::begun(turn.client, key, op, turn.now_us))
}

fn draw_change(workload: &Workload, random: &mut Random, turn: Turn) -> TimedOp {
    match random.below(16) {
        0..7 => {
            let end = match random.below(8) {
                0 => NewEnd::Never,
                1 => NewEnd::AsBefore,
                _ => draw_end(workload, random, turn.now_us),
            };
            let when = match random.below(6) {
                0 => When::Absent,
                1 => When::Present,
                _ => When::Always,
            };
            let value = format!("{}.{}", turn.client, turn.serial);
            TimedOp::Set { value, end, when, returns_old: random.one_in(5) }
        }
        7..10 => {
            let condition = match random.below(8) {
                0 => Condition::Endless,
                1 => Condition::Ending,
                2 => Condition::Later,
                3 => Condition::Earlier,
                _ => Condition::Always,
            };
            TimedOp::Expire(draw_end(workload, random, turn.now_us), condition)
        }
        10 | 11 => TimedOp::Persist,
        12 => TimedOp::GetEx(match random.below(3) {
            0 => NewEnd::Never,
            1 => NewEnd::AsBefore,
            _ => draw_end(workload, random, turn.now_us),
        }),
        13 => TimedOp::GetDel,
        _ => TimedOp::Del,
    }
}

/// Mostly soon, sometimes later than the simulation lasts, and sometimes in the past.
fn draw_end(workload: &Workload, random: &mut Random, now_us: u64) -> NewEnd {
    let life_ms = random.magnitude(1, workload.life_ms.max(1));
    let now_ms = WALL_START_MS + now_us / 1000;
    match random.below(12) {
        0 => NewEnd::At(now_ms - random.below(100)),
        1..4 => NewEnd::At(now_ms + life_ms),
        4 | 5 => NewEnd::In(1_000 * random.between(1, 4)),
        _ => NewEnd::In(life_ms),
    }
}

pub(super) fn asked(operation: TimedOperation) -> Asked {
    let words = words(&operation.op, &operation.key);
    let class = match operation.op {
        TimedOp::Get => Class::Get,
        TimedOp::Exists | TimedOp::PTtl | TimedOp::PExpireTime => Class::Read,
        _ => Class::Write,
    };
    Asked { words, class, order: Order::Key(1), purpose: Purpose::Timed(Box::new(operation)) }
}
