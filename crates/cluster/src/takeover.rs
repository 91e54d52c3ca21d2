//! A range whose owner has died, while its new owner reads what that had from a copy of its durable log.
//!
//! Ownership has changed already: the new owner serves nothing of the range before it has everything. So a
//! restart of it, or of the coordinator, costs time and nothing else: it reads the copy again.

use serde::{Deserialize, Serialize};
use sidle_types::{LogId, NodeId, PositionRange, TabletEpoch};

/// A range that is being taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The range: part of one tablet of the new owner's, or all of it.
    pub range: PositionRange,
    /// The new owner. It has a copy of the log that counted when it became the owner.
    pub owner: NodeId,
    /// Since when it is.
    pub epoch: TabletEpoch,
    /// The node that died.
    pub from: NodeId,
    /// Its durable log.
    pub log: LogId,
    /// From this epoch of the log on nobody writes it. Each copy that is read is fenced at it first.
    pub log_epoch: u64,
}
