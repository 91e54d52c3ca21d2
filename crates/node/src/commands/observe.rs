//! SLOWLOG and LATENCY: nothing is recorded, and they say so, as a Redis does that had nothing to record.

use super::reply_help;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::number::parse_i64;
use crate::spec::{CommandFlags, CommandSpec};

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE);
const SLOWLOG: CommandFlags = HELP.with(CommandFlags::ADMIN);
const LATENCY: CommandFlags = SLOWLOG.with(CommandFlags::NOSCRIPT);
const VARIES: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("slowlog", CommandFlags::NONE, SLOWLOG_SUBCOMMANDS).docs(
        "server",
        "2.2.12",
        "Depends on subcommand",
        "Tells of slow commands.",
    ),
    CommandSpec::container("latency", CommandFlags::NONE, LATENCY_SUBCOMMANDS).docs(
        "server",
        "2.8.13",
        "Depends on subcommand",
        "Tells of latency spikes.",
    ),
];

const SLOWLOG_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("slowlog|get", -2, SLOWLOG, slowlog_get)
        .docs("server", "2.2.12", "O(1)", "Returns slow commands: none are recorded.")
        .tips(&["request_policy:all_nodes", "nondeterministic_output"]),
    CommandSpec::new("slowlog|len", 2, SLOWLOG, zero)
        .docs("server", "2.2.12", "O(1)", "Returns how many slow commands are recorded.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    CommandSpec::new("slowlog|reset", 2, SLOWLOG, ok)
        .docs("server", "2.2.12", "O(1)", "Forgets slow commands.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    CommandSpec::new("slowlog|help", 2, HELP, slowlog_help).docs(
        "server",
        "6.2.0",
        "O(1)",
        "Tells of the subcommands.",
    ),
];

const LATENCY_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("latency|latest", 2, LATENCY, empty_array)
        .docs("server", "2.8.13", "O(1)", "Returns the latest latency spikes: none are recorded.")
        .tips(VARIES),
    CommandSpec::new("latency|history", 3, LATENCY, empty_array)
        .docs("server", "2.8.13", "O(1)", "Returns one event's latency spikes: none are recorded.")
        .tips(VARIES),
    CommandSpec::new("latency|histogram", -2, LATENCY, latency_histogram)
        .docs("server", "7.0.0", "O(1)", "Returns commands' latencies: none are recorded.")
        .tips(VARIES),
    CommandSpec::new("latency|reset", -2, LATENCY, zero)
        .docs("server", "2.8.13", "O(1)", "Forgets latency spikes.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    CommandSpec::new("latency|help", 2, HELP, latency_help).docs(
        "server",
        "2.8.13",
        "O(1)",
        "Tells of the subcommands.",
    ),
];

fn slowlog_get(call: &mut Call<'_>) -> CommandResult {
    match call.args[2..] {
        [] => {}
        [count] if parse_i64(count).is_some_and(|count| count >= -1) => {}
        [_] => return Err(ReplyError::text("ERR count should be greater than or equal to -1")),
        _ => {
            let word = call.args[1];
            let rest = b"'. Try SLOWLOG HELP.";
            return Err(ReplyError::owned(
                [b"ERR unknown subcommand or wrong number of arguments for '", word, rest].concat(),
            ));
        }
    }
    empty_array(call)
}

fn zero(call: &mut Call<'_>) -> CommandResult {
    call.reply.integer(0);
    Ok(Flow::Done)
}

fn ok(call: &mut Call<'_>) -> CommandResult {
    call.reply.ok();
    Ok(Flow::Done)
}

fn empty_array(call: &mut Call<'_>) -> CommandResult {
    call.reply.array(0);
    Ok(Flow::Done)
}

fn latency_histogram(call: &mut Call<'_>) -> CommandResult {
    call.reply.map(0);
    Ok(Flow::Done)
}

fn slowlog_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        call,
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    Return slow commands. None are recorded.",
            "LEN",
            "    Return how many there are: 0.",
            "RESET",
            "    Forget them.",
        ],
    );
    Ok(Flow::Done)
}

fn latency_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        call,
        "LATENCY",
        &[
            "HISTOGRAM [<command> ...]",
            "    Return commands' latencies. None are recorded.",
            "HISTORY <event>",
            "    Return an event's latency spikes. None are recorded.",
            "LATEST",
            "    Return the latest latency spikes. None are recorded.",
            "RESET [<event> ...]",
            "    Forget them.",
        ],
    );
    Ok(Flow::Done)
}
