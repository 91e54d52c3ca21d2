//! What was refused, and to whom: the newest first, and what is alike within a minute once.

use sidle_types::WallMs;
use std::collections::VecDeque;

/// So many of the newest are looked at for one that is alike.
const LOOKED_AT: usize = 10;
/// For so long one that is alike is the same.
const SAME_FOR_MS: u64 = 60_000;
/// A longer name of a key or a user is cut: each would be kept once for each entry.
const KEPT_BYTES: usize = 1024;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A password or a user's name.
    Auth,
}

impl Cause {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Command => "command",
            Cause::Key => "key",
            Cause::Channel => "channel",
            Cause::Auth => "auth",
        }
    }
}

/// Where it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// By itself.
    TopLevel,
    /// In a transaction.
    Multi,
}

impl Context {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
        }
    }
}

/// A refused request.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What was refused.
    pub cause: Cause,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// When, the last time.
    pub at: WallMs,
    /// The client that was refused last, in the form of CLIENT LIST.
    pub client: String,
    /// How often.
    pub count: u64,
}

impl Refused {
    fn is_like(&self, other: &Refused) -> bool {
        self.cause == other.cause
            && self.context == other.context
            && other.at.0.abs_diff(self.at.0) <= SAME_FOR_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The last refusals.
#[derive(Clone, Debug, Default)]
pub struct AccessLog {
    newest_first: VecDeque<Refused>,
}

impl AccessLog {
    /// Notes a refusal, and forgets the oldest beyond `most`.
    pub fn note(&mut self, mut refused: Refused, most: usize) {
        refused.object.truncate(KEPT_BYTES);
        refused.user.truncate(KEPT_BYTES);
        let alike = self.newest_first.iter().take(LOOKED_AT).position(|known| known.is_like(&refused));
        if let Some(known) = alike.and_then(|at| self.newest_first.remove(at)) {
            refused.count += known.count;
        }
        self.newest_first.push_front(refused);
        self.newest_first.truncate(most);
    }

    /// All of them, the newest first.
    pub fn all(&self) -> impl Iterator<Item = &Refused> {
        self.newest_first.iter()
    }

    /// Forgets all of them.
    pub fn reset(&mut self) {
        self.newest_first.clear();
    }
}
