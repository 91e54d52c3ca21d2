//! Whether a user may run a request; if not, why.

use crate::catalogue::CommandIndex;
use crate::selector::{KeyPattern, Selector};
use crate::user::User;
use sidle_types::glob::matches;

/// What a request does to one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's index among the arguments.
    pub at: usize,
    /// It reads the value.
    pub reads: bool,
    /// It may change the key or the value.
    pub writes: bool,
}

/// A request whose right to run is in question.
#[derive(Clone, Copy, Debug)]
pub struct Question<'r> {
    /// Its command.
    pub command: CommandIndex,
    /// It is open to anyone: AUTH, HELLO.
    pub is_for_all: bool,
    /// Its words, name first.
    pub args: &'r [&'r [u8]],
    /// Its keys, in order.
    pub keys: &'r [KeyUse],
    /// The indices of the channels that it names.
    pub channels: &'r [usize],
}

/// Why a request may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// No selector has the command.
    Command,
    /// The key with this index.
    Key(usize),
    /// The channel with this index.
    Channel(usize),
}

impl User {
    /// Whether it may run the request. One selector has to allow all of it.
    ///
    /// # Errors
    /// As in Redis: what the selector did not allow that came furthest.
    pub fn check(&self, question: &Question<'_>) -> Result<(), Denial> {
        let mut furthest = Denial::Command;
        for selector in std::iter::once(&self.root).chain(&self.selectors) {
            match selector.check(question) {
                Ok(()) => return Ok(()),
                Err(denial) => furthest = furthest.max(denial),
            }
        }
        Err(furthest)
    }

    /// Whether it may run the request even if that reads any key there is.
    pub fn may_read_all(&self, question: &Question<'_>) -> bool {
        let all = |selector: &&Selector| selector.reads_all_keys() && selector.check(question).is_ok();
        std::iter::once(&self.root).chain(&self.selectors).any(|selector| all(&selector))
    }

    /// Whether it may read a key, by a command that names it as an argument of another kind.
    pub fn may_read(&self, key: &[u8]) -> bool {
        let selectors = std::iter::once(&self.root).chain(&self.selectors);
        selectors.into_iter().any(|selector| {
            let reads = |pattern: &KeyPattern| pattern.reads && matches(&pattern.pattern, key);
            selector.has_all_keys || selector.keys.iter().any(reads)
        })
    }
}

impl Selector {
    fn check(&self, question: &Question<'_>) -> Result<(), Denial> {
        if !self.has_all_commands && !question.is_for_all && !self.runs(question) {
            return Err(Denial::Command);
        }
        if !self.has_all_keys {
            for key in question.keys {
                let allows = |pattern: &KeyPattern| {
                    (pattern.reads || !key.reads)
                        && (pattern.writes || !key.writes)
                        && matches(&pattern.pattern, question.args[key.at])
                };
                if !self.keys.iter().any(allows) {
                    return Err(Denial::Key(key.at));
                }
            }
        }
        if !self.has_all_channels {
            for &at in question.channels {
                if !self.channels.iter().any(|pattern| matches(pattern, question.args[at])) {
                    return Err(Denial::Channel(at));
                }
            }
        }
        Ok(())
    }

    fn runs(&self, question: &Question<'_>) -> bool {
        let is_first = |argument: &Vec<u8>| {
            question.args.get(1).is_some_and(|first| first.eq_ignore_ascii_case(argument))
        };
        self.has(question.command)
            || self.first_arguments.get(&question.command).is_some_and(|allowed| allowed.iter().any(is_first))
    }

    fn reads_all_keys(&self) -> bool {
        self.has_all_keys || self.keys.iter().any(|pattern| pattern.reads && pattern.pattern == b"*")
    }
}
