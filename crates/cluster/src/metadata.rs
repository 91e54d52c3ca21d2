//! What the coordinator must not forget.

use crate::bounds::{self, Bounded, clipped};
use crate::limits::{HISTORY, MAX_TEXT_BYTES};
use crate::{
    ClusterId, DeadLog, Incarnation, KnownCopies, Legacy, LogCopies, MetaError, MigrationCounters,
    MigrationRecord, MigrationState, StartNumber, TabletMap,
};
use serde::{Deserialize, Serialize};
use sidle_types::{LogId, MapEpoch, MigrationId, NodeId, PositionRange, Speaks, TabletEpoch};
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything the coordinator stores. It is committed as a whole, and changes rarely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Another version may have written it. Who keeps it in a file refuses what would be lost with the next
// commit.
pub struct Metadata {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The present map, with the migrations that run.
    pub map: Arc<TabletMap>,
    /// Migrations that do not run yet (queued and preparing), in order of their ids.
    #[serde(deserialize_with = "bounds::waiting")]
    pub waiting: Vec<MigrationRecord>,
    /// Migrations that are over, the latest last, [`HISTORY`] at most.
    #[serde(deserialize_with = "bounds::history")]
    pub history: VecDeque<Arc<MigrationRecord>>,
    /// The next migration's number.
    pub next_migration: MigrationId,
    /// The process that joined last, for each member and each node that a migration names, in order of their
    /// ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounds::starts")]
    pub starts: Vec<KnownStart>,
    /// The copies of members' logs that count, in order of the members' ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounds::copies")]
    pub copies: Vec<KnownCopies>,
}

/// The process that joined as an incarnation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// As [`Metadata`].
pub struct KnownStart {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The number that the process drew.
    pub start: StartNumber,
    /// What its program speaks, if that is known. Where the cluster speaks the unsaid version nobody writes
    /// it, since an earlier coordinator does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks: Option<Speaks>,
    /// Since which incarnation its durable log has everything, if it has one. Left out as `speaks` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_since: Option<Incarnation>,
}

impl Metadata {
    /// The metadata of a new cluster.
    pub fn new(cluster: ClusterId, map: TabletMap) -> Metadata {
        let next_migration = MigrationId(1);
        let map = Arc::new(map);
        let (waiting, history) = (Vec::new(), VecDeque::new());
        let (starts, copies) = (Vec::new(), Vec::new());
        Metadata { cluster, map, waiting, history, next_migration, starts, copies }
    }

    /// The process that joined as this incarnation of the node, if that is known.
    pub(crate) fn known_start(&self, node: NodeId, incarnation: Incarnation) -> Option<&KnownStart> {
        self.starts.iter().find(|known| (known.node, known.incarnation) == (node, incarnation))
    }

    /// Which process joined as this incarnation of the node, if that is known.
    pub fn start_of(&self, node: NodeId, incarnation: Incarnation) -> Option<StartNumber> {
        self.known_start(node, incarnation).map(|known| known.start)
    }

    /// Notes which process joined as an incarnation of a node, and forgets processes of nodes that nothing
    /// names any more.
    pub(crate) fn note_start(&mut self, noted: KnownStart) {
        let mut starts = std::mem::take(&mut self.starts);
        let is_named = |node: NodeId| {
            self.map.node(node).is_some()
                || self.all_migrations().flat_map(MigrationRecord::lives).any(|(id, _)| id == node)
        };
        starts.retain(|known| known.node != noted.node && is_named(known.node));
        let place = starts.partition_point(|known| known.node < noted.node);
        starts.insert(place, noted);
        self.starts = starts;
        self.leave_out_unsaid();
    }

    /// The copies of this node's log that count, if any were ever decided.
    pub fn copies_of(&self, node: NodeId) -> Option<&LogCopies> {
        self.copies.iter().find(|known| known.node == node).map(|known| &known.copies)
    }

