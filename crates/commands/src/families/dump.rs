//! Values in serialised form: DUMP and RESTORE.
//!
//! Redis's replies, but for two damages that it does not see (see `sidle-rdb`), a payload of another type,
//! and a time to live that overflows, which it takes for one that is over.

use super::Done;
use crate::blocking::Blocking;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::{Keyspace, Value};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::restoring::{Failure, Restoring, Step};
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_collections::{
    Draft, Encoding, HashDraft, Hashes, ListDraft, Lists, SetDraft, Sets, SortedSetDraft, SortedSets,
};
use sidle_rdb::{Dumped, RestoreError, Restored};
use sidle_types::{ValueKind, WallMs};
use std::borrow::Cow;

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::KEYSPACE);
const WRITE: CommandFlags = CommandFlags::WRITE
    .with(CommandFlags::DENYOOM)
    .with(CommandFlags::KEYSPACE)
    .with(CommandFlags::DANGEROUS);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("dump", 2, READ, dump)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .docs(
                    "generic",
                    "2.6.0",
                    "O(N) where N is the length of the value",
                    "Returns a value in serialised form.",
                )
                .tips(&["nondeterministic_output"]),
            CommandSpec::over_keys("restore", -4, WRITE, restore)
                .keys(KeySpec::one(&["OW", "update"]), Access::BlindWrite(RestoreOptions::are_blind))
                .docs(
                    "generic",
                    "2.6.0",
                    "O(N) where N is the length of the value",
                    "Sets a key to a value in serialised form, with an expiry or none.",
                ),
        ]
    }
}

/// RESTORE's options. IDLETIME and FREQ are checked, and mean nothing: no key is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RestoreOptions {
    replaces: bool,
    /// ABSTTL: the expiry is an instant.
    is_absolute: bool,
}

