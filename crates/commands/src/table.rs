//! Finds the command of a request's first words: one probe of a small table, ignoring case.

use crate::call::Executor;
use crate::reply_error::ReplyError;
use crate::spec::CommandSpec;

/// A command's place in the table: the index of its counters. Subcommands have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandId(pub u16);

/// A command in the table.
#[derive(Clone, Copy, Debug)]
pub struct Found<E: Executor> {
    /// Its description.
    pub spec: &'static CommandSpec<E>,
    /// The index of its counters.
    pub id: CommandId,
}

/// All commands of an executor.
pub struct CommandTable<E: Executor> {
    commands: Vec<Found<E>>,
    /// For each command the index of its first subcommand in `commands`; subcommands are contiguous.
    subcommands_at: Vec<u16>,
    /// Open addressing over the hash of the lower-case name; top-level commands only.
    buckets: Box<[u16]>,
}

const EMPTY: u16 = u16::MAX;
/// The error for an unknown command quotes this many bytes of the name and of the arguments.
const UNKNOWN_NAME_BYTES: usize = 128;

impl<E: Executor> CommandTable<E> {
    /// A table of these families.
    ///
    /// # Panics
    /// If two commands have the same name.
    pub fn new(groups: impl Iterator<Item = &'static [CommandSpec<E>]>) -> CommandTable<E> {
        let mut commands: Vec<Found<E>> = Vec::new();
        let mut add = |spec: &'static CommandSpec<E>| {
            let id = CommandId(commands.len() as u16);
            commands.push(Found { spec, id });
        };
        groups.flatten().for_each(&mut add);
        let top_level = commands.len();
        let mut subcommands_at = Vec::new();
        for parent in 0..top_level {
            subcommands_at.push(commands.len() as u16);
            for spec in commands[parent].spec.subcommands {
                let id = CommandId(commands.len() as u16);
                commands.push(Found { spec, id });
            }
        }
        let mut buckets = vec![EMPTY; (top_level * 4).next_power_of_two()].into_boxed_slice();
        for (index, found) in commands[..top_level].iter().enumerate() {
            let mask = buckets.len() - 1;
            let mut bucket = hash(found.spec.name.as_bytes()) as usize & mask;
            while buckets[bucket] != EMPTY {
                let other = commands[buckets[bucket] as usize].spec.name;
                assert!(other != found.spec.name, "the command '{other}' is in the table twice");
                bucket = (bucket + 1) & mask;
            }
            buckets[bucket] = index as u16;
        }
        CommandTable { commands, subcommands_at, buckets }
    }

    /// The top-level command with this name, ignoring case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Found<E>> {
        let mask = self.buckets.len() - 1;
        let mut bucket = hash(name) as usize & mask;
        loop {
            match self.buckets[bucket] {
                EMPTY => return None,
                index => {
                    let found = self.commands[index as usize];
                    if found.spec.name.as_bytes().eq_ignore_ascii_case(name) {
                        return Some(found);
                    }
                }
            }
            bucket = (bucket + 1) & mask;
        }
    }

    /// The subcommand with this name, ignoring case.
    pub fn find_subcommand(&self, parent: Found<E>, name: &[u8]) -> Option<Found<E>> {
        self.subcommands(parent).iter().copied().find(|child| {
            let own = &child.spec.name[parent.spec.name.len() + 1..];
            own.as_bytes().eq_ignore_ascii_case(name)
        })
    }

    /// The subcommands of a top-level command.
    pub fn subcommands(&self, parent: Found<E>) -> &[Found<E>] {
        match self.subcommands_at.get(parent.id.0 as usize) {
            Some(&at) => &self.commands[at as usize..][..parent.spec.subcommands.len()],
            None => &[],
        }
    }

    /// The command named `parent` or `parent|child`.
    pub fn find_full_name(&self, name: &[u8]) -> Option<Found<E>> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find_subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// The command or subcommand that a request calls, with its arity checked.
    ///
    /// # Errors
    /// An unknown command or subcommand, or a number of arguments that does not fit.
    ///
    /// # Panics
    /// On an empty request, which the parser never produces.
    #[inline]
    pub fn resolve(&self, args: &[&[u8]]) -> Result<Found<E>, ReplyError> {
        let Some(mut found) = self.find(args[0]) else { return Err(unknown_command(args)) };
        if !found.spec.subcommands.is_empty() && args.len() > 1 {
            match self.find_subcommand(found, args[1]) {
                Some(child) => found = child,
                None => return Err(unknown_subcommand(found.spec.name, args[1])),
            }
        }
        if !found.spec.accepts(args.len()) {
            return Err(ReplyError::WrongArity(found.spec.name));
        }
        Ok(found)
    }

    /// Every top-level command.
    pub fn top_level(&self) -> &[Found<E>] {
        &self.commands[..self.subcommands_at.len()]
    }

    /// Every command and subcommand, by id.
    pub fn all(&self) -> &[Found<E>] {
        &self.commands
    }
}

/// Letters hash alike in both cases; the comparison resolves other collisions.
#[inline]
fn hash(name: &[u8]) -> u32 {
    let mut words = [0u8; 16];
    let length = name.len().min(16);
    words[..length].copy_from_slice(&name[..length]);
    let word = u128::from_le_bytes(words) | u128::from_le_bytes([0x20; 16]);
    let mixed = (word as u64 ^ ((word >> 64) as u64).rotate_left(29) ^ name.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32
}

/// Quotes the start of the request: each argument in quotes, 128 bytes in all, line ends escaped.
fn unknown_command(args: &[&[u8]]) -> ReplyError {
    let mut quoted = Vec::new();
    for argument in &args[1..] {
        if quoted.len() >= UNKNOWN_NAME_BYTES {
            break;
        }
        let room = UNKNOWN_NAME_BYTES - quoted.len();
        quoted.push(b'\'');
        quoted.extend_from_slice(until_nul(&argument[..argument.len().min(room)]));
        quoted.extend_from_slice(b"' ");
    }
    let name = until_nul(&args[0][..args[0].len().min(UNKNOWN_NAME_BYTES)]);
    ReplyError::owned([b"ERR unknown command '", name, b"', with args beginning with: ", &quoted].concat())
}

fn unknown_subcommand(parent: &str, child: &[u8]) -> ReplyError {
    let child = until_nul(&child[..child.len().min(UNKNOWN_NAME_BYTES)]);
    let parent = parent.to_ascii_uppercase();
    ReplyError::owned([b"ERR unknown subcommand '", child, b"'. Try ", parent.as_bytes(), b" HELP."].concat())
}

/// C prints strings to their first zero byte, and so does Redis here.
fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}
