//! Hashes: fields with values under one key.

use super::Done;
use super::changed::{self, remove_named};
use super::lot::draw;
use super::walk::walk;
use crate::call::{Call, Executor};
use crate::float80::Float80;
use crate::key_spec::KeySpec;
use crate::number::{Decimal, parse_i64};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_collections::{Hash, HashDraft, Hashes, Pair};

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::HASH);
const READ_FAST: CommandFlags = READ.with(CommandFlags::FAST);
const REMOVE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::HASH).with(CommandFlags::FAST);
const WRITE: CommandFlags = REMOVE.with(CommandFlags::DENYOOM);
const ONE: &str = "O(log(N)) where N is the number of fields of the hash";
const SOME: &str = "O(M*log(N)) where M is the number of fields named and N that of the hash";
const DRAWN: &str = "O(M*log(N)) where M is the number of fields returned and N that of the hash";
const STEP: &str = "O(log(N)+M) where M is the number of fields visited and N that of the hash";
const ALL: &str = "O(N) where N is the number of fields of the hash";
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const VARIES: &[&str] = &["nondeterministic_output"];
const READ_KEY: KeySpec = KeySpec::one(&["RO", "access"]);
const LOOK_AT_KEY: KeySpec = KeySpec::one(&["RO"]);
const UPDATE_KEY: KeySpec = KeySpec::one(&["RW", "update"]);

pub(super) const fn of_fields<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("hset", -4, WRITE, hset).keys(UPDATE_KEY, Access::ReadWrite).docs(
                "hash",
                "2.0.0",
                SOME,
                "Sets fields and returns how many are new.",
            ),
            CommandSpec::over_keys("hmset", -4, WRITE, hmset)
                .keys(UPDATE_KEY, Access::ReadWrite)
                .docs("hash", "2.0.0", SOME, "HSET by its older name; the reply is OK.")
                .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
            CommandSpec::over_keys("hsetnx", 4, WRITE, hsetnx)
                .keys(KeySpec::one(&["RW", "insert"]), Access::ReadWrite)
                .docs("hash", "2.0.0", ONE, "Sets a field that does not exist."),
            CommandSpec::over_keys("hget", 3, READ_FAST, hget).keys(READ_KEY, Access::Read).docs(
                "hash",
                "2.0.0",
                ONE,
                "Returns the value of a field.",
            ),
            CommandSpec::over_keys("hmget", -3, READ_FAST, hmget).keys(READ_KEY, Access::Read).docs(
                "hash",
                "2.0.0",
                SOME,
                "Returns the values of several fields.",
            ),
            CommandSpec::over_keys("hdel", -3, REMOVE, hdel)
                .keys(KeySpec::one(&["RW", "delete"]), Access::ReadWrite)
                .docs("hash", "2.0.0", SOME, "Removes fields and returns how many there were."),
            CommandSpec::over_keys("hexists", 3, READ_FAST, hexists).keys(LOOK_AT_KEY, Access::Read).docs(
                "hash",
                "2.0.0",
                ONE,
                "Returns whether there is a field.",
            ),
            CommandSpec::over_keys("hstrlen", 3, READ_FAST, hstrlen).keys(LOOK_AT_KEY, Access::Read).docs(
                "hash",
                "3.2.0",
                ONE,
                "Returns how many bytes the value of a field has.",
            ),
        ]
    }
}

pub(super) const fn of_wholes<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("hlen", 2, READ_FAST, hlen).keys(LOOK_AT_KEY, Access::Read).docs(
                "hash",
                "2.0.0",
                "O(1)",
                "Returns how many fields there are.",
            ),
            CommandSpec::over_keys("hgetall", 2, READ, hgetall)
                .keys(READ_KEY, Access::Read)
                .docs("hash", "2.0.0", ALL, "Returns all fields with their values.")
                .tips(UNORDERED),
            CommandSpec::over_keys("hkeys", 2, READ, hkeys)
                .keys(READ_KEY, Access::Read)
                .docs("hash", "2.0.0", ALL, "Returns all fields.")
                .tips(UNORDERED),
            CommandSpec::over_keys("hvals", 2, READ, hvals)
                .keys(READ_KEY, Access::Read)
                .docs("hash", "2.0.0", ALL, "Returns the values of all fields.")
                .tips(UNORDERED),
            CommandSpec::over_keys("hincrby", 4, WRITE, hincrby)
                .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
                .docs("hash", "2.0.0", ONE, "Adds to the integer in a field; a missing one counts as 0."),
            CommandSpec::over_keys("hincrbyfloat", 4, WRITE, hincrbyfloat)
                .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
                .docs("hash", "2.6.0", ONE, "Adds to the number in a field; a missing one counts as 0."),
            CommandSpec::over_keys("hrandfield", -2, READ, hrandfield)
                .keys(READ_KEY, Access::Read)
                .docs("hash", "6.2.0", DRAWN, "Returns fields drawn by lot.")
                .tips(VARIES),
            CommandSpec::over_keys("hscan", -3, READ, hscan)
                .keys(READ_KEY, Access::Read)
                .docs("hash", "2.8.0", STEP, "Returns some of the fields, and where to go on.")
                .tips(VARIES),
        ]
    }
}

type Changed<'g> = changed::Changed<'g, Hashes>;

