//! Sets: members, each once.

use super::Done;
use super::changed::{self, remove_named, store};
use super::lot::{Urn, draw};
use super::walk::walk;
use crate::call::{Call, Executor};
use crate::draws::Draws;
use crate::key_spec::KeySpec;
use crate::keyspace::{Keyspace, Value};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_collections::{Draft, MemberTable, Set, SetDraft, Sets};
use std::collections::BTreeSet;

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::SET);
const READ_FAST: CommandFlags = READ.with(CommandFlags::FAST);
const REMOVE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::SET).with(CommandFlags::FAST);
const ADD: CommandFlags = REMOVE.with(CommandFlags::DENYOOM);
const STORE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::SET).with(CommandFlags::DENYOOM);
const ONE: &str = "O(log(N)) where N is the number of members of the set";
const SOME: &str = "O(M*log(N)) where M is the number of members named and N that of the set";
const DRAWN: &str = "O(M*log(N)) where M is the number of members returned and N that of the set";
const STEP: &str = "O(log(N)+M) where M is the number of members visited and N that of the set";
const ALL: &str = "O(N) where N is the number of members of the set";
const INTER: &str = "O(N*M*log(L)) where N is the number of members of the smallest set, L that of the largest \
                     one, and M the number of sets";
const UNION: &str = "O(N*log(N)) where N is the number of members of all sets";
const DIFF: &str = "O(N*M*log(L)) where N is the number of members of the first set, L that of the largest \
                    one, and M the number of sets";
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const VARIES: &[&str] = &["nondeterministic_output"];
const READ_KEY: KeySpec = KeySpec::one(&["RO", "access"]);
const LOOK_AT_KEY: KeySpec = KeySpec::one(&["RO"]);
const READ_KEYS: KeySpec = KeySpec::all(&["RO", "access"]);
const STORE_KEYS: KeySpec = KeySpec::into_from_all(&["OW", "update"], &["RO", "access"]);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("sadd", -3, ADD, sadd)
                .keys(KeySpec::one(&["RW", "insert"]), Access::ReadWrite)
                .docs("set", "1.0.0", SOME, "Adds members and returns how many are new."),
            CommandSpec::over_keys("srem", -3, REMOVE, srem)
                .keys(KeySpec::one(&["RW", "delete"]), Access::ReadWrite)
                .docs("set", "1.0.0", SOME, "Removes members and returns how many there were."),
            CommandSpec::over_keys("smove", 4, REMOVE, smove)
                .keys(KeySpec::from_to(&["RW", "access", "delete"], &["RW", "insert"]), Access::ReadWrite)
                .docs("set", "1.0.0", ONE, "Moves a member from a set to another."),
            CommandSpec::over_keys("scard", 2, READ_FAST, scard).keys(LOOK_AT_KEY, Access::Read).docs(
                "set",
                "1.0.0",
                "O(1)",
                "Returns how many members there are.",
            ),
            CommandSpec::over_keys("sismember", 3, READ_FAST, sismember)
                .keys(LOOK_AT_KEY, Access::Read)
                .docs("set", "1.0.0", ONE, "Returns whether there is a member."),
            CommandSpec::over_keys("smismember", -3, READ_FAST, smismember)
                .keys(READ_KEY, Access::Read)
                .docs("set", "6.2.0", SOME, "Returns for each of several members whether it is there."),
            CommandSpec::over_keys("smembers", 2, READ, smembers)
                .keys(READ_KEY, Access::Read)
                .docs("set", "1.0.0", ALL, "Returns all members.")
                .tips(UNORDERED),
            CommandSpec::over_keys("spop", -2, REMOVE, spop)
                .keys(KeySpec::one(&["RW", "access", "delete"]), Access::ReadWrite)
                .docs("set", "1.0.0", DRAWN, "Removes members drawn by lot, and returns them.")
                .tips(VARIES),
            CommandSpec::over_keys("srandmember", -2, READ, srandmember)
                .keys(READ_KEY, Access::Read)
                .docs("set", "1.0.0", DRAWN, "Returns members drawn by lot.")
                .tips(VARIES),
            CommandSpec::over_keys("sscan", -3, READ, sscan)
                .keys(READ_KEY, Access::Read)
                .docs("set", "2.8.0", STEP, "Returns some of the members, and where to go on.")
                .tips(VARIES),
            CommandSpec::over_keys("sinter", -2, READ, sinter)
                .keys(READ_KEYS, Access::Read)
                .docs("set", "1.0.0", INTER, "Returns what is a member of all sets.")
                .tips(UNORDERED),
            CommandSpec::over_keys("sintercard", -3, READ.with(CommandFlags::MOVABLE_KEYS), sintercard)
                .keys(KeySpec::counted(1, &["RO", "access"]), Access::Read)
                .docs("set", "7.0.0", INTER, "Returns how many members all sets share."),
            CommandSpec::over_keys("sunion", -2, READ, sunion)
                .keys(READ_KEYS, Access::Read)
                .docs("set", "1.0.0", UNION, "Returns what is a member of any of the sets.")
                .tips(UNORDERED),
            CommandSpec::over_keys("sdiff", -2, READ, sdiff)
                .keys(READ_KEYS, Access::Read)
                .docs("set", "1.0.0", DIFF, "Returns the members of the first set that no other one has.")
                .tips(UNORDERED),
            CommandSpec::over_keys("sinterstore", -3, STORE, sinterstore)
                .keys(KeySpec::into_from_all(&["RW", "update"], &["RO", "access"]), Access::ReadWrite)
                .docs("set", "1.0.0", INTER, "Sets a key to what is a member of all sets."),
            CommandSpec::over_keys("sunionstore", -3, STORE, sunionstore)
                .keys(STORE_KEYS, Access::ReadWrite)
                .docs("set", "1.0.0", UNION, "Sets a key to what is a member of any of the sets."),
            CommandSpec::over_keys("sdiffstore", -3, STORE, sdiffstore)
                .keys(STORE_KEYS, Access::ReadWrite)
                .docs("set", "1.0.0", DIFF, "Sets a key to the members of the first set that no other has."),
        ]
    }
}

