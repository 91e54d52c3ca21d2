//! Whole keys, whatever they hold: DEL, UNLINK, GETDEL, EXISTS, TOUCH, TYPE.

use super::entry::{live, remove, remove_if_expired};
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::spec::{Access, CommandFlags, CommandSpec, KeySpec, Split};
use sidle_store::{ExclusiveSlots, Guard, SlotGuard};

const WRITE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::KEYSPACE);
const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::KEYSPACE);
const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const EACH: &str = "O(N) where N is the number of keys";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("del", -2, WRITE, del)
        .keys(KeySpec::all(&["RM", "delete"]), Access::ReadWrite)
        .split(Split::Sum)
        .docs("generic", "1.0.0", EACH, "Removes keys and returns how many there were.")
        .tips(SUM),
    CommandSpec::new("unlink", -2, WRITE.with(CommandFlags::FAST), del)
        .keys(KeySpec::all(&["RM", "delete"]), Access::ReadWrite)
        .split(Split::Sum)
        .docs(
            "generic",
            "4.0.0",
            EACH,
            "Removes keys as DEL does; neither ever waits for memory to be freed.",
        )
        .tips(SUM),
    CommandSpec::new(
        "getdel",
        2,
        CommandFlags::WRITE.with(CommandFlags::FAST).with(CommandFlags::STRING),
        getdel,
    )
    .keys(KeySpec::one(&["RW", "access", "delete"]), Access::ReadWrite)
    .docs("string", "6.2.0", "O(1)", "Returns the value of a key and removes the key."),
    CommandSpec::new("exists", -2, READ, count_present)
        .keys(KeySpec::all(&["RO"]), Access::Read)
        .split(Split::Sum)
        .docs("generic", "1.0.0", EACH, "Returns how many of the keys exist.")
        .tips(SUM),
    CommandSpec::new("touch", -2, READ, count_present)
        .keys(KeySpec::all(&["RO"]), Access::Read)
        .split(Split::Sum)
        .docs("generic", "3.2.1", EACH, "Returns how many of the keys exist, as EXISTS does.")
        .tips(SUM),
    CommandSpec::new("type", 2, READ, type_of).keys(KeySpec::one(&["RO"]), Access::Read).docs(
        "generic",
        "1.0.0",
        "O(1)",
        "Returns what a key holds: a string, or nothing.",
    ),
];

fn del(call: &mut Call<'_>) -> CommandResult {
    let removed = match call.slots.take() {
        Some(slots) => remove_all(call, slots.make_exclusive())?,
        None => {
            let key = call.keys[0];
            let guard = call.store.pin();
            let mut slot = call.store.lock_slot(key.slot());
            remove_live(call, &mut slot, 0, &guard)?.into()
        }
    };
    call.reply.integer(removed);
    Ok(Flow::Done)
}

/// Removes all keys in one step; how many there were.
fn remove_all(call: &mut Call<'_>, mut slots: ExclusiveSlots<'_>) -> Result<i64, ReplyError> {
    let mut removed = 0;
    for (&key, &leave) in call.keys.iter().zip(call.leave) {
        let (exists, has_value) = {
            let entry = slots.get(key);
            (live(entry, call.now).is_some(), entry.value().is_some())
        };
        if has_value {
            slots.remove(call.head, key, leave)?;
        }
        removed += i64::from(exists);
        call.stats.expired.add((has_value && !exists).into());
    }
    Ok(removed)
}

fn remove_live(
    call: &mut Call<'_>,
    slot: &mut SlotGuard<'_>,
    key_index: usize,
    guard: &Guard<'_>,
) -> Result<bool, ReplyError> {
    let entry = guard.get(call.keys[key_index]);
    let present = live(entry, call.now).is_some();
    if present {
        remove(call, slot, key_index)?;
    } else {
        remove_if_expired(call, slot, key_index, &entry)?;
    }
    Ok(present)
}

fn getdel(call: &mut Call<'_>) -> CommandResult {
    let key = call.keys[0];
    let guard = call.store.pin();
    let mut slot = call.store.lock_slot(key.slot());
    let old = live(guard.get(key), call.now);
    remove_live(call, &mut slot, 0, &guard)?;
    drop(slot);
    call.count_look_up(old.is_some());
    call.reply_value(old);
    Ok(Flow::Done)
}

fn count_present(call: &mut Call<'_>) -> CommandResult {
    let guard = call.store.pin();
    let present = call.look_up_all(&guard).filter(Option::is_some).count();
    call.reply.integer(present as i64);
    Ok(Flow::Done)
}

fn type_of(call: &mut Call<'_>) -> CommandResult {
    let guard = call.store.pin();
    let present = call.look_up(&guard, 0).is_some();
    call.reply.simple(if present { "string" } else { "none" });
    Ok(Flow::Done)
}
