//! Expiry: EXPIRE and its relatives, TTL and its relatives, PERSIST, GETEX.

use super::Done;
use super::expire_option::{Unit, deadline};
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_types::WallMs;

const WRITE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::FAST).with(CommandFlags::KEYSPACE);
const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::KEYSPACE);
const UPDATE: KeySpec = KeySpec::one(&["RW", "update"]);
const ACCESS: KeySpec = KeySpec::one(&["RO", "access"]);
const VARIES: &[&str] = &["nondeterministic_output"];

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("expire", -3, WRITE, expire).keys(UPDATE, Access::ReadWrite).docs(
                "generic",
                "1.0.0",
                "O(1)",
                "Ends a key after this many seconds.",
            ),
            CommandSpec::over_keys("pexpire", -3, WRITE, pexpire).keys(UPDATE, Access::ReadWrite).docs(
                "generic",
                "2.6.0",
                "O(1)",
                "Ends a key after this many milliseconds.",
            ),
            CommandSpec::over_keys("expireat", -3, WRITE, expireat).keys(UPDATE, Access::ReadWrite).docs(
                "generic",
                "1.2.0",
                "O(1)",
                "Ends a key at a Unix time in seconds.",
            ),
            CommandSpec::over_keys("pexpireat", -3, WRITE, pexpireat).keys(UPDATE, Access::ReadWrite).docs(
                "generic",
                "2.6.0",
                "O(1)",
                "Ends a key at a Unix time in milliseconds.",
            ),
            CommandSpec::over_keys("ttl", 2, READ, ttl)
                .keys(ACCESS, Access::Read)
                .docs("generic", "1.0.0", "O(1)", "Returns in how many seconds a key ends.")
                .tips(VARIES),
            CommandSpec::over_keys("pttl", 2, READ, pttl)
                .keys(ACCESS, Access::Read)
                .docs("generic", "2.6.0", "O(1)", "Returns in how many milliseconds a key ends.")
                .tips(VARIES),
            CommandSpec::over_keys("expiretime", 2, READ, expiretime).keys(ACCESS, Access::Read).docs(
                "generic",
                "7.0.0",
                "O(1)",
                "Returns the Unix time in seconds at which a key ends.",
            ),
            CommandSpec::over_keys("pexpiretime", 2, READ, pexpiretime).keys(ACCESS, Access::Read).docs(
                "generic",
                "7.0.0",
                "O(1)",
                "Returns the Unix time in milliseconds at which a key ends.",
            ),
            CommandSpec::over_keys("persist", 2, WRITE, persist).keys(UPDATE, Access::ReadWrite).docs(
                "generic",
                "2.2.0",
                "O(1)",
                "Takes a key's end away.",
            ),
            CommandSpec::over_keys(
                "getex",
                -2,
                CommandFlags::WRITE.with(CommandFlags::FAST).with(CommandFlags::STRING),
                getex,
            )
            .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
            .docs(
                "string",
                "6.2.0",
                "O(1)",
                "Returns the value of a key and sets when the key ends.",
            ),
        ]
    }
}

fn expire<E: Executor>(call: &mut Call<'_, E>) -> Done {
    expire_key(call, Unit::Seconds, "expire")
}

fn pexpire<E: Executor>(call: &mut Call<'_, E>) -> Done {
    expire_key(call, Unit::Milliseconds, "pexpire")
}

fn expireat<E: Executor>(call: &mut Call<'_, E>) -> Done {
    expire_key(call, Unit::AtSeconds, "expireat")
}

fn pexpireat<E: Executor>(call: &mut Call<'_, E>) -> Done {
    expire_key(call, Unit::AtMilliseconds, "pexpireat")
}

