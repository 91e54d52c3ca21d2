//! A store in memory, for tests and simulations.

use crate::{MetaError, MetaStore, Metadata, Place};

/// A store in memory that fails on command, for tests and simulations.
#[derive(Clone, Debug, Default)]
pub struct MemoryMetaStore {
    committed: Option<Metadata>,
    failing: Option<CommitFailure>,
    commits: u64,
    lost: bool,
}

/// How commits of a [`MemoryMetaStore`] fail: the two outcomes that [`MetaStore::commit`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure {
    /// The metadata is not written.
    NotWritten,
    /// The metadata is written all the same, as if the error came after the write.
    Written,
}

impl MemoryMetaStore {
    /// An empty store.
    pub fn new() -> MemoryMetaStore {
        MemoryMetaStore::default()
    }

    /// Makes every commit fail from now on, or none.
    pub fn fail_commits(&mut self, failure: Option<CommitFailure>) {
        self.failing = failure;
    }

    /// Loses everything without the coordinator's knowledge, as if somebody removed the file.
    pub fn lose(&mut self) {
        (self.committed, self.lost) = (None, true);
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
            return Err(MetaError::Failed("the memory store was told to fail".to_owned()));
        }
        self.commits += 1;
        self.lost = false;
        Ok(())
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        if !self.lost {
            return Ok(Place::Kept);
        }
        self.commit(metadata).map(|()| Place::WrittenAnew)
    }
}
