//! The coordinator's inputs and outputs.

use crate::limits::{MAX_EVENTS, MAX_TRANSMIT};
use crate::{
    ClusterId, CoordinatorSays, Incarnation, MetaError, MigrationState, NodeInfo, StartNumber, TabletMap,
    Term, ToCoordinator, ToNode,
};
use sidle_types::{Fill, MapEpoch, MigrationId, NodeId, PositionRange, ProtocolVersion, Speaks};
use std::collections::VecDeque;

/// A new cluster's first state.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The new cluster's name, drawn at random.
    pub cluster: ClusterId,
    /// The node whose process runs the coordinator. In a new cluster it is the first member, and owns every
    /// position; it joins like any other.
    pub first: NodeInfo,
    /// What that node's process drew.
    pub start: StartNumber,
    /// What its program speaks. A new cluster speaks the highest of these.
    pub speaks: Speaks,
}

/// An input of a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A node's message has arrived.
    Message(ToCoordinator),
    /// The connection that this node's last message came over has ended: its process may be gone. Without
    /// this input a restarted node waits until its earlier incarnation counts as silent.
    Disconnected {
        /// The node.
        node: NodeId,
    },
    /// The time of [`Coordinator::poll_timeout`] has come.
    Timer,
}

/// An event for an operator's log.
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
    /// A node claims to use a map that does not exist yet; the claim is ignored. If the coordinator's record
    /// was replaced by an older copy, ranges may have two owners.
    UnknownMap {
        /// The node.
        node: NodeId,
        /// The epoch of that map.
        claimed: MapEpoch,
        /// The epoch of the present map.
        present: MapEpoch,
    },
    /// The record was missing from where the next start looks for it, and was rewritten there.
    RecordWrittenAnew,
    /// The record is missing from where the next start looks for it, and cannot be rewritten there.
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
    /// A node has sent nothing for [`timing::SUSPECTED_AFTER_US`].
    NodeSuspected {
        /// The node.
        node: NodeId,
    },
    /// A suspected node has sent something again.
    NodeBack {
        /// The node.
        node: NodeId,
    },
    /// What a dead node had has new owners, and that is committed: they read it from copies of its log.
    TakenOver {
        /// The dead node.
        node: NodeId,
        /// In so many ranges.
        ranges: usize,
    },
    /// A node is to be taken over by itself, and that is not possible. Told once for each reason.
    NotTakenOver {
        /// The silent node.
        node: NodeId,
        /// Why not, and what helps.
        why: String,
    },
    /// A new owner cannot read what it is to take over, for now.
    CannotTakeOver {
        /// The new owner.
        node: NodeId,
        /// The range.
        range: PositionRange,
        /// Why not.
        why: String,
        /// Who does it instead, if anybody can.
        instead: Option<NodeId>,
    },
    /// A node has read what it took over, and serves it.
    TookOver {
        /// The new owner.
        node: NodeId,
        /// The range.
        range: PositionRange,
    },
    /// A migration has changed its state, and that is committed.
    Migration {
        /// The migration.
        migration: MigrationId,
        /// The new state.
        state: MigrationState,
    },
    /// A node of a running migration has restarted, and has all that it had: the migration goes on.
    GoesOn {
        /// The migration.
        migration: MigrationId,
    },
    /// The target of a running migration died, and another node has its place: the migration goes on.
    HasAnotherTarget {
        /// The migration.
        migration: MigrationId,
        /// The node.
        target: NodeId,
    },
    /// Another coordinator has taken over. This one does nothing any more.
    Deposed,
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
    /// The coordinator's term, which every message names.
    term: Term,
    /// Whether nothing is sent any more.
    is_closed: bool,
}

impl Outbox {
    pub(super) fn of_term(term: Term) -> Outbox {
        Outbox { term, ..Outbox::default() }
    }

    /// From here on nothing is sent, and nothing that waits is.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.transmit.clear();
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sends something to a member, in the incarnation that the map names.
    pub(super) fn send(&mut self, map: &TabletMap, to: NodeId, body: CoordinatorSays) {
        if let Some(node) = map.node(to) {
            self.send_to_life(to, node.incarnation, body);
        }
    }

    pub(super) fn send_to_life(&mut self, to: NodeId, incarnation: Incarnation, body: CoordinatorSays) {
        self.send_to_start(to, incarnation, None, body);
    }

    /// Sends something to one process, even if others have the same incarnation. If too much waits, the
    /// oldest is dropped.
    pub(super) fn send_to_start(
        &mut self,
        to: NodeId,
        incarnation: Incarnation,
        start: Option<StartNumber>,
        body: CoordinatorSays,
    ) {
        if self.is_closed {
            return;
        }
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToNode { to, incarnation, start, term: self.term, body });
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
