//! Requests that wait for a migration's end. They are answered with the status then, or when their time is
//! up.
//!
//! Nothing of this is stored: a node repeats an unanswered request. A repeated wait is the one that is kept
//! or, after a restart of the coordinator, begins again.

use crate::limits::{MAX_OPEN_WAITS, MAX_WAITS};
use crate::{Metadata, MigrationRecord, RequestKey};
use sidle_types::{Fill, MigrationId, MonotonicUs, NodeId};

/// A request that waits.
#[derive(Debug)]
struct Wait {
    key: RequestKey,
    migration: MigrationId,
    until: MonotonicUs,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<Wait>);

impl Waits {
    /// Keeps the request, if the migration continues and the request can wait; else it is to be answered now.
    pub(super) fn keep(
        &mut self,
        now: MonotonicUs,
        key: RequestKey,
        record: &MigrationRecord,
        patience_us: u64,
    ) -> bool {
        let is_kept = self.0.iter().any(|wait| wait.key == key);
        let of_node = self.0.iter().filter(|wait| wait.key.node == key.node).count();
        let is_full = self.0.len() >= MAX_WAITS || of_node >= MAX_OPEN_WAITS;
        if record.state.is_over() || !is_kept && (patience_us == 0 || is_full) {
            return false;
        }
        if !is_kept {
            self.0.push(Wait { key, migration: record.id, until: now.plus_us(patience_us) });
        }
        true
    }

    /// Takes out those whose time is up, and those for migrations that are over.
    pub(super) fn take_due(&mut self, now: MonotonicUs, data: &Metadata) -> Vec<RequestKey> {
        let is_over = |migration| data.migration(migration).is_none_or(|record| record.state.is_over());
        let is_due = |wait: &mut Wait| wait.until <= now || is_over(wait.migration);
        self.0.extract_if(.., is_due).map(|wait| wait.key).collect()
    }

    /// Drops those that came in through this node.
    pub(super) fn forget(&mut self, asker: NodeId) {
        self.0.retain(|wait| wait.key.node != asker);
    }

    /// When the next wait's time is up.
    pub(super) fn timeout(&self) -> Option<MonotonicUs> {
        self.0.iter().map(|wait| wait.until).min()
    }

    /// How many there are.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("requests that wait for a migration's end", self.0.len(), MAX_WAITS)
    }
}
