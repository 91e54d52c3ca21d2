//! Messages between the coordinator and the nodes, as JSON in control frames.
//!
//! Every message names the incarnation of its node, and everything about a migration names the migration, so
//! that an outdated message is recognised and dropped (M9). Every message may be lost, doubled or delayed
//! (M10): a side that needs an answer asks again, and an answer is sent as often as it is asked for.

use crate::bounds::{self, Bounded, clipped};
use crate::limits::{MAX_MESSAGE_BYTES, MAX_NODE_MESSAGE_BYTES};
use crate::{
    ClusterId, Health, HostPort, Incarnation, LargeCollections, LogCopies, MigrationRecord, MigrationState,
    OutOfBounds, Refusal, StartNumber, StatusReport, TabletMap, TakeoverProgress, Term, Upgraded,
};
use serde::{Deserialize, Serialize};
use sidle_types::{
    GaveAll, LogId, MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, Speaks,
    TabletEpoch,
};
use std::sync::Arc;

/// A message on the control connection between a node and the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlMessage {
    /// From a node.
    ToCoordinator(ToCoordinator),
    /// From the coordinator.
    ToNode(ToNode),
}

impl ControlMessage {
    /// The message as the body of a control frame.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .expect("a message has string keys only and no value that refuses to be written")
    }

    /// The message in the body of a control frame, within all [`limits`](crate::limits).
    pub fn from_json(body: &[u8]) -> Result<ControlMessage, MessageError> {
        if body.len() > MAX_MESSAGE_BYTES {
            return Err(MessageError::TooLong { bytes: body.len(), most: MAX_MESSAGE_BYTES });
        }
        let message: ControlMessage = serde_json::from_slice(body).map_err(MessageError::malformed)?;
        if matches!(message, ControlMessage::ToCoordinator(_)) && body.len() > MAX_NODE_MESSAGE_BYTES {
            return Err(MessageError::TooLong { bytes: body.len(), most: MAX_NODE_MESSAGE_BYTES });
        }
        message.check_bounds()?;
        Ok(message)
    }
}

/// Why the body of a control frame is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is longer than any message.
    #[error("a message of {bytes} bytes, where the longest has {most}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// It cannot be read.
    #[error("no message: {0}")]
    Malformed(String),
    /// Something in it is beyond a limit.
    #[error("no message: {0}")]
    OutOfBounds(#[from] OutOfBounds),
}

impl MessageError {
    /// Cuts the reader's error, which may quote all that was sent.
    fn malformed(error: serde_json::Error) -> MessageError {
        const SHOWN_BYTES: usize = 512;
        MessageError::Malformed(clipped(error.to_string(), SHOWN_BYTES))
    }
}

impl From<ToCoordinator> for ControlMessage {
    fn from(message: ToCoordinator) -> ControlMessage {
        ControlMessage::ToCoordinator(message)
    }
}

impl From<ToNode> for ControlMessage {
    fn from(message: ToNode) -> ControlMessage {
        ControlMessage::ToNode(message)
    }
}

/// A message from a node to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToCoordinator {
    /// The sender.
    pub from: NodeId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The message.
    pub body: NodeSays,
}

