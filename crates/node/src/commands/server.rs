//! The node as a whole: FLUSHALL, FLUSHDB, TIME, WAIT, SHUTDOWN; and what it has none of: ROLE, MODULE.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::{Decimal, parse_i64, reply_help};

const FLUSH: CommandFlags = CommandFlags::WRITE.with(CommandFlags::KEYSPACE).with(CommandFlags::DANGEROUS);
const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const ADMIN: CommandFlags =
    CommandFlags::ADMIN.with(CommandFlags::NOSCRIPT).with(CommandFlags::LOADING).with(CommandFlags::STALE);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("flushall", -1, FLUSH, flush)
        .docs("server", "1.0.0", "O(N) where N is the number of keys", "Removes every key of this node.")
        .tips(EVERYWHERE),
    CommandSpec::new("flushdb", -1, FLUSH, flush)
        .docs("server", "1.0.0", "O(N) where N is the number of keys", "Removes every key of this node.")
        .tips(EVERYWHERE),
    CommandSpec::new(
        "time",
        1,
        CommandFlags::LOADING
            .with(CommandFlags::STALE)
            .with(CommandFlags::FAST)
            .with(CommandFlags::WITHOUT_LEASE),
        time,
    )
    .docs("server", "2.6.0", "O(1)", "Returns the node's clock: seconds, and microseconds within the second.")
    .tips(&["nondeterministic_output"]),
    CommandSpec::new(
        "role",
        1,
        CommandFlags::NOSCRIPT
            .with(CommandFlags::LOADING)
            .with(CommandFlags::STALE)
            .with(CommandFlags::FAST)
            .with(CommandFlags::WITHOUT_LEASE)
            .with(CommandFlags::DANGEROUS),
        role,
    )
    .docs("server", "2.8.12", "O(1)", "Returns that the node is a master, which has no replicas."),
    CommandSpec::container("module", CommandFlags::NONE, MODULE_SUBCOMMANDS).docs(
        "server",
        "4.0.0",
        "Depends on subcommand",
        "Lists modules, of which there are none.",
    ),
    CommandSpec::new("wait", 3, CommandFlags::NOSCRIPT.with(CommandFlags::CONNECTION), wait)
        .docs(
            "generic",
            "3.0.0",
            "O(1)",
            "Waits for so many copies of the durable log, or for so long; returns how many have all that was written.",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    CommandSpec::new(
        "shutdown",
        -1,
        ADMIN.with(CommandFlags::NO_MULTI).with(CommandFlags::ALLOW_BUSY).with(CommandFlags::WITHOUT_LEASE),
        shutdown,
    )
    .docs("server", "1.0.0", "O(1)", "Ends the process."),
];

const MODULE_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(
        "module|list",
        2,
        CommandFlags::ADMIN.with(CommandFlags::WITHOUT_LEASE).with(CommandFlags::NOSCRIPT),
        module_list,
    )
    .docs("server", "4.0.0", "O(1)", "Lists modules: there are none.")
    .tips(&["nondeterministic_output_order"]),
    CommandSpec::new(
        "module|help",
        2,
        CommandFlags::LOADING.with(CommandFlags::WITHOUT_LEASE).with(CommandFlags::STALE),
        module_help,
    )
    .docs("server", "5.0.0", "O(1)", "Lists the subcommands."),
];

fn flush(call: &mut Call<'_>) -> CommandResult {
    match call.args[1..] {
        [] => Ok(Flow::Flush),
        [how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => Ok(Flow::Flush),
        _ => Err(ReplyError::Syntax),
    }
}

fn time(call: &mut Call<'_>) -> CommandResult {
    let ms = call.now.0;
    call.reply.array(2);
    call.reply.bulk(Decimal::new((ms / 1000) as i64).as_bytes());
    call.reply.bulk(Decimal::new((ms % 1000 * 1000) as i64).as_bytes());
    Ok(Flow::Done)
}

fn role(call: &mut Call<'_>) -> CommandResult {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(Flow::Done)
}

fn module_list(call: &mut Call<'_>) -> CommandResult {
    call.reply.array(0);
    Ok(Flow::Done)
}

fn module_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(&mut call.reply, "MODULE", &["LIST", "    List modules: there are none."]);
    Ok(Flow::Done)
}

/// The replicas are the copies of the durable log at other nodes. With too few of them it takes its time.
fn wait(call: &mut Call<'_>) -> CommandResult {
    let replicas = parse_i64(call.args[1]).ok_or(ReplyError::NotAnInteger)?;
    let timeout_ms =
        parse_i64(call.args[2]).ok_or(ReplyError::text("ERR timeout is not an integer or out of range"))?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| ReplyError::text("ERR timeout is negative"))?;
    let copies = super::persistence::copies(call);
    let route = &call.session.route;
    let is_over = route.waited_out || route.wait.as_ref().is_some_and(|wait| wait.is_over);
    if copies < replicas && !is_over && !call.session.is_forwarded {
        return Ok(Flow::Block(timeout_ms));
    }
    call.reply.integer(copies);
    Ok(Flow::Done)
}

/// SAVE and NOSAVE change nothing: nothing is saved in either case.
fn shutdown(call: &mut Call<'_>) -> CommandResult {
    let (mut save, mut nosave, mut abort, mut other) = (false, false, false, false);
    for option in &call.args[1..] {
        match option.to_ascii_lowercase().as_slice() {
            b"save" => save = true,
            b"nosave" => nosave = true,
            b"abort" => abort = true,
            b"now" | b"force" => other = true,
            _ => return Err(ReplyError::Syntax),
        }
    }
    match (abort, save || nosave || other) {
        (true, true) => Err(ReplyError::Syntax),
        (true, false) => Err(ReplyError::text("ERR No shutdown in progress.")),
        (false, _) if save && nosave => Err(ReplyError::Syntax),
        (false, _) => Ok(Flow::Shutdown),
    }
}
