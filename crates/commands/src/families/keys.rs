//! Commands for whole keys: DEL, UNLINK, GETDEL, EXISTS, TOUCH, TYPE.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::spec::{Access, CommandFlags, CommandSpec, Split};

const WRITE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::KEYSPACE);
const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::KEYSPACE);
const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const EACH: &str = "O(N) where N is the number of keys";

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("del", -2, WRITE, del)
                .keys(KeySpec::all(&["RM", "delete"]), Access::ReadWrite)
                .split(Split::Sum)
                .docs("generic", "1.0.0", EACH, "Removes keys and returns how many there were.")
                .tips(SUM),
            CommandSpec::over_keys("unlink", -2, WRITE.with(CommandFlags::FAST), del)
                .keys(KeySpec::all(&["RM", "delete"]), Access::ReadWrite)
                .split(Split::Sum)
                .docs(
                    "generic",
                    "4.0.0",
                    EACH,
                    "Removes keys as DEL does; neither ever waits for memory to be freed.",
                )
                .tips(SUM),
            CommandSpec::over_keys(
                "getdel",
                2,
                CommandFlags::WRITE.with(CommandFlags::FAST).with(CommandFlags::STRING),
                getdel,
            )
            .keys(KeySpec::one(&["RW", "access", "delete"]), Access::ReadWrite)
            .docs("string", "6.2.0", "O(1)", "Returns the value of a key and removes the key."),
            CommandSpec::over_keys("exists", -2, READ, count_present)
                .keys(KeySpec::all(&["RO"]), Access::Read)
                .split(Split::Sum)
                .docs("generic", "1.0.0", EACH, "Returns how many of the keys exist.")
                .tips(SUM),
            CommandSpec::over_keys("touch", -2, READ, count_present)
                .keys(KeySpec::all(&["RO"]), Access::Read)
                .split(Split::Sum)
                .docs("generic", "3.2.1", EACH, "Returns how many of the keys exist, as EXISTS does.")
                .tips(SUM),
            CommandSpec::over_keys("type", 2, READ, type_of).keys(KeySpec::one(&["RO"]), Access::Read).docs(
                "generic",
                "1.0.0",
                "O(1)",
                "Returns the type of a key's value, or none.",
            ),
        ]
    }
}

fn del<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let mut removed = 0;
    for key in 0..call.keyspace.len() {
        if call.keyspace.get(key).is_some() {
            call.keyspace.remove(key)?;
            removed += 1;
        }
    }
    call.reply.integer(removed);
    Ok(())
}

fn getdel<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let old = call.string(0)?;
    if old.is_some() {
        call.keyspace.remove(0)?;
    }
    call.count_look_up(old.is_some());
    call.reply_value(old);
    Ok(())
}

fn count_present<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let present = call.look_up_all().iter().flatten().count();
    call.reply.integer(present as i64);
    Ok(())
}

fn type_of<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let value = call.look_up(0);
    call.reply.simple(value.map_or("none", |value| value.kind.name()));
    Ok(())
}