/// A node's message to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeSays {
    /// Asks to be a member. Repeated until [`CoordinatorSays::Welcome`], at longer intervals after
    /// [`CoordinatorSays::JoinRefused`].
    Join {
        /// Where clients reach the node.
        client_addr: HostPort,
        /// Where other nodes reach it.
        bus_addr: HostPort,
        /// The cluster that the node belongs to, once it belongs to one.
        cluster: Option<ClusterId>,
        /// Which process asks; `None` from versions that draw no number.
        #[serde(default)]
        start: Option<StartNumber>,
        /// What its program speaks.
        #[serde(default = "Speaks::unsaid", skip_serializing_if = "Speaks::is_unsaid")]
        speaks: Speaks,
        /// Since which incarnation its durable log has everything, if it has one: what a migration left
        /// there in this or a later incarnation is there still.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log_since: Option<Incarnation>,
    },
    /// The node is running.
    Heartbeat(Heartbeat),
    /// Answers [`CoordinatorSays::Survey`].
    Surveyed {
        /// The migration.
        migration: MigrationId,
        /// What the source found.
        survey: Survey,
    },
    /// Answers [`CoordinatorSays::Prepare`]: the target has made room and is connected to the source.
    Prepared {
        /// The migration.
        migration: MigrationId,
    },
    /// Answers [`CoordinatorSays::Prepare`]: the target cannot take the range.
    PrepareRefused {
        /// The migration.
        migration: MigrationId,
        /// Why not.
        why: PrepareRefusal,
    },
    /// How far the target has come, with a running migration or a copy made before it.
    Progress {
        /// The migration.
        migration: MigrationId,
        /// How far.
        progress: Progress,
    },
    /// The target has everything. Repeated until [`CoordinatorSays::Over`].
    Finished {
        /// The migration.
        migration: MigrationId,
        /// The final figures.
        progress: Progress,
    },
    /// The target can never continue. Repeated until [`CoordinatorSays::Over`]. What has not arrived is lost:
    /// a target that may continue reports a stall instead.
    Broken {
        /// The migration.
        migration: MigrationId,
        /// Why it cannot continue.
        why: String,
    },
    /// Which copies of the node's log are to count: the change that follows the present record. Of epoch 0:
    /// asks for the record. Repeated until [`CoordinatorSays::Copies`].
    Copies {
        /// The record, as it is to be.
        copies: LogCopies,
    },
    /// Asks, before it joins, whether others have taken over what this log had. Repeated until
    /// [`CoordinatorSays::LogFate`].
    AsksForLog {
        /// The log that the node found in its data directory.
        log: LogId,
    },
    /// The node has read all of a range that it takes over, and its own log has it. Repeated until a map
    /// shows that.
    TookOver {
        /// The range.
        range: PositionRange,
        /// Since when it owns it.
        epoch: TabletEpoch,
    },
    /// The node cannot read what it is to take over, for now, and tries again. Another node with a copy
    /// of the same log may do it instead.
    CannotTakeOver {
        /// The range.
        range: PositionRange,
        /// Since when it owns it.
        epoch: TabletEpoch,
        /// Why not.
        why: String,
    },
    /// Forwards a client's request. Repeated until [`CoordinatorSays::Reply`].
    Request {
        /// A number that this incarnation of the node uses once.
        number: u64,
        /// The oldest number that the node still wants an answer to.
        oldest_open: u64,
        /// The request.
        request: Request,
    },
}

/// A node's heartbeat, with what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The epoch of the map that all workers of the node use.
    pub map_epoch: MapEpoch,
    /// How full the node is.
    pub load: NodeLoad,
    /// The migrations that the node keeps something for; the coordinator answers those that are over.
    /// In ascending order.
    #[serde(deserialize_with = "bounds::holds")]
    pub holds: Vec<MigrationId>,
    /// What is wrong with the node's data directory.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The fingerprint of the members' health that the node knows; 0 while it knows of none.
    #[serde(default)]
    pub health: u64,
}

/// How full a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Keys of what it owns, including those that have not arrived yet.
    pub keys: u64,
    /// Bytes of memory in use for data.
    pub memory_used_bytes: u64,
    /// The limit of that.
    pub memory_limit_bytes: u64,
    /// How far it has read what it takes over from dead nodes, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taking_over: Option<TakeoverProgress>,
}

/// What the source of a migration found in the range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// How many records there are.
    pub records: u64,
    /// Their bytes as the log lays them out.
    pub bytes: u64,
    /// The range in parts of about equal record count, in order.
    #[serde(deserialize_with = "bounds::partitions")]
    pub partitions: Vec<PositionRange>,
}

/// Why a target refuses a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareRefusal {
    /// The records would not fit.
    NoMemory {
        /// What the range needs.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The target could not reach the source.
    SourceUnreachable {
        /// The error.
        error: String,
    },
    /// Anything else.
    Other {
        /// The reason.
        why: String,
    },
}

/// How far a migration, or the copy that is made before it runs, has come at the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Whether the source has frozen the range and the target serves it.
    pub activated: bool,
    /// Records that have arrived.
    pub records_moved: u64,
    /// Bytes of the records that have arrived.
    pub bytes_moved: u64,
    /// For each partition the first position that has not arrived, or `None` when all of it has.
    #[serde(deserialize_with = "bounds::next")]
    pub next: Vec<Option<Position>>,
    /// Of a copy made before the freeze: ranges that had changed since they were copied, and were updated.
    pub changes: u64,
    /// Changes that were left in the source's last report.
    pub changes_left: u64,
    /// What of it was large collections.
    #[serde(default, skip_serializing_if = "LargeCollections::are_none")]
    pub collections: LargeCollections,
    /// Why nothing moves at present.
    pub stalled: Option<String>,
    /// Of a range that is given bit by bit: why all that was left was given at once, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_all: Option<GaveAll>,
    /// Of such a range, if the migration is to turn back: nothing is in transit, and what the target owns
    /// does not change any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

