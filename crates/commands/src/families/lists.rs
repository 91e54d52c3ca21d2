//! Lists: items in an order of their own.

use super::Done;
use super::blocking::timeout_ms;
use super::changed;
use super::indices::{index_in, range_in};
use super::multi_pop::{first, pop_first, take_first};
use crate::blocking::Blocking;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_collections::{Draft, List, ListDraft, Lists, Side};

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::LIST);
const CHANGE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::LIST);
const GROW: CommandFlags = CHANGE.with(CommandFlags::DENYOOM);
const PUSH: CommandFlags = GROW.with(CommandFlags::FAST);
const POP: CommandFlags = CHANGE.with(CommandFlags::FAST);
const WAIT: CommandFlags = CHANGE.with(CommandFlags::BLOCKING);
const WAIT_ALONE: CommandFlags = WAIT.with(CommandFlags::NOSCRIPT);
const MOVED: &str = "O(N) where N is the number of items added or removed";
const WALK: &str = "O(N) where N is the number of items of the list";
const FOUND: &str = "O(log(N)) where N is the number of items of the list";
const READ_KEY: KeySpec = KeySpec::one(&["RO", "access"]);
const INSERT_KEY: KeySpec = KeySpec::one(&["RW", "insert"]);
const POP_KEY: KeySpec = KeySpec::one(&["RW", "access", "delete"]);
const MOVE_KEYS: KeySpec = KeySpec::from_to(&["RW", "access", "delete"], &["RW", "insert"]);

