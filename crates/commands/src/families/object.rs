//! Storage of a key: OBJECT and MEMORY USAGE.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Value;
use crate::number::parse_i64;
use crate::reply::{Reply, reply_help};
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_types::ValueKind;

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::WITHOUT_LEASE);
const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::KEYSPACE);
const KEY: KeySpec = KeySpec::second(&["RO"]);
const VARIES: &[&str] = &["nondeterministic_output"];

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[CommandSpec::container("object", CommandFlags::NONE, object_subcommands()).docs(
            "generic",
            "2.2.3",
            "Depends on subcommand",
            "Reports how a value is kept.",
        )]
    }
}

const fn object_subcommands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("object|encoding", 3, READ, encoding)
                .keys(KEY, Access::Read)
                .docs("generic", "2.2.3", "O(1)", "Returns how Redis would encode the value.")
                .tips(VARIES),
            CommandSpec::over_keys("object|freq", 3, READ, freq)
                .keys(KEY, Access::Read)
                .docs("generic", "4.0.0", "O(1)", "Refused: how often keys are read is not counted.")
                .tips(VARIES),
            CommandSpec::over_keys("object|idletime", 3, READ, idletime)
                .keys(KEY, Access::Read)
                .docs("generic", "2.2.3", "O(1)", "Returns 0: when a key was last used is not kept.")
                .tips(VARIES),
            CommandSpec::over_keys("object|refcount", 3, READ, refcount)
                .keys(KEY, Access::Read)
                .docs("generic", "2.2.3", "O(1)", "Returns 1: values are never shared.")
                .tips(VARIES),
            CommandSpec::over_keys("object|help", 2, HELP.with(CommandFlags::KEYSPACE), object_help).docs(
                "generic",
                "6.2.0",
                "O(1)",
                "Lists the subcommands.",
            ),
        ]
    }
}

/// MEMORY USAGE, for an executor that has the other subcommands.
pub const fn memory_usage<E: Executor>() -> CommandSpec<E> {
    CommandSpec::over_keys("memory|usage", -3, CommandFlags::READONLY, usage).keys(KEY, Access::Read).docs(
        "server",
        "4.0.0",
        "O(1)",
        "Estimates how many bytes a key and its value take.",
    )
}

/// Redis embeds strings up to this length in the object's header.
const EMBEDDED_BYTES: usize = 44;
/// A record's header and its share of an index bucket that is three quarters full.
const BYTES_PER_KEY: usize = 24 + 12;
/// A chunk's header and name, and what its record is rounded up by.
const BYTES_PER_CHUNK: usize = 20 + 17 + 4;

/// How Redis would encode a value.
pub fn encoding_of(value: Value<'_>) -> &'static str {
    match value.kind {
        ValueKind::String if parse_i64(value.bytes()).is_some() => "int",
        ValueKind::String if value.bytes().len() <= EMBEDDED_BYTES => "embstr",
        ValueKind::String | ValueKind::Completions | ValueKind::Locks => "raw",
        _ => value.encoding().name(),
    }
}

fn encoding<E: Executor>(call: &mut Call<'_, E>) -> Done {
    with_value(call, |call, value| {
        call.reply.bulk(encoding_of(value).as_bytes());
        Ok(())
    })
}

fn freq<E: Executor>(call: &mut Call<'_, E>) -> Done {
    with_value(call, |_, _| {
        Err(ReplyError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ))
    })
}

fn idletime<E: Executor>(call: &mut Call<'_, E>) -> Done {
    with_value(call, |call, _| {
        call.reply.integer(0);
        Ok(())
    })
}

fn refcount<E: Executor>(call: &mut Call<'_, E>) -> Done {
    with_value(call, |call, _| {
        call.reply.integer(1);
        Ok(())
    })
}

fn usage<E: Executor>(call: &mut Call<'_, E>) -> Done {
    match call.args[3..] {
        [] => {}
        [option, count] if option.eq_ignore_ascii_case(b"samples") => {
            let count = parse_i64(count).ok_or(ReplyError::NotAnInteger)?;
            if count < 0 {
                return Err(ReplyError::Syntax);
            }
        }
        _ => return Err(ReplyError::Syntax),
    }
    with_value(call, |call, value| {
        let deadline_bytes = if value.expires_at.is_some() { 8 } else { 0 };
        let chunks_bytes = value.chunk_count() * BYTES_PER_CHUNK;
        let bytes = call.args[2].len() + value.content_bytes() + chunks_bytes + deadline_bytes;
        // Records are aligned to eight bytes.
        call.reply.integer((bytes.next_multiple_of(8) + BYTES_PER_KEY) as i64);
        Ok(())
    })
}

/// Runs on the key's value, or replies with null if there is none.
fn with_value<E: Executor>(
    call: &mut Call<'_, E>,
    answer: impl FnOnce(&mut Call<'_, E>, Value<'_>) -> Done,
) -> Done {
    match call.look_up(0) {
        Some(value) => answer(call, value),
        None => {
            call.reply.null();
            Ok(())
        }
    }
}

fn object_help<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_help(
        &mut call.reply,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return how Redis would encode the value if it were set whole.",
            "FREQ <key>",
            "    Refused: how often keys are read is not counted.",
            "IDLETIME <key>",
            "    Return 0: when a key was last used is not kept.",
            "REFCOUNT <key>",
            "    Return 1: values are never shared.",
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_follows_the_value() {
        for (value, encoding) in [
            ("1", "int"),
            ("-9223372036854775808", "int"),
            ("9223372036854775808", "embstr"),
            ("01", "embstr"),
            ("", "embstr"),
            (&"x".repeat(44), "embstr"),
            (&"x".repeat(45), "raw"),
        ] {
            let value = Value::string(value.as_bytes());
            assert_eq!(encoding_of(value), encoding, "{value:?}");
        }
    }
}