    /// Notes which copies of a member's log count, and forgets those of nodes that are no members any more.
    pub(crate) fn note_copies(&mut self, node: NodeId, copies: LogCopies) {
        let map = &self.map;
        // The node's next log is its own.
        let taken_over = self.taken_over(node).filter(|_| self.is_taken_over(node, &copies));
        self.copies.retain(|known| known.node != node && map.node(known.node).is_some());
        let place = self.copies.partition_point(|known| known.node < node);
        self.copies.insert(place, KnownCopies { node, copies, taken_over });
    }

    /// Up to which incarnation others have taken over what the node had, if they have.
    pub fn taken_over(&self, node: NodeId) -> Option<Incarnation> {
        self.copies.iter().find(|known| known.node == node)?.taken_over
    }

    /// Whether these are copies of a log that others have taken over.
    pub(crate) fn is_taken_over(&self, node: NodeId, copies: &LogCopies) -> bool {
        self.has_taken_over(node, copies.log)
    }

    /// Whether others have taken over what this log of the node had.
    pub(crate) fn has_taken_over(&self, node: NodeId, log: LogId) -> bool {
        let is_its_log = self.copies_of(node).is_some_and(|known| known.log == log);
        is_its_log && self.taken_over(node).is_some()
    }

    /// Others own what a node had, and read what it was giving. Its log has no copies that count any
    /// more, at an epoch below that at which they are fenced: whoever takes the record for its own cannot
    /// write to them.
    pub(crate) fn take_over(&mut self, legacy: &Legacy) {
        let Legacy { dead, takeovers, exports, source_logs, .. } = legacy;
        let node = dead.from;
        let incarnation = self.map.node(node).map(|member| member.incarnation);
        self.map = Arc::new(self.map.changed(|map| {
            source_logs.iter().for_each(|(id, dead)| map.source_died(*id, dead.clone()));
            takeovers.iter().cloned().for_each(|one| map.take_over(one));
            exports.iter().for_each(|&id| map.source_died(id, dead.clone()));
        }));
        let known = self.copies.iter_mut().find(|known| known.node == node);
        let known = known.expect("what has copies is taken over");
        known.copies.epoch += 1;
        assert!(dead.log_epoch > known.copies.epoch, "Y6: an epoch that no writer can have");
        known.copies.backups.clear();
        known.taken_over = incarnation;
    }

    /// The same with other records of the logs of migrations' sources that died: to judge by it.
    pub(crate) fn with_source_logs(&self, logs: &[(MigrationId, DeadLog)]) -> Metadata {
        let map =
            self.map.changed(|map| logs.iter().for_each(|(id, dead)| map.source_died(*id, dead.clone())));
        Metadata { map: Arc::new(map), ..self.clone() }
    }

    /// Leaves out what the cluster's version has no field for.
    pub(crate) fn leave_out_unsaid(&mut self) {
        if !self.map.version().has_log_copies() {
            self.copies.clear();
        }
        if self.map.version().is_unsaid() {
            self.starts.iter_mut().for_each(|known| (known.speaks, known.log_since) = (None, None));
        }
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
        self.unfinished().chain(self.history.iter().map(Arc::as_ref))
    }

    /// Turns a running migration into one that does not run, and gives its range back to its source.
    pub(crate) fn give_back(&mut self, id: MigrationId) {
        let record = self.map.migration(id).cloned().expect("only a range that was given away is given back");
        self.map = Arc::new(self.map.changed(|map| map.give_back(id)));
        let place = self.waiting.partition_point(|waiting| waiting.id < id);
        let state = MigrationState::Preparing;
        self.waiting.insert(place, MigrationRecord { state, map_epoch: MapEpoch(0), ..record });
    }

    /// The migration whose range this one moves after any number of turns: its source had counted all of it.
    fn first_leg<'m>(&'m self, record: &'m MigrationRecord) -> &'m MigrationRecord {
        let before = |record: &&MigrationRecord| record.continues.and_then(|id| self.migration(id));
        std::iter::successors(Some(record), before).last().unwrap_or(record)
    }