/// NX, XX, GT and LT: EXPIRE's conditions on a key's current expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Condition {
    endless: bool,
    ending: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(options: &[&[u8]]) -> Result<Condition, ReplyError> {
        let mut condition = Condition::default();
        for option in options {
            match option.to_ascii_lowercase().as_slice() {
                b"nx" => condition.endless = true,
                b"xx" => condition.ending = true,
                b"gt" => condition.later = true,
                b"lt" => condition.earlier = true,
                _ => return Err(ReplyError::owned([b"ERR Unsupported option ", *option].concat())),
            }
        }
        if condition.endless && (condition.ending || condition.later || condition.earlier) {
            return Err(ReplyError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.later && condition.earlier {
            return Err(ReplyError::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// A key without an expiry counts as one that expires after every other.
    fn allows(self, old: Option<WallMs>, new: i64) -> bool {
        let old = old.map(|end| end.0 as i64);
        !(self.endless && old.is_some()
            || self.ending && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

fn expire_key<E: Executor>(call: &mut Call<'_, E>, unit: Unit, command: &'static str) -> Done {
    let condition = Condition::parse(&call.args[3..])?;
    let number = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let scaled = if unit.is_seconds() { number.checked_mul(1000) } else { Some(number) };
    let base = if unit.is_relative() { call.now.0 as i64 } else { 0 };
    // Unlike SET, EXPIRE accepts any time in the past: it removes the key.
    let end = scaled.and_then(|ms| ms.checked_add(base)).ok_or(ReplyError::InvalidExpire(command))?;
    let changed = match call.keyspace.get(0) {
        Some(value) if condition.allows(value.expires_at, end) => {
            match end <= call.now.0 as i64 {
                true => call.keyspace.remove(0)?,
                false => call.keyspace.set_end(0, Some(WallMs(end as u64)))?,
            }
            true
        }
        _ => false,
    };
    call.reply.integer(changed.into());
    Ok(())
}

fn ttl<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let now = call.now;
    reply_end(call, |end| to_seconds(end.0.saturating_sub(now.0)))
}

fn pttl<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let now = call.now;
    reply_end(call, |end| end.0.saturating_sub(now.0))
}

fn expiretime<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_end(call, |end| to_seconds(end.0))
}

fn pexpiretime<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_end(call, |end| end.0)
}

/// The nearest second, rounded as in Redis.
fn to_seconds(ms: u64) -> u64 {
    (ms + 500) / 1000
}

/// -2: no key; -1: no expiry.
fn reply_end<E: Executor>(call: &mut Call<'_, E>, shown: impl FnOnce(WallMs) -> u64) -> Done {
    let number = match call.look_up(0) {
        None => -2,
        Some(value) => value.expires_at.map_or(-1, |end| shown(end) as i64),
    };
    call.reply.integer(number);
    Ok(())
}

fn persist<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let ends = call.keyspace.get(0).is_some_and(|value| value.expires_at.is_some());
    if ends {
        call.keyspace.set_end(0, None)?;
    }
    call.reply.integer(ends.into());
    Ok(())
}

/// GETEX's option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewEnd<'a> {
    Unchanged,
    /// PERSIST.
    Never,
    At(Unit, &'a [u8]),
}

impl<'a> NewEnd<'a> {
    fn parse(mut options: &[&'a [u8]]) -> Result<NewEnd<'a>, ReplyError> {
        let mut parsed = NewEnd::Unchanged;
        while let [option, rest @ ..] = options {
            options = rest;
            let persist = option.eq_ignore_ascii_case(b"persist");
            if persist && !matches!(parsed, NewEnd::At(..)) {
                parsed = NewEnd::Never;
            } else if let Some(unit) = Unit::named(option)
                && let [text, rest @ ..] = options
                && (parsed == NewEnd::Unchanged || matches!(parsed, NewEnd::At(other, _) if other == unit))
            {
                parsed = NewEnd::At(unit, text);
                options = rest;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        Ok(parsed)
    }
}

fn getex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let new_end = NewEnd::parse(&call.args[2..])?;
    let old = call.string(0)?;
    match (old, new_end) {
        (None, _) | (Some(_), NewEnd::Unchanged) => {}
        (Some(value), NewEnd::Never) => {
            if value.expires_at.is_some() {
                call.keyspace.set_end(0, None)?;
            }
        }
        (Some(_), NewEnd::At(unit, text)) => {
            let end = deadline(unit, text, call.now, "getex")?;
            match end <= call.now {
                true => call.keyspace.remove(0)?,
                false => call.keyspace.set_end(0, Some(end))?,
            }
        }
    }
    call.count_look_up(old.is_some());
    call.reply_value(old);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_allows_by_the_old_end() {
        let parse = |options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            Condition::parse(&options)
        };
        for (options, old, new, allowed) in [
            ("", None, 5, true),
            ("nx", None, 5, true),
            ("nx", Some(9), 5, false),
            ("xx", None, 5, false),
            ("xx", Some(9), 5, true),
            ("gt", None, 5, false),
            ("gt", Some(9), 9, false),
            ("gt", Some(9), 10, true),
            ("lt", None, 5, true),
            ("lt", Some(9), 9, false),
            ("lt", Some(9), 8, true),
            ("xx gt", Some(9), 10, true),
            ("xx lt", None, 8, false),
        ] {
            let old = old.map(WallMs);
            assert_eq!(parse(options).unwrap().allows(old, new), allowed, "{options} {old:?} {new}");
        }
        for bad in ["nx xx", "nx gt", "lt nx", "gt lt", "foo"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn new_end_takes_one_unit() {
        let parse = |options: &'static str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            NewEnd::parse(&options)
        };
        assert_eq!(parse("ex 5 ex 6"), Ok(NewEnd::At(Unit::Seconds, b"6")));
        assert_eq!(parse("persist persist"), Ok(NewEnd::Never));
        for bad in ["ex", "ex 5 px 5", "persist ex 5", "ex 5 persist", "keepttl", "nx", "get"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
    }
}
