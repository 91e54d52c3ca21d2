//! A selector: some commands with some keys and channels. A user has one, and may have more.

use crate::catalogue::{Catalogue, Categories, CommandIndex};
use crate::rules::{RuleError, has_spaces};
use std::collections::BTreeMap;

/// A pattern of keys, and what may be done to these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(crate) pattern: Vec<u8>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// Some commands, with the keys and channels that they may name.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// A bit for each command of the catalogue.
    commands: Vec<u64>,
    /// All commands are allowed since none was taken away.
    pub(crate) has_all_commands: bool,
    /// Commands that a later version brings are allowed, too: its rules start with all.
    pub(crate) has_later_commands: bool,
    /// Commands that are allowed with these first arguments.
    pub(crate) first_arguments: BTreeMap<CommandIndex, Vec<Vec<u8>>>,
    pub(crate) has_all_keys: bool,
    pub(crate) keys: Vec<KeyPattern>,
    pub(crate) has_all_channels: bool,
    pub(crate) channels: Vec<Vec<u8>>,
}

impl Selector {
    /// Whether the command is allowed, whatever its arguments.
    #[inline]
    pub(crate) fn has(&self, CommandIndex(at): CommandIndex) -> bool {
        let at = usize::from(at);
        self.commands.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Applies a rule.
    ///
    /// # Errors
    /// It is none, and nothing has changed.
    pub(crate) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_keys(true),
            b"resetkeys" => self.set_keys(false),
            b"allchannels" | b"&*" => self.set_channels(true),
            b"resetchannels" => self.set_channels(false),
            b"allcommands" | b"+@all" => self.set_all(catalogue, true),
            b"nocommands" | b"-@all" => self.set_all(catalogue, false),
            _ => {
                return match rule {
                    [b'~' | b'%', ..] => self.add_keys(rule),
                    [b'&', channels @ ..] => self.add_channels(channels),
                    [b'+', b'@', category @ ..] => self.set_category(catalogue, category, true),
                    [b'-', b'@', category @ ..] => self.set_category(catalogue, category, false),
                    [b'+', command @ ..] => self.add_command(catalogue, command),
                    [b'-', command @ ..] => {
                        let command = catalogue.find(command).ok_or(RuleError::Unknown)?;
                        self.set(catalogue, command, false);
                        Ok(())
                    }
                    _ => Err(RuleError::Syntax),
                };
            }
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.has_all_keys = all;
        self.keys.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.has_all_channels = all;
        self.channels.clear();
    }

    fn set_all(&mut self, catalogue: &Catalogue, all: bool) {
        self.commands = vec![if all { u64::MAX } else { 0 }; catalogue.len().div_ceil(64)];
        (self.has_all_commands, self.has_later_commands) = (all, all);
        self.first_arguments.clear();
    }

    /// Allows or forbids a command with its subcommands.
    pub(crate) fn set(&mut self, catalogue: &Catalogue, command: CommandIndex, allowed: bool) {
        self.first_arguments.remove(&command);
        let subcommands = catalogue.listed(command).subcommands.clone().map(CommandIndex);
        for CommandIndex(at) in std::iter::once(command).chain(subcommands) {
            let at = usize::from(at);
            self.commands.resize(catalogue.len().div_ceil(64), 0);
            self.commands[at / 64] &= !(1 << (at % 64));
            self.commands[at / 64] |= u64::from(allowed) << (at % 64);
        }
        self.has_all_commands &= allowed;
    }

    fn set_category(&mut self, catalogue: &Catalogue, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let category = Categories::named(name).ok_or(RuleError::Unknown)?;
        self.set_all_of(catalogue, category, allowed);
        Ok(())
    }

    /// Allows or forbids all commands of a category.
    pub(crate) fn set_all_of(&mut self, catalogue: &Catalogue, category: Categories, allowed: bool) {
        for command in catalogue.all() {
            if catalogue.listed(command).categories.touches(category) {
                self.set(catalogue, command, allowed);
            }
        }
    }

    /// `command`, `command|subcommand`, or `command|argument` of a command without subcommands.
    fn add_command(&mut self, catalogue: &Catalogue, name: &[u8]) -> Result<(), RuleError> {
        if let Some(bar) = name.iter().rposition(|&byte| byte == b'|') {
            let (parent, argument) = (&name[..bar], &name[bar + 1..]);
            let parent = catalogue.find(parent).ok_or(RuleError::Unknown)?;
            let listed = catalogue.listed(parent);
            if listed.is_subcommand {
                return Err(RuleError::SubcommandArgument);
            }
            if argument.is_empty() {
                return Err(RuleError::Syntax);
            }
            if listed.subcommands.is_empty() {
                let arguments = self.first_arguments.entry(parent).or_default();
                if arguments.iter().all(|other| !other.eq_ignore_ascii_case(argument)) {
                    arguments.push(argument.to_vec());
                }
                return Ok(());
            }
        }
        let command = catalogue.find(name).ok_or(RuleError::Unknown)?;
        self.set(catalogue, command, true);
        Ok(())
    }

    /// `~pattern`, or `%R~pattern`, `%W~pattern`, `%RW~pattern`.
    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::AllKeys);
        }
        let (reads, writes, pattern) = match rule {
            [b'%', rest @ ..] => key_access(rest)?,
            _ => (true, true, &rule[1..]),
        };
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::AllChannels);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if self.channels.iter().all(|known| known != pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }
}

/// The letters between `%` and `~`, each once, and the pattern. As in Redis nothing at all is the empty one.
fn key_access(mut rest: &[u8]) -> Result<(bool, bool, &[u8]), RuleError> {
    let (mut reads, mut writes) = (false, false);
    loop {
        match rest {
            [b'r' | b'R', ..] if !reads => reads = true,
            [b'w' | b'W', ..] if !writes => writes = true,
            [b'~', pattern @ ..] if reads || writes => return Ok((reads, writes, pattern)),
            [] if reads || writes => return Ok((reads, writes, b"")),
            _ => return Err(RuleError::Syntax),
        }
        rest = &rest[1..];
    }
}
