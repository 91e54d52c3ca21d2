//! Whole-string writes: SET and its relatives, MSET, MSETNX, GETSET.

use super::Done;
use super::expire_option::{Unit, deadline};
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec, Split};
use sidle_types::WallMs;

const SLOW: CommandFlags = CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::STRING);
const FAST: CommandFlags = SLOW.with(CommandFlags::FAST);
const ALWAYS: Access = Access::BlindWrite(|_| true);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("set", -3, SLOW, set)
                .keys(
                    KeySpec::one(&["RW", "access", "update", "variable_flags"]),
                    Access::BlindWrite(SetOptions::are_blind),
                )
                .docs(
                    "string",
                    "1.0.0",
                    "O(1)",
                    "Sets the value of a key, whatever it was, with an expiry or none.",
                ),
            CommandSpec::over_keys("setnx", 3, FAST, setnx)
                .keys(KeySpec::one(&["OW", "insert"]), Access::ReadWrite)
                .docs("string", "1.0.0", "O(1)", "Sets the value of a key that does not exist."),
            CommandSpec::over_keys("setex", 4, SLOW, setex)
                .keys(KeySpec::one(&["OW", "update"]), ALWAYS)
                .docs("string", "2.0.0", "O(1)", "Sets the value of a key and its time to live in seconds."),
            CommandSpec::over_keys("psetex", 4, SLOW, psetex)
                .keys(KeySpec::one(&["OW", "update"]), ALWAYS)
                .docs(
                    "string",
                    "2.6.0",
                    "O(1)",
                    "Sets the value of a key and its time to live in milliseconds.",
                ),
            CommandSpec::over_keys("getset", 3, FAST, getset)
                .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
                .docs("string", "1.0.0", "O(1)", "Sets the value of a key and returns the one before.")
                .deprecated("6.2.0", "`SET` with the `!GET` argument"),
            CommandSpec::over_keys("mset", -3, SLOW, mset)
                .keys(KeySpec::pairs(&["OW", "update"]), ALWAYS)
                .split(Split::AllOk)
                .docs(
                    "string",
                    "1.0.1",
                    "O(N) where N is the number of keys",
                    "Sets the values of several keys at once.",
                )
                .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
            CommandSpec::over_keys("msetnx", -3, SLOW, msetnx)
                .keys(KeySpec::pairs(&["OW", "insert"]), Access::ReadWrite)
                .split(Split::AllOrNone)
                .docs(
                    "string",
                    "1.0.1",
                    "O(N) where N is the number of keys",
                    "Sets the values of several keys at once, if none of them exists.",
                )
                .tips(&["request_policy:multi_shard", "response_policy:agg_min"]),
        ]
    }
}

/// SET's condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum When {
    #[default]
    Always,
    /// NX.
    Absent,
    /// XX.
    Present,
}

/// What SET does to the expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TimeToLive<'a> {
    /// Removes it.
    #[default]
    Endless,
    /// KEEPTTL.
    AsBefore,
    /// EX, PX, EXAT, PXAT and their text.
    Until(Unit, &'a [u8]),
}

/// SET's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SetOptions<'a> {
    when: When,
    ttl: TimeToLive<'a>,
    /// GET: the reply is the old value.
    returns_old: bool,
}

