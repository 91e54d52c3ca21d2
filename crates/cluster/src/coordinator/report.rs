//! The status report.

use super::attempt::{Attempt, Attempts};
use super::hindered::{Hindered, worth_a_word};
use super::joins::Judge;
use super::members::{Members, shown};
use super::rebinding::Rebinding;
use super::record::Record;
use super::takeovers::FailedTakeovers;
use crate::bounds::clipped;
use crate::limits::MAX_REASON_BYTES;
use crate::{
    DeadLog, Metadata, MigrationCounters, MigrationRecord, MigrationState, MigrationStatus, NodeState,
    NodeStatus, StatusReport, Takeover, TakeoverProgress, TakeoverStatus,
};
use sidle_types::{GaveAll, MapEpoch, MonotonicUs, NodeId, PositionRange, TabletEpoch};

/// The sources of a report.
pub(super) struct Reporter<'a> {
    pub(super) data: &'a Metadata,
    pub(super) members: &'a Members,
    pub(super) attempts: &'a Attempts,
    pub(super) record: &'a Record,
    pub(super) rebinding: Rebinding<'a>,
    pub(super) failed_takeovers: &'a FailedTakeovers,
    pub(super) hindered: &'a Hindered,
}

impl Reporter<'_> {
    /// The cluster as the coordinator sees it.
    pub(super) fn report(&self, now: MonotonicUs) -> StatusReport {
        let map = &self.data.map;
        let mut migrations: Vec<_> =
            self.data.all_migrations().map(|record| self.migration_status(now, record)).collect();
        migrations.sort_by_key(|status| status.id);
        StatusReport {
            cluster: self.data.cluster,
            coordinator: self.members.seat,
            cluster_version: map.version(),
            map_epoch: map.epoch(),
            nodes: map.nodes().iter().map(|node| self.node_status(now, node.id)).collect(),
            tablets: map.tablets().to_vec(),
            takeovers: map.takeovers().iter().map(|takeover| self.takeover_status(takeover)).collect(),
            migrations,
            record_trouble: self.record.trouble(),
        }
    }

    fn takeover_status(&self, takeover: &Takeover) -> TakeoverStatus {
        let trouble = self.trouble_of(takeover.range, takeover.owner, &takeover.dead).map(str::to_owned);
        TakeoverStatus { of: takeover.clone(), trouble }
    }

    /// How far this node has read a copy of that log, if it is at that.
    fn progress_of(&self, node: NodeId, log: &DeadLog) -> Option<TakeoverProgress> {
        let progress = self.members.get(node)?.load.taking_over?;
        (progress.log == Some(log.log)).then_some(progress)
    }

    /// Why a node could not read a range when it tried last, unless it has come further since.
    fn trouble_of(&self, range: PositionRange, node: NodeId, log: &DeadLog) -> Option<&str> {
        let is_past = self.progress_of(node, log).is_some_and(|progress| progress.is_past_failure);
        self.failed_takeovers.why(range, node).filter(|_| !is_past)
    }

    /// From where the target of a migration reads what its dead source had not sent.
    fn reads_of_source(&self, record: &MigrationRecord, log: &DeadLog) -> String {
        let has_copy = log.backups.iter().any(|backup| backup.node == record.target);
        let from = self.progress_of(record.target, log).map(|progress| progress.fetched_from);
        let reads = match from {
            Some(Some(from)) => format!(
                "the target fetches a copy of that node's log from {}, and reads the rest there",
                shown(self.data, from)
            ),
            _ if has_copy => "the target reads the rest from its copy of that node's log".to_owned(),
            _ => "the target fetches a copy of that node's log, and reads the rest there".to_owned(),
        };
        let trouble = self.trouble_of(record.range, record.target, log);
        let again = trouble.map_or_else(String::new, |why| format!("; it tries again, since {why}"));
        clipped(format!("its source died: {reads}{again}"), MAX_REASON_BYTES)
    }

    fn node_status(&self, now: MonotonicUs, id: NodeId) -> NodeStatus {
        let node = self.data.map.node(id).expect("asked for members only");
        let member = self.members.get(id);
        let state = self.members.state_of(now, id);
        let load = member.map(|member| member.load).filter(|_| state == NodeState::Up || self.has_data(id));
        let load = load.unwrap_or_default();
        let copies = self.data.copies_of(id).map(|copies| copies.backups.as_slice()).unwrap_or_default();
        NodeStatus {
            id,
            incarnation: node.incarnation,
            client_addr: node.client_addr.clone(),
            bus_addr: node.bus_addr.clone(),
            speaks: self.members.speaks_of(id),
            state,
            silent_us: member.and_then(|member| member.heard_at).map(|at| now.since(at)),
            map_epoch: member.map_or(MapEpoch(0), |member| member.map_epoch),
            keys: load.keys,
            memory_used_bytes: load.memory_used_bytes,
            memory_limit_bytes: load.memory_limit_bytes,
            slots: self.data.map.slot_count_of(id),
            trouble: member.and_then(|member| member.trouble.clone()),
            log_copies: copies.iter().map(|backup| backup.node).collect(),
            taking_over: load.taking_over,
            not_taken_over: self.hindered.why(id).map(str::to_owned),
            takeover_refused: self.takeover_refused(now, id).filter(|_| state == NodeState::Failed),
        }
    }

    /// Why nobody would take over what the node has, were that asked for now.
    fn takeover_refused(&self, now: MonotonicUs, id: NodeId) -> Option<String> {
        let judge = Judge { now, data: self.data, members: self.members };
        judge.legacy_of(id, false).err().as_ref().and_then(worth_a_word)
    }

    /// Whether what a silent node reported last may still be there: what it had may be others' by now.
    fn has_data(&self, id: NodeId) -> bool {
        let owns = self.data.map.tablets().iter().any(|tablet| tablet.owner == id);
        owns || self.data.unfinished().any(|record| record.involves(id))
    }

    fn migration_status(&self, now: MonotonicUs, record: &MigrationRecord) -> MigrationStatus {
        let attempt = self.attempts.get(&record.id);
        // It runs, or is copied before.
        let running = attempt.filter(|attempt| attempt.moves_since.is_some());
        let counters = running.map_or(record.counters, |attempt| attempt.counters(now, record));
        let partitions = running.map_or_else(Vec::new, |attempt| attempt.partitions(record));
        let fraction = running.filter(|_| !partitions.is_empty());
        let fraction = fraction.map_or_else(|| fraction_of_ended(record), |attempt| attempt.fraction(record));
        let silence = self.silence_of(now, record);
        let stalled = silence.or_else(|| running.and_then(|attempt| attempt.progress.stalled.clone()));
        // A rate from before it stalled would promise an end.
        let moving = running.filter(|_| stalled.is_none());
        MigrationStatus {
            id: record.id,
            protocol: record.protocol.clone(),
            policy: record.policy,
            range: record.range,
            range_text: record.range.to_string(),
            source: record.source,
            target: record.target,
            epoch: if record.ran() { record.epoch } else { TabletEpoch(0) },
            state: record.state.name().to_owned(),
            why: record.state.why().map(str::to_owned),
            activated: match &record.state {
                MigrationState::Done => true,
                // The source is frozen, or gives the range bit by bit.
                MigrationState::Running if record.kept_by_source => true,
                _ => running.is_some_and(|attempt| attempt.progress.activated),
            },
            fraction,
            records: counters.records,
            bytes: counters.bytes,
            records_moved: counters.records_moved,
            bytes_moved: counters.bytes_moved,
            collections: counters.collections,
            elapsed_us: counters.elapsed_us,
            bytes_per_second: moving.map_or(0, Attempt::bytes_per_second),
            remaining_us: moving.and_then(|attempt| attempt.remaining_us(record)),
            changes_left: running.map_or(0, |attempt| attempt.progress.changes_left),
            stalled,
            source_log: record.source_log.as_ref().map(|dead| dead.log),
            gave_all: counters.gave_all,
            turn: turn_of(record, counters.gave_all),
            partitions,
        }
    }

    /// Why an unfinished migration makes no progress, or why that is unknown: one of its nodes is silent. The
    /// target is the one that reports progress.
    fn silence_of(&self, now: MonotonicUs, record: &MigrationRecord) -> Option<String> {
        let is_silent = |node| self.members.state_of(now, node) != NodeState::Up;
        let (role, node, unknown) = if record.state.is_over() {
            return None;
        } else if is_silent(record.target) {
            ("target", record.target, "what has arrived since is not known")
        } else if let Some(log) = &record.source_log {
            return Some(self.reads_of_source(record, log));
        } else if is_silent(record.source) {
            ("source", record.source, "what it still holds cannot arrive, and when it can is not known")
        } else {
            return None;
        };
        let heard_at = self.members.get(node).and_then(|member| member.heard_at);
        let since = heard_at.map_or_else(
            || "since the coordinator started".to_owned(),
            |at| format!("for {} s", now.since(at) / 1_000_000),
        );
        let then = match self.rebinding.would_go_on(record, node) {
            true => "; it goes on when the node is back, with its durable log",
            false => "",
        };
        Some(format!("the {role} {} has not been heard of {since}: {unknown}{then}", shown(self.data, node)))
    }
}

