//! The coordinator's seat on the node that founded the cluster.

use super::outbox::Outbox;
use crate::data_dir::{DataDir, Identity, random_bytes};
use crate::start::StartError;
use sidle_cluster::{
    ClusterId, ControlMessage, Coordinator, CoordinatorEvent, CoordinatorInput, Founding, MigrationState,
    NodeInfo, ToCoordinator, ToNode,
};
use sidle_meta_redb::RedbMetaStore;
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeMap;

/// The coordinator with the conversations that it answers on.
pub(super) struct CoordinatorSeat {
    coordinator: Coordinator<RedbMetaStore>,
    own: NodeId,
    /// Where each other node was last heard.
    outboxes: BTreeMap<NodeId, Outbox>,
}

impl CoordinatorSeat {
    /// Founds a cluster, or goes on with the one in the data directory.
    pub(super) fn open(
        now: MonotonicUs,
        data_dir: &DataDir,
        info: &NodeInfo,
    ) -> Result<CoordinatorSeat, StartError> {
        let path = data_dir.metadata_path();
        let resumes = path.exists();
        let meta = RedbMetaStore::open(&path)?;
        let cluster = ClusterId::from_bits(u128::from_ne_bytes(random_bytes()?));
        let founding = Founding { cluster, first: info.clone() };
        let coordinator = Coordinator::open(now, meta, founding, sidle_node::read_protocol)?;
        if resumes {
            let nodes = coordinator.map().nodes().len();
            tracing::info!("coordinator again of cluster {}, {nodes} nodes", coordinator.cluster());
        } else {
            tracing::info!("coordinator of the new cluster {}", coordinator.cluster());
        }
        Ok(CoordinatorSeat { coordinator, own: info.id, outboxes: BTreeMap::new() })
    }

    /// Takes in what a node said. `outbox`: where to answer it; `None` for this node itself.
    pub(super) fn handle(&mut self, now: MonotonicUs, message: ToCoordinator, outbox: Option<Outbox>) {
        if let Some(outbox) = outbox {
            if !self.outboxes.contains_key(&message.from) {
                // So that there are never more than conversations.
                self.outboxes.retain(|_, outbox| !outbox.is_closed());
            }
            self.outboxes.insert(message.from, outbox);
        }
        self.coordinator.handle(now, CoordinatorInput::Message(message));
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: MonotonicUs) {
        if self.timeout().is_some_and(|timeout| timeout <= now) {
            self.coordinator.handle(now, CoordinatorInput::Timer);
        }
    }

    /// When to be ticked.
    pub(super) fn timeout(&self) -> Option<MonotonicUs> {
        self.coordinator.poll_timeout()
    }

    /// Sends what is to be sent to other nodes, logs what is worth it, and returns the next message to this node.
    pub(super) fn poll_local(&mut self) -> Option<ToNode> {
        while let Some(event) = self.coordinator.poll_event() {
            log(&event);
        }
        while let Some(message) = self.coordinator.poll_transmit() {
            if message.to == self.own {
                return Some(message);
            }
            // Without a conversation the message is lost, and said again.
            if let Some(outbox) = self.outboxes.get(&message.to) {
                outbox.send(&ControlMessage::from(message));
            }
        }
        None
    }
}

fn log(event: &CoordinatorEvent) {
    match event {
        CoordinatorEvent::NodeJoined { node, incarnation, restarted: false } => {
            tracing::info!("node {node} joined the cluster, life {incarnation}");
        }
        CoordinatorEvent::NodeJoined { node, incarnation, restarted: true } => {
            tracing::info!("node {node} is back with nothing in memory, life {incarnation}");
        }
        CoordinatorEvent::JoinRefused { node, why } => tracing::warn!("node {node} was not let in: {why}"),
        CoordinatorEvent::NodeSuspected { node } => tracing::warn!("node {node} has gone silent"),
        CoordinatorEvent::NodeBack { node } => tracing::info!("node {node} is heard of again"),
        CoordinatorEvent::Migration { migration, state: MigrationState::Failed { why } } => {
            tracing::warn!("migration {migration} failed: {why}");
        }
        CoordinatorEvent::Migration { migration, state } => tracing::info!("migration {migration}: {state}"),
        CoordinatorEvent::CommitFailed { error } => {
            tracing::error!("the cluster's metadata could not be written, trying again: {error}");
        }
    }
}

/// Whether the coordinator's seat is on this node: it founded the cluster, or is about to found one.
pub(crate) fn belongs_here(identity: &Identity, data_dir: &DataDir, join: &str) -> bool {
    data_dir.metadata_path().exists() || (join.is_empty() && identity.found_at.is_empty())
}
