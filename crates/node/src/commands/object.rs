//! How a key is kept: OBJECT and MEMORY USAGE.

use super::reply_help;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::number::parse_i64;
use crate::spec::{Access, CommandFlags, CommandSpec, KeySpec};
use sidle_store::Record;

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE);
const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::KEYSPACE);
const KEY: KeySpec = KeySpec::second(&["RO"]);
const VARIES: &[&str] = &["nondeterministic_output"];

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("object", CommandFlags::NONE, OBJECT_SUBCOMMANDS).docs(
        "generic",
        "2.2.3",
        "Depends on subcommand",
        "Tells how a value is kept.",
    ),
    CommandSpec::container("memory", CommandFlags::NONE, MEMORY_SUBCOMMANDS).docs(
        "server",
        "4.0.0",
        "Depends on subcommand",
        "Tells what takes memory.",
    ),
];

const OBJECT_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("object|encoding", 3, READ, encoding)
        .keys(KEY, Access::Read)
        .docs("generic", "2.2.3", "O(1)", "Returns how Redis would encode the value.")
        .tips(VARIES),
    CommandSpec::new("object|freq", 3, READ, freq)
        .keys(KEY, Access::Read)
        .docs("generic", "4.0.0", "O(1)", "Refused: how often keys are read is not counted.")
        .tips(VARIES),
    CommandSpec::new("object|refcount", 3, READ, refcount)
        .keys(KEY, Access::Read)
        .docs("generic", "2.2.3", "O(1)", "Returns 1: values are never shared.")
        .tips(VARIES),
    CommandSpec::new("object|help", 2, HELP.with(CommandFlags::KEYSPACE), object_help).docs(
        "generic",
        "6.2.0",
        "O(1)",
        "Tells of the subcommands.",
    ),
];

const MEMORY_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("memory|usage", -3, CommandFlags::READONLY, usage).keys(KEY, Access::Read).docs(
        "server",
        "4.0.0",
        "O(1)",
        "Estimates how many bytes a key and its value take.",
    ),
    CommandSpec::new("memory|help", 2, HELP, memory_help).docs(
        "server",
        "4.0.0",
        "O(1)",
        "Tells of the subcommands.",
    ),
];

/// Up to so many bytes Redis keeps a string in one piece with its header.
const EMBEDDED_BYTES: usize = 44;
/// A record's header and its share of an index bucket that is three quarters full.
const BYTES_PER_KEY: usize = 24 + 12;

fn encoding_of(value: &[u8]) -> &'static [u8] {
    if parse_i64(value).is_some() {
        b"int"
    } else if value.len() <= EMBEDDED_BYTES {
        b"embstr"
    } else {
        b"raw"
    }
}

fn encoding(call: &mut Call<'_>) -> CommandResult {
    with_record(call, |call, record| {
        call.reply.bulk(encoding_of(record.value()));
        Ok(Flow::Done)
    })
}

fn freq(call: &mut Call<'_>) -> CommandResult {
    with_record(call, |_, _| {
        Err(ReplyError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ))
    })
}

fn refcount(call: &mut Call<'_>) -> CommandResult {
    with_record(call, |call, _| {
        call.reply.integer(1);
        Ok(Flow::Done)
    })
}

fn usage(call: &mut Call<'_>) -> CommandResult {
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
    with_record(call, |call, record| {
        let deadline_bytes = if record.expires_at().is_some() { 8 } else { 0 };
        let bytes = record.key().len() + record.value().len() + deadline_bytes;
        // Records are aligned to eight bytes.
        call.reply.integer((bytes.next_multiple_of(8) + BYTES_PER_KEY) as i64);
        Ok(Flow::Done)
    })
}

/// Null when there is no such key, whatever is asked of it.
fn with_record(
    call: &mut Call<'_>,
    answer: impl FnOnce(&mut Call<'_>, Record<'_>) -> CommandResult,
) -> CommandResult {
    let guard = call.store.pin();
    match call.look_up(&guard, 0) {
        Some(record) => answer(call, record),
        None => {
            call.reply.null();
            Ok(Flow::Done)
        }
    }
}

fn object_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        call,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return how Redis would encode the value.",
            "FREQ <key>",
            "    Refused: how often keys are read is not counted.",
            "REFCOUNT <key>",
            "    Return 1: values are never shared.",
        ],
    );
    Ok(Flow::Done)
}

fn memory_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        call,
        "MEMORY",
        &["USAGE <key> [SAMPLES <count>]", "    Estimate how many bytes a key and its value take."],
    );
    Ok(Flow::Done)
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
            assert_eq!(encoding_of(value.as_bytes()), encoding.as_bytes(), "{value}");
        }
    }
}
