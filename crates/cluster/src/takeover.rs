//! A range whose owner has died, while its new owner reads what that had from a copy of its durable log.
//!
//! Ownership has changed already: the new owner serves nothing of the range before it has everything. So a
//! restart of it, or of the coordinator, costs time and nothing else: it reads the copy again. If the new
//! owner dies as well, another node owns the range next, best one with a copy of the same log.

use crate::LogBackup;
use serde::{Deserialize, Serialize};
use sidle_types::{ImportId, LogId, MigrationId, NodeId, PositionRange, TabletEpoch};

/// A range that is being taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The range: part of one tablet of the new owner's, or all of it.
    pub range: PositionRange,
    /// The new owner: one of [`DeadLog::backups`], or a node that fetches the copy from one of them.
    pub owner: NodeId,
    /// Since when it is.
    pub epoch: TabletEpoch,
    /// What it reads.
    #[serde(flatten)]
    pub dead: DeadLog,
    /// In the range of a running migration: as which import the dead node had noted there what it was given.
    /// The new owner is the migration's target from here on, and goes on with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<ImportId>,
    /// Who was to read it before, and died: what was taken over of these includes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_by: Vec<NodeId>,
}

impl Takeover {
    /// Whether it is of what this node had, or was to read.
    pub fn is_of_node(&self, node: NodeId) -> bool {
        self.dead.from == node || self.unread_by.contains(&node)
    }

    /// The same, of which this node was to be the owner.
    pub(crate) fn unread_by(mut self, node: NodeId) -> Takeover {
        if !self.unread_by.contains(&node) {
            self.unread_by.push(node);
        }
        self
    }

    /// Whether it is that of this range since this epoch.
    pub(crate) fn is_of(&self, range: PositionRange, epoch: TabletEpoch) -> bool {
        (self.range, self.epoch) == (range, epoch)
    }
}

/// How far a node has read a copy of a dead node's log, and put what it found into its own store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeoverProgress {
    /// The log; not known of a node with an earlier program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogId>,
    /// The node that is asked for its copy, or sends it; none where this node has it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_from: Option<NodeId>,
    /// Bytes of the copy that have been fetched.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetched_bytes: u64,
    /// Bytes that are to be fetched in all; 0 until the node that has the copy has told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetch_bytes: u64,
    /// Bytes of the copy that have been read.
    pub read_bytes: u64,
    /// Bytes that are to be read: those of the copy, as often as it has to be read.
    pub copy_bytes: u64,
    /// Bytes of what was found that have been put in.
    pub put_bytes: u64,
    /// Bytes of what was found; 0 until all is read.
    pub found_bytes: u64,
    /// Whether an earlier attempt failed, and this one has come further.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_past_failure: bool,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// What becomes of what a node had that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Legacy {
    /// Its log.
    pub(crate) dead: DeadLog,
    /// What others own now, also of other nodes' logs that it had not read.
    pub(crate) takeovers: Vec<Takeover>,
    /// Running migrations from it, whose targets read what has not arrived.
    pub(crate) exports: Vec<MigrationId>,
    /// Migrations that do not run yet: they end.
    pub(crate) in_vain: Vec<MigrationId>,
    /// Of running migrations whose sources died before: their logs, with the copies as they are now.
    pub(crate) source_logs: Vec<(MigrationId, DeadLog)>,
}

/// The durable log of a node that died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLog {
    /// The node.
    pub from: NodeId,
    /// Its log.
    pub log: LogId,
    /// From this epoch of the log on nobody writes it. Each copy that is read is fenced at it first.
    pub log_epoch: u64,
    /// Who had copies that counted when the node died: each has everything that was ever safe (Y1).
    pub backups: Vec<LogBackup>,
}
