//! Static descriptions of commands: arity, flags, keys, use of old values, documentation.

use crate::call::{Executor, OverKeys, Own, Run};
use crate::key_spec::KeySpec;
use crate::reply_error::ReplyError;

/// A set of properties, named as `COMMAND INFO` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags(u32);

impl CommandFlags {
    /// None.
    pub const NONE: CommandFlags = CommandFlags(0);
    /// May change data.
    pub const WRITE: CommandFlags = CommandFlags(1 << 0);
    /// Only reads data.
    pub const READONLY: CommandFlags = CommandFlags(1 << 1);
    /// May need memory, and is refused if there is none.
    pub const DENYOOM: CommandFlags = CommandFlags(1 << 2);
    /// For operators.
    pub const ADMIN: CommandFlags = CommandFlags(1 << 3);
    /// Forbidden in scripts.
    pub const NOSCRIPT: CommandFlags = CommandFlags(1 << 4);
    /// Allowed while the node loads its data.
    pub const LOADING: CommandFlags = CommandFlags(1 << 5);
    /// Allowed on stale data.
    pub const STALE: CommandFlags = CommandFlags(1 << 6);
    /// Constant or logarithmic time.
    pub const FAST: CommandFlags = CommandFlags(1 << 7);
    /// Allowed before authentication.
    pub const NO_AUTH: CommandFlags = CommandFlags(1 << 8);
    /// Not queued in a transaction.
    pub const NO_MULTI: CommandFlags = CommandFlags(1 << 9);
    /// Allowed while a script runs for too long.
    pub const ALLOW_BUSY: CommandFlags = CommandFlags(1 << 10);
    /// Not allowed while data is loaded in the background.
    pub const NO_ASYNC_LOADING: CommandFlags = CommandFlags(1 << 11);
    /// Dangerous by its cost or its output, without being for operators only.
    pub const DANGEROUS: CommandFlags = CommandFlags(1 << 12);
    /// Belongs to the key space: the ACL category `@keyspace`.
    pub const KEYSPACE: CommandFlags = CommandFlags(1 << 13);
    /// Belongs to strings: the ACL category `@string`.
    pub const STRING: CommandFlags = CommandFlags(1 << 14);
    /// Belongs to the connection: the ACL category `@connection`.
    pub const CONNECTION: CommandFlags = CommandFlags(1 << 15);

    /// Lets an operator inspect the node: allowed on connections reserved for operators.
    pub const FOR_OPERATORS: CommandFlags = CommandFlags(1 << 16);
    /// Belongs to transactions: the ACL category `@transaction`.
    pub const TRANSACTION: CommandFlags = CommandFlags(1 << 17);

    /// Kept out of SLOWLOG: the commands that it runs are logged instead.
    pub const SKIP_SLOWLOG: CommandFlags = CommandFlags(1 << 18);

    /// Belongs to hashes: the ACL category `@hash`.
    pub const HASH: CommandFlags = CommandFlags(1 << 19);
    /// Belongs to sets: the ACL category `@set`.
    pub const SET: CommandFlags = CommandFlags(1 << 20);

    /// Belongs to lists: the ACL category `@list`.
    pub const LIST: CommandFlags = CommandFlags(1 << 22);

    /// Belongs to sorted sets: the ACL category `@sortedset`.
    pub const SORTED_SET: CommandFlags = CommandFlags(1 << 23);

    /// May wait for what it takes.
    pub const BLOCKING: CommandFlags = CommandFlags(1 << 24);

    /// Belongs to scripts and functions: the ACL category `@scripting`.
    pub const SCRIPTING: CommandFlags = CommandFlags(1 << 25);

    /// Belongs to bitmaps: the ACL category `@bitmap`.
    pub const BITMAP: CommandFlags = CommandFlags(1 << 26);

    /// Describes the node, its cluster or the connection, and shows nothing of the data: answered also while
    /// the node's lease is over.
    pub const WITHOUT_LEASE: CommandFlags = CommandFlags(1 << 27);

    /// Its keys are found by a number among its arguments.
    pub const MOVABLE_KEYS: CommandFlags = CommandFlags(1 << 21);

    /// Reads or changes what transactions have at its key.
    pub const LOCKS: CommandFlags = CommandFlags(1 << 28);