pub(super) const fn that_wait<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("blpop", -3, WAIT_ALONE, blpop)
                .keys(KeySpec::all_but_last(&["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "list",
                    "2.0.0",
                    "O(N) where N is the number of keys",
                    "Removes the first item of the first list that has one; waits for it.",
                ),
            CommandSpec::over_keys("brpop", -3, WAIT_ALONE, brpop)
                .keys(KeySpec::all_but_last(&["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "list",
                    "2.0.0",
                    "O(N) where N is the number of keys",
                    "Removes the last item of the first list that has one; waits for it.",
                ),
            CommandSpec::over_keys("blmpop", -5, WAIT.with(CommandFlags::MOVABLE_KEYS), blmpop)
                .keys(KeySpec::counted(2, &["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "list",
                    "7.0.0",
                    "O(N+M) where N is the number of keys, M that of items returned",
                    "Removes items of the first list that has some; waits for them.",
                ),
            CommandSpec::over_keys("blmove", 6, WAIT_ALONE.with(CommandFlags::DENYOOM), blmove)
                .keys(MOVE_KEYS, Access::ReadWrite)
                .docs("list", "6.2.0", "O(1)", "Moves an item between ends of two lists; waits for it."),
            CommandSpec::over_keys("brpoplpush", 4, WAIT_ALONE.with(CommandFlags::DENYOOM), brpoplpush)
                .keys(MOVE_KEYS, Access::ReadWrite)
                .docs("list", "2.2.0", "O(1)", "RPOPLPUSH; waits for an item.")
                .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
        ]
    }
}

pub(super) const fn at_ends<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("lpush", -3, PUSH, lpush).keys(INSERT_KEY, Access::ReadWrite).docs(
                "list",
                "1.0.0",
                MOVED,
                "Adds items in front, one after the other.",
            ),
            CommandSpec::over_keys("rpush", -3, PUSH, rpush).keys(INSERT_KEY, Access::ReadWrite).docs(
                "list",
                "1.0.0",
                MOVED,
                "Adds items at the end.",
            ),
            CommandSpec::over_keys("lpushx", -3, PUSH, lpushx).keys(INSERT_KEY, Access::ReadWrite).docs(
                "list",
                "2.2.0",
                MOVED,
                "Adds items in front of a list that exists.",
            ),
            CommandSpec::over_keys("rpushx", -3, PUSH, rpushx).keys(INSERT_KEY, Access::ReadWrite).docs(
                "list",
                "2.2.0",
                MOVED,
                "Adds items at the end of a list that exists.",
            ),
            CommandSpec::over_keys("lpop", -2, POP, lpop).keys(POP_KEY, Access::ReadWrite).docs(
                "list",
                "1.0.0",
                MOVED,
                "Removes the first items and returns them.",
            ),
            CommandSpec::over_keys("rpop", -2, POP, rpop).keys(POP_KEY, Access::ReadWrite).docs(
                "list",
                "1.0.0",
                MOVED,
                "Removes the last items and returns them.",
            ),
            CommandSpec::over_keys("lmpop", -4, CHANGE.with(CommandFlags::MOVABLE_KEYS), lmpop)
                .keys(KeySpec::counted(1, &["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "list",
                    "7.0.0",
                    "O(N+M) where N is the number of keys, M that of items returned",
                    "Removes items of the first list that has some.",
                ),
            CommandSpec::over_keys("lmove", 5, GROW, lmove).keys(MOVE_KEYS, Access::ReadWrite).docs(
                "list",
                "6.2.0",
                "O(1)",
                "Moves an item from an end of a list to an end of another.",
            ),
            CommandSpec::over_keys("rpoplpush", 3, GROW, rpoplpush)
                .keys(MOVE_KEYS, Access::ReadWrite)
                .docs("list", "1.2.0", "O(1)", "Moves the last item of a list to the front of another.")
                .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
        ]
    }
}

pub(super) const fn anywhere<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("llen", 2, READ.with(CommandFlags::FAST), llen)
                .keys(KeySpec::one(&["RO"]), Access::Read)
                .docs("list", "1.0.0", "O(1)", "Returns how many items there are."),
            CommandSpec::over_keys("lindex", 3, READ, lindex).keys(READ_KEY, Access::Read).docs(
                "list",
                "1.0.0",
                FOUND,
                "Returns the item at an index.",
            ),
            CommandSpec::over_keys("lrange", 4, READ, lrange).keys(READ_KEY, Access::Read).docs(
                "list",
                "1.0.0",
                "O(log(N)+M) where N is the number of items of the list, M that of those returned",
                "Returns the items from one index to another.",
            ),
            CommandSpec::over_keys("lpos", -3, READ, lpos).keys(READ_KEY, Access::Read).docs(
                "list",
                "6.0.6",
                WALK,
                "Returns where an item stands.",
            ),
            CommandSpec::over_keys("lset", 4, GROW, lset)
                .keys(KeySpec::one(&["RW", "update"]), Access::ReadWrite)
                .docs("list", "1.0.0", FOUND, "Replaces the item at an index."),
            CommandSpec::over_keys("linsert", 5, GROW, linsert).keys(INSERT_KEY, Access::ReadWrite).docs(
                "list",
                "2.2.0",
                WALK,
                "Adds an item beside another one.",
            ),
            CommandSpec::over_keys("lrem", 4, CHANGE, lrem)
                .keys(KeySpec::one(&["RW", "delete"]), Access::ReadWrite)
                .docs("list", "1.0.0", WALK, "Removes items that are equal to one."),
            CommandSpec::over_keys("ltrim", 4, CHANGE, ltrim)
                .keys(KeySpec::one(&["RW", "delete"]), Access::ReadWrite)
                .docs(
                    "list",
                    "1.0.0",
                    "O(log(N)+M) where N is the number of items of the list, M that of those removed",
                    "Removes all items but those from one index to another.",
                ),
        ]
    }
}

type Changed<'g> = changed::Changed<'g, Lists>;

fn lpush<E: Executor>(call: &mut Call<'_, E>) -> Done {
    push(call, Side::Left, false)
}

fn rpush<E: Executor>(call: &mut Call<'_, E>) -> Done {
    push(call, Side::Right, false)
}

fn lpushx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    push(call, Side::Left, true)
}