/// What the target of a migration owns that is to turn back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Nothing: the source owns the range as before.
    OwnsNothing,
    /// Part of the range.
    OwnsSome,
}

/// A message from the coordinator to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToNode {
    /// The receiver.
    pub to: NodeId,
    /// The receiver's incarnation that is meant; any other incarnation drops the message.
    pub incarnation: Incarnation,
    /// The process that is meant, if not all of that incarnation: of two with the same one, the one that was
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartNumber>,
    /// The coordinator's term; whoever has seen a higher one drops the message.
    #[serde(default, skip_serializing_if = "Term::is_only")]
    pub term: Term,
    /// The message.
    pub body: CoordinatorSays,
}

/// The coordinator's message to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorSays {
    /// The node is a member.
    Welcome {
        /// The cluster that the node belongs to from now on.
        cluster: ClusterId,
        /// The present map.
        map: Arc<TabletMap>,
    },
    /// The node cannot be a member.
    JoinRefused {
        /// Why not, and what to do.
        why: String,
    },
    /// The node cannot be a member yet: its earlier incarnation still sends. It asks again soon.
    JoinLater {
        /// What it waits for.
        why: String,
    },
    /// The coordinator does not know this incarnation of the node: it must join again.
    JoinAgain,
    /// A later incarnation of the node has joined: this one must stop serving.
    Superseded,
    /// Answers a heartbeat.
    Heard {
        /// The epoch of the present map.
        map_epoch: MapEpoch,
        /// The members' health, if the node's is outdated.
        #[serde(default)]
        health: Option<Health>,
    },
    /// The map has changed. Repeated until a heartbeat shows that it was published.
    MapUpdate {
        /// The present map.
        map: Arc<TabletMap>,
    },
    /// To the source: count the range and cut it into parts. Repeated until answered.
    Survey {
        /// The migration.
        migration: MigrationId,
        /// What to count.
        range: PositionRange,
        /// How many parts to cut it into at most.
        partitions: usize,
    },
    /// To the target: make room and connect to the source. Repeated until answered.
    Prepare {
        /// The migration, with what the source counted.
        record: Box<MigrationRecord>,
    },
    /// To the source, of a migration that copies before the freeze: keep serving the range, mark its changes,
    /// and let the target copy. Repeated until the target is ready.
    Track {
        /// The migration, counted.
        record: Box<MigrationRecord>,
    },
    /// The migration is over; acted on once the map of `map_epoch` is published.
    Over {
        /// The migration.
        migration: MigrationId,
        /// How it ended; `None` when the coordinator remembers only that it did.
        record: Option<Box<MigrationRecord>>,
        /// The epoch of a map without the migration.
        map_epoch: MapEpoch,
    },
    /// Answers [`NodeSays::AsksForLog`].
    LogFate {
        /// The log.
        log: LogId,
        /// Whether others have taken over what it had: nobody needs it any more.
        taken_over: bool,
    },
    /// Answers [`NodeSays::Copies`].
    Copies {
        /// The present record, if there is one.
        copies: Option<LogCopies>,
    },
    /// Answers a request.
    Reply {
        /// The request's number.
        number: u64,
        /// The answer.
        reply: Reply,
    },
}

/// A client's request to the coordinator, through any node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Move a range to another node.
    StartMigration {
        /// What to move.
        range: PositionRange,
        /// Where to.
        target: NodeName,
        /// By which protocol.
        protocol: String,
        /// How hard it may press on the two nodes.
        policy: MigrationPolicy,
    },
    /// Change how hard a migration may press on its nodes.
    SetPolicy {
        /// The migration.
        migration: MigrationId,
        /// From now on.
        policy: MigrationPolicy,
    },
    /// Give up a migration that does not run yet: it is queued or prepared, even by a copy. Or turn one back
    /// that gives its range bit by bit.
    Cancel {
        /// The migration.
        migration: MigrationId,
    },
    /// Remove a member from the list that is down, owns nothing and takes part in no migration.
    Forget {
        /// The member.
        node: NodeName,
    },
    /// Have nodes with copies of its durable log take over what a node had that is down.
    TakeOver {
        /// The node.
        node: NodeName,
        /// Also from copies at nodes that have restarted since, which may lack what was written last.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accepts_loss: bool,
    },
    /// Raise the cluster's version to the highest that all members speak.
    Upgrade,
    /// Report nodes, tablets and migrations.
    Status,
    /// The same once a migration is over, or at the latest after a while.
    AwaitEnd {
        /// The migration.
        migration: MigrationId,
        /// How long to wait at most.
        patience_us: u64,
    },
}