    const NAMES: [(CommandFlags, &'static str); 15] = [
        (CommandFlags::WRITE, "write"),
        (CommandFlags::READONLY, "readonly"),
        (CommandFlags::DENYOOM, "denyoom"),
        (CommandFlags::ADMIN, "admin"),
        (CommandFlags::NOSCRIPT, "noscript"),
        (CommandFlags::BLOCKING, "blocking"),
        (CommandFlags::LOADING, "loading"),
        (CommandFlags::STALE, "stale"),
        (CommandFlags::SKIP_SLOWLOG, "skip_slowlog"),
        (CommandFlags::FAST, "fast"),
        (CommandFlags::NO_AUTH, "no_auth"),
        (CommandFlags::NO_ASYNC_LOADING, "no_async_loading"),
        (CommandFlags::NO_MULTI, "no_multi"),
        (CommandFlags::MOVABLE_KEYS, "movablekeys"),
        (CommandFlags::ALLOW_BUSY, "allow_busy"),
    ];

    /// The union of the sets.
    pub const fn with(self, other: CommandFlags) -> CommandFlags {
        CommandFlags(self.0 | other.0)
    }

    /// Whether all of `other` is in the set.
    pub const fn contains(self, other: CommandFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets intersect.
    pub const fn touches(self, other: CommandFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags' names, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        CommandFlags::NAMES.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| *name)
    }

    /// The ACL categories that follow from the flags, in Redis's order.
    pub fn categories(self) -> impl Iterator<Item = &'static str> + Clone {
        let dangerous = self.contains(CommandFlags::ADMIN) || self.contains(CommandFlags::DANGEROUS);
        [
            (self.contains(CommandFlags::KEYSPACE), "@keyspace"),
            (self.contains(CommandFlags::READONLY), "@read"),
            (self.contains(CommandFlags::WRITE), "@write"),
            (self.contains(CommandFlags::SET), "@set"),
            (self.contains(CommandFlags::SORTED_SET), "@sortedset"),
            (self.contains(CommandFlags::LIST), "@list"),
            (self.contains(CommandFlags::HASH), "@hash"),
            (self.contains(CommandFlags::STRING), "@string"),
            (self.contains(CommandFlags::BITMAP), "@bitmap"),
            (self.contains(CommandFlags::ADMIN), "@admin"),
            (self.contains(CommandFlags::FAST), "@fast"),
            (!self.contains(CommandFlags::FAST), "@slow"),
            (self.contains(CommandFlags::BLOCKING), "@blocking"),
            (dangerous, "@dangerous"),
            (self.contains(CommandFlags::CONNECTION), "@connection"),
            (self.contains(CommandFlags::TRANSACTION), "@transaction"),
            (self.contains(CommandFlags::SCRIPTING), "@scripting"),
        ]
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, name)| name)
    }
}

/// A command's use of its keys' old values; determines whether it waits for a migration to bring them.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// Touches no key.
    NoKeys,
    /// Reads values.
    Read,
    /// Writes without reading if the function returns true for the arguments; otherwise like
    /// [`Access::ReadWrite`].
    BlindWrite(fn(&[&[u8]]) -> bool),
    /// Writes depending on the old value, if only on its existence.
    ReadWrite,
}

impl Access {
    /// Whether the command may change its keys.
    pub const fn is_write(self) -> bool {
        matches!(self, Access::BlindWrite(_) | Access::ReadWrite)
    }
}

/// How a command whose keys are on several nodes is split: each owner runs it over its own keys, and the
/// replies are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// It runs on one owner of all its keys, or fails.
    Never,
    /// The reply has one element for each key, in their order: a string or null.
    Each,
    /// The reply is the sum of the owners' counts.
    Sum,
    /// The reply is `OK` once every owner has replied so.
    AllOk,
    /// No owner does anything unless all may; the reply is 1 or 0. It has two owners at most.
    AllOrNone,
}

/// The documentation in `COMMAND DOCS`.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// One sentence.
    pub summary: &'static str,
    /// The first Redis version that has the command.
    pub since: &'static str,
    /// Redis's group name.
    pub group: &'static str,
    /// The cost.
    pub complexity: &'static str,
    /// Hints to client authors, in Redis's vocabulary.
    pub tips: &'static [&'static str],
    /// For a command that exists for old clients: since which Redis version, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
}

/// What a request is, seen from its arguments.
pub type OfRequest = fn(&[&[u8]]) -> bool;

/// One command, or one subcommand (its name is then `parent|child`).
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec<E: Executor> {
    /// The name in lower case.
    pub name: &'static str,
    /// The number of arguments, the name included; negative: the minimum.
    pub arity: i16,
    /// Properties.
    pub flags: CommandFlags,
    /// Where the keys are.
    pub keys: KeySpec,
    /// Its use of old values.
    pub access: Access,
    /// Whether it may be split between the owners of its keys.
    pub split: Split,
    /// Whether a request reads keys that it does not name. It runs under the locks of all slots, where they
    /// are all here.
    pub reads_unnamed: Option<OfRequest>,
    /// Whether supporting clients may learn that its key has not arrived, and read at both ends of a
    /// migration.
    pub double_read: bool,
    /// The function that runs it.
    pub run: Run<E>,
    /// For a container such as CONFIG: its subcommands.
    pub subcommands: &'static [CommandSpec<E>],
    /// Documentation.
    pub docs: Docs,
}