fn rpushx<E: Executor>(call: &mut Call<'_, E>) -> Done {
    push(call, Side::Right, true)
}

fn push<E: Executor>(call: &mut Call<'_, E>, side: Side, must_exist: bool) -> Done {
    let list = Changed::of(call, 0)?;
    let mut length = 0;
    if list.old.is_some() || !must_exist {
        let mut draft = list.draft(1);
        call.args[2..].iter().for_each(|item| draft.push(side, item));
        length = draft.len();
        list.write(call, &draft)?;
    }
    call.reply.integer(length as i64);
    Ok(())
}

fn lpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop(call, Side::Left)
}

fn rpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop(call, Side::Right)
}

fn pop<E: Executor>(call: &mut Call<'_, E>, side: Side) -> Done {
    let count = match call.args[2..] {
        [] => None,
        [count] => Some(call.positive(count)?),
        _ => return Err(ReplyError::WrongArity(if side == Side::Left { "lpop" } else { "rpop" })),
    };
    let list = Changed::of(call, 0)?;
    call.count_look_up(list.old.is_some());
    if list.old.is_none() {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let popped = pop_some(call, list, side, count.unwrap_or(1))?;
    match (count, popped.first()) {
        (None, Some(item)) => call.reply.bulk(item),
        _ => reply_items(call, &popped),
    }
    Ok(())
}

/// Removes items at an end; returns them.
fn pop_some<'g, E: Executor>(
    call: &mut Call<'g, E>,
    list: Changed<'g>,
    side: Side,
    count: usize,
) -> Result<Vec<&'g [u8]>, ReplyError> {
    let mut draft = list.draft(1);
    let popped: Vec<&[u8]> = (0..count).map_while(|_| draft.pop(side)).collect();
    if !popped.is_empty() {
        list.write(call, &draft)?;
    }
    Ok(popped)
}

fn reply_items<E: Executor>(call: &mut Call<'_, E>, items: &[&[u8]]) {
    call.reply.array(items.len());
    items.iter().for_each(|item| call.reply.bulk(item));
}

fn side(word: &[u8]) -> Result<Side, ReplyError> {
    if word.eq_ignore_ascii_case(b"left") {
        Ok(Side::Left)
    } else if word.eq_ignore_ascii_case(b"right") {
        Ok(Side::Right)
    } else {
        Err(ReplyError::Syntax)
    }
}

fn lmpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop_first(call, None, side, pop_some, reply_items)
}

fn blmpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop_first(call, Some(call.args[1]), side, pop_some, reply_items)
}

fn llen<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let items = call.look_up_as::<Lists>(0)?.map_or(0, List::len);
    call.reply.integer(items as i64);
    Ok(())
}

fn lindex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let list = call.look_up_as::<Lists>(0)?;
    let number = match list {
        Some(_) => parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?,
        None => 0,
    };
    let item = list.and_then(|list| list.items_from(index_in(list.len(), number)?).next());
    match item {
        Some(item) => call.reply.bulk(item),
        None => call.reply.null(),
    }
    Ok(())
}

/// The two numbers of LRANGE and LTRIM.
fn numbers<E: Executor>(call: &Call<'_, E>) -> Result<(i64, i64), ReplyError> {
    let number = |at: usize| parse_i64(call.args[at]).ok_or(ReplyError::NotAnInteger);
    Ok((number(2)?, number(3)?))
}

fn lrange<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (first, last) = numbers(call)?;
    let list = call.look_up_as::<Lists>(0)?;
    let range = range_in(list.map_or(0, List::item_count), first, last);
    call.reply.array(range.len());
    let items = list.into_iter().flat_map(|list| list.items_from(range.start));
    for item in items.take(range.len()) {
        if call.reply.is_cut() {
            break;
        }
        call.reply.bulk(item);
    }
    Ok(())
}

