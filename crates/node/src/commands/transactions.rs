//! SIDLE.TX: what the coordinator of a transaction over several nodes sends. The executor runs it (`locks`).

use crate::call::{Call, CommandResult, Flow};
use crate::locks::{self, COMMANDS_AT};
use crate::table::{Access, CommandFlags, CommandSpec, KeySpec};
use sidle_commands::reply_help;

const HELP: CommandFlags = CommandFlags::WITHOUT_LEASE.with(CommandFlags::STALE).with(CommandFlags::LOADING);
const OF_KEY: CommandFlags = CommandFlags::WRITE.with(CommandFlags::NO_MULTI).with(CommandFlags::LOCKS);
const LOOK: CommandFlags = CommandFlags::READONLY.with(CommandFlags::NO_MULTI).with(CommandFlags::LOCKS);
const PREPARE: CommandFlags = OF_KEY.with(CommandFlags::DENYOOM).with(CommandFlags::MOVABLE_KEYS);
const LIST: CommandFlags = CommandFlags::WITHOUT_LEASE.with(CommandFlags::ADMIN).with(CommandFlags::STALE);
const RW: &[&str] = &["RW", "access", "update"];

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container("sidle.tx", HELP, SUBCOMMANDS).docs(
    "sidle",
    "0.1.0",
    "Depends on subcommand.",
    "A container for what the coordinator of a transaction over several nodes sends.",
)];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("sidle.tx|prepare", -12, PREPARE, not_alone)
        .keys(KeySpec::of_checked(RW, COMMANDS_AT), Access::ReadWrite)
        .docs(
            "sidle",
            "0.1.0",
            "O(N) where N is the cost of the commands",
            "Locks the keys of some commands with what they are to write, if all that was read still holds.",
        ),
    of_key("sidle.tx|decide", 5, "Writes what a transaction is to write at a key, or frees the key."),
    of_key("sidle.tx|resolve", 4, "Returns a key's vote for a transaction. If it has none, it will refuse."),
    of_key("sidle.tx|forget", 4, "Has a key forget a transaction that is over, and nobody asks for."),
    CommandSpec::new("sidle.tx|look", 3, LOOK, not_alone)
        .keys(KeySpec::second(&["RO", "access"]), Access::Read)
        .docs(
            "sidle",
            "0.1.0",
            "O(1)",
            "Returns the state of a key: each change of the key gives it another one.",
        ),
    of_key("sidle.tx|settle", 4, "Has a key keep a transaction that is over for some minutes only."),
    CommandSpec::new("sidle.tx|list", 2, LIST, list).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of keys that have anything of transactions",
        "Returns the keys of this node that transactions have locked, as JSON.",
    ),
    CommandSpec::new("sidle.tx|help", 2, HELP, help).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Returns helpful text about the different subcommands.",
    ),
];

const fn of_key(name: &'static str, arity: i16, summary: &'static str) -> CommandSpec {
    CommandSpec::new(name, arity, OF_KEY, not_alone).keys(KeySpec::second(RW), Access::ReadWrite).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the length of what is written",
        summary,
    )
}

/// The executor runs it.
fn not_alone(_: &mut Call<'_>) -> CommandResult {
    unreachable!("no transaction queues it")
}

fn list(call: &mut Call<'_>) -> CommandResult {
    let json = locks::list(call.store, call.ranges.owned(), call.now);
    call.reply.bulk(json.as_bytes());
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "SIDLE.TX",
        &[
            "PREPARE <id> <age> <issued> <marks> <first> <list> <keys> <check> <words> <command> ...",
            "    Vote for a transaction with these commands, or commit it at once (marks: 1 alone, 2 errors).",
            "DECIDE <key> <id> COMMIT|ABORT",
            "    Carry out a decision at a key.",
            "LIST",
            "    Return the keys of this node that are locked, as JSON.",
            "RESOLVE <key> <id>",
            "    Return a key's vote; without one it refuses from now on.",
            "FORGET <key> <id>",
            "    Forget a transaction that is over.",
            "LOOK <key>",
            "    Return the state of a key, as 8 bytes; of one without a value none.",
            "SETTLE <key> <id>",
            "    Keep a transaction that is over for minutes.",
        ],
    );
    Ok(Flow::Done)
}