type Changed<'g> = changed::Changed<'g, Sets>;

fn sadd<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let set = Changed::of(call, 0)?;
    let members = &call.args[2..];
    let mut draft = set.draft(members.len());
    let new = members.iter().filter(|member| draft.add(member)).count();
    if new > 0 {
        set.write(call, &draft)?;
    }
    call.reply.integer(new as i64);
    Ok(())
}

fn srem<E: Executor>(call: &mut Call<'_, E>) -> Done {
    remove_named::<Sets, E>(call, SetDraft::remove)
}

fn smove<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let member = call.args[3];
    let from = call.keyspace.get(0);
    // Without a source the destination's type does not matter, as in Redis.
    if from.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let from = Changed::of(call, 0)?;
    let to = Changed::of(call, 1)?;
    let is_there = from.old.is_some_and(|set| set.contains(member));
    if is_there && call.args[1] != call.args[2] {
        let mut left = from.draft(1);
        left.remove(member);
        from.write(call, &left)?;
        let mut joined = to.draft(1);
        if joined.add(member) {
            to.write(call, &joined)?;
        }
    }
    call.reply.integer(is_there.into());
    Ok(())
}

fn scard<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let members = call.look_up_as::<Sets>(0)?.map_or(0, Set::len);
    call.reply.integer(members as i64);
    Ok(())
}

fn sismember<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let is_member = call.look_up_as::<Sets>(0)?.is_some_and(|set| set.contains(call.args[2]));
    call.reply.integer(is_member.into());
    Ok(())
}

fn smismember<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let asked = &call.args[2..];
    let table = call.look_up_as::<Sets>(0)?.map(|set| MemberTable::of(set, asked.len()));
    call.reply.array(asked.len());
    for member in asked {
        call.reply.integer(table.as_ref().is_some_and(|table| table.contains(member)).into());
    }
    Ok(())
}

