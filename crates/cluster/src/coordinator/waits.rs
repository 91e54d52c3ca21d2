//! Requests that wait for a migration to end, and are answered with the status then, or when their time is
//! up.
//!
//! Nothing of this is written down: a node repeats what was not answered, and a repeated wait is the one that
//! is kept or, after a restart of the coordinator, begins anew.

use super::Coordinator;
use crate::limits::{MAX_OPEN_WAITS, MAX_WAITS};
use crate::{CoordinatorSays, MetaStore, Refusal, Reply, RequestKey};
use sidle_types::{MigrationId, MonotonicUs, NodeId};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Wait {
    key: RequestKey,
    migration: MigrationId,
    until: MonotonicUs,
}

impl Wait {
    /// The node that it came in through.
    pub(super) const fn asker(&self) -> NodeId {
        self.key.node
    }
}

impl<M: MetaStore> Coordinator<M> {
    /// The answer, unless the migration goes on and the request can wait.
    pub(super) fn await_end(
        &mut self,
        now: MonotonicUs,
        key: RequestKey,
        migration: MigrationId,
        patience_us: u64,
    ) -> Option<Reply> {
        let Some(record) = self.data.migration(migration) else {
            return Some(Reply::Refused(Refusal::UnknownMigration { migration }));
        };
        let is_over = record.state.is_over();
        let is_kept = self.waits.iter().any(|wait| wait.key == key);
        let of_node = self.waits.iter().filter(|wait| wait.asker() == key.node).count();
        let is_full = self.waits.len() >= MAX_WAITS || of_node >= MAX_OPEN_WAITS;
        if is_over || !is_kept && (patience_us == 0 || is_full) {
            return Some(Reply::Status(Box::new(self.report(now))));
        }
        if !is_kept {
            self.waits.push(Wait { key, migration, until: now.plus_us(patience_us) });
        }
        None
    }

    /// Answers the waits whose time is up, and those for migrations that are over.
    pub(super) fn answer_waits(&mut self, now: MonotonicUs) {
        let is_over = |migration| self.data.migration(migration).is_none_or(|record| record.state.is_over());
        let is_due = |wait: &Wait| wait.until <= now || is_over(wait.migration);
        if !self.waits.iter().any(is_due) {
            return;
        }
        let (due, kept): (Vec<Wait>, _) = std::mem::take(&mut self.waits).into_iter().partition(is_due);
        self.waits = kept;
        for Wait { key: RequestKey { node, incarnation, number }, .. } in due {
            let reply = Reply::Status(Box::new(self.report(now)));
            self.send_to_life(node, incarnation, CoordinatorSays::Reply { number, reply });
        }
    }

    /// When the next wait's time is up.
    pub(super) fn wait_timeout(&self) -> Option<MonotonicUs> {
        self.waits.iter().map(|wait| wait.until).min()
    }
}