/// How a migration and its way back hang together, in words.
fn turn_of(record: &MigrationRecord, gave_all: Option<GaveAll>) -> Option<String> {
    let of_way_back = || record.continues.map(|before| format!("turned back: continues migration {before}"));
    let by = record.turn.map(|turn| turn.by);
    match by.filter(|_| !record.state.is_over() && record.kept_by_source) {
        Some(by) => Some(format!("turns back: migration {by} will continue once nothing is in transit")),
        None => {
            let turned = record.turned_back().map(|by| format!("turned back: migration {by} continues"));
            let too_late = || {
                let by =
                    by.filter(|_| matches!(record.state, MigrationState::Done | MigrationState::Running))?;
                let why = gave_all.map_or_else(String::new, |why| format!(" ({why})"));
                Some(format!("gave all before it could turn back{why}: there is no migration {by}"))
            };
            turned.or_else(too_late).or_else(of_way_back)
        }
    }
}

/// The share of the range that arrived, of a migration of which nothing more is reported.
fn fraction_of_ended(record: &MigrationRecord) -> f64 {
    let MigrationCounters { records, records_moved, .. } = record.counters;
    match record.state {
        MigrationState::Done => 1.0,
        _ if records > 0 => (records_moved as f64 / records as f64).min(1.0),
        _ => 0.0,
    }
}