impl Request {
    /// Whether it changes nothing, so that it may be answered again and with delay.
    pub const fn only_looks(&self) -> bool {
        matches!(self, Request::Status | Request::AwaitEnd { .. })
    }
}

/// How a request names a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeName {
    /// By its id.
    Id(NodeId),
    /// By the address where clients or other nodes reach it.
    Addr(HostPort),
}

impl std::fmt::Display for NodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NodeName::Id(id) => id.fmt(f),
            NodeName::Addr(address) => address.fmt(f),
        }
    }
}

/// What [`NodeName`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no node: give its id, or its host:port")]
pub struct ParseNodeNameError(String);

impl std::str::FromStr for NodeName {
    type Err = ParseNodeNameError;

    fn from_str(text: &str) -> Result<NodeName, ParseNodeNameError> {
        let id = text.parse().map(NodeName::Id);
        id.or_else(|_| text.parse().map(NodeName::Addr)).map_err(|_| ParseNodeNameError(text.to_owned()))
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The migration is queued, copies what it will move, runs, or is over already.
    Started {
        /// Its number.
        migration: MigrationId,
        /// Where it stands.
        state: MigrationState,
    },
    /// The migration is cancelled; nothing has changed.
    Cancelled {
        /// Its number.
        migration: MigrationId,
    },
    /// The migration turns back, or has: what it gave is given back by another. Sent about a range that is
    /// given bit by bit only, so to nobody who does not read it.
    TurnsBack {
        /// Its number.
        migration: MigrationId,
        /// The other's, which begins once nothing is in transit, if anything was given.
        by: MigrationId,
    },
    /// The migration has the policy asked for.
    PolicySet {
        /// Its number.
        migration: MigrationId,
    },
    /// The node is no longer a member.
    Forgotten {
        /// The node.
        node: NodeId,
    },
    /// What the dead node had has new owners, which read it from copies of its log.
    TakesOver {
        /// In how many ranges that is under way: in none, if it was before.
        ranges: usize,
    },
    /// The cluster speaks the highest version that all its members speak.
    Upgraded(Upgraded),
    /// Nodes, tablets and migrations.
    Status(Box<StatusReport>),
    /// Nothing was done, unless the refusal states that this is unknown.
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node_id, node_info, range, running};
    use crate::limits::MAX_NUMBER;

    #[test]
    fn messages_survive_json() {
        let map = Arc::new(TabletMap::founded_by(node_info(1)));
        let to_node = |body| {
            ControlMessage::from(ToNode {
                to: node_id(1),
                incarnation: Incarnation(3),
                start: None,
                term: Term::ONLY,
                body,
            })
        };
        let to_coordinator = |body| {
            ControlMessage::from(ToCoordinator { from: node_id(1), incarnation: Incarnation(3), body })
        };
        let progress = Progress { next: vec![None, Some(Position(u64::MAX - 1))], ..Progress::default() };
        let record = Box::new(running(MAX_NUMBER, range(0, u64::MAX), 1, 2, 5));
        for message in [
            to_node(CoordinatorSays::Welcome { cluster: ClusterId::from_bits(7), map }),
            to_node(CoordinatorSays::JoinAgain),
            to_node(CoordinatorSays::Prepare { record: record.clone() }),
            to_node(CoordinatorSays::Over {
                migration: MigrationId(4),
                record: Some(record),
                map_epoch: MapEpoch(9),
            }),
            to_coordinator(NodeSays::Progress { migration: MigrationId(4), progress }),
            to_coordinator(NodeSays::Heartbeat(Heartbeat::default())),
            to_coordinator(NodeSays::Request { number: 1, oldest_open: 1, request: Request::Status }),
            to_coordinator(NodeSays::Request {
                number: 2,
                oldest_open: 1,
                request: Request::AwaitEnd { migration: MigrationId(4), patience_us: 5 },
            }),
        ] {
            assert_eq!(ControlMessage::from_json(&message.to_json()).unwrap(), message);
        }
    }

    #[test]
    fn node_names_are_ids_or_addresses() {
        assert_eq!(node_id(7).to_string().parse(), Ok(NodeName::Id(node_id(7))));
        assert_eq!("h:7".parse(), Ok(NodeName::Addr("h:7".parse().unwrap())));
        assert!("h".parse::<NodeName>().unwrap_err().to_string().contains("'h' names no node"));
    }
}
