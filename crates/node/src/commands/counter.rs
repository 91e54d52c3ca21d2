//! Strings as numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use super::entry::live;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::float80::Float80;
use crate::number::{Decimal, parse_i64};
use crate::spec::{Access, CommandFlags, CommandSpec, KeySpec};

const FLAGS: CommandFlags =
    CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::FAST).with(CommandFlags::STRING);
const KEY: KeySpec = KeySpec::one(&["RW", "access", "update"]);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("incr", 2, FLAGS, incr).keys(KEY, Access::ReadWrite).docs(
        "string",
        "1.0.0",
        "O(1)",
        "Adds one to an integer; a key that does not exist counts as 0.",
    ),
    CommandSpec::new("decr", 2, FLAGS, decr).keys(KEY, Access::ReadWrite).docs(
        "string",
        "1.0.0",
        "O(1)",
        "Takes one from an integer; a key that does not exist counts as 0.",
    ),
    CommandSpec::new("incrby", 3, FLAGS, incrby).keys(KEY, Access::ReadWrite).docs(
        "string",
        "1.0.0",
        "O(1)",
        "Adds to an integer; a key that does not exist counts as 0.",
    ),
    CommandSpec::new("decrby", 3, FLAGS, decrby).keys(KEY, Access::ReadWrite).docs(
        "string",
        "1.0.0",
        "O(1)",
        "Takes from an integer; a key that does not exist counts as 0.",
    ),
    CommandSpec::new("incrbyfloat", 3, FLAGS, incrbyfloat).keys(KEY, Access::ReadWrite).docs(
        "string",
        "2.6.0",
        "O(1)",
        "Adds to a number; a key that does not exist counts as 0.",
    ),
];

fn incr(call: &mut Call<'_>) -> CommandResult {
    add(call, 1)
}

fn decr(call: &mut Call<'_>) -> CommandResult {
    add(call, -1)
}

fn incrby(call: &mut Call<'_>) -> CommandResult {
    let amount = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    add(call, amount)
}

fn decrby(call: &mut Call<'_>) -> CommandResult {
    let amount = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let amount = amount.checked_neg().ok_or(ReplyError::text("ERR decrement would overflow"))?;
    add(call, amount)
}

fn add(call: &mut Call<'_>, amount: i64) -> CommandResult {
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let (old, expires_at) = match live(guard.get(key), call.now) {
        Some(record) => (parse_i64(record.value()).ok_or(ReplyError::NotAnInteger)?, record.expires_at()),
        None => (0, None),
    };
    let sum = old.checked_add(amount).ok_or(ReplyError::text("ERR increment or decrement would overflow"))?;
    slot.put(call.head, key, &[Decimal::new(sum).as_bytes()], expires_at)?;
    call.reply.integer(sum);
    Ok(Flow::Done)
}

fn incrbyfloat(call: &mut Call<'_>) -> CommandResult {
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let (old, expires_at) = match live(guard.get(key), call.now) {
        Some(record) => (Float80::parse(record.value()).ok_or(ReplyError::NotAFloat)?, record.expires_at()),
        None => (Float80::ZERO, None),
    };
    let amount = Float80::parse(call.args[2]).ok_or(ReplyError::NotAFloat)?;
    let sum = old.plus(amount).to_decimal();
    let sum = sum.ok_or(ReplyError::text("ERR increment would produce NaN or Infinity"))?;
    slot.put(call.head, key, &[sum.as_bytes()], expires_at)?;
    call.reply.bulk(sum.as_bytes());
    Ok(Flow::Done)
}
