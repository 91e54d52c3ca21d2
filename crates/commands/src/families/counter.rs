//! Strings as numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use super::Done;
use crate::call::{Call, Executor};
use crate::float80::Float80;
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::number::{Decimal, parse_i64};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_types::ValueKind;

const FLAGS: CommandFlags =
    CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::FAST).with(CommandFlags::STRING);
const KEY: KeySpec = KeySpec::one(&["RW", "access", "update"]);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("incr", 2, FLAGS, incr).keys(KEY, Access::ReadWrite).docs(
                "string",
                "1.0.0",
                "O(1)",
                "Adds one to an integer; a key that does not exist counts as 0.",
            ),
            CommandSpec::over_keys("decr", 2, FLAGS, decr).keys(KEY, Access::ReadWrite).docs(
                "string",
                "1.0.0",
                "O(1)",
                "Takes one from an integer; a key that does not exist counts as 0.",
            ),
            CommandSpec::over_keys("incrby", 3, FLAGS, incrby).keys(KEY, Access::ReadWrite).docs(
                "string",
                "1.0.0",
                "O(1)",
                "Adds to an integer; a key that does not exist counts as 0.",
            ),
            CommandSpec::over_keys("decrby", 3, FLAGS, decrby).keys(KEY, Access::ReadWrite).docs(
                "string",
                "1.0.0",
                "O(1)",
                "Takes from an integer; a key that does not exist counts as 0.",
            ),
            CommandSpec::over_keys("incrbyfloat", 3, FLAGS, incrbyfloat).keys(KEY, Access::ReadWrite).docs(
                "string",
                "2.6.0",
                "O(1)",
                "Adds to a number; a key that does not exist counts as 0.",
            ),
        ]
    }
}

fn incr<E: Executor>(call: &mut Call<'_, E>) -> Done {
    add(call, 1)
}

fn decr<E: Executor>(call: &mut Call<'_, E>) -> Done {
    add(call, -1)
}

fn incrby<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let amount = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    add(call, amount)
}

fn decrby<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let amount = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let amount = amount.checked_neg().ok_or(ReplyError::text("ERR decrement would overflow"))?;
    add(call, amount)
}

fn add<E: Executor>(call: &mut Call<'_, E>, amount: i64) -> Done {
    let (old, expires_at) = match call.string(0)? {
        Some(value) => (parse_i64(value.bytes()).ok_or(ReplyError::NotAnInteger)?, value.expires_at),
        None => (0, None),
    };
    let sum = old.checked_add(amount).ok_or(ReplyError::text("ERR increment or decrement would overflow"))?;
    call.keyspace.put(0, ValueKind::String, &[Decimal::new(sum).as_bytes()], expires_at)?;
    call.reply.integer(sum);
    Ok(())
}

fn incrbyfloat<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (old, expires_at) = match call.string(0)? {
        Some(value) => (Float80::parse(value.bytes()).ok_or(ReplyError::NotAFloat)?, value.expires_at),
        None => (Float80::ZERO, None),
    };
    let amount = Float80::parse(call.args[2]).ok_or(ReplyError::NotAFloat)?;
    let sum = old.plus(amount).to_decimal();
    let sum = sum.ok_or(ReplyError::text("ERR increment would produce NaN or Infinity"))?;
    call.keyspace.put(0, ValueKind::String, &[sum.as_bytes()], expires_at)?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}