fn reply_set<E: Executor>(call: &mut Call<'_, E>, members: &[&[u8]]) {
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
}

fn smembers<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let set = call.look_up_as::<Sets>(0)?;
    call.reply.set(set.map_or(0, Set::member_count));
    for member in set.into_iter().flat_map(Set::members) {
        if call.reply.is_cut() {
            break;
        }
        call.reply.bulk(member);
    }
    Ok(())
}

fn spop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let count = match call.args[2..] {
        [] => None,
        [count] => Some(call.positive(count)?),
        _ => return Err(ReplyError::Syntax),
    };
    let set = Changed::of(call, 0)?;
    call.count_look_up(set.old.is_some());
    let popped = take_some(call, set, count.unwrap_or(1))?;
    match (count, popped.first()) {
        (Some(_), _) => reply_set(call, &popped),
        (None, Some(member)) => call.reply.bulk(member),
        (None, None) => call.reply.null(),
    }
    Ok(())
}

/// Takes so many members out of a set, by lot; returns them.
fn take_some<'g, E: Executor>(
    call: &mut Call<'g, E>,
    set: Changed<'g>,
    most: usize,
) -> Result<Vec<&'g [u8]>, ReplyError> {
    let Some(old) = set.old.filter(|_| most > 0) else { return Ok(Vec::new()) };
    let all = old.member_count();
    if most >= all {
        set.remove(call)?;
        return Ok(old.members().collect());
    }
    let mut draws = Draws::new(call.keyspace.random());
    if old.is_large() && most > all / 2 {
        // Those that stay are drawn: they are fewer.
        let stay: BTreeSet<usize> = draws.distinct_below(all, all - most).into_iter().collect();
        let (left, popped): (Vec<_>, Vec<_>) =
            old.members().enumerate().partition(|(index, _)| stay.contains(index));
        set.write(call, &SetDraft::left_of(old, left.into_iter().map(|(_, member)| member)))?;
        return Ok(popped.into_iter().map(|(_, member)| member).collect());
    }
    let drawn = Urn::of(Some(old), names, Set::nth).some(&mut draws, most);
    let popped: Vec<&[u8]> = drawn.into_iter().map(|(member, ())| member).collect();
    set.write(call, &SetDraft::without(old, popped.iter().copied()))?;
    Ok(popped)
}

/// Members as elements of which nothing more is known.
fn names(set: Set<'_>) -> impl Iterator<Item = (&[u8], ())> {
    set.members().map(|member| (member, ()))
}

fn srandmember<E: Executor>(call: &mut Call<'_, E>) -> Done {
    draw(call, names, Set::nth, None)
}

fn sscan<E: Executor>(call: &mut Call<'_, E>) -> Done {
    walk(call, Set::scan, None)
}

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    Inter,
    Union,
    Diff,
}

impl Combination {
    /// The members of the combination, at most so many; in the order of the sets.
    fn of<'g>(self, sets: &[Option<Set<'g>>], most: usize) -> Vec<&'g [u8]> {
        let size = |set: &Option<Set<'_>>| set.map_or(0, Set::len);
        match self {
            Combination::Union => {
                let mut draft = SetDraft::of(sets.first().copied().flatten(), sets.iter().map(size).sum());
                for set in sets.iter().skip(1).flatten() {
                    set.members().for_each(|member| {
                        draft.add(member);
                    });
                }
                draft.members().take(most).collect()
            }
            Combination::Inter => {
                let smallest = sets.iter().enumerate().min_by_key(|(_, set)| size(set));
                let Some((place, Some(smallest))) = smallest else { return Vec::new() };
                let others = sets.iter().enumerate().filter(|(other, _)| *other != place);
                let others = others.filter_map(|(_, set)| *set);
                let tables: Vec<MemberTable<'_>> =
                    others.map(|set| MemberTable::of(set, smallest.len())).collect();
                let is_everywhere = |member: &&[u8]| tables.iter().all(|table| table.contains(member));
                smallest.members().filter(is_everywhere).take(most).collect()
            }
            Combination::Diff => {
                let Some(first) = sets.first().copied().flatten() else { return Vec::new() };
                let tables: Vec<MemberTable<'_>> =
                    sets[1..].iter().flatten().map(|set| MemberTable::of(*set, first.len())).collect();
                let is_alone = |member: &&[u8]| !tables.iter().any(|table| table.contains(member));
                first.members().filter(is_alone).take(most).collect()
            }
        }
    }
}

