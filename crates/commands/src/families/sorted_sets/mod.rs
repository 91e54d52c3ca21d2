//! Sorted sets: members, each with a score.
//!
//! | file | what |
//! |---|---|
//! | `score` | scores and bounds as texts |
//! | `members` | members as commands take and return them |
//! | `change` | ZADD and its like, removals of members, pops |
//! | `look` | scores, ranks, draws, walks |
//! | `range` | ZRANGE in all its forms, ZCOUNT, ZREMRANGEBY* |
//! | `combine` | ZUNION, ZINTER, ZDIFF, and what stores them |

mod change;
mod combine;
mod look;
mod members;
mod range;
mod score;

use super::changed;
use crate::call::Executor;
use crate::key_spec::KeySpec;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_collections::SortedSets;

type Changed<'g> = changed::Changed<'g, SortedSets>;

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::SORTED_SET);
const READ_FAST: CommandFlags = READ.with(CommandFlags::FAST);
const CHANGE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::SORTED_SET);
const GROW: CommandFlags = CHANGE.with(CommandFlags::DENYOOM);
const MOVABLE: CommandFlags = CommandFlags::MOVABLE_KEYS;
const WAIT: CommandFlags = CHANGE.with(CommandFlags::BLOCKING);
const WAIT_ALONE: CommandFlags = WAIT.with(CommandFlags::NOSCRIPT).with(CommandFlags::FAST);
const FOUND: &str = "O(log(N)) where N is the number of members of the sorted set";
const EACH_FOUND: &str =
    "O(M*log(N)) where N is the number of members of the sorted set, M that of members named or removed";
const RANGE: &str =
    "O(log(N)+M) where N is the number of members of the sorted set, M that of those returned";
const FIRST_OF_KEYS: &str =
    "O(K+M*log(N)) where K is the number of keys, N that of the set's members, M that of those removed";
const SIZES: &str = "O(N*log(N)) where N is the number of members of all sets";
const SMALLEST: &str = "O(N*K*log(M)) where N is the number of members of the smallest set, K that of sets, M that of the largest's members";
const VARIES: &[&str] = &["nondeterministic_output"];
const READ_KEY: KeySpec = KeySpec::one(&["RO", "access"]);
const REMOVE_KEY: KeySpec = KeySpec::one(&["RW", "delete"]);
const POP_KEY: KeySpec = KeySpec::one(&["RW", "access", "delete"]);
const READ_KEYS: KeySpec = KeySpec::counted(1, &["RO", "access"]);
const STORE_KEYS: KeySpec = KeySpec::into_from_counted(&["OW", "update"], 2, &["RO", "access"]);

