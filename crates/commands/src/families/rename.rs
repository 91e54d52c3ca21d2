//! A value under another key: COPY, RENAME, RENAMENX. The expiry goes along.
//!
//! Both keys change in one step, as those of MSET do: nobody sees a RENAME's value under both keys or under
//! none. A value is copied to its new record, so that even RENAME may find no memory.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::{Content, Keyspace};
use crate::number::parse_i32;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};

const WRITE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::KEYSPACE);
const LENGTH: &str = "O(N) where N is the length of the value";

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("copy", -3, WRITE.with(CommandFlags::DENYOOM), copy)
                .keys(KeySpec::from_to(&["RO", "access"], &["OW", "update"]), Access::ReadWrite)
                .docs("generic", "6.2.0", LENGTH, "Sets a key to the value and the expiry of another one."),
            CommandSpec::over_keys("rename", 3, WRITE, rename)
                .keys(KeySpec::from_to(&["RW", "access", "delete"], &["OW", "update"]), Access::ReadWrite)
                .docs("generic", "1.0.0", LENGTH, "Gives a value another key, whatever that held."),
            CommandSpec::over_keys("renamenx", 3, WRITE.with(CommandFlags::FAST), renamenx)
                .keys(KeySpec::from_to(&["RW", "access", "delete"], &["OW", "insert"]), Access::ReadWrite)
                .docs("generic", "1.0.0", LENGTH, "Gives a value another key, if that does not exist."),
        ]
    }
}

const FROM: usize = 0;
const TO: usize = 1;

/// COPY's options: whether it replaces a value.
fn copy_replaces(mut options: &[&[u8]]) -> Result<bool, ReplyError> {
    let mut replaces = false;
    while let [option, rest @ ..] = options {
        options = rest;
        if option.eq_ignore_ascii_case(b"replace") {
            replaces = true;
        } else if option.eq_ignore_ascii_case(b"db")
            && let [number, rest @ ..] = options
        {
            // As for SELECT, there is only one.
            match parse_i32(number)? {
                0 => options = rest,
                _ => return Err(ReplyError::text("ERR DB index is out of range")),
            }
        } else {
            return Err(ReplyError::Syntax);
        }
    }
    Ok(replaces)
}

fn copy<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let replaces = copy_replaces(&call.args[3..])?;
    if call.args[1] == call.args[2] {
        return Err(ReplyError::text("ERR source and destination objects are the same"));
    }
    let value = call.look_up(FROM);
    let copied = value.filter(|_| replaces || call.keyspace.get(TO).is_none());
    match copied.map(|value| (value, value.content)) {
        None => {}
        Some((value, Content::Whole(_))) => call.keyspace.put_lasting(TO, value)?,
        Some((value, Content::Large(large))) => {
            call.keyspace.put_large(TO, value.kind, large.copied(), value.expires_at)?;
        }
    }
    call.reply.integer(copied.is_some().into());
    Ok(())
}

fn rename<E: Executor>(call: &mut Call<'_, E>) -> Done {
    move_value(call, true)?;
    call.reply.ok();
    Ok(())
}

fn renamenx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let has_moved = move_value(call, false)?;
    call.reply.integer(has_moved.into());
    Ok(())
}

/// Moves the value from the first key to the second; whether it did.
fn move_value<E: Executor>(call: &mut Call<'_, E>, replaces: bool) -> Result<bool, ReplyError> {
    let Some(value) = call.keyspace.get(FROM) else {
        return Err(ReplyError::text("ERR no such key"));
    };
    if call.args[1] == call.args[2] || !replaces && call.keyspace.get(TO).is_some() {
        return Ok(false);
    }
    call.keyspace.put_lasting(TO, value)?;
    call.keyspace.remove(FROM)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_replaces_where_it_says_so() {
        let parse = |options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            copy_replaces(&options)
        };
        for (options, replaces) in
            [("", false), ("replace", true), ("db 0", false), ("DB 0 Replace db 0", true)]
        {
            assert_eq!(parse(options), Ok(replaces), "{options}");
        }
        for bad in ["db", "foo", "replace nx", "0"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        assert_eq!(parse("db x"), Err(ReplyError::NotAnInteger));
        for bad in ["db 1", "db -1"] {
            assert!(matches!(parse(bad), Err(ReplyError::Text(_))), "{bad}");
        }
    }
}
