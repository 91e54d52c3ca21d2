//! CLIENT PAUSE and CLIENT UNPAUSE.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::pause::Paused;
use sidle_commands::parse_i64;
use sidle_types::MonotonicUs;

/// `CLIENT PAUSE <milliseconds> [WRITE|ALL]`. It replies when all workers have seen it (A1), but in a
/// transaction, which waits for nothing, at once.
pub(super) fn pause(call: &mut Call<'_>) -> CommandResult {
    let number = match call.session.route.begun {
        Some(number) => number,
        None => begin(call)?,
    };
    call.session.route.begun = Some(number);
    if !call.is_locked && !call.shared.pause.is_seen(number) {
        return Ok(Flow::Block(0));
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn begin(call: &Call<'_>) -> Result<u64, ReplyError> {
    let kind = match call.args[3..] {
        [] => Paused::All,
        [kind] if kind.eq_ignore_ascii_case(b"all") => Paused::All,
        [kind] if kind.eq_ignore_ascii_case(b"write") => Paused::Writes,
        [_] => return Err(ReplyError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    };
    let ms =
        parse_i64(call.args[2]).ok_or(ReplyError::text("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| ReplyError::text("ERR timeout is negative"))?;
    let until = MonotonicUs(call.mono.0.saturating_add(ms.saturating_mul(1000)));
    let number = call.shared.pause.begin(kind, call.mono, until);
    // No other command of this worker is under way.
    call.shared.pause.pass(call.worker);
    Ok(number)
}

pub(super) fn unpause(call: &mut Call<'_>) -> CommandResult {
    call.shared.pause.end();
    call.reply.ok();
    Ok(Flow::Done)
}