pub(super) const fn of_members<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("zadd", -4, GROW.with(CommandFlags::FAST), change::zadd)
                .keys(KeySpec::one(&["RW", "update"]), Access::ReadWrite)
                .docs("sorted-set", "1.2.0", EACH_FOUND, "Sets the scores of members."),
            CommandSpec::over_keys("zincrby", 4, GROW.with(CommandFlags::FAST), change::zincrby)
                .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
                .docs("sorted-set", "1.2.0", FOUND, "Adds to the score of a member."),
            CommandSpec::over_keys("zrem", -3, CHANGE.with(CommandFlags::FAST), change::zrem)
                .keys(REMOVE_KEY, Access::ReadWrite)
                .docs("sorted-set", "1.2.0", EACH_FOUND, "Removes members and returns how many there were."),
            CommandSpec::over_keys("zpopmin", -2, CHANGE.with(CommandFlags::FAST), change::zpopmin)
                .keys(POP_KEY, Access::ReadWrite)
                .docs("sorted-set", "5.0.0", EACH_FOUND, "Removes the members of the lowest scores."),
            CommandSpec::over_keys("zpopmax", -2, CHANGE.with(CommandFlags::FAST), change::zpopmax)
                .keys(POP_KEY, Access::ReadWrite)
                .docs("sorted-set", "5.0.0", EACH_FOUND, "Removes the members of the highest scores."),
            CommandSpec::over_keys("zmpop", -4, CHANGE.with(MOVABLE), change::zmpop)
                .keys(KeySpec::counted(1, &["RW", "access", "delete"]), Access::ReadWrite)
                .docs("sorted-set", "7.0.0", FIRST_OF_KEYS, "Removes members of the first sorted set that has some."),
            CommandSpec::over_keys("zcard", 2, READ_FAST, look::zcard)
                .keys(KeySpec::one(&["RO"]), Access::Read)
                .docs("sorted-set", "1.2.0", "O(1)", "Returns how many members there are."),
            CommandSpec::over_keys("zscore", 3, READ_FAST, look::zscore).keys(READ_KEY, Access::Read).docs(
                "sorted-set",
                "1.2.0",
                FOUND,
                "Returns the score of a member.",
            ),
            CommandSpec::over_keys("zmscore", -3, READ_FAST, look::zmscore)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "6.2.0", EACH_FOUND, "Returns the scores of several members."),
            CommandSpec::over_keys("zrank", 3, READ_FAST, look::zrank).keys(READ_KEY, Access::Read).docs(
                "sorted-set",
                "2.0.0",
                FOUND,
                "Returns how many members stand before one.",
            ),
            CommandSpec::over_keys("zrevrank", 3, READ_FAST, look::zrevrank)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.0.0", FOUND, "Returns how many members stand behind one."),
            CommandSpec::over_keys("zrandmember", -2, READ, look::zrandmember)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "6.2.0", "O(M*log(N)) where N is the number of members of the sorted set, M that of those returned", "Returns members drawn by lot.")
                .tips(VARIES),
            CommandSpec::over_keys("zscan", -3, READ, look::zscan)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.8.0", "O(log(N)+M) for each step, where N is the number of members of the sorted set, M that of those returned", "Returns some of the members, and where to go on.")
                .tips(VARIES),
        ]
    }
}

