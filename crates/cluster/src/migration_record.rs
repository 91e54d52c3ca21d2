//! The stored record of one migration.

use crate::DeadLog;
use crate::Incarnation;
use crate::bounds;
use crate::limits::MAX_PARTITIONS;
use serde::{Deserialize, Serialize};
use sidle_types::{
    GaveAll, ImportId, MapEpoch, MigrationId, MigrationPolicy, NodeId, PositionRange, ProtocolVersion,
    TabletEpoch,
};

/// A migration's state. Each state documents what reads and writes do in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationState {
    /// Waits for an earlier migration that shares a node with it. The source owns the range and serves
    /// everything.
    Queued,
    /// The source counts and partitions the range, then the target makes room, and takes a copy if the
    /// protocol copies first. The source owns the range and serves everything.
    Preparing,
    /// The target owns the range. After the source's freeze it serves the range's reads and writes; the
    /// source serves frozen values to clients that the target redirects there.
    Running,
    /// Everything has arrived. The target serves everything; the source frees its copy.
    Done,
    /// Given up on request. Before it ran, or gave anything: the source owns the range and nothing has
    /// changed. While it gave bit by bit: another migration gives back what it gave
    /// ([`MigrationRecord::turn`]).
    Cancelled,
    /// Given up for a reason. Before it ran: nothing has changed. While it ran: the target owns the range and
    /// serves what it has; the rest is lost, and `why` states how much. If the source never learnt that it
    /// ran, it did not: the source owns the whole range.
    Failed {
        /// What happened and what was lost.
        why: String,
    },
}

impl MigrationState {
    /// Whether nothing more will happen to the migration.
    pub const fn is_over(&self) -> bool {
        matches!(self, MigrationState::Done | MigrationState::Cancelled | MigrationState::Failed { .. })
    }

    /// The state's name in one lower-case word.
    pub const fn name(&self) -> &'static str {
        match self {
            MigrationState::Queued => "queued",
            MigrationState::Preparing => "preparing",
            MigrationState::Running => "running",
            MigrationState::Done => "done",
            MigrationState::Cancelled => "cancelled",
            MigrationState::Failed { .. } => "failed",
        }
    }

    /// Why it failed.
    pub fn why(&self) -> Option<&str> {
        match self {
            MigrationState::Failed { why } => Some(why),
            _ => None,
        }
    }
}

impl std::fmt::Display for MigrationState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.why() {
            Some(why) => write!(f, "failed: {why}"),
            None => f.write_str(self.name()),
        }
    }
}

/// How much a migration moves. Updated when the record's state changes; in between, progress is only in the
/// coordinator's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationCounters {
    /// Records in the range when the source counted them.
    pub records: u64,
    /// Bytes of those records as the log lays them out.
    pub bytes: u64,
    /// Records that have arrived; repeats by priority pulls and samples count once if the target can
    /// recognise them. What arrived again after a restart counts again.
    pub records_moved: u64,
    /// Bytes of the records that have arrived.
    pub bytes_moved: u64,
    /// Microseconds that it ran, a copy made before included; 0 if an earlier process of the coordinator saw
    /// its start.
    pub elapsed_us: u64,
    /// Of a range that is given bit by bit: why all that was left was given at once, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_all: Option<GaveAll>,
    /// What of it was large collections.
    #[serde(default, skip_serializing_if = "LargeCollections::are_none")]
    pub collections: LargeCollections,
}

/// What a migration has moved of large collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeCollections {
    /// How many have arrived chunk by chunk.
    pub arrived: u64,
    /// How many were copied before the range changed its owner, of a range that freezes whole.
    pub ahead: u64,
    /// Bytes that arrived of what changed in them since they were copied.
    pub patch_bytes: u64,
}

impl LargeCollections {
    /// Whether there were none, and it is left out where it is written.
    pub fn are_none(&self) -> bool {
        *self == LargeCollections::default()
    }

    /// These and those that arrived later.
    #[must_use]
    pub const fn and(self, later: LargeCollections) -> LargeCollections {
        LargeCollections {
            arrived: self.arrived.saturating_add(later.arrived),
            ahead: self.ahead.saturating_add(later.ahead),
            patch_bytes: self.patch_bytes.saturating_add(later.patch_bytes),
        }
    }

    /// What is known after another report, which may be older.
    pub(crate) fn or_more(self, told: LargeCollections) -> LargeCollections {
        LargeCollections {
            arrived: self.arrived.max(told.arrived),
            ahead: self.ahead.max(told.ahead),
            patch_bytes: self.patch_bytes.max(told.patch_bytes),
        }
    }
}

/// The request that asked for something: a node's incarnation and a number that it uses once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestKey {
    /// The node that received the request.
    pub node: NodeId,
    /// Its incarnation at the time.
    pub incarnation: Incarnation,
    /// The number, used once in that incarnation.
    pub number: u64,
}

