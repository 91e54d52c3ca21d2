//! What the coordinator must not forget, and where it writes it down.

use crate::{ClusterId, MigrationRecord, TabletMap};
use serde::{Deserialize, Serialize};
use sidle_types::MigrationId;
use std::collections::VecDeque;

/// How many finished migrations are remembered.
pub const HISTORY: usize = 64;

/// Everything the coordinator keeps. It is committed as a whole: it is small and changes rarely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The present map, with the migrations that run.
    pub map: TabletMap,
    /// Migrations that do not run yet (queued and preparing), in order of their ids.
    pub waiting: Vec<MigrationRecord>,
    /// Migrations that are over, the latest last, [`HISTORY`] at most.
    pub history: VecDeque<MigrationRecord>,
    /// The next migration's number.
    pub next_migration: MigrationId,
}

impl Metadata {
    /// The metadata of a new cluster.
    pub fn new(cluster: ClusterId, map: TabletMap) -> Metadata {
        let next_migration = MigrationId(1);
        Metadata { cluster, map, waiting: Vec::new(), history: VecDeque::new(), next_migration }
    }

    /// The migration with this id, wherever it stands.
    pub fn migration(&self, id: MigrationId) -> Option<&MigrationRecord> {
        self.all_migrations().find(|record| record.id == id)
    }

    /// The migrations that are not over: those that run, then those that wait.
    pub fn unfinished(&self) -> impl Iterator<Item = &MigrationRecord> {
        self.map.migrations().iter().chain(&self.waiting)
    }

    /// All migrations: running, waiting, over.
    pub fn all_migrations(&self) -> impl Iterator<Item = &MigrationRecord> {
        self.unfinished().chain(&self.history)
    }

    /// Remembers a migration that is over.
    pub(crate) fn remember(&mut self, record: MigrationRecord) {
        assert!(record.state.is_over(), "only migrations that are over are history");
        self.history.push_back(record);
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

/// Why metadata could not be read or written; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetaError(pub String);

/// Where metadata survives the coordinator's process.
pub trait MetaStore {
    /// What was committed last, or `None` in a new store. An error when there is something that cannot be read: it is
    /// never taken for a new store.
    fn load(&mut self) -> Result<Option<Metadata>, MetaError>;

    /// Replaces the metadata, durably and as a whole, before it returns. After an error the store may hold the old or
    /// the new metadata, never anything else; the coordinator then acts on neither and commits again.
    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError>;
}

/// A store in memory that fails on command, for tests and simulations.
#[derive(Clone, Debug, Default)]
pub struct MemoryMetaStore {
    committed: Option<Metadata>,
    failing: Option<CommitFailure>,
    commits: u64,
}

/// How commits of a [`MemoryMetaStore`] fail: the two outcomes that [`MetaStore::commit`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure {
    /// The metadata is not written.
    NotWritten,
    /// The metadata is written all the same, as when the error came after the write.
    Written,
}

impl MemoryMetaStore {
    /// An empty store.
    pub fn new() -> MemoryMetaStore {
        MemoryMetaStore::default()
    }

    /// Lets every commit fail from now on, or none.
    pub fn fail_commits(&mut self, failure: Option<CommitFailure>) {
        self.failing = failure;
    }

    /// What the store holds.
    pub const fn committed(&self) -> Option<&Metadata> {
        self.committed.as_ref()
    }

    /// How many commits have succeeded.
    pub const fn commits(&self) -> u64 {
        self.commits
    }
}

impl MetaStore for MemoryMetaStore {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        Ok(self.committed.clone())
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        if self.failing != Some(CommitFailure::NotWritten) {
            self.committed = Some(metadata.clone());
        }
        if self.failing.is_some() {
            return Err(MetaError("the memory store was told to fail".to_owned()));
        }
        self.commits += 1;
        Ok(())
    }
}
