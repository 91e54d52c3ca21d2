//! The content of `sidle status --json` and `SIDLE.STATUS`.

use crate::bounds;
use crate::{ClusterId, HostPort, Incarnation, LargeCollections, Tablet, Takeover, TakeoverProgress};
use serde::{Deserialize, Serialize};
use sidle_types::{
    GaveAll, LogId, MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, ProtocolVersion,
    Speaks, TabletEpoch,
};

/// The cluster at one moment, as the coordinator sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The node whose process runs the coordinator.
    pub coordinator: NodeId,
    /// The version that the nodes speak with each other. `sidle upgrade` raises it.
    #[serde(default = "ProtocolVersion::unsaid")]
    pub cluster_version: ProtocolVersion,
    /// The epoch of the present map.
    pub map_epoch: MapEpoch,
    /// The members, in order of their ids.
    #[serde(deserialize_with = "bounds::nodes")]
    pub nodes: Vec<NodeStatus>,
    /// The tablets, in order of their positions.
    #[serde(deserialize_with = "bounds::tablets")]
    pub tablets: Vec<Tablet>,
    /// What new owners are reading from copies of dead nodes' logs, in order of the positions.
    #[serde(default, deserialize_with = "bounds::takeovers")]
    pub takeovers: Vec<TakeoverStatus>,
    /// The migrations that the coordinator remembers, in order of their numbers.
    #[serde(deserialize_with = "bounds::migrations")]
    pub migrations: Vec<MigrationStatus>,
    /// What is wrong with the coordinator's record of the cluster on disk; `null` when nothing is.
    #[serde(default)]
    pub record_trouble: Option<String>,
}

/// A range that is being taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeoverStatus {
    /// What is to be read, and by whom.
    #[serde(flatten)]
    pub of: Takeover,
    /// Why its new owner could not read it when it tried last; it tries again.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Whether the coordinator receives messages from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// It has sent something lately.
    #[serde(rename = "up")]
    Up,
    /// It has sent nothing since the coordinator started, a moment ago.
    #[serde(rename = "fail?")]
    Suspected,
    /// It has sent nothing for too long. It may still serve: nothing is taken from it.
    #[serde(rename = "fail")]
    Failed,
}

impl std::fmt::Display for NodeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NodeState::Up => "up",
            NodeState::Suspected => "fail?",
            NodeState::Failed => "fail",
        })
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node's permanent name.
    pub id: NodeId,
    /// Its present incarnation; larger after every restart.
    pub incarnation: Incarnation,
    /// Where clients reach it.
    pub client_addr: HostPort,
    /// Where other nodes reach it.
    pub bus_addr: HostPort,
    /// The versions that its program speaks, from the lowest to the highest; `null` until it has joined this
    /// coordinator, if the record does not name them.
    #[serde(default)]
    pub speaks: Option<Speaks>,
    /// Whether the coordinator receives its messages.
    pub state: NodeState,
    /// Microseconds since its last message, or `null` if there was none since the coordinator started.
    pub silent_us: Option<u64>,
    /// The epoch of the map that the node was last known to use.
    pub map_epoch: MapEpoch,
    /// Keys of what it owns, including those that have not arrived yet, as it reported last. 0, as memory and
    /// its limit, for a silent node that has nothing any more.
    pub keys: u64,
    /// Bytes of memory in use for data, as it reported last.
    pub memory_used_bytes: u64,
    /// The limit of that.
    pub memory_limit_bytes: u64,
    /// How many slots are shown as its own.
    pub slots: u16,
    /// What is wrong with the node's data directory; `null` when nothing is.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The nodes with copies of its durable log that count.
    #[serde(default)]
    pub log_copies: Vec<NodeId>,
    /// How far it has read what it takes over from dead nodes; `null` while it does not.
    #[serde(default)]
    pub taking_over: Option<TakeoverProgress>,
    /// Why it is not taken over by itself, though it asked for that and has been silent for as long; `null`
    /// if nothing is in the way.
    #[serde(default)]
    pub not_taken_over: Option<String>,
    /// Of one that is down: why nobody would take over what it has, were that asked for now; `null` if they
    /// would, or it has nothing.
    #[serde(default)]
    pub takeover_refused: Option<String>,
}