/// Sets fields; how many are new.
fn set_fields<E: Executor>(call: &mut Call<'_, E>, command: &'static str) -> Result<i64, ReplyError> {
    if !call.args.len().is_multiple_of(2) {
        return Err(ReplyError::WrongArity(command));
    }
    let hash = Changed::of(call, 0)?;
    let pairs = call.args[2..].chunks_exact(2);
    let mut draft = hash.draft(pairs.len());
    let new = pairs.filter(|pair| draft.set(pair[0], pair[1])).count();
    hash.write(call, &draft)?;
    Ok(new as i64)
}

fn hset<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let new = set_fields(call, "hset")?;
    call.reply.integer(new);
    Ok(())
}

fn hmset<E: Executor>(call: &mut Call<'_, E>) -> Done {
    set_fields(call, "hmset")?;
    call.reply.ok();
    Ok(())
}

fn hsetnx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let hash = Changed::of(call, 0)?;
    let mut draft = hash.draft(1);
    let is_new = draft.get(call.args[2]).is_none();
    if is_new {
        draft.set(call.args[2], call.args[3]);
        hash.write(call, &draft)?;
    }
    call.reply.integer(is_new.into());
    Ok(())
}

fn hget<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let hash = call.look_up_as::<Hashes>(0)?;
    reply_field(call, hash, call.args[2]);
    Ok(())
}

fn reply_field<E: Executor>(call: &mut Call<'_, E>, hash: Option<Hash<'_>>, field: &[u8]) {
    match hash.and_then(|hash| hash.get(field)) {
        Some(value) => call.reply.bulk(value),
        None => call.reply.null(),
    }
}

fn hmget<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let hash = call.look_up_as::<Hashes>(0)?;
    call.reply.array(call.args.len() - 2);
    for field in &call.args[2..] {
        reply_field(call, hash, field);
    }
    Ok(())
}

fn hdel<E: Executor>(call: &mut Call<'_, E>) -> Done {
    remove_named::<Hashes, E>(call, HashDraft::remove)
}

fn hexists<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let value = call.look_up_as::<Hashes>(0)?.and_then(|hash| hash.get(call.args[2]));
    call.reply.integer(value.is_some().into());
    Ok(())
}

fn hstrlen<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let value = call.look_up_as::<Hashes>(0)?.and_then(|hash| hash.get(call.args[2]));
    call.reply.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

fn hlen<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let fields = call.look_up_as::<Hashes>(0)?.map_or(0, Hash::len);
    call.reply.integer(fields as i64);
    Ok(())
}

/// Replies with something of each pair of the command's hash, behind a header of so many.
fn reply_pairs<'g, E: Executor>(
    call: &mut Call<'g, E>,
    header: fn(&mut E::Reply<'g>, usize),
    each: fn(&mut E::Reply<'g>, Pair<'g>),
) -> Done {
    let hash = call.look_up_as::<Hashes>(0)?;
    header(&mut call.reply, hash.map_or(0, Hash::pair_count));
    for pair in hash.into_iter().flat_map(Hash::pairs) {
        if call.reply.is_cut() {
            break;
        }
        each(&mut call.reply, pair);
    }
    Ok(())
}

fn hgetall<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_pairs(call, Reply::map, |reply, (field, value)| {
        reply.bulk(field);
        reply.bulk(value);
    })
}

fn hkeys<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_pairs(call, Reply::array, |reply, (field, _)| reply.bulk(field))
}

fn hvals<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_pairs(call, Reply::array, |reply, (_, value)| reply.bulk(value))
}

fn hincrby<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let amount = parse_i64(call.args[3]).ok_or(ReplyError::NotAnInteger)?;
    let hash = Changed::of(call, 0)?;
    let old = match hash.old.and_then(|hash| hash.get(call.args[2])) {
        Some(text) => parse_i64(text).ok_or(ReplyError::text("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = old.checked_add(amount).ok_or(ReplyError::text("ERR increment or decrement would overflow"))?;
    let text = Decimal::new(sum);
    write_field(call, hash, text.as_bytes())?;
    call.reply.integer(sum);
    Ok(())
}

fn hincrbyfloat<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let amount = Float80::parse(call.args[3]).ok_or(ReplyError::NotAFloat)?;
    if !amount.is_finite() {
        return Err(ReplyError::text("ERR value is NaN or Infinity"));
    }
    let hash = Changed::of(call, 0)?;
    let old = match hash.old.and_then(|hash| hash.get(call.args[2])) {
        Some(text) => Float80::parse(text).ok_or(ReplyError::text("ERR hash value is not a float"))?,
        None => Float80::ZERO,
    };
    let sum = old.plus(amount).to_decimal();
    let sum = sum.ok_or(ReplyError::text("ERR increment would produce NaN or Infinity"))?;
    write_field(call, hash, sum.as_bytes())?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

/// Sets the field that the command names.
fn write_field<'g, E: Executor>(
    call: &mut Call<'g, E>,
    hash: Changed<'g>,
    value: &[u8],
) -> Result<(), ReplyError> {
    let mut draft: HashDraft<'_> = hash.draft(1);
    draft.set(call.args[2], value);
    hash.write(call, &draft)
}

fn hrandfield<E: Executor>(call: &mut Call<'_, E>) -> Done {
    draw(call, Hash::pairs, Hash::nth, Some((b"withvalues", Reply::bulk)))
}

fn hscan<E: Executor>(call: &mut Call<'_, E>) -> Done {
    walk(call, Hash::scan, Some(Reply::bulk))
}