pub(super) const fn that_wait<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("bzpopmin", -3, WAIT_ALONE, change::bzpopmin)
                .keys(KeySpec::all_but_last(&["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "sorted-set",
                    "5.0.0",
                    FIRST_OF_KEYS,
                    "Removes the member of the lowest score; waits for one.",
                ),
            CommandSpec::over_keys("bzpopmax", -3, WAIT_ALONE, change::bzpopmax)
                .keys(KeySpec::all_but_last(&["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "sorted-set",
                    "5.0.0",
                    FIRST_OF_KEYS,
                    "Removes the member of the highest score; waits for one.",
                ),
            CommandSpec::over_keys("bzmpop", -5, WAIT.with(MOVABLE), change::bzmpop)
                .keys(KeySpec::counted(2, &["RW", "access", "delete"]), Access::ReadWrite)
                .docs(
                    "sorted-set",
                    "7.0.0",
                    FIRST_OF_KEYS,
                    "Removes members of the first set that has some; waits for them.",
                ),
        ]
    }
}

pub(super) const fn of_ranges<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("zrange", -4, READ, range::zrange).keys(READ_KEY, Access::Read).docs(
                "sorted-set",
                "1.2.0",
                RANGE,
                "Returns the members of a range.",
            ),
            CommandSpec::over_keys("zrangestore", -5, GROW, range::zrangestore)
                .keys(KeySpec::from_to(&["OW", "update"], &["RO", "access"]), Access::ReadWrite)
                .docs("sorted-set", "6.2.0", "O(log(N)+M*log(M)) where N is the number of members of the sorted set, M that of those stored", "Sets a key to the members of a range."),
            CommandSpec::over_keys("zrangebyscore", -4, READ, range::zrangebyscore)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "1.0.5", RANGE, "Returns the members of a range of scores.")
                .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
            CommandSpec::over_keys("zrangebylex", -4, READ, range::zrangebylex)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.8.9", RANGE, "Returns the members of a range of texts.")
                .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
            CommandSpec::over_keys("zrevrange", -4, READ, range::zrevrange)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "1.2.0", RANGE, "Returns the members of a range, the highest first.")
                .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
            CommandSpec::over_keys("zrevrangebyscore", -4, READ, range::zrevrangebyscore)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.2.0", RANGE, "ZRANGEBYSCORE, the highest first.")
                .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
            CommandSpec::over_keys("zrevrangebylex", -4, READ, range::zrevrangebylex)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.8.9", RANGE, "ZRANGEBYLEX, the last first.")
                .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
            CommandSpec::over_keys("zcount", 4, READ_FAST, range::zcount).keys(READ_KEY, Access::Read).docs(
                "sorted-set",
                "2.0.0",
                FOUND,
                "Counts the members of a range of scores.",
            ),
            CommandSpec::over_keys("zlexcount", 4, READ_FAST, range::zlexcount)
                .keys(READ_KEY, Access::Read)
                .docs("sorted-set", "2.8.9", FOUND, "Counts the members of a range of texts."),
            CommandSpec::over_keys("zremrangebyrank", 4, CHANGE, range::zremrangebyrank)
                .keys(REMOVE_KEY, Access::ReadWrite)
                .docs("sorted-set", "2.0.0", EACH_FOUND, "Removes the members of a range."),
            CommandSpec::over_keys("zremrangebyscore", 4, CHANGE, range::zremrangebyscore)
                .keys(REMOVE_KEY, Access::ReadWrite)
                .docs("sorted-set", "1.2.0", EACH_FOUND, "Removes the members of a range of scores."),
            CommandSpec::over_keys("zremrangebylex", 4, CHANGE, range::zremrangebylex)
                .keys(REMOVE_KEY, Access::ReadWrite)
                .docs("sorted-set", "2.8.9", EACH_FOUND, "Removes the members of a range of texts."),
        ]
    }
}

pub(super) const fn of_several<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("zunion", -3, READ.with(MOVABLE), combine::zunion)
                .keys(READ_KEYS, Access::Read)
                .docs("sorted-set", "6.2.0", SIZES, "Returns what is a member of any of the sets."),
            CommandSpec::over_keys("zinter", -3, READ.with(MOVABLE), combine::zinter)
                .keys(READ_KEYS, Access::Read)
                .docs("sorted-set", "6.2.0", SMALLEST, "Returns what is a member of all sets."),
            CommandSpec::over_keys("zintercard", -3, READ.with(MOVABLE), combine::zintercard)
                .keys(READ_KEYS, Access::Read)
                .docs("sorted-set", "7.0.0", SMALLEST, "Returns how many members all sets share."),
            CommandSpec::over_keys("zdiff", -3, READ.with(MOVABLE), combine::zdiff)
                .keys(READ_KEYS, Access::Read)
                .docs(
                    "sorted-set",
                    "6.2.0",
                    SIZES,
                    "Returns members of the first set that no other one has.",
                ),
            CommandSpec::over_keys("zunionstore", -4, GROW.with(MOVABLE), combine::zunionstore)
                .keys(STORE_KEYS, Access::ReadWrite)
                .docs("sorted-set", "2.0.0", SIZES, "Sets a key to what is a member of any of the sets."),
            CommandSpec::over_keys("zinterstore", -4, GROW.with(MOVABLE), combine::zinterstore)
                .keys(STORE_KEYS, Access::ReadWrite)
                .docs("sorted-set", "2.0.0", SMALLEST, "Sets a key to what is a member of all sets."),
            CommandSpec::over_keys("zdiffstore", -4, GROW.with(MOVABLE), combine::zdiffstore)
                .keys(STORE_KEYS, Access::ReadWrite)
                .docs("sorted-set", "6.2.0", SIZES, "Sets a key to what only the first set has."),
        ]
    }
}
