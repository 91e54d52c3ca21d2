//! The commands of a transaction with their keys, and what kinds of commands they are.

use crate::request::{Keys, add_keys, keys_of};
use crate::table::{CommandFlags, Found, commands};
use crate::transaction::{Queued, Transaction};
use sidle_commands::Run;
use sidle_types::HashedKey;

/// A queued command with its keys.
pub(crate) struct Prepared<'t> {
    pub(crate) found: Found,
    pub(crate) words: Vec<&'t [u8]>,
    pub(crate) keys: Keys<'t>,
}

impl<'t> Prepared<'t> {
    /// Its keys, and whether it may change them.
    fn accesses(self) -> impl Iterator<Item = (HashedKey<'t>, bool)> {
        let is_write = self.found.spec.access.is_write();
        self.keys.into_iter().map(move |key| (key, is_write))
    }
}

/// The commands of a transaction, in order.
pub(crate) fn prepare(transaction: &Transaction) -> Vec<Prepared<'_>> {
    let prepare = |queued| {
        let (found, words) = (found(queued), words(queued));
        Prepared { found, keys: keys_of(found, &words), words }
    };
    transaction.queued().iter().map(prepare).collect()
}

/// The keys of all commands and the watched ones, each once, in order of position.
pub(crate) fn all_keys<'t>(
    transaction: &'t Transaction,
    watched: impl Iterator<Item = HashedKey<'t>>,
) -> Vec<HashedKey<'t>> {
    let mut keys: Keys<'t> = watched.collect();
    transaction.queued().iter().for_each(|queued| add_keys(found(queued), &words(queued), &mut keys));
    let mut keys = keys.into_vec();
    keys.sort_unstable_by_key(|key| (key.position(), key.bytes()));
    keys.dedup_by(|a, b| a.bytes() == b.bytes());
    keys
}

/// The keys of each command, and whether it may change them.
pub(crate) fn accesses(transaction: &Transaction) -> Vec<(HashedKey<'_>, bool)> {
    prepare(transaction).into_iter().flat_map(Prepared::accesses).collect()
}

/// Whether one of its commands may change anything.
pub(crate) fn writes(transaction: &Transaction) -> bool {
    transaction
        .queued()
        .iter()
        .map(found)
        .any(|found| found.spec.access.is_write() || found.spec.flags.contains(CommandFlags::WRITE))
}

/// The keys that its commands may change.
pub(crate) fn written_keys(transaction: &Transaction) -> Vec<HashedKey<'_>> {
    accesses(transaction).into_iter().filter(|(_, is_write)| *is_write).map(|(key, _)| key).collect()
}

/// Whether one of its commands looks at all keys of the node.
pub(crate) fn is_over_all_keys(transaction: &Transaction) -> bool {
    let looks = |found: Found| matches!(found.spec.name, "keys" | "scan" | "randomkey" | "dbsize");
    transaction.queued().iter().any(|queued| {
        let found = found(queued);
        looks(found) || is_flush(found) || found.spec.is_over_unnamed(&words(queued))
    })
}

/// Whether one of its commands removes all keys of the node.
pub(crate) fn flushes(transaction: &Transaction) -> bool {
    transaction.queued().iter().any(|queued| is_flush(found(queued)))
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

fn found(queued: &Queued) -> Found {
    commands().all()[usize::from(queued.id.0)]
}

fn words(queued: &Queued) -> Vec<&[u8]> {
    queued.words.iter().map(|word| &word[..]).collect()
}
