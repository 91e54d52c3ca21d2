//! Writing strings whole: SET and its relatives, MSET, MSETNX, GETSET.

use super::entry::{live, remove, remove_if_expired};
use super::expire_option::{Unit, deadline};
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::spec::{Access, CommandFlags, CommandSpec, KeySpec, Split};
use sidle_store::{SlotGuard, SlotGuards};
use sidle_types::WallMs;

const SLOW: CommandFlags = CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::STRING);
const FAST: CommandFlags = SLOW.with(CommandFlags::FAST);
const ALWAYS: Access = Access::BlindWrite(|_| true);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("set", -3, SLOW, set)
        .keys(
            KeySpec::one(&["RW", "access", "update", "variable_flags"]),
            Access::BlindWrite(SetOptions::are_blind),
        )
        .docs("string", "1.0.0", "O(1)", "Sets the value of a key, whatever it was, with an expiry or none."),
    CommandSpec::new("setnx", 3, FAST, setnx).keys(KeySpec::one(&["OW", "insert"]), Access::ReadWrite).docs(
        "string",
        "1.0.0",
        "O(1)",
        "Sets the value of a key that does not exist.",
    ),
    CommandSpec::new("setex", 4, SLOW, setex).keys(KeySpec::one(&["OW", "update"]), ALWAYS).docs(
        "string",
        "2.0.0",
        "O(1)",
        "Sets the value of a key and its time to live in seconds.",
    ),
    CommandSpec::new("psetex", 4, SLOW, psetex).keys(KeySpec::one(&["OW", "update"]), ALWAYS).docs(
        "string",
        "2.6.0",
        "O(1)",
        "Sets the value of a key and its time to live in milliseconds.",
    ),
    CommandSpec::new("getset", 3, FAST, getset)
        .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
        .docs("string", "1.0.0", "O(1)", "Sets the value of a key and returns the one before.")
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    CommandSpec::new("mset", -3, SLOW, mset)
        .keys(KeySpec::pairs(&["OW", "update"]), ALWAYS)
        .split(Split::AllOk)
        .docs(
            "string",
            "1.0.1",
            "O(N) where N is the number of keys",
            "Sets the values of several keys at once.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    CommandSpec::new("msetnx", -3, SLOW, msetnx)
        .keys(KeySpec::pairs(&["OW", "insert"]), Access::ReadWrite)
        .docs(
            "string",
            "1.0.1",
            "O(N) where N is the number of keys",
            "Sets the values of several keys at once, if none of them exists.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"]),
];

/// Which keys SET writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum When {
    #[default]
    Always,
    /// NX.
    Absent,
    /// XX.
    Present,
}

/// What becomes of the expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TimeToLive<'a> {
    /// None afterwards.
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
    /// An option may be repeated; the last expiry of one unit counts.
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

    /// Whether a SET with these arguments needs to know nothing of the old value.
    fn are_blind(args: &[&[u8]]) -> bool {
        args.len() == 3
            || SetOptions::parse(&args[3..]).is_ok_and(|options| {
                options.when == When::Always && !options.returns_old && options.ttl != TimeToLive::AsBefore
            })
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

fn set(call: &mut Call<'_>) -> CommandResult {
    if call.args.len() == 3 {
        write(call, None)?;
        call.reply.ok();
        return Ok(Flow::Done);
    }
    let options = SetOptions::parse(&call.args[3..])?;
    let mut expires_at = match options.ttl {
        TimeToLive::Until(unit, text) => Some(deadline(unit, text, call.now, "set")?),
        TimeToLive::Endless | TimeToLive::AsBefore => None,
    };
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let entry = guard.get(key);
    let old = live(entry, call.now);
    let writes = match options.when {
        When::Always => true,
        When::Absent => old.is_none(),
        When::Present => old.is_some(),
    };
    if writes {
        if options.ttl == TimeToLive::AsBefore {
            expires_at = old.and_then(|record| record.expires_at());
        }
        write_until(call, &mut slot, call.args[2], expires_at)?;
    } else {
        remove_if_expired(call, &mut slot, 0, &entry)?;
    }
    drop(slot);
    match (options.returns_old, writes) {
        (true, _) => {
            call.count_look_up(old.is_some());
            call.reply_value(old);
        }
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(Flow::Done)
}

/// Sets the first key to the request's last argument: that is where SET without options, SETEX and PSETEX
/// have it.
fn write(call: &mut Call<'_>, expires_at: Option<WallMs>) -> Result<(), ReplyError> {
    let key = call.keys[0];
    let value = call.args[call.args.len() - 1];
    let mut slot = call.store.lock_slot(key.slot());
    write_until(call, &mut slot, value, expires_at)
}

/// Sets the first key. A value whose time is over already is not even kept.
#[inline]
fn write_until(
    call: &mut Call<'_>,
    slot: &mut SlotGuard<'_>,
    value: &[u8],
    expires_at: Option<WallMs>,
) -> Result<(), ReplyError> {
    if expires_at.is_some_and(|end| end < call.now) {
        remove(call, slot, 0)?;
    } else {
        slot.put(call.head, call.keys[0], &[value], expires_at)?;
    }
    Ok(())
}

fn setnx(call: &mut Call<'_>) -> CommandResult {
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let absent = live(guard.get(key), call.now).is_none();
    if absent {
        slot.put(call.head, key, &[call.args[2]], None)?;
    }
    call.reply.integer(absent.into());
    Ok(Flow::Done)
}

fn setex(call: &mut Call<'_>) -> CommandResult {
    set_for(call, Unit::Seconds, "setex")
}

fn psetex(call: &mut Call<'_>) -> CommandResult {
    set_for(call, Unit::Milliseconds, "psetex")
}

fn set_for(call: &mut Call<'_>, unit: Unit, command: &'static str) -> CommandResult {
    let expires_at = deadline(unit, call.args[2], call.now, command)?;
    write(call, Some(expires_at))?;
    call.reply.ok();
    Ok(Flow::Done)
}

fn getset(call: &mut Call<'_>) -> CommandResult {
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let old = live(guard.get(key), call.now);
    slot.put(call.head, key, &[call.args[2]], None)?;
    drop(slot);
    call.count_look_up(old.is_some());
    call.reply_value(old);
    Ok(Flow::Done)
}

fn mset(call: &mut Call<'_>) -> CommandResult {
    check_pairs(call, "mset")?;
    match call.slots.take() {
        Some(slots) => put_all(call, slots)?,
        // One pair: as SET.
        None => write(call, None)?,
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn msetnx(call: &mut Call<'_>) -> CommandResult {
    check_pairs(call, "msetnx")?;
    let Some(slots) = call.slots.take() else { return setnx(call) };
    let all_absent = call.keys.iter().all(|&key| live(slots.get(key), call.now).is_none());
    if all_absent {
        put_all(call, slots)?;
    }
    call.reply.integer(all_absent.into());
    Ok(Flow::Done)
}

fn check_pairs(call: &Call<'_>, command: &'static str) -> Result<(), ReplyError> {
    if call.args.len().is_multiple_of(2) { Err(ReplyError::WrongArity(command)) } else { Ok(()) }
}

/// Sets all keys to the values that follow them in one step, or none where there is no memory for all.
fn put_all(call: &mut Call<'_>, slots: SlotGuards<'_>) -> Result<(), ReplyError> {
    let values = call.args[1..].chunks_exact(2).map(|pair| pair[1]);
    Ok(slots.put_all(call.head, call.keys.iter().copied().zip(values))?)
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