/// LPOS's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Search {
    /// The first match to return, counted from 1; negative: from the end.
    rank: i64,
    /// How many to return; `None`: one, and not as an array. 0: all.
    count: Option<usize>,
    /// How many items to look at; 0: all.
    most: usize,
}

impl Search {
    fn parse(mut options: &[&[u8]]) -> Result<Search, ReplyError> {
        let mut search = Search { rank: 1, count: None, most: 0 };
        while let [option, number, rest @ ..] = options {
            options = rest;
            let not_negative = |refusal: &'static str| {
                let number = parse_i64(number).filter(|number| *number >= 0);
                let number = number.ok_or(ReplyError::text(refusal))?;
                Ok::<_, ReplyError>(usize::try_from(number).unwrap_or(usize::MAX))
            };
            if option.eq_ignore_ascii_case(b"rank") {
                // Redis negates a negative one, and the least of all stays what it was: then no match is
                // skipped.
                let rank = parse_i64(number).ok_or(ReplyError::NotAnInteger)?;
                search.rank = if rank == i64::MIN { -1 } else { rank };
                if search.rank == 0 {
                    return Err(ReplyError::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
                         use negative to start from the end of the list",
                    ));
                }
            } else if option.eq_ignore_ascii_case(b"count") {
                search.count = Some(not_negative("ERR COUNT can't be negative")?);
            } else if option.eq_ignore_ascii_case(b"maxlen") {
                search.most = not_negative("ERR MAXLEN can't be negative")?;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        if options.is_empty() { Ok(search) } else { Err(ReplyError::Syntax) }
    }

    /// Where the item stands among those of the list.
    fn found(self, list: List<'_>, item: &[u8]) -> Vec<usize> {
        let most = if self.most == 0 { usize::MAX } else { self.most };
        let wanted = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        let skipped = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let at = |(index, other): (usize, &[u8])| (other == item).then_some(index);
        match self.rank > 0 {
            true => {
                let items = (0..).zip(list.items());
                items.take(most).filter_map(at).skip(skipped).take(wanted).collect()
            }
            false => {
                let items = (0..list.len()).rev().zip(list.items_back());
                items.take(most).filter_map(at).skip(skipped).take(wanted).collect()
            }
        }
    }
}

fn lpos<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let search = Search::parse(&call.args[3..])?;
    let list = call.look_up_as::<Lists>(0)?;
    let found = list.map_or(Vec::new(), |list| search.found(list, call.args[2]));
    match (search.count, found.first()) {
        (Some(_), _) => {
            call.reply.array(found.len());
            found.iter().for_each(|index| call.reply.integer(*index as i64));
        }
        (None, Some(index)) => call.reply.integer(*index as i64),
        (None, None) => call.reply.null(),
    }
    Ok(())
}

fn lset<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let list = Changed::of(call, 0)?;
    if list.old.is_none() {
        return Err(ReplyError::text("ERR no such key"));
    }
    let number = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let mut draft = list.draft(1);
    let is_there = index_in(draft.len(), number).is_some_and(|index| draft.set(index, call.args[3]));
    if !is_there {
        return Err(ReplyError::text("ERR index out of range"));
    }
    list.write(call, &draft)?;
    call.reply.ok();
    Ok(())
}

fn linsert<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let behind = match call.args[2] {
        word if word.eq_ignore_ascii_case(b"before") => 0,
        word if word.eq_ignore_ascii_case(b"after") => 1,
        _ => return Err(ReplyError::Syntax),
    };
    let list = Changed::of(call, 0)?;
    let length = match list.old {
        None => 0,
        Some(_) => {
            let mut draft = list.draft(1);
            match draft.index_of(call.args[3]) {
                None => -1,
                Some(index) => {
                    draft.insert(index + behind, call.args[4]);
                    list.write(call, &draft)?;
                    draft.len() as i64
                }
            }
        }
    };
    call.reply.integer(length);
    Ok(())
}