impl<E: Executor> CommandSpec<E> {
    /// A command over keys; refined with the other methods.
    pub(crate) const fn over_keys(
        name: &'static str,
        arity: i16,
        flags: CommandFlags,
        run: OverKeys<E>,
    ) -> CommandSpec<E> {
        CommandSpec::running(name, arity, flags, Run::OverKeys(run))
    }

    /// A command of the executor's own, without keys; refined with the other methods.
    pub const fn new(name: &'static str, arity: i16, flags: CommandFlags, run: Own<E>) -> CommandSpec<E> {
        CommandSpec::running(name, arity, flags, Run::Own(run))
    }

    const fn running(name: &'static str, arity: i16, flags: CommandFlags, run: Run<E>) -> CommandSpec<E> {
        CommandSpec {
            name,
            arity,
            flags,
            keys: KeySpec::NONE,
            access: Access::NoKeys,
            split: Split::Never,
            reads_unnamed: None,
            double_read: false,
            run,
            subcommands: &[],
            docs: Docs {
                summary: "",
                since: "1.0.0",
                group: "generic",
                complexity: "O(1)",
                tips: &[],
                deprecated: None,
            },
        }
    }

    /// A command that exists only for its subcommands.
    pub const fn container(
        name: &'static str,
        flags: CommandFlags,
        subcommands: &'static [CommandSpec<E>],
    ) -> CommandSpec<E> {
        // Without a subcommand the arity check refuses the request; with an unknown one the look-up does.
        CommandSpec::over_keys(name, -2, flags, |_| Err(ReplyError::Syntax)).with_subcommands(subcommands)
    }

    /// Adds subcommands to a command that also runs by itself.
    pub const fn with_subcommands(mut self, subcommands: &'static [CommandSpec<E>]) -> CommandSpec<E> {
        self.subcommands = subcommands;
        self
    }

    /// Sets the positions of the keys and the use of their values.
    pub const fn keys(mut self, keys: KeySpec, access: Access) -> CommandSpec<E> {
        self.keys = keys;
        self.access = access;
        self
    }

    /// Allows splitting the command between the owners of its keys.
    pub const fn split(mut self, split: Split) -> CommandSpec<E> {
        self.split = split;
        self
    }

    /// It reads keys that a request does not name, if the request is so.
    pub(crate) const fn reads_unnamed(mut self, does: OfRequest) -> CommandSpec<E> {
        self.reads_unnamed = Some(does);
        self
    }

    /// Allows a reply to supporting clients that the key has not arrived.
    pub(crate) const fn double_read(mut self) -> CommandSpec<E> {
        self.double_read = true;
        self
    }

    /// Documents the command.
    pub const fn docs(
        mut self,
        group: &'static str,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> CommandSpec<E> {
        self.docs = Docs { summary, since, group, complexity, ..self.docs };
        self
    }

    /// Marks it as deprecated: since which Redis version, and its replacement.
    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> CommandSpec<E> {
        self.docs.deprecated = Some((since, instead));
        self
    }

    /// Adds hints for client authors.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> CommandSpec<E> {
        self.docs.tips = tips;
        self
    }

    /// Whether a request with this many keys changes several keys atomically: the executor then locks all
    /// their slots first.
    #[inline]
    pub const fn locks_all_slots(&self, key_count: usize) -> bool {
        key_count > 1 && self.access.is_write()
    }

    /// Whether this request reads keys that it does not name.
    #[inline]
    pub fn is_over_unnamed(&self, args: &[&[u8]]) -> bool {
        self.reads_unnamed.is_some_and(|does| does(args))
    }

    /// Whether this number of arguments fits.
    #[inline]
    pub const fn accepts(&self, argument_count: usize) -> bool {
        if self.arity >= 0 {
            argument_count == self.arity as usize
        } else {
            argument_count >= self.arity.unsigned_abs() as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_follow_flags() {
        let get = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::STRING);
        assert_eq!(get.categories().collect::<Vec<_>>(), ["@read", "@string", "@fast"]);
        assert_eq!(get.names().collect::<Vec<_>>(), ["readonly", "fast"]);
    }
}
