//! Changes of a part of a string: APPEND and SETRANGE.
//!
//! An append costs time in proportion to the bytes added. A SETRANGE before the end copies the value, since
//! readers without a lock may be reading it.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_types::ValueKind;
use smallvec::{SmallVec, smallvec};

const FLAGS: CommandFlags = CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::STRING);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("append", 3, FLAGS.with(CommandFlags::FAST), append)
                .keys(KeySpec::one(&["RW", "insert"]), Access::ReadWrite)
                .docs(
                    "string",
                    "2.0.0",
                    "O(N) where N is the length of what is added, amortized",
                    "Adds to the end of a value.",
                ),
            CommandSpec::over_keys("setrange", 4, FLAGS, setrange)
                .keys(KeySpec::one(&["RW", "update"]), Access::ReadWrite)
                .docs(
                    "string",
                    "2.2.0",
                    "O(N) where N is the length of what is added at or behind the end, or that of the value",
                    "Overwrites a part of a value, after zero bytes if the value is too short.",
                ),
        ]
    }
}

/// Fills the gap between a value's old end and a SETRANGE beyond it.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn check_length(length: usize, added: usize, longest: u64) -> Result<(), ReplyError> {
    match (length as u64).checked_add(added as u64) {
        Some(total) if total <= longest => Ok(()),
        _ => Err(ReplyError::StringTooLong),
    }
}

fn append<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let added = call.args[2];
    let old_bytes = call.string(0)?.map(|value| value.bytes().len());
    match old_bytes {
        Some(bytes) => {
            check_length(bytes, added.len(), call.keyspace.longest_value_bytes())?;
            call.keyspace.extend(0, &[added])?;
        }
        None => call.keyspace.put_argument(0, added, None)?,
    }
    call.reply.integer((old_bytes.unwrap_or(0) + added.len()) as i64);
    Ok(())
}

fn setrange<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let offset = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(ReplyError::text("ERR offset is out of range"));
    };
    let part = call.args[3];
    let old = call.string(0)?;
    let (value, expires_at) = old.map_or((&[][..], None), |value| (value.bytes(), value.expires_at));
    if part.is_empty() {
        call.reply.integer(value.len() as i64);
        return Ok(());
    }
    check_length(offset, part.len(), call.keyspace.longest_value_bytes())?;
    let parts = spliced(value, offset, part);
    // The first piece stays in front.
    match old.is_some() && offset >= value.len() {
        true => call.keyspace.extend(0, &parts[1..])?,
        false => call.keyspace.put(0, ValueKind::String, &parts, expires_at)?,
    }
    call.reply.integer(value.len().max(offset + part.len()) as i64);
    Ok(())
}

/// The pieces of `value` with `part` written over it at `offset`.
pub(super) fn spliced<'v>(value: &'v [u8], offset: usize, part: &'v [u8]) -> SmallVec<[&'v [u8]; 4]> {
    let mut pieces: SmallVec<[&[u8]; 4]> = smallvec![&value[..offset.min(value.len())]];
    let mut gap = offset.saturating_sub(value.len());
    while gap > 0 {
        let zeros = &ZEROS[..gap.min(ZEROS.len())];
        pieces.push(zeros);
        gap -= zeros.len();
    }
    pieces.push(part);
    if let Some(rest) = value.get(offset + part.len()..) {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spliced_overwrites_fills_and_extends() {
        for (value, offset, expected) in [
            ("", 0, "XY"),
            ("abcd", 0, "XYcd"),
            ("abcd", 1, "aXYd"),
            ("abcd", 3, "abcXY"),
            ("abcd", 4, "abcdXY"),
            ("abcd", 6, "abcd\0\0XY"),
        ] {
            assert_eq!(spliced(value.as_bytes(), offset, b"XY").concat(), expected.as_bytes());
        }
        let far = spliced(b"a", 200_000, b"XY").concat();
        assert_eq!(far.len(), 200_002);
        assert!(far[1..200_000].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn check_length_stops_at_the_limit() {
        assert!(check_length(100, 0, 100).is_ok());
        assert!(check_length(99, 1, 100).is_ok());
        assert!(check_length(100, 1, 100).is_err());
        assert!(check_length(usize::MAX, 1, 100).is_err());
    }
}
