//! What goes into a node agent and what comes out of it.

use crate::limits::{MAX_EVENTS, MAX_TRANSMIT};
use crate::{
    ClusterId, Incarnation, MigrationRecord, NodeInfo, NodeLoad, NodeSays, Reply, Request, Suspects,
    TabletMap, ToCoordinator, ToNode,
};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, NodeId, PositionRange};
use std::collections::VecDeque;
use std::sync::Arc;

/// What happens to a node agent.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// The connection to the coordinator is made, anew or for the first time.
    Connected,
    /// The coordinator said something.
    Message(ToNode),
    /// The time of [`NodeAgent::poll_timeout`](crate::NodeAgent::poll_timeout) has come.
    Timer,
    /// Every worker uses the map of this epoch and has passed a loop boundary since: what an earlier map let
    /// it acknowledge is acknowledged. Answers [`AgentEvent::Publish`].
    Published(MapEpoch),
    /// How full the node is; sent along with the next heartbeat.
    Load(NodeLoad),
    /// What is wrong with the node's data directory, or that nothing is any more; sent along with every
    /// heartbeat.
    Trouble(Option<String>),
    /// The driver has tried to reach these members, which share one address, while it looked for the
    /// coordinator: whether it did.
    Tried(Vec<NodeId>, bool),
    /// A client asks the coordinator for something. Answered by [`AgentEvent::Reply`] with the same number,
    /// the driver's name for the request.
    Request(u64, Request),
}

/// What the driver is to do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The node is a member. Comes again after a repeated join; [`AgentEvent::Publish`] follows if the map is
    /// new. The driver keeps the cluster's id with the node's identity.
    Joined(ClusterId),
    /// The coordinator does not let the node in, or not yet; it will be asked again.
    JoinRefused(String),
    /// As the source: count the range and cut it, into so many parts at most; then
    /// [`Source::surveyed`](crate::Source::surveyed).
    Survey(MigrationId, usize),
    /// As the target: make room and connect to the source, then [`Target::advance`](crate::Target::advance),
    /// or [`Target::refuse`](crate::Target::refuse). Where the protocol copies before the freeze, the copy
    /// comes before it is ready.
    ///
    /// It is ready only when the store holds nothing in the range: whatever an earlier [`End::GivenAway`] of
    /// it still has to discard would be taken for newer than what arrives (M5).
    Prepare(MigrationId),
    /// As the source: serve the range on, mark what changes in it, and let the target copy it. Ended by
    /// [`AgentEvent::StartExport`] if the range is given away, else by [`AgentEvent::Over`].
    Track(MigrationId),
    /// A migration that this node takes part in is to press so hard from now on.
    Policy(MigrationId, MigrationPolicy),
    /// As the source: the next map gives the range away; be ready to freeze and serve it to the target.
    StartExport(MigrationId),
    /// As the target: the next map gives the range to this node; be ready to take it.
    StartImport(MigrationId),
    /// Publish this map to the workers, and answer with [`AgentInput::Published`] when all of them use it.
    ///
    /// The tablets alone do not say what this node serves: a range of its own with a running migration that
    /// was not announced by [`AgentEvent::StartImport`] was on its way to an earlier incarnation of the node.
    /// Its source may not know yet that it is to freeze the range, so nothing of it may be served until the
    /// migration is over (M1).
    Publish(Arc<TabletMap>),
    /// The migration is over, and every worker uses a map without it. Also comes when it never ran, and of
    /// what the driver has refused. It is dropped when the driver keeps nothing for it any more.
    Over(MigrationId, End),
    /// These members are suspected from now on, and no others: the coordinator has not heard of them for too
    /// long, or this node not of the one that runs the coordinator, and does not reach them.
    Suspected(Suspects),
    /// Another process has joined with this node's identity, later: serve nothing any more and exit.
    Superseded,
    /// Answers the request with this number.
    Reply(u64, Reply),
}

/// How a migration has ended for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As the source: the range was given away, and nobody needs its records any more: give their memory
    /// back. May come without a [`AgentEvent::StartExport`], when the node was cut off all the while.
    GivenAway(PositionRange),
    /// As the target: everything has arrived and that is committed; free the tombstones.
    Complete,
    /// In vain, for this reason. As the source: the range stays, and what was kept for the copy goes. As the
    /// target: forget what was made ready, a copy included; of an import, what has not arrived never will,
    /// and is absent from now on. Serve that range, activated or not; the source can answer for nothing in it
    /// any more.
    GivenUp(String),
}

impl End {
    /// The end of one that came to nothing here. `record`: as the coordinator remembers it.
    pub(super) fn in_vain(record: Option<&MigrationRecord>) -> End {
        let forgotten = || "the coordinator no longer remembers how it ended".to_owned();
        End::GivenUp(record.map_or_else(forgotten, |record| record.state.to_string()))
    }
}

/// The agent's messages and events, lent to whatever part of it has something to say.
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
