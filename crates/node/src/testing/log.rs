//! A node's durable log in memory.

use crate::shared::NodeParts;
use sidle_cluster::Incarnation;
use sidle_store::{Recovery, Store};
use sidle_types::CommitNumber;

/// What a node's durable log has: each commit is written at once, and synced unless a test holds the syncs.
#[derive(Debug, Default)]
pub struct TestLog {
    written: Vec<(CommitNumber, Vec<u8>)>,
    /// How many of them are synced.
    synced: usize,
    /// The first incarnation of its node that it has all of.
    pub(super) since: Incarnation,
    /// No commit is synced from now on.
    pub holds_syncs: bool,
    /// Nothing is committed from now on.
    pub holds_commits: bool,
}

impl TestLog {
    /// Writes what the node has changed since the last commit; whether there was anything.
    pub fn step(&mut self, parts: &NodeParts) -> bool {
        let Some(commits) = parts.store.commits().filter(|_| !self.holds_commits) else { return false };
        let mut records = Vec::new();
        let commit = commits.take(&mut records);
        let is_any = !records.is_empty();
        if is_any {
            self.written.push((commit, records));
        }
        commits.set_safe(commit);
        let is_behind = self.synced < self.written.len() && !self.holds_syncs;
        if is_behind {
            self.synced = self.written.len();
            parts.shared.durability.note_synced(self.last(), 0);
        }
        is_any || is_behind
    }

    fn last(&self) -> CommitNumber {
        self.written.last().map_or(CommitNumber::default(), |(commit, _)| *commit)
    }

    /// The machine fails: what is not synced is lost.
    pub(super) fn lose_power(&mut self) {
        self.written.truncate(self.synced);
    }

    /// Reads the log into the store of the node's next incarnation.
    pub(super) fn recover(&self, store: &Store) {
        let mut recovery = Recovery::begin(store);
        for (_, records) in self.written.iter().rev() {
            recovery.replay(records).expect("it was written so");
        }
        let count = &|kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        recovery.finish(count).expect("it was written so");
        store.commits().expect("it has a durable log").resume(self.last(), true);
    }
}
