//! PING and ECHO.

use crate::call::{Call, CommandResult, Flow};
use crate::reply_error::ReplyError;
use crate::spec::{CommandFlags, CommandSpec};

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("ping", -1, CommandFlags::FAST.with(CommandFlags::CONNECTION), ping)
        .docs("connection", "1.0.0", "O(1)", "Answers, to show that the node is there.")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    CommandSpec::new(
        "echo",
        2,
        CommandFlags::LOADING
            .with(CommandFlags::STALE)
            .with(CommandFlags::FAST)
            .with(CommandFlags::CONNECTION),
        echo,
    )
    .docs("connection", "1.0.0", "O(1)", "Answers with its argument."),
];

fn ping(call: &mut Call<'_>) -> CommandResult {
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(ReplyError::WrongArity("ping")),
    }
    Ok(Flow::Done)
}

fn echo(call: &mut Call<'_>) -> CommandResult {
    call.reply.bulk(call.args[1]);
    Ok(Flow::Done)
}
