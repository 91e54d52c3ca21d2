//! The node agent's inputs and outputs.

use crate::limits::{MAX_EVENTS, MAX_TRANSMIT};
use crate::{
    ClusterId, Incarnation, LogCopies, MigrationRecord, NodeInfo, NodeLoad, NodeSays, Reply, Request,
    Suspects, TabletMap, ToCoordinator, ToNode,
};
use sidle_types::{LogId, MapEpoch, MigrationId, MigrationPolicy, NodeId, PositionRange, TabletEpoch};
use std::collections::VecDeque;
use std::sync::Arc;

/// An input of a node agent.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// A connection to the coordinator is open, again or for the first time.
    Connected,
    /// A message of the coordinator has arrived.
    Message(ToNode),
    /// The time of [`NodeAgent::poll_timeout`](crate::NodeAgent::poll_timeout) has come.
    Timer,
    /// Every worker uses the map of this epoch and has passed a loop boundary since: it has acknowledged
    /// whatever an earlier map allowed. Answers [`AgentEvent::Publish`].
    Published(MapEpoch),
    /// How full the node is; sent with the next heartbeat.
    Load(NodeLoad),
    /// What is wrong with the node's data directory, or that nothing is any more; sent with every heartbeat.
    Trouble(Option<String>),
    /// Whether the driver has reached these members while it looked for the coordinator. They share one
    /// address.
    Tried(Vec<NodeId>, bool),
    /// A client asks the coordinator for something. Answered by [`AgentEvent::Reply`] with the same number,
    /// the driver's name for the request.
    Request(u64, Request),
    /// Which copies of the node's log are to count, or, with epoch 0, a question for the record. Answered by
    /// [`AgentEvent::Copies`]; another one takes its place.
    Copies(LogCopies),
    /// The node has everything of a range that it takes over, and its durable log has it.
    TookOver(PositionRange, TabletEpoch),
    /// It cannot be taken over, for now, for this reason.
    CannotTakeOver(PositionRange, TabletEpoch, String),
}

/// What the driver must do, in the given order.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The node is a member. Repeated after a repeated join; [`AgentEvent::Publish`] follows if the map is
    /// new. The driver stores the cluster's id with the node's identity.
    Joined(ClusterId),
    /// The coordinator refuses the node, or does not admit it yet; the agent asks again.
    JoinRefused(String),
    /// As the source: count the range and cut it into at most this many parts; then call
    /// [`Source::surveyed`](crate::Source::surveyed).
    Survey(MigrationId, usize),
    /// As the target: make room and connect to the source, then [`Target::advance`](crate::Target::advance),
    /// or [`Target::refuse`](crate::Target::refuse). If the protocol copies before the freeze, it copies
    /// before it is ready.
    ///
    /// Report ready only when the store holds nothing in the range. Leftovers of an earlier
    /// [`End::GivenAway`] would be taken for newer than what arrives (M5).
    Prepare(MigrationId),
    /// As the source: keep serving the range, mark its changes, and let the target copy it. Ended by
    /// [`AgentEvent::StartExport`] if the range is given away, else by [`AgentEvent::Over`].
    Track(MigrationId),
    /// Apply this policy to a migration of this node from now on.
    Policy(MigrationId, MigrationPolicy),
    /// As the target: the migration is to turn back. Request nothing more to be given, and report in the
    /// progress when nothing is in transit ([`Settled`](crate::Settled)).
    TurnsBack(MigrationId),
    /// As the source of a migration that turns back: nothing is in transit. Note what this node kept in its
    /// durable log, if there is one, for the way back with this number; publish the next map only then. Ends
    /// with [`AgentEvent::StartImport`] of that, [`AgentEvent::OtherEndRestarted`] or [`AgentEvent::Over`].
    Settled(MigrationId, MigrationId),
    /// As the source: the next map gives the range away; prepare to freeze it and serve it to the target. If
    /// the record continues another migration, this node was the target of that one, and keeps its share.
    StartExport(MigrationId),
    /// As the target: the next map gives the range to this node; prepare to take it. If the record continues
    /// another migration, this node was the source of that one. It was not asked to prepare, and keeps its
    /// share.
    StartImport(MigrationId),
    /// The migration goes on with the next incarnation of its other end, by the next map: what was arranged
    /// with the earlier one, and is in no durable log, is not known there.
    OtherEndRestarted(MigrationId),
    /// Publish this map to the workers; answer [`AgentInput::Published`] when all of them use it.
    ///
    /// The tablets alone do not define what this node serves. A running migration to this node without an
    /// [`AgentEvent::StartImport`] was meant for an earlier incarnation. Its source may not know yet that it
    /// must freeze the range, so nothing of it may be served until the migration is over (M1). Of what the
    /// node is taking over nothing may be served either: once it has everything, answer
    /// [`AgentInput::TookOver`].
    Publish(Arc<TabletMap>),
    /// The migration is over, and every worker uses a map without it. Also follows for a migration that never
    /// ran or that the driver refused. It is dropped when the driver keeps nothing for it any more.
    Over(MigrationId, End),
    /// Exactly these members are suspected from now on. The coordinator has received nothing from them for
    /// too long, or this node nothing from the coordinator's node, and does not reach them.
    Suspected(Suspects),
    /// A later process has joined with this node's identity: stop serving and exit.
    Superseded,
    /// Whether others have taken over what this log of the node had, which was asked.
    LogFate(LogId, bool),
    /// Answers the request with this number.
    Reply(u64, Reply),
    /// The coordinator's record of the copies of the node's log, if there is one.
    Copies(Option<LogCopies>),
}

/// How a migration has ended for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As the source: the range was given away, and nobody needs its records any more: free them. May come
    /// without a [`AgentEvent::StartExport`], if the node was cut off throughout.
    GivenAway(PositionRange),
    /// As the target: everything has arrived and that is committed; free the tombstones.
    Complete,
    /// Given up, for this reason. As the source: the range stays, and what was kept for the copy goes. As the
    /// target: forget all preparations, a copy included. What an import has not received never arrives, and
    /// is absent from now on. Serve that range, activated or not; the source can answer for nothing in it.
    GivenUp(String),
}

impl End {
    /// The end of a migration that failed here. `record`: as the coordinator remembers it.
    pub(super) fn in_vain(record: Option<&MigrationRecord>) -> End {
        let forgotten = || "the coordinator no longer remembers how it ended".to_owned();
        End::GivenUp(record.map_or_else(forgotten, |record| record.state.to_string()))
    }
}

/// The agent's messages and events, lent to each of its parts.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) me: NodeInfo,
    pub(super) transmit: VecDeque<ToCoordinator>,
    pub(super) events: VecDeque<AgentEvent>,
}

impl Outbox {
    pub(super) fn new(me: NodeInfo) -> Outbox {
        Outbox { me, transmit: VecDeque::new(), events: VecDeque::new() }
    }

    /// This incarnation of the node.
    pub(super) fn identity(&self) -> (NodeId, Incarnation) {
        (self.me.id, self.me.incarnation)
    }

    /// Sends a message to the coordinator; when too many wait, the oldest is lost.
    pub(super) fn send(&mut self, body: NodeSays) {
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToCoordinator { from: self.me.id, incarnation: self.me.incarnation, body });
    }

    /// Asks the driver for something.
    pub(super) fn event(&mut self, event: AgentEvent) {
        assert!(self.events.len() < MAX_EVENTS, "the driver does not take the agent's events");
        self.events.push_back(event);
    }
}
