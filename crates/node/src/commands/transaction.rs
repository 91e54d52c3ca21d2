//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: transactions do not exist, and no reply may suggest otherwise.
//!
//! Clients send a whole transaction at once. After a refused MULTI the dispatcher refuses everything up to
//! EXEC or DISCARD ([`Session::refuses_transaction`](crate::Session::refuses_transaction)). So nothing of it
//! runs.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{Access, CommandFlags, CommandSpec, KeySpec};

const FLAGS: CommandFlags = CommandFlags::NOSCRIPT
    .with(CommandFlags::LOADING)
    .with(CommandFlags::STALE)
    .with(CommandFlags::FAST)
    .with(CommandFlags::ALLOW_BUSY)
    .with(CommandFlags::TRANSACTION);
const EXEC: CommandFlags = CommandFlags::NOSCRIPT
    .with(CommandFlags::SKIP_SLOWLOG)
    .with(CommandFlags::LOADING)
    .with(CommandFlags::STALE)
    .with(CommandFlags::TRANSACTION);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("multi", 1, FLAGS, multi).docs(
        "transactions",
        "1.2.0",
        "O(1)",
        "Refused, with everything up to EXEC or DISCARD: there are no transactions.",
    ),
    CommandSpec::new("exec", 1, EXEC, exec).docs(
        "transactions",
        "1.2.0",
        "O(1)",
        "Ends a transaction that was refused: nothing of it was executed.",
    ),
    CommandSpec::new("discard", 1, FLAGS, discard).docs(
        "transactions",
        "2.0.0",
        "O(1)",
        "Ends a transaction that was refused: nothing of it was executed.",
    ),
    CommandSpec::new("watch", -2, FLAGS, watch).keys(KeySpec::all(&["RO"]), Access::NoKeys).docs(
        "transactions",
        "2.2.0",
        "O(1)",
        "Refused: there are no transactions.",
    ),
    CommandSpec::new("unwatch", 1, FLAGS, unwatch).docs(
        "transactions",
        "2.2.0",
        "O(1)",
        "Does nothing: no key is ever watched.",
    ),
];

/// The reply to a command between a refused MULTI and its EXEC.
pub(crate) const NOT_EXECUTED: ReplyError = ReplyError::text(
    "ERR not executed: this connection sent MULTI, and transactions are not supported. \
     Send EXEC or DISCARD first",
);

/// The reply to an EXEC that is refused before it runs, as from Redis: the transaction is over, and why.
pub(crate) fn aborted(error: &ReplyError) -> ReplyError {
    // Redis leaves its general code out.
    let line = error.line();
    let why = line.strip_prefix(b"ERR ").unwrap_or(&line);
    ReplyError::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}

fn multi(call: &mut Call<'_>) -> CommandResult {
    if call.session.refuses_transaction {
        return Err(ReplyError::text("ERR MULTI calls can not be nested"));
    }
    call.session.refuses_transaction = true;
    Err(ReplyError::text("ERR MULTI is not supported: nothing is executed until EXEC or DISCARD"))
}

fn exec(call: &mut Call<'_>) -> CommandResult {
    if !std::mem::take(&mut call.session.refuses_transaction) {
        return Err(ReplyError::text("ERR EXEC without MULTI"));
    }
    Err(ReplyError::text("EXECABORT Transaction discarded because of previous errors."))
}

fn discard(call: &mut Call<'_>) -> CommandResult {
    if !std::mem::take(&mut call.session.refuses_transaction) {
        return Err(ReplyError::text("ERR DISCARD without MULTI"));
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn watch(call: &mut Call<'_>) -> CommandResult {
    if call.session.refuses_transaction {
        return Err(ReplyError::text("ERR WATCH inside MULTI is not allowed"));
    }
    Err(ReplyError::text("ERR WATCH is not supported: no key is watched"))
}

fn unwatch(call: &mut Call<'_>) -> CommandResult {
    call.reply.ok();
    Ok(Flow::Done)
}