/// The sets of the command's keys from one on, counted as look-ups where they are only read.
fn sets_from<'g, E: Executor>(
    call: &mut Call<'g, E>,
    first: usize,
) -> Result<Vec<Option<Set<'g>>>, ReplyError> {
    let values = call.look_up_all();
    values.into_iter().skip(first).map(|value| value.map(Value::collection).transpose()).collect()
}

fn reply_combined<E: Executor>(call: &mut Call<'_, E>, combination: Combination) -> Done {
    let sets = sets_from(call, 0)?;
    reply_set(call, &combination.of(&sets, usize::MAX));
    Ok(())
}

fn store_combined<E: Executor>(call: &mut Call<'_, E>, combination: Combination) -> Done {
    let sets = sets_from(call, 1)?;
    let members = combination.of(&sets, usize::MAX);
    store(call, 0, &SetDraft::made_of(members.into_iter()))
}

fn sinter<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Inter)
}

fn sunion<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Union)
}

fn sdiff<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Diff)
}

fn sinterstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Inter)
}

fn sunionstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Union)
}

fn sdiffstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Diff)
}

fn sintercard<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let too_many = ReplyError::text("ERR Number of keys can't be greater than number of args");
    let keys = call.counted_keys(1, too_many)?;
    let mut most = usize::MAX;
    let mut options = &call.args[2 + keys..];
    while let [option, rest @ ..] = options {
        let [number, rest @ ..] = rest else { return Err(ReplyError::Syntax) };
        if !option.eq_ignore_ascii_case(b"limit") {
            return Err(ReplyError::Syntax);
        }
        let limit = parse_i64(number).filter(|limit| *limit >= 0);
        let limit = limit.ok_or(ReplyError::text("ERR LIMIT can't be negative"))?;
        most = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        options = rest;
    }
    let sets = sets_from(call, 0)?;
    call.reply.integer(Combination::Inter.of(&sets, most).len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::Limits;

    #[test]
    fn combinations_are_those_of_sets() {
        let made = |members: &[&'static str]| {
            let mut draft = SetDraft::of(None, 0);
            for member in members {
                draft.add(member.as_bytes());
            }
            draft.finish(&Limits::default()).into_packed().expect("it is short")
        };
        let (one, two, three) = (made(&["a", "b", "c", "d"]), made(&["c", "x", "b"]), made(&["c"]));
        let [one, two, three] = [&one, &two, &three].map(|bytes| Some(Set::of(bytes)));
        let of = |combination: Combination, sets: &[Option<Set<'_>>]| {
            let mut members: Vec<String> = combination
                .of(sets, usize::MAX)
                .into_iter()
                .map(|member| String::from_utf8_lossy(member).into_owned())
                .collect();
            members.sort();
            members.concat()
        };
        assert_eq!(of(Combination::Inter, &[one, two]), "bc");
        assert_eq!(of(Combination::Inter, &[one, two, three]), "c");
        assert_eq!(of(Combination::Inter, &[one, None]), "");
        assert_eq!(of(Combination::Union, &[None, one, three, two]), "abcdx");
        assert_eq!(of(Combination::Diff, &[one, two]), "ad");
        assert_eq!(of(Combination::Diff, &[one, None, three]), "abd");
        assert_eq!(of(Combination::Diff, &[None, one]), "");
        assert_eq!(Combination::Inter.of(&[one, two], 1).len(), 1);
    }
}