/// What `SIDLE.UPGRADE` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgraded {
    /// The version that the cluster spoke before; the same if nothing had to be done.
    pub before: ProtocolVersion,
    /// The version that it speaks.
    pub version: ProtocolVersion,
}

/// A migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationStatus {
    /// Its number.
    pub id: MigrationId,
    /// The protocol's name.
    pub protocol: String,
    /// How hard it may press on the two nodes.
    pub policy: MigrationPolicy,
    /// What moves.
    pub range: PositionRange,
    /// What moves, in words: slots where it is whole slots.
    pub range_text: String,
    /// The node that gives the range up.
    pub source: NodeId,
    /// The node that takes it.
    pub target: NodeId,
    /// The epoch at which the target owns the range; 0 until it runs.
    pub epoch: TabletEpoch,
    /// `queued`, `preparing`, `running`, `done`, `cancelled` or `failed`.
    pub state: String,
    /// Why it failed.
    pub why: Option<String>,
    /// Whether the target serves the range; of one that is given bit by bit, what it was given.
    pub activated: bool,
    /// How much of the range has arrived or is copied, 0 to 1: the mean over the partitions, which hold about
    /// equally many records.
    pub fraction: f64,
    /// Records in the range when the source counted them.
    pub records: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Records that have arrived; those that arrived again count again.
    pub records_moved: u64,
    /// Bytes of those.
    pub bytes_moved: u64,
    /// Microseconds that it has run, a copy made before included, while the present coordinator process
    /// watched.
    pub elapsed_us: u64,
    /// What of it was large collections; left out if there were none.
    #[serde(default, skip_serializing_if = "LargeCollections::are_none")]
    pub collections: LargeCollections,
    /// Recent rate; 0 unless it runs or is copied before.
    pub bytes_per_second: u64,
    /// Microseconds to go at the recent rate; `null` if unknown. By the bytes that are left of those that the
    /// source counted; by the share of records once more than those have arrived.
    pub remaining_us: Option<u64>,
    /// Of a copy made before the freeze: changes at the source since, which had not arrived at its last
    /// report.
    pub changes_left: u64,
    /// Why nothing moves at present, or why that is unknown: the figures are then from before.
    pub stalled: Option<String>,
    /// The name of its source's durable log, if that died: the target reads the rest from a copy.
    #[serde(default)]
    pub source_log: Option<LogId>,
    /// Of a range that is given bit by bit: why all that was left was given at once, if so.
    #[serde(default)]
    pub gave_all: Option<GaveAll>,
    /// Which migration continues this one the other way, or which one this is the way back of, in words.
    #[serde(default)]
    pub turn: Option<String>,
    /// The progress of each part of the range.
    #[serde(deserialize_with = "bounds::partitions")]
    pub partitions: Vec<PartitionStatus>,
}

/// A part of a migrating range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Its positions.
    pub range: PositionRange,
    /// The first position that has not arrived, or `null` when all of it has.
    pub next: Option<Position>,
}

impl PartitionStatus {
    /// How much of the partition's positions has arrived, 0 to 1.
    pub fn fraction(&self) -> f64 {
        let Some(next) = self.next else { return 1.0 };
        let moved = next.0.saturating_sub(self.range.first().0) as f64;
        let whole = (self.range.last().0 - self.range.first().0) as f64 + 1.0;
        (moved / whole).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::range;

    #[test]
    fn fraction_of_a_partition_is_that_of_its_positions() {
        let partition = |next| PartitionStatus { range: range(100, 199), next };
        assert_eq!(partition(Some(Position(100))).fraction(), 0.0);
        assert_eq!(partition(Some(Position(150))).fraction(), 0.5);
        assert_eq!(partition(None).fraction(), 1.0);
        assert_eq!(partition(Some(Position(7))).fraction(), 0.0);
    }
}
