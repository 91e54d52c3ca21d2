//! MULTI, EXEC, DISCARD, WATCH, UNWATCH. The dispatcher queues what comes between MULTI and EXEC, and the
//! executor runs it (`execute_all`). EXEC's own function is for an EXEC that runs nothing.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{Access, CommandFlags, CommandSpec, KeySpec};
use sidle_types::HashedKey;

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
        "Begins a transaction: commands are queued from here on.",
    ),
    // Its keys are those of the queued commands.
    CommandSpec::new("exec", 1, EXEC, exec).keys(KeySpec::NONE, Access::ReadWrite).docs(
        "transactions",
        "1.2.0",
        "Depends on the commands",
        "Runs all queued commands as one change.",
    ),
    CommandSpec::new("discard", 1, FLAGS, discard).docs(
        "transactions",
        "2.0.0",
        "O(1)",
        "Ends the transaction: nothing of it is executed.",
    ),
    CommandSpec::new("watch", -2, FLAGS, watch).keys(KeySpec::all(&["RO"]), Access::Read).docs(
        "transactions",
        "2.2.0",
        "O(N) where N is the number of keys",
        "Lets the next EXEC run only if none of these keys changes before it.",
    ),
    CommandSpec::new("unwatch", 1, FLAGS, unwatch).docs(
        "transactions",
        "2.2.0",
        "O(1)",
        "Forgets all watched keys.",
    ),
];

const MULTI_NESTED: ReplyError = ReplyError::text("ERR MULTI calls can not be nested");
const WITHOUT_MULTI: ReplyError = ReplyError::text("ERR EXEC without MULTI");
const SPOILT: ReplyError = ReplyError::text("EXECABORT Transaction discarded because of previous errors.");

fn multi(call: &mut Call<'_>) -> CommandResult {
    if call.session.transaction.is_some() {
        return Err(MULTI_NESTED);
    }
    call.session.begin_transaction();
    call.reply.ok();
    Ok(Flow::Done)
}

/// Without a transaction that may run.
fn exec(call: &mut Call<'_>) -> CommandResult {
    if call.session.transaction.is_none() {
        return Err(WITHOUT_MULTI);
    }
    call.session.end_transaction();
    Err(SPOILT)
}

fn discard(call: &mut Call<'_>) -> CommandResult {
    if call.session.transaction.is_none() {
        return Err(ReplyError::text("ERR DISCARD without MULTI"));
    }
    call.session.end_transaction();
    call.reply.ok();
    Ok(Flow::Done)
}

fn watch(call: &mut Call<'_>) -> CommandResult {
    if call.session.transaction.is_some() {
        return Err(ReplyError::text("ERR WATCH inside MULTI is not allowed"));
    }
    let (args, ranges, now) = (call.args, call.ranges, call.now);
    call.session.watch(call.store, |watch| {
        args[1..].iter().for_each(|key| watch.add(HashedKey::new(key), ranges, now));
    });
    call.reply.ok();
    Ok(Flow::Done)
}

/// In a transaction it does nothing: EXEC has checked the keys, and forgets them itself.
fn unwatch(call: &mut Call<'_>) -> CommandResult {
    if !call.is_locked {
        call.session.unwatch();
    }
    call.reply.ok();
    Ok(Flow::Done)
}
