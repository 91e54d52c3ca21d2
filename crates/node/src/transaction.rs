//! A transaction: the commands between MULTI and EXEC.
//!
//! Purpose: a queued command is checked as any other, and kept as it came. Nothing of it runs before EXEC.
//!
//! Ownership: the session. It does not change while its EXEC waits, so every attempt sees the same keys in
//! the same order.

use crate::request::{Keys, add_keys, keys_of};
use crate::table::{CommandFlags, Found};
use sidle_commands::Run;
use sidle_types::HashedKey;

/// What a queued command takes beyond its words' bytes, and each word.
const COMMAND_BYTES: usize = size_of::<Queued>();
const WORD_BYTES: usize = 2 * size_of::<Box<[u8]>>();

/// The commands between MULTI and EXEC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// A command was refused, so that EXEC discards all.
    is_spoilt: bool,
}

#[derive(Clone, Debug)]
struct Queued {
    found: Found,
    words: Box<[Box<[u8]>]>,
}

/// A queued command with its keys.
pub(crate) struct Prepared<'t> {
    pub(crate) found: Found,
    pub(crate) words: Vec<&'t [u8]>,
    pub(crate) keys: Keys<'t>,
}

impl Queued {
    fn prepare(&self) -> Prepared<'_> {
        let words: Vec<&[u8]> = self.words.iter().map(|word| &word[..]).collect();
        Prepared { found: self.found, keys: keys_of(self.found, &words), words }
    }
}

impl Transaction {
    /// Queues a command, unless the transaction would be longer than `most` bytes.
    pub(crate) fn queue(&mut self, found: Found, args: &[&[u8]], most: usize) -> bool {
        let bytes = COMMAND_BYTES + args.iter().map(|arg| arg.len() + WORD_BYTES).sum::<usize>();
        if self.bytes.saturating_add(bytes) > most {
            return false;
        }
        self.bytes += bytes;
        self.queued.push(Queued { found, words: args.iter().map(|&arg| arg.into()).collect() });
        true
    }

    /// Nothing of it will run; what was queued is freed.
    pub(crate) fn spoil(&mut self) {
        *self = Transaction { is_spoilt: true, ..Transaction::default() };
    }

    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// How many commands it has.
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The commands with their keys.
    pub(crate) fn prepare(&self) -> Vec<Prepared<'_>> {
        self.queued.iter().map(Queued::prepare).collect()
    }

    /// The keys of all commands and the watched ones, each once, in order of position.
    pub(crate) fn keys<'t>(&'t self, watched: impl Iterator<Item = HashedKey<'t>>) -> Vec<HashedKey<'t>> {
        let mut keys: Keys<'t> = watched.collect();
        let mut words: Vec<&'t [u8]> = Vec::new();
        for queued in &self.queued {
            words.clear();
            words.extend(queued.words.iter().map(|word| &word[..]));
            add_keys(queued.found, &words, &mut keys);
        }
        let mut keys = keys.into_vec();
        keys.sort_unstable_by_key(|key| (key.position(), key.bytes()));
        keys.dedup_by(|a, b| a.bytes() == b.bytes());
        keys
    }

    /// Whether one of its commands looks at all keys of the node.
    pub(crate) fn is_over_all_keys(&self) -> bool {
        self.queued.iter().any(|queued| is_over_all_keys(queued.found))
    }

    /// Whether one of its commands removes all keys of the node.
    pub(crate) fn flushes(&self) -> bool {
        self.queued.iter().any(|queued| is_flush(queued.found))
    }
}

/// Whether a command looks at all keys of the node.
fn is_over_all_keys(found: Found) -> bool {
    matches!(found.spec.name, "keys" | "scan" | "randomkey" | "dbsize") || is_flush(found)
}

/// Whether a command removes all keys of the node.
pub(crate) fn is_flush(found: Found) -> bool {
    matches!(found.spec.name, "flushall" | "flushdb")
}

/// Whether a queued command runs in its place, among those over keys. The node's other commands run when the
/// writes have been published: without memory for these, nothing at all is to happen.
pub(crate) fn runs_in_place(found: Found) -> bool {
    match found.spec.run {
        Run::OverKeys(_) => true,
        Run::Own(_) => found.spec.flags.contains(CommandFlags::CONNECTION),
    }
}
