//! What goes into a node agent and what comes out of it, apart from messages.

use crate::{ClusterId, HostPort, MigrationRecord, NodeLoad, NodeSays, Reply, Request, TabletMap, ToNode};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, NodeId, PositionRange};
use std::collections::BTreeSet;
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
    Published {
        /// The map's epoch.
        epoch: MapEpoch,
    },
    /// How full the node is; sent along with the next heartbeat.
    Load(NodeLoad),
    /// What is wrong with the node's data directory, or that nothing is any more; sent along with every
    /// heartbeat.
    Trouble(Option<String>),
    /// A client asks the coordinator for something. Answered by [`AgentEvent::Reply`] with the same ticket.
    Request {
        /// The driver's name for the request.
        ticket: u64,
        /// The request.
        request: Request,
    },
    /// What the driver reports of a migration, in the words that the coordinator gets:
    ///
    /// - `Surveyed` answers [`AgentEvent::Survey`].
    /// - `Prepared` answers [`AgentEvent::Prepare`]: there is room, and the source is connected.
    /// - `PrepareRefused` answers it too: it cannot be, and nothing is kept for it.
    /// - `Progress`, of an import, or of a copy made before it while it is prepared, as often as the driver
    ///   likes.
    /// - `Finished`: an import has everything.
    /// - `Broken`: an import cannot go on, ever, and what has not arrived is given up. A hope to go on is a
    ///   stall in the progress.
    ///
    /// All else is the agent's own to say.
    Report(NodeSays),
}

/// What the driver is to do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The node is a member. Comes again after a repeated join; [`AgentEvent::Publish`] follows if the map is
    /// new. The driver keeps the cluster's id with the node's identity.
    Joined {
        /// The cluster.
        cluster: ClusterId,
    },
    /// The coordinator does not let the node in, or not yet; it will be asked again.
    JoinRefused {
        /// Why not, and what to do.
        why: String,
    },
    /// As the source: count the range and cut it, then answer with [`NodeSays::Surveyed`].
    Survey {
        /// The migration.
        migration: MigrationId,
        /// The range.
        range: PositionRange,
        /// Into how many parts at most.
        partitions: usize,
    },
    /// As the target: make room and connect to the source, then answer with [`NodeSays::Prepared`] or
    /// [`NodeSays::PrepareRefused`]. Where the protocol copies before the freeze, the copy comes before
    /// that answer.
    ///
    /// Answer `Prepared` only when the store holds nothing in the range: whatever an earlier
    /// [`End::GivenAway`] of it still has to discard would be taken for newer than what arrives (M5).
    Prepare {
        /// The migration, with its partitions.
        record: MigrationRecord,
        /// Where the source is reached.
        source_bus_addr: HostPort,
    },
    /// As the source: serve the range on, mark what changes in it, and let the target copy it. Ended by
    /// [`AgentEvent::StartExport`] if the range is given away, else by [`AgentEvent::Over`].
    Track {
        /// The migration, with its partitions.
        record: MigrationRecord,
    },
    /// A migration that this node takes part in is to press so hard from now on.
    Policy {
        /// The migration.
        migration: MigrationId,
        /// From now on.
        policy: MigrationPolicy,
    },
    /// As the source: the next map gives the range away; be ready to freeze and serve it to the target.
    StartExport {
        /// The migration, which runs.
        record: MigrationRecord,
    },
    /// As the target: the next map gives the range to this node; be ready to take it.
    StartImport {
        /// The migration, which runs.
        record: MigrationRecord,
    },
    /// Publish this map to the workers, and answer with [`AgentInput::Published`] when all of them use it.
    ///
    /// The tablets alone do not say what this node serves: a range of its own with a running migration that
    /// was not announced by [`AgentEvent::StartImport`] was on its way to an earlier incarnation of the node.
    /// Its source may not know yet that it is to freeze the range, so nothing of it may be served until the
    /// migration is over (M1).
    Publish {
        /// The map.
        map: Arc<TabletMap>,
    },
    /// The migration is over, and every worker uses a map without it. Also comes when it never ran, and of
    /// what the driver has refused.
    Over {
        /// The migration.
        migration: MigrationId,
        /// What this node has of it now.
        end: End,
    },
    /// These members are suspected from now on, and no others: the coordinator has not heard of them for too
    /// long, or this node not of the one that runs the coordinator.
    Suspected {
        /// All of them.
        nodes: BTreeSet<NodeId>,
    },
    /// Another process has joined with this node's identity, later: serve nothing any more and exit.
    Superseded,
    /// Answers a request.
    Reply {
        /// The driver's name for the request.
        ticket: u64,
        /// The answer.
        reply: Reply,
    },
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
