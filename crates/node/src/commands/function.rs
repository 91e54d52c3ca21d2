//! FUNCTION: there are no functions, so none are listed, and removing all is done at once.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::reply_help;

const HELP: CommandFlags = CommandFlags::WITHOUT_LEASE
    .with(CommandFlags::LOADING)
    .with(CommandFlags::STALE)
    .with(CommandFlags::SCRIPTING);
const NOSCRIPT: CommandFlags = CommandFlags::NOSCRIPT.with(CommandFlags::SCRIPTING);

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    "function",
    CommandFlags::NONE,
    SUBCOMMANDS,
)
.docs("scripting", "7.0.0", "Depends on subcommand", "Lists functions, of which there are none.")];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("function|flush", -2, NOSCRIPT.with(CommandFlags::WRITE), flush)
        .docs("scripting", "7.0.0", "O(1)", "Removes all functions: there are none.")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    CommandSpec::new("function|list", -2, NOSCRIPT.with(CommandFlags::WITHOUT_LEASE), list)
        .docs("scripting", "7.0.0", "O(1)", "Lists functions: there are none.")
        .tips(&["nondeterministic_output_order"]),
    CommandSpec::new("function|help", 2, HELP, help).docs(
        "scripting",
        "7.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
];

fn flush(call: &mut Call<'_>) -> CommandResult {
    let is_mode = |mode: &[u8]| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async");
    match call.args[2..] {
        [] => {}
        [mode] if is_mode(mode) => {}
        [_] => return Err(ReplyError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn list(call: &mut Call<'_>) -> CommandResult {
    let (mut options, mut has_code, mut has_name) = (&call.args[2..], false, false);
    while let [option, rest @ ..] = options {
        options = rest;
        if !has_code && option.eq_ignore_ascii_case(b"withcode") {
            has_code = true;
        } else if !has_name && option.eq_ignore_ascii_case(b"libraryname") {
            let [_, rest @ ..] = options else {
                return Err(ReplyError::text("ERR library name argument was not given"));
            };
            (options, has_name) = (rest, true);
        } else {
            return Err(ReplyError::owned([b"ERR Unknown argument ", *option].concat()));
        }
    }
    call.reply.array(0);
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "FUNCTION",
        &[
            "FLUSH [ASYNC|SYNC]",
            "    Remove all functions: there are none.",
            "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
            "    List functions: there are none.",
        ],
    );
    Ok(Flow::Done)
}
