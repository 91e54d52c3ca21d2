//! Which copies of a log count, as the log's folder keeps it.
//!
//! It is kept before a change is proposed. So a writer that starts again knows of each copy that may count:
//! those of the last decision, and those of a change that may have been decided since.

use serde::{Deserialize, Serialize};
use sidle_cluster::{HostPort, Incarnation, LogBackup, LogCopies};
use sidle_log_copies::{BackupId, Record};
use sidle_types::{LogId, NodeId};
use std::collections::BTreeMap;

/// What a writer knows of its log's copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CopiesRecord {
    /// As last decided.
    pub decided: Option<LogCopies>,
    /// A change that was proposed since.
    pub proposed: Option<LogCopies>,
    /// Whether its copies sync each write.
    pub synced: bool,
    /// Whether it was lost: the coordinator has it.
    #[serde(skip)]
    pub is_lost: bool,
    /// Where the nodes of both were.
    pub addresses: BTreeMap<NodeId, HostPort>,
}

impl CopiesRecord {
    /// As the file has it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a record is plain data")
    }

    /// Reads it. The error: what is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<CopiesRecord, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// Whether a start is to ask the copies. Where the newest record names none, the log has everything
    /// itself (Y9).
    pub fn needs_copies(&self) -> bool {
        self.newest().is_some_and(|copies| !copies.backups.is_empty())
    }

    /// The record that each copy of which has everything safe, whether it is decided or not (Y1).
    fn newest(&self) -> Option<&LogCopies> {
        self.proposed.as_ref().or(self.decided.as_ref())
    }

    /// Of this log: the record, and the change that is not known to be decided.
    pub(super) fn of(&self, log: LogId) -> (Record, Option<Record>) {
        let of_log =
            |copies: &Option<LogCopies>| copies.as_ref().filter(|copies| copies.log == log).map(record);
        (of_log(&self.decided).unwrap_or_default(), of_log(&self.proposed))
    }

    /// The copies that a start of this log asks. Those of the decision before may lack the end by now.
    pub(super) fn to_ask(&self, log: LogId) -> Record {
        self.newest().filter(|copies| copies.log == log).map(record).unwrap_or_default()
    }
}

/// The coordinator's record as `sidle-log-copies` knows it.
pub(super) fn record(copies: &LogCopies) -> Record {
    let id = |backup: &LogBackup| BackupId { node: backup.node, incarnation: backup.incarnation.0 };
    let backups = copies.backups.iter().map(id).collect();
    Record { epoch: copies.epoch, backups, takeover_after_ms: copies.takeover_after_ms }
}

/// And the way back.
pub(super) fn copies(log: LogId, record: &Record) -> LogCopies {
    let backup = |id: &BackupId| LogBackup { node: id.node, incarnation: Incarnation(id.incarnation) };
    let backups = record.backups.iter().map(backup).collect();
    LogCopies { log, epoch: record.epoch, backups, takeover_after_ms: record.takeover_after_ms }
}
