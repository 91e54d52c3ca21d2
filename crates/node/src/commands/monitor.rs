//! MONITOR: the connection is shown every command that the node runs.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{CommandFlags, CommandSpec};

const FLAGS: CommandFlags =
    CommandFlags::ADMIN.with(CommandFlags::NOSCRIPT).with(CommandFlags::LOADING).with(CommandFlags::STALE);

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::new("monitor", 1, FLAGS, monitor).docs(
    "server",
    "1.0.0",
    "O(1)",
    "Shows this connection every command that the node runs.",
)];

/// As in Redis, a second MONITOR does nothing, and has no reply.
fn monitor(call: &mut Call<'_>) -> CommandResult {
    if call.is_locked {
        return Err(ReplyError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !call.session.is_monitoring() {
        call.reply.ok();
        let monitoring = call.shared.monitors.begin(call.worker, &call.session.client.lines);
        call.session.set_monitoring(Some(monitoring));
    }
    Ok(Flow::Done)
}
