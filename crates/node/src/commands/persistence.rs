//! What Redis has for its files: SAVE, BGSAVE and LASTSAVE write an RDB file and tell of it. WAITAOF and
//! BGREWRITEAOF are about the durable log.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::parse_i64;
use std::sync::atomic::Ordering::Relaxed;

const ADMIN: CommandFlags =
    CommandFlags::ADMIN.with(CommandFlags::NOSCRIPT).with(CommandFlags::NO_ASYNC_LOADING);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("waitaof", 4, CommandFlags::NOSCRIPT.with(CommandFlags::CONNECTION), wait_for_sync)
        .docs(
            "generic",
            "7.2.0",
            "O(1)",
            "Waits until everything written before is synced; returns 1, and how many copies of the log have it.",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    CommandSpec::new("save", 1, ADMIN.with(CommandFlags::NO_MULTI), save).docs(
        "server",
        "1.0.0",
        "O(N) where N is the number of keys",
        "Writes all keys of this node into a file, and waits for that.",
    ),
    CommandSpec::new("bgsave", -1, ADMIN, save_aside).docs(
        "server",
        "1.0.0",
        "O(N) where N is the number of keys",
        "Writes all keys of this node into a file, in the background.",
    ),
    CommandSpec::new("bgrewriteaof", 1, ADMIN, rewrite).docs(
        "server",
        "1.0.0",
        "O(1)",
        "Does nothing: the durable log is cleaned all the time.",
    ),
    CommandSpec::new(
        "lastsave",
        1,
        CommandFlags::LOADING
            .with(CommandFlags::STALE)
            .with(CommandFlags::FAST)
            .with(CommandFlags::WITHOUT_LEASE)
            .with(CommandFlags::DANGEROUS),
        last_save,
    )
    .docs("server", "1.0.0", "O(1)", "Returns when all keys were last written into a file, in Unix time.")
    .tips(&["nondeterministic_output"]),
];

const NO_LOG: ReplyError = ReplyError::text(
    "ERR there is nothing to rewrite: this node has no durable log, which --durability disk gives it",
);

/// Whether everything is synced that was written before this command first ran.
fn is_synced(call: &mut Call<'_>) -> bool {
    let durability = &call.shared.durability;
    let Some(commits) = call.store.commits() else { return false };
    let wanted = *call.session.route.synced_by.get_or_insert_with(|| commits.newest());
    durability.want_synced(wanted);
    durability.is_synced(wanted)
}

/// How many copies of the durable log, at other nodes, have synced everything that was written before this
/// command first ran.
pub(super) fn copies(call: &mut Call<'_>) -> i64 {
    let Some(commits) = call.store.commits() else { return 0 };
    let wanted = *call.session.route.synced_by.get_or_insert_with(|| commits.newest());
    if commits.safe() >= wanted { call.shared.durability.copies() as i64 } else { 0 }
}

fn range(word: &[u8], most: i64) -> Result<i64, ReplyError> {
    parse_i64(word).ok_or(ReplyError::NotAnInteger).and_then(|number| match (0..=most).contains(&number) {
        true => Ok(number),
        false if most == 1 => Err(ReplyError::text("ERR value is out of range, value must between 0 and 1")),
        false => Err(ReplyError::text("ERR value is out of range, must be positive")),
    })
}

fn wait_for_sync(call: &mut Call<'_>) -> CommandResult {
    let (local, replicas) = (range(call.args[1], 1)?, range(call.args[2], i64::MAX)?);
    let timeout_ms =
        parse_i64(call.args[3]).ok_or(ReplyError::text("ERR timeout is not an integer or out of range"))?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| ReplyError::text("ERR timeout is negative"))?;
    if local > 0 && !call.shared.durability.is_on.load(Relaxed) {
        return Err(ReplyError::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let (is_synced, copies) = (is_synced(call), copies(call));
    let route = &call.session.route;
    let is_over = route.waited_out || route.wait.as_ref().is_some_and(|wait| wait.is_over);
    if (i64::from(is_synced) < local || copies < replicas) && !is_over && !call.is_locked {
        return Ok(Flow::Block(timeout_ms));
    }
    call.reply.array(2);
    call.reply.integer(i64::from(is_synced));
    call.reply.integer(copies);
    Ok(Flow::Done)
}

/// Begins a save, and returns its number.
fn begin(call: &Call<'_>) -> Result<u64, ReplyError> {
    call.shared.saves.ask(call.now).ok_or(ReplyError::text("ERR Background save already in progress"))
}

fn save(call: &mut Call<'_>) -> CommandResult {
    let number = match call.session.route.begun {
        Some(number) => number,
        None => begin(call)?,
    };
    call.session.route.begun = Some(number);
    match call.shared.saves.outcome(number) {
        None => return Ok(Flow::Block(0)),
        Some(Err(why)) => return Err(ReplyError::owned(format!("ERR the save failed: {why}"))),
        Some(Ok(())) => call.reply.ok(),
    }
    Ok(Flow::Done)
}

fn save_aside(call: &mut Call<'_>) -> CommandResult {
    match call.args[1..] {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"schedule") => {}
        _ => return Err(ReplyError::Syntax),
    }
    begin(call)?;
    call.reply.simple("Background saving started");
    Ok(Flow::Done)
}

fn rewrite(call: &mut Call<'_>) -> CommandResult {
    if call.store.commits().is_none() {
        return Err(NO_LOG);
    }
    call.reply.simple("Background append only file rewriting started");
    Ok(Flow::Done)
}

fn last_save(call: &mut Call<'_>) -> CommandResult {
    let saved_at = call.shared.saves.shown(call.now).saved_at;
    call.reply.integer((saved_at.unwrap_or(call.shared.process.started_at).0 / 1000) as i64);
    Ok(Flow::Done)
}