impl<'a> SetOptions<'a> {
    /// An option may be repeated; of expiries in one unit the last counts.
    fn parse(mut options: &[&'a [u8]]) -> Result<SetOptions<'a>, ReplyError> {
        let mut parsed = SetOptions::default();
        while let [option, rest @ ..] = options {
            options = rest;
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"nx") && parsed.when != When::Present {
                parsed.when = When::Absent;
            } else if is(b"xx") && parsed.when != When::Absent {
                parsed.when = When::Present;
            } else if is(b"get") {
                parsed.returns_old = true;
            } else if is(b"keepttl") && !matches!(parsed.ttl, TimeToLive::Until(..)) {
                parsed.ttl = TimeToLive::AsBefore;
            } else if let Some(unit) = Unit::named(option)
                && let [text, rest @ ..] = options
                && parsed.ttl.may_become(unit)
            {
                parsed.ttl = TimeToLive::Until(unit, text);
                options = rest;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        Ok(parsed)
    }

    /// Whether a SET with these arguments is independent of the old value.
    fn are_blind(args: &[&[u8]]) -> bool {
        args.len() == 3 || SetOptions::parse(&args[3..]).is_ok_and(|options| options.is_blind())
    }

    fn is_blind(self) -> bool {
        self.when == When::Always && !self.returns_old && self.ttl != TimeToLive::AsBefore
    }
}

impl TimeToLive<'_> {
    fn may_become(self, unit: Unit) -> bool {
        match self {
            TimeToLive::Endless => true,
            TimeToLive::AsBefore => false,
            TimeToLive::Until(other, _) => other == unit,
        }
    }
}

fn set<E: Executor>(call: &mut Call<'_, E>) -> Done {
    if call.args.len() == 3 {
        call.keyspace.put_argument(0, call.args[2], None)?;
        call.reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(&call.args[3..])?;
    let mut expires_at = match options.ttl {
        TimeToLive::Until(unit, text) => Some(deadline(unit, text, call.now, "set")?),
        TimeToLive::Endless | TimeToLive::AsBefore => None,
    };
    if options.is_blind() {
        put_until(call, call.args[2], expires_at)?;
        call.reply.ok();
        return Ok(());
    }
    let old = match options.returns_old {
        true => call.string(0)?,
        false => call.keyspace.get(0),
    };
    let writes = match options.when {
        When::Always => true,
        When::Absent => old.is_none(),
        When::Present => old.is_some(),
    };
    if writes {
        if options.ttl == TimeToLive::AsBefore {
            expires_at = old.and_then(|value| value.expires_at);
        }
        put_until(call, call.args[2], expires_at)?;
    }
    match (options.returns_old, writes) {
        (true, _) => {
            call.count_look_up(old.is_some());
            call.reply_value(old);
        }
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

/// Sets the first key. An expired value is not stored.
#[inline]
fn put_until<'g, E: Executor>(
    call: &mut Call<'g, E>,
    value: &'g [u8],
    expires_at: Option<WallMs>,
) -> Result<(), ReplyError> {
    let is_over = expires_at.is_some_and(|end| end < call.now);
    Ok(if is_over { call.keyspace.remove(0) } else { call.keyspace.put_argument(0, value, expires_at) }?)
}

fn setnx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let absent = call.keyspace.get(0).is_none();
    if absent {
        call.keyspace.put_argument(0, call.args[2], None)?;
    }
    call.reply.integer(absent.into());
    Ok(())
}

fn setex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    set_for(call, Unit::Seconds, "setex")
}

fn psetex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    set_for(call, Unit::Milliseconds, "psetex")
}

fn set_for<E: Executor>(call: &mut Call<'_, E>, unit: Unit, command: &'static str) -> Done {
    let expires_at = deadline(unit, call.args[2], call.now, command)?;
    put_until(call, call.args[3], Some(expires_at))?;
    call.reply.ok();
    Ok(())
}

fn getset<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let old = call.string(0)?;
    call.keyspace.put_argument(0, call.args[2], None)?;
    call.count_look_up(old.is_some());
    call.reply_value(old);
    Ok(())
}

fn mset<E: Executor>(call: &mut Call<'_, E>) -> Done {
    check_pairs(call, "mset")?;
    put_all(call)?;
    call.reply.ok();
    Ok(())
}

fn msetnx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    check_pairs(call, "msetnx")?;
    let all_absent = (0..call.keyspace.len()).all(|key| call.keyspace.get(key).is_none());
    if all_absent {
        put_all(call)?;
    }
    call.reply.integer(all_absent.into());
    Ok(())
}

fn check_pairs<E: Executor>(call: &Call<'_, E>, command: &'static str) -> Result<(), ReplyError> {
    if call.args.len().is_multiple_of(2) { Err(ReplyError::WrongArity(command)) } else { Ok(()) }
}

/// Sets each key to the value after it.
fn put_all<E: Executor>(call: &mut Call<'_, E>) -> Result<(), ReplyError> {
    for (key, pair) in call.args[1..].chunks_exact(2).enumerate() {
        call.keyspace.put_argument(key, pair[1], None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<SetOptions<'_>, ReplyError> {
        let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
        SetOptions::parse(&options)
    }

    #[test]
    fn options_exclude_each_other() {
        for bad in [
            "nx xx",
            "xx nx",
            "ex",
            "ex 1 px 1",
            "px 1 ex 1",
            "keepttl ex 1",
            "ex 1 keepttl",
            "foo",
            "persist",
            "exat 1 pxat 1",
            "nx foo",
            "get px",
        ] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        for good in ["nx nx", "nx get", "ex 1 ex 2", "keepttl keepttl", "XX Get pxAT 5", "ex nx"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        assert_eq!(parse("ex 1 ex 2").unwrap().ttl, TimeToLive::Until(Unit::Seconds, b"2"));
    }

    #[test]
    fn are_blind_unless_the_old_value_matters() {
        for (line, blind) in [
            ("set k v", true),
            ("set k v ex 10", true),
            ("set k v pxat 10", true),
            ("set k v nx", false),
            ("set k v xx", false),
            ("set k v get", false),
            ("set k v keepttl", false),
            ("set k v ex 10 xx", false),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(SetOptions::are_blind(&args), blind, "{line}");
        }
    }
}