    /// Ends a running migration that turns back, and begins its way back: from where it stands.
    pub(crate) fn turn_back(&mut self, id: MigrationId, counters: MigrationCounters) {
        let record = self.map.migration(id).cloned().expect("only what runs turns back");
        let turn = record.turn.expect("it was asked to turn back");
        let whole = self.first_leg(&record).counters;
        let left = |whole: u64, had: u64, moved: u64| whole.saturating_sub(had) + moved;
        let MigrationCounters { records, bytes, records_moved, bytes_moved, .. } = counters;
        let back_again = MigrationCounters {
            records: left(whole.records, records, records_moved),
            bytes: left(whole.bytes, bytes, bytes_moved),
            ..Default::default()
        };
        let back = MigrationRecord {
            id: turn.by,
            source: record.target,
            source_incarnation: record.target_incarnation,
            target: record.source,
            target_incarnation: record.source_incarnation,
            epoch: TabletEpoch(record.epoch.0 + 1),
            map_epoch: MapEpoch(self.map.epoch().0 + 1),
            counters: back_again,
            requested_by: turn.requested_by,
            turn: None,
            continues: Some(id),
            kept_is_noted: turn.settled_at > MapEpoch(0),
            succession: 0,
            ..record.clone()
        };
        self.map = Arc::new(self.map.changed(|map| map.turn_back(id, back)));
        self.remember(MigrationRecord { state: MigrationState::Cancelled, counters, ..record });
    }

    /// Ends a migration: from here on it is history, and no longer in the map.
    pub(crate) fn end(
        &mut self,
        id: MigrationId,
        state: MigrationState,
        counters: Option<MigrationCounters>,
    ) {
        assert!(state.is_over(), "an end is a state in which nothing more happens");
        let record = self.unfinished().find(|record| record.id == id).cloned();
        let mut record = record.expect("only a migration that is not over can end");
        if record.state == MigrationState::Running {
            self.map = Arc::new(self.map.changed(|map| map.finish(id)));
        } else {
            self.waiting.retain(|waiting| waiting.id != id);
        }
        record.state = match state {
            MigrationState::Failed { why } => MigrationState::Failed { why: clipped(why, MAX_TEXT_BYTES) },
            state => state,
        };
        record.counters = counters.unwrap_or(record.counters);
        self.remember(record);
    }

    fn remember(&mut self, record: MigrationRecord) {
        self.history.push_back(Arc::new(record));
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// Whether everything is within its limits, and the migrations stand where their states belong, apart
    /// from each other and below the next number. (The map checks itself.) Run before every commit and after
    /// every load: nothing unreadable is written.
    pub fn check(&self) -> Result<(), MetaError> {
        let beyond = |error| MetaError::Failed(format!("the cluster metadata is beyond its limits: {error}"));
        self.check_bounds().map_err(beyond)?;
        let ensure = |holds: bool, what: &str| {
            if holds {
                Ok(())
            } else {
                Err(MetaError::Failed(format!("the cluster metadata is inconsistent: {what}")))
            }
        };
        let waits = |record: &MigrationRecord| {
            matches!(record.state, MigrationState::Queued | MigrationState::Preparing)
                && (record.partitions.is_empty() || record.partitions_tile_the_range())
        };
        ensure(self.waiting.iter().all(waits), "a migration waits in a state that does not")?;
        ensure(
            self.history.iter().all(|record| record.state.is_over()),
            "the history holds what is not over",
        )?;
        let below = |record: &MigrationRecord| {
            record.id < self.next_migration && record.turn.is_none_or(|turn| turn.by < self.next_migration)
        };
        ensure(self.all_migrations().all(below), "a migration has a number that is still to be given")?;
        ensure(self.waiting.is_sorted_by(|a, b| a.id < b.id), "the waiting migrations are out of order")?;
        ensure(self.starts.is_sorted_by(|a, b| a.node < b.node), "the starts are out of order")?;
        ensure(self.copies.is_sorted_by(|a, b| a.node < b.node), "the logs' copies are out of order")?;
        let unfinished: Vec<_> = self.unfinished().map(|record| record.range).collect();
        let apart = |(index, range): (usize, &PositionRange)| {
            unfinished[..index].iter().all(|earlier| !earlier.overlaps(*range))
        };
        ensure(unfinished.iter().enumerate().all(apart), "two unfinished migrations overlap")
    }
}
