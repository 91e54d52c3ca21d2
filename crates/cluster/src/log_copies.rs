//! The record of the copies of a node's durable log: which of them count.
//!
//! Each copy in the record has everything that was ever safe in the log (Y1 of `sidle-log-copies`). Whoever
//! writes the log proposes its changes, and acts on none before it is committed: so whoever finds the record
//! after the writer's death may read any of these copies.
//!
//! Only a log whose copies give its writer leases may be taken over unasked: of any other nobody knows
//! whether its silent writer still answers clients (Y10).

use crate::Incarnation;
use serde::{Deserialize, Serialize};
use sidle_types::{LogId, NodeId};

/// The copies that count, besides the one where the log is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCopies {
    /// The log.
    pub log: LogId,
    /// Counts the changes.
    pub epoch: u64,
    /// Who has a copy that counts.
    pub backups: Vec<LogBackup>,
    /// The copies give leases, and the log may be taken over when its writer is gone for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover_after_ms: Option<u64>,
}

/// A node with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBackup {
    /// The node.
    pub node: NodeId,
    /// Its incarnation: the next one may lack the end of the copy.
    pub incarnation: Incarnation,
}

impl LogCopies {
    /// Whether it is the change that follows this record, of the same log or of a new one. A node that was
    /// away has a record that is forgotten here: its epochs go on.
    pub(crate) fn follows(&self, present: Option<&LogCopies>) -> bool {
        match present {
            Some(present) => self.epoch == present.epoch + 1,
            None => self.epoch > 0,
        }
    }
}

/// The copies of a member's log, as the metadata has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// As `Metadata`.
pub struct KnownCopies {
    /// The node that writes the log.
    pub node: NodeId,
    /// Its copies.
    pub copies: LogCopies,
    /// Others have taken over what the node had, up to this incarnation of it: that is no member any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over: Option<Incarnation>,
}