/// One migration, as it is kept in the metadata and, while it runs, shown in the tablet map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationRecord {
    /// Its number, never reused.
    pub id: MigrationId,
    /// The protocol's name, with its options: `NAME[,OPTION=VALUE...]`.
    pub protocol: String,
    /// Whether the source answers clients' reads of what it froze.
    pub frozen_reads: bool,
    /// Whether the source owns and serves what it has not given yet, while the migration runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_by_source: bool,
    /// What moves.
    pub range: PositionRange,
    /// How hard it may press on the two nodes.
    pub policy: MigrationPolicy,
    /// The node that gives the range up.
    pub source: NodeId,
    /// The incarnation of the source that holds the data.
    pub source_incarnation: Incarnation,
    /// The node that takes the range.
    pub target: NodeId,
    /// The incarnation of the target that made room.
    pub target_incarnation: Incarnation,
    /// The epoch at which the target owns the range once it runs; 0 until the source has counted.
    pub epoch: TabletEpoch,
    /// The epoch of the first map in which it runs; 0 until it runs, and again once the range is given back.
    pub map_epoch: MapEpoch,
    /// The range in parts of about equal record count, in order; empty until the source has counted.
    #[serde(deserialize_with = "bounds::partitions")]
    pub partitions: Vec<PositionRange>,
    /// Where it stands.
    pub state: MigrationState,
    /// How much it moves.
    pub counters: MigrationCounters,
    /// The request that started it, so that a repeated request finds it instead of starting another.
    pub requested_by: RequestKey,
    /// The version between its two nodes: the cluster's when their incarnations were noted. It stays when the
    /// cluster's version is raised meanwhile.
    #[serde(default = "ProtocolVersion::unsaid", skip_serializing_if = "ProtocolVersion::is_unsaid")]
    pub version: ProtocolVersion,
    /// Its way back, if it is to turn back, or has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Of a way back: the migration that it continues, from where that stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<MigrationId>,
    /// Of a way back: its target has noted, in its durable log if there is one, what it kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_is_noted: bool,
    /// The source died while it ran, and others own what that had: the target reads what has not arrived from
    /// its own copy of the source's durable log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_log: Option<DeadLog>,
    /// How often another node has taken the place of a target that died.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub succession: u16,
}

/// A migration's way back: another migration of the same range, from its target to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The number of the way back, used for nothing else. It begins when no cut is in transit. If the
    /// migration ends before, or has given nothing, there is none.
    pub by: MigrationId,
    /// The request that asked for it.
    pub requested_by: RequestKey,
    /// The epoch of the first map that says that nothing is in transit; 0 until then. By it the source notes
    /// in its durable log what it kept, if it has one: the way back's target begins with that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled_at: MapEpoch,
}

fn is_none_yet(succession: &u16) -> bool {
    *succession == 0
}

fn is_zero(epoch: &MapEpoch) -> bool {
    *epoch == MapEpoch(0)
}

impl MigrationRecord {
    /// Whether it runs, or ran before it was over: the target owns the range, or did. One whose range was
    /// given back whole did not.
    pub fn ran(&self) -> bool {
        self.map_epoch > MapEpoch(0)
    }

    /// Every incarnation of a node that it names: of source, target and requesters.
    pub fn lives(&self) -> impl Iterator<Item = (NodeId, Incarnation)> {
        let asked = self.turn.map(|turn| turn.requested_by).into_iter().chain([self.requested_by]);
        let ends = [(self.source, self.source_incarnation), (self.target, self.target_incarnation)];
        ends.into_iter().chain(asked.map(|key| (key.node, key.incarnation)))
    }

    /// As which import the target notes what it was given. No two targets share one: what the log of one has
    /// says nothing of what another one was given.
    pub fn import(&self) -> ImportId {
        ImportId::of(self.id, self.succession)
    }

    /// Whether another migration gave back what this one had given.
    pub fn turned_back(&self) -> Option<MigrationId> {
        self.turn.filter(|_| self.state == MigrationState::Cancelled && self.ran()).map(|turn| turn.by)
    }

    /// The number of its way back, if that begins next: nothing is in transit, and neither of its nodes has
    /// restarted.
    pub fn settled_for(&self) -> Option<MigrationId> {
        self.turn.filter(|turn| self.kept_by_source && turn.settled_at > MapEpoch(0)).map(|turn| turn.by)
    }

    /// Whether the node takes part in it.
    pub fn involves(&self, node: NodeId) -> bool {
        self.source == node || self.target == node
    }

    /// Whether it shares a node with `other`.
    pub fn shares_a_node_with(&self, other: &MigrationRecord) -> bool {
        self.involves(other.source) || self.involves(other.target)
    }

    /// Whether the partitions are in order and cover the whole range.
    pub fn partitions_tile_the_range(&self) -> bool {
        tiles(&self.partitions, self.range) && self.partitions.len() <= MAX_PARTITIONS
    }
}

/// Whether `parts`, in order, cover `range` without gap or overlap.
pub(crate) fn tiles(parts: &[PositionRange], range: PositionRange) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    first.first() == range.first()
        && last.last() == range.last()
        && parts.windows(2).all(|pair| pair[0].last().next() == Some(pair[1].first()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::Position;

    #[test]
    fn tiles_refuses_gaps_overlaps_and_nothing() {
        let range = |first, last| PositionRange::new(Position(first), Position(last)).unwrap();
        let whole = range(10, 19);
        assert!(tiles(&[whole], whole));
        assert!(tiles(&[range(10, 12), range(13, 13), range(14, 19)], whole));
        assert!(!tiles(&[], whole));
        assert!(!tiles(&[range(10, 12), range(14, 19)], whole));
        assert!(!tiles(&[range(10, 13), range(13, 19)], whole));
        assert!(!tiles(&[range(10, 18)], whole));
        assert!(!tiles(&[range(11, 19)], whole));
    }

    #[test]
    fn states_read_well_in_json() {
        let json = |state: &MigrationState| serde_json::to_string(state).unwrap();
        assert_eq!(json(&MigrationState::Running), r#""running""#);
        let failed = MigrationState::Failed { why: "the target restarted".into() };
        assert_eq!(json(&failed), r#"{"failed":{"why":"the target restarted"}}"#);
        assert_eq!(serde_json::from_str::<MigrationState>(&json(&failed)).unwrap(), failed);
        assert_eq!(failed.to_string(), "failed: the target restarted");
    }
}
