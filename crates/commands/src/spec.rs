//! Static descriptions of commands: arity, flags, keys, use of old values, documentation.

use crate::call::{Executor, OverKeys, Own, Run};
use crate::number::parse_i64;
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

    /// Belongs to scripts and functions: the ACL category `@scripting`.
    pub const SCRIPTING: CommandFlags = CommandFlags(1 << 24);

    /// Belongs to bitmaps: the ACL category `@bitmap`.
    pub const BITMAP: CommandFlags = CommandFlags(1 << 25);

    /// Its keys are found by a number among its arguments.
    pub const MOVABLE_KEYS: CommandFlags = CommandFlags(1 << 21);

    const NAMES: [(CommandFlags, &'static str); 14] = [
        (CommandFlags::WRITE, "write"),
        (CommandFlags::READONLY, "readonly"),
        (CommandFlags::DENYOOM, "denyoom"),
        (CommandFlags::ADMIN, "admin"),
        (CommandFlags::NOSCRIPT, "noscript"),
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
            (self.contains(CommandFlags::LIST), "@list"),
            (self.contains(CommandFlags::HASH), "@hash"),
            (self.contains(CommandFlags::STRING), "@string"),
            (self.contains(CommandFlags::BITMAP), "@bitmap"),
            (self.contains(CommandFlags::ADMIN), "@admin"),
            (self.contains(CommandFlags::FAST), "@fast"),
            (!self.contains(CommandFlags::FAST), "@slow"),
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

/// The positions of a command's keys among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The index of the first key; 0 means that there are no keys.
    pub first: u8,
    /// The index of the last key; negative counts from the end.
    pub last: i8,
    /// From one key to the next.
    pub step: u8,
    /// The access to the keys, in the words of `COMMAND INFO`: `RO`, `RW`, `OW` or `RM`, then access, update,
    /// ...
    pub access: &'static [&'static str],
    /// For a first key with an access of its own: that to the others.
    pub last_access: Option<&'static [&'static str]>,
    /// The index of the number of keys, which follow it; 0: their number is not an argument.
    pub count_at: u8,
}

impl KeySpec {
    /// No keys.
    pub const NONE: KeySpec = KeySpec::new(0, 0, 0, &[]);

    const fn new(first: u8, last: i8, step: u8, access: &'static [&'static str]) -> KeySpec {
        KeySpec { first, last, step, access, last_access: None, count_at: 0 }
    }

    /// One key, the first argument.
    pub const fn one(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, 1, 1, access)
    }

    /// One key, the argument after the subcommand.
    pub const fn second(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(2, 2, 1, access)
    }

    /// Two keys with one access, the first two arguments.
    pub const fn two(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, 2, 1, access)
    }

    /// The same with an access for each.
    pub const fn from_to(from: &'static [&'static str], to: &'static [&'static str]) -> KeySpec {
        KeySpec { last_access: Some(to), ..KeySpec::two(from) }
    }

    /// Every argument is a key, the first with an access of its own.
    pub const fn into_from_all(into: &'static [&'static str], from: &'static [&'static str]) -> KeySpec {
        KeySpec { last_access: Some(from), ..KeySpec::all(into) }
    }

    /// So many keys as the argument before them says.
    pub const fn counted(count_at: u8, access: &'static [&'static str]) -> KeySpec {
        KeySpec { count_at, ..KeySpec::new(count_at + 1, 0, 1, access) }
    }

    /// Every argument is a key.
    pub const fn all(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, -1, 1, access)
    }

    /// Every other argument is a key, followed by its value.
    pub const fn pairs(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, -1, 2, access)
    }

    /// The indices of the keys in a request, whose first argument is the command's name. A number of keys
    /// that cannot be is none.
    #[inline]
    pub fn indices(self, args: &[&[u8]]) -> std::iter::StepBy<std::ops::Range<usize>> {
        let argument_count = args.len();
        let end = match self.last {
            _ if self.count_at != 0 => self.end_of_counted(args),
            last if last >= 0 => last as usize + 1,
            last => (argument_count + 1).saturating_sub(last.unsigned_abs() as usize),
        };
        let range = if self.first == 0 { 0..0 } else { self.first as usize..end.min(argument_count) };
        range.step_by((self.step as usize).max(1))
    }

    /// One behind the index of the last key that is counted.
    #[cold]
    fn end_of_counted(self, args: &[&[u8]]) -> usize {
        let count = args.get(usize::from(self.count_at)).and_then(|count| parse_i64(count));
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let end = usize::from(self.first).saturating_add(count);
        if end <= args.len() { end } else { 0 }
    }

    /// Whether every key has its own arguments: a request in which the last one lacks some has no parts.
    pub fn are_whole(self, argument_count: usize) -> bool {
        let step = usize::from(self.step).max(1);
        self.last >= 0 || argument_count.saturating_sub(usize::from(self.first)).is_multiple_of(step)
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
    fn indices_follow_first_last_and_step() {
        let of = |spec: KeySpec, count| spec.indices(&vec![&b"x"[..]; count]).collect::<Vec<_>>();
        assert_eq!(of(KeySpec::NONE, 3), Vec::<usize>::new());
        assert_eq!(of(KeySpec::one(&[]), 3), [1]);
        assert_eq!(of(KeySpec::one(&[]), 1), Vec::<usize>::new());
        assert_eq!(of(KeySpec::second(&[]), 3), [2]);
        assert_eq!(of(KeySpec::two(&[]), 5), [1, 2]);
        assert_eq!(of(KeySpec::from_to(&[], &[]), 2), [1]);
        assert_eq!(of(KeySpec::all(&[]), 4), [1, 2, 3]);
        assert_eq!(of(KeySpec::pairs(&[]), 5), [1, 3]);
        assert_eq!(of(KeySpec::pairs(&[]), 4), [1, 3]);
        assert_eq!(of(KeySpec::into_from_all(&[], &[]), 4), [1, 2, 3]);
        let counted = |count: &str| {
            let args = [&b"x"[..], count.as_bytes(), b"a", b"b", b"LIMIT"];
            KeySpec::counted(1, &[]).indices(&args).collect::<Vec<_>>()
        };
        assert_eq!((counted("1"), counted("3")), (vec![2], vec![2, 3, 4]));
        for none in ["0", "-1", "4", "x", "9223372036854775807"] {
            assert_eq!(counted(none), Vec::<usize>::new(), "{none}");
        }
        assert_eq!(of(KeySpec::counted(1, &[]), 1), Vec::<usize>::new());
    }

    #[test]
    fn categories_follow_flags() {
        let get = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::STRING);
        assert_eq!(get.categories().collect::<Vec<_>>(), ["@read", "@string", "@fast"]);
        assert_eq!(get.names().collect::<Vec<_>>(), ["readonly", "fast"]);
    }
}
