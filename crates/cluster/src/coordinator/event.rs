//! What goes into a coordinator and what comes out of it.

use crate::limits::{MAX_EVENTS, MAX_TRANSMIT};
use crate::{
    ClusterId, CoordinatorSays, Incarnation, MetaError, MigrationState, NodeInfo, StartNumber, TabletMap,
    ToCoordinator, ToNode,
};
use sidle_types::{Fill, MapEpoch, MigrationId, NodeId, ProtocolVersion, Speaks};
use std::collections::VecDeque;

/// What a new cluster starts with.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The new cluster's name, drawn at random.
    pub cluster: ClusterId,
    /// The node whose process the coordinator runs in. Of a new cluster it is the first member, which owns
    /// every position; it joins like any other.
    pub first: NodeInfo,
    /// What that node's process drew.
    pub start: StartNumber,
    /// What its program speaks. A new cluster speaks the highest of these.
    pub speaks: Speaks,
}

/// What happens to a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A node said something.
    Message(ToCoordinator),
    /// The conversation has ended over which this node was heard of last: its process may be gone. A driver
    /// that never says so makes a node that was restarted wait until its earlier incarnation counts as
    /// silent.
    Disconnected {
        /// The node.
        node: NodeId,
    },
    /// The time of [`Coordinator::poll_timeout`] has come.
    Timer,
}

/// What an operator may want to read in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// A node is a member, newly or in a new incarnation.
    NodeJoined {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Whether it was a member before, and so has lost its data.
        restarted: bool,
    },
    /// A node was not let in.
    JoinRefused {
        /// The node.
        node: NodeId,
        /// Why not.
        why: String,
    },
    /// A node is no member any more, on request or to make room.
    NodeForgotten {
        /// The node.
        node: NodeId,
    },
    /// A node claims to use a map that there has not been yet; it is not believed. If the coordinator's
    /// record was replaced by an older copy, ownership may be doubled.
    UnknownMap {
        /// The node.
        node: NodeId,
        /// The epoch of that map.
        claimed: MapEpoch,
        /// The epoch of the present map.
        present: MapEpoch,
    },
    /// The record had gone from where the next start looks for it, and was written there anew.
    RecordWrittenAnew,
    /// The record has gone from where the next start looks for it, and cannot be written there.
    RecordGone {
        /// Why not.
        error: MetaError,
    },
    /// The cluster speaks a later version from now on, and that is committed.
    VersionRaised {
        /// The version before.
        before: ProtocolVersion,
        /// The version now.
        version: ProtocolVersion,
    },
    /// A node has not been heard of for [`timing::SUSPECTED_AFTER_US`].
    NodeSuspected {
        /// The node.
        node: NodeId,
    },
    /// A suspected node was heard of again.
    NodeBack {
        /// The node.
        node: NodeId,
    },
    /// A migration has changed its state, and that is committed.
    Migration {
        /// The migration.
        migration: MigrationId,
        /// The new state.
        state: MigrationState,
    },
    /// Metadata could not be written; it will be tried again.
    CommitFailed {
        /// Why.
        error: MetaError,
    },
}

/// The coordinator's messages and events.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) transmit: VecDeque<ToNode>,
    pub(super) events: VecDeque<CoordinatorEvent>,
}

impl Outbox {
    /// Sends something to a member, in the incarnation that the map names.
    pub(super) fn send(&mut self, map: &TabletMap, to: NodeId, body: CoordinatorSays) {
        if let Some(node) = map.node(to) {
            self.send_to_life(to, node.incarnation, body);
        }
    }

    pub(super) fn send_to_life(&mut self, to: NodeId, incarnation: Incarnation, body: CoordinatorSays) {
        self.send_to_start(to, incarnation, None, body);
    }

    /// Sends something to one process, whoever else has the same incarnation; when too much waits, the oldest
    /// is lost.
    pub(super) fn send_to_start(
        &mut self,
        to: NodeId,
        incarnation: Incarnation,
        start: Option<StartNumber>,
        body: CoordinatorSays,
    ) {
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToNode { to, incarnation, start, body });
    }

    pub(super) fn event(&mut self, event: CoordinatorEvent) {
        assert!(self.events.len() < MAX_EVENTS, "the driver does not take the coordinator's events");
        self.events.push_back(event);
    }

    /// How full it is.
    pub(super) fn queues(&self) -> [Fill; 2] {
        [
            Fill::new("messages of the coordinator", self.transmit.len(), MAX_TRANSMIT),
            Fill::new("events of the coordinator", self.events.len(), MAX_EVENTS),
        ]
    }
}
