//! Reading strings: GET, MGET, STRLEN, GETRANGE, SUBSTR.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec, Split};
use sidle_types::ValueKind;

const SLOW: CommandFlags = CommandFlags::READONLY.with(CommandFlags::STRING);
const FAST: CommandFlags = SLOW.with(CommandFlags::FAST);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("get", 2, FAST, get)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .double_read()
                .docs("string", "1.0.0", "O(1)", "Returns the value of a key."),
            CommandSpec::over_keys("mget", -2, FAST, mget)
                .keys(KeySpec::all(&["RO", "access"]), Access::Read)
                .split(Split::Each)
                .docs(
                    "string",
                    "1.0.0",
                    "O(N) where N is the number of keys",
                    "Returns the values of several keys.",
                )
                .tips(&["request_policy:multi_shard"]),
            CommandSpec::over_keys("strlen", 2, FAST, strlen).keys(KeySpec::one(&["RO"]), Access::Read).docs(
                "string",
                "2.2.0",
                "O(1)",
                "Returns how many bytes a value has.",
            ),
            CommandSpec::over_keys("getrange", 4, SLOW, getrange)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .docs(
                    "string",
                    "2.4.0",
                    "O(N) where N is the length of the result",
                    "Returns a part of a value.",
                ),
            CommandSpec::over_keys("substr", 4, SLOW, getrange)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .docs(
                    "string",
                    "1.0.0",
                    "O(N) where N is the length of the result",
                    "GETRANGE by its older name.",
                )
                .deprecated("2.0.0", "`GETRANGE`"),
        ]
    }
}

fn get<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let value = call.look_up_string(0)?;
    call.reply_value(value);
    Ok(())
}

fn mget<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let values = call.look_up_all();
    call.reply.array(values.len());
    for value in values {
        call.reply_value(value.filter(|value| value.kind == ValueKind::String));
    }
    Ok(())
}

fn strlen<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let value = call.look_up_string(0)?;
    call.reply.integer(value.map_or(0, |value| value.bytes().len() as i64));
    Ok(())
}

fn getrange<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let first = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let last = parse_i64(call.args[3]).ok_or(ReplyError::NotAnInteger)?;
    let part = match call.look_up_string(0)? {
        Some(value) => part(value.bytes(), first, last),
        None => &[],
    };
    call.reply.bulk(part);
    Ok(())
}

/// `value[first..=last]`, negative indices counting from the end, clamped to the value.
fn part(value: &[u8], first: i64, last: i64) -> &[u8] {
    if first < 0 && last < 0 && first > last {
        return &[];
    }
    let length = value.len() as i64;
    let from_start = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (first, last) = (from_start(first), from_start(last).min(length - 1));
    if first > last { &[] } else { &value[first as usize..=last as usize] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_counts_from_both_ends() {
        for (first, last, expected) in [
            (0, -1, "This is a string"),
            (0, 3, "This"),
            (-3, -1, "ing"),
            (10, 100, "string"),
            (100, 200, ""),
            (5, 3, ""),
            (-1, -3, ""),
            (-100, -100, "T"),
            (-100, 1, "Th"),
            (0, -100, "T"),
            (i64::MIN, i64::MAX, "This is a string"),
            (i64::MAX, i64::MIN, ""),
        ] {
            assert_eq!(part(b"This is a string", first, last), expected.as_bytes(), "{first} {last}");
            assert_eq!(part(b"", first, last), b"");
        }
    }
}