fn lrem<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let count = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let list = Changed::of(call, 0)?;
    let mut removed = 0;
    if list.old.is_some() {
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        let mut draft = list.draft(1);
        removed = draft.remove(call.args[3], most, if count < 0 { Side::Right } else { Side::Left });
        if removed > 0 {
            list.write(call, &draft)?;
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

fn ltrim<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (first, last) = numbers(call)?;
    let list = Changed::of(call, 0)?;
    if list.old.is_some() {
        let mut draft = list.draft(1);
        let range = range_in(draft.len(), first, last);
        if range.len() < draft.len() {
            match range.is_empty() {
                true => draft = ListDraft::default(),
                false => draft.keep(range.start, range.end - 1),
            }
            list.write(call, &draft)?;
        }
    }
    call.reply.ok();
    Ok(())
}

fn blpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    take_one(call, Side::Left)
}

fn brpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    take_one(call, Side::Right)
}

fn take_one<E: Executor>(call: &mut Call<'_, E>, side: Side) -> Done {
    take_first(call, |call, name, list: Changed<'_>| {
        let popped = pop_some(call, list, side, 1)?;
        call.reply.array(2);
        call.reply.bulk(name);
        popped.iter().for_each(|item| call.reply.bulk(item));
        Ok(())
    })
}

fn lmove<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (from, to) = (side(call.args[3])?, side(call.args[4])?);
    move_item(call, from, to, None)
}

fn rpoplpush<E: Executor>(call: &mut Call<'_, E>) -> Done {
    move_item(call, Side::Right, Side::Left, None)
}

fn blmove<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (from, to) = (side(call.args[3])?, side(call.args[4])?);
    move_item(call, from, to, Some(call.args[5]))
}

fn brpoplpush<E: Executor>(call: &mut Call<'_, E>) -> Done {
    move_item(call, Side::Right, Side::Left, Some(call.args[3]))
}

/// Moves an item from an end of the first key's list to an end of the second's; with a timeout it may wait
/// for one.
fn move_item<'g, E: Executor>(
    call: &mut Call<'g, E>,
    from_side: Side,
    to_side: Side,
    timeout: Option<&'g [u8]>,
) -> Done {
    let at_most_ms = timeout.map(|word| timeout_ms(call, word)).transpose()?;
    let found: Option<(usize, Changed<'g>)> = first(call, 1)?;
    let Some((_, from)) = found else {
        match at_most_ms {
            Some(ms) if call.waits(ms) => {}
            Some(_) if call.blocking == Blocking::Over => call.reply.null_array(),
            _ => call.reply.null(),
        }
        return Ok(());
    };
    let mut left = from.draft(1);
    let item = left.pop(from_side).expect("no list is empty");
    if call.args[1] == call.args[2] {
        left.push(to_side, item);
        from.write(call, &left)?;
    } else {
        let to = Changed::of(call, 1)?;
        let mut joined = to.draft(1);
        joined.push(to_side, item);
        from.write(call, &left)?;
        to.write(call, &joined)?;
    }
    call.reply.bulk(item);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::Limits;

    #[test]
    fn a_search_starts_at_a_rank() {
        let items = ListDraft::made_of(b"abcabca".chunks(1)).finish(&Limits::default());
        let bytes = items.into_packed().expect("it is short");
        let found = |options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            Search::parse(&options).unwrap().found(List::of(&bytes), b"a")
        };
        assert_eq!(found(""), [0]);
        assert_eq!(found("rank 2"), [3]);
        assert_eq!(found("rank -1"), [6]);
        assert_eq!(found("count 0"), [0, 3, 6]);
        assert_eq!(found("count 2 rank -1"), [6, 3]);
        assert_eq!(found("count 0 maxlen 4"), [0, 3]);
        assert_eq!(found("count 0 rank -1 maxlen 4"), [6, 3]);
        assert_eq!(found("rank 4"), Vec::<usize>::new());
    }
}