impl RestoreOptions {
    fn parse(mut options: &[&[u8]]) -> Result<RestoreOptions, ReplyError> {
        let mut parsed = RestoreOptions::default();
        let (mut has_idle_time, mut has_frequency) = (false, false);
        while let [option, rest @ ..] = options {
            options = rest;
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"replace") {
                parsed.replaces = true;
            } else if is(b"absttl") {
                parsed.is_absolute = true;
            } else if is(b"idletime")
                && !has_frequency
                && let [seconds, rest @ ..] = options
            {
                if parse_i64(seconds).ok_or(ReplyError::NotAnInteger)? < 0 {
                    return Err(ReplyError::text("ERR Invalid IDLETIME value, must be >= 0"));
                }
                (has_idle_time, options) = (true, rest);
            } else if is(b"freq")
                && !has_idle_time
                && let [count, rest @ ..] = options
            {
                if !(0..=255).contains(&parse_i64(count).ok_or(ReplyError::NotAnInteger)?) {
                    return Err(ReplyError::text("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                (has_frequency, options) = (true, rest);
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        Ok(parsed)
    }

    /// Whether a RESTORE with these arguments is independent of the old value.
    fn are_blind(args: &[&[u8]]) -> bool {
        RestoreOptions::parse(&args[4..]).is_ok_and(|options| options.replaces)
    }

    /// The expiry that the text gives; 0: none.
    fn deadline(self, text: &[u8], now: WallMs) -> Result<Option<WallMs>, ReplyError> {
        let base = if self.is_absolute { 0 } else { now.0 as i64 };
        match parse_i64(text).ok_or(ReplyError::NotAnInteger)? {
            ..0 => Err(ReplyError::text("ERR Invalid TTL value, must be >= 0")),
            0 => Ok(None),
            ms => match ms.checked_add(base) {
                Some(end) => Ok(Some(WallMs(end as u64))),
                None => Err(ReplyError::InvalidExpire("restore")),
            },
        }
    }
}

fn dump<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let Some(value) = call.look_up(0).filter(|value| value.kind.is_shown()) else {
        call.reply.null();
        return Ok(());
    };
    with_dumped(value, |dumped| call.reply.bulk_parts(&sidle_rdb::dump(dumped).parts()));
    Ok(())
}

/// Passes a value to `f`, as it is serialised.
///
/// # Panics
/// If users do not see it.
pub fn with_dumped<T>(value: Value<'_>, f: impl FnOnce(Dumped<'_>) -> T) -> T {
    let (pairs, members, scored): (Vec<_>, Vec<_>, Vec<_>);
    f(match value.kind {
        ValueKind::String => Dumped::String(value.bytes()),
        ValueKind::Hash => {
            let hash = value.into_collection::<Hashes>();
            pairs = hash.pairs().collect();
            Dumped::Hash { pairs: &pairs, is_small: hash.encoding().is_small() }
        }
        ValueKind::Set => {
            let set = value.into_collection::<Sets>();
            members = set.members().collect();
            Dumped::Set { members: &members, is_intset: set.encoding() == Encoding::Intset }
        }
        ValueKind::List => {
            members = value.into_collection::<Lists>().items().collect();
            Dumped::List(&members)
        }
        ValueKind::SortedSet => {
            let set = value.into_collection::<SortedSets>();
            scored = set.members().collect();
            Dumped::SortedSet { members: &scored, is_small: set.encoding().is_small() }
        }
        ValueKind::Completions | ValueKind::Locks => unreachable!("no file has it"),
    })
}

fn restore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let options = RestoreOptions::parse(&call.args[4..])?;
    if !options.replaces && call.keyspace.get(0).is_some() {
        return Err(ReplyError::text("BUSYKEY Target key name already exists."));
    }
    let expires_at = options.deadline(call.args[2], call.now)?;
    let most_bytes = call.keyspace.longest_value_bytes();
    if restored_aside(call, expires_at)? {
        return Ok(());
    }
    let value = sidle_rdb::restore(call.args[3], most_bytes).map_err(refusal)?;
    if expires_at.is_some_and(|end| end <= call.now) {
        call.keyspace.remove(0)?;
    } else {
        match value {
            Restored::String(Cow::Borrowed(value)) => call.keyspace.put_argument(0, value, expires_at)?,
            Restored::String(Cow::Owned(value)) => {
                call.keyspace.put(0, ValueKind::String, &[&value], expires_at)?;
            }
            Restored::Hash(pairs) => {
                let pairs = pairs.iter().map(|(field, value)| (&**field, &**value));
                call.put_collection(0, &HashDraft::made_of(pairs), expires_at)?;
            }
            Restored::List(items) => {
                let items = items.iter().map(|item| &**item);
                call.put_collection(0, &ListDraft::made_of(items), expires_at)?;
            }
            Restored::Set(members) => {
                let members = members.iter().map(|member| &**member);
                call.put_collection(0, &SetDraft::made_of(members), expires_at)?;
            }
            Restored::SortedSet(members) => {
                let members = members.iter().map(|(member, score)| (&**member, *score));
                call.put_collection(0, &SortedSetDraft::made_of(members), expires_at)?;
            }
        }
    }
    call.reply.ok();
    Ok(())
}

/// Takes the next step of a large collection's restoring, if it is one: then the command goes on, or is done.
fn restored_aside<E: Executor>(
    call: &mut Call<'_, E>,
    expires_at: Option<WallMs>,
) -> Result<bool, ReplyError> {
    let most_bytes = call.keyspace.longest_value_bytes();
    let Some(progress) = call.progress.as_mut() else { return Ok(false) };
    let limits = call.keyspace.collection_limits();
    let begun = || Restoring::begin(call.args[3], most_bytes, &limits, progress.sizes).map(Box::new);
    let Some(mut restoring) = progress.restoring.take().or_else(begun) else { return Ok(false) };
    let step = restoring.step(call.args[3], &mut call.keyspace).map_err(failed);
    let kind = restoring.kind();
    // Without memory the same step is tried again.
    *progress.restoring = Some(restoring);
    match step? {
        Step::More => {
            call.blocking = Blocking::GoesOn;
            return Ok(true);
        }
        Step::OneGo => return Ok(false),
        Step::Built => {}
    }
    if expires_at.is_some_and(|end| end <= call.now) {
        call.keyspace.remove(0)?;
    } else {
        call.check_collections()?;
        let built = call.keyspace.aside().expect("it was built aside").outline().clone();
        call.keyspace.put_large(0, kind, built, expires_at)?;
    }
    call.reply.ok();
    Ok(true)
}

fn failed(failure: Failure) -> ReplyError {
    match failure {
        Failure::Payload(error) => refusal(error),
        Failure::Reply(error) => error,
    }
}

/// The reply to a payload that is refused.
fn refusal(error: RestoreError) -> ReplyError {
    match error {
        RestoreError::Footer => ReplyError::text("ERR DUMP payload version or checksum are wrong"),
        RestoreError::OtherType(_) => ReplyError::owned(format!("ERR Bad data format: {error}")),
        RestoreError::TooLong => ReplyError::StringTooLong,
        _ => ReplyError::text("ERR Bad data format"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_and_exclude_each_other() {
        let parse = |options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            RestoreOptions::parse(&options)
        };
        for bad in ["foo", "idletime", "freq", "idletime 1 freq 1", "freq 1 idletime 1", "replace nx"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        for bad in ["idletime x", "freq 1.5"] {
            assert_eq!(parse(bad), Err(ReplyError::NotAnInteger), "{bad}");
        }
        for bad in ["idletime -1", "freq -1", "freq 256"] {
            assert!(matches!(parse(bad), Err(ReplyError::Text(_))), "{bad}");
        }
        for good in ["", "idletime 0 idletime 5", "freq 255 freq 0", "replace replace", "IDLETIME 1 absttl"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        assert_eq!(parse("absttl freq 7 Replace"), Ok(RestoreOptions { replaces: true, is_absolute: true }));
    }

    #[test]
    fn are_blind_where_they_replace() {
        for (line, blind) in [
            ("restore k 0 v", false),
            ("restore k 0 v replace", true),
            ("restore k 0 v absttl", false),
            ("restore k 0 v replace foo", false),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(RestoreOptions::are_blind(&args), blind, "{line}");
        }
    }
}
