//! The coordinator, on the machine that founded the cluster.

use crate::clients::Phase;
use crate::disk::Disk;
use crate::ledger::Ledger;
use crate::network::StreamId;
use crate::world::World;
use sidle_cluster::{
    ClusterId, Coordinator, CoordinatorEvent, CoordinatorInput, Founding, MetaError, NodeInfo, NodeSays,
    Request, StartNumber, ToCoordinator, ToNode,
};
use sidle_types::{MonotonicUs, NodeId, Speaks};
use std::collections::BTreeMap;

/// The real coordinator with its connections to the nodes.
pub struct Seat {
    /// The coordinator.
    pub coordinator: Coordinator<Ledger>,
    own: NodeId,
    /// Each other node's last connection.
    pub(super) conversations: BTreeMap<NodeId, StreamId>,
}

impl Seat {
    /// Founds a cluster, or continues the one on the disk.
    pub(super) fn open(
        now: MonotonicUs,
        info: &NodeInfo,
        start: StartNumber,
        speaks: Speaks,
        disk: &Disk,
    ) -> Result<Seat, MetaError> {
        let founding = Founding { cluster: ClusterId::from_bits(1), first: info.clone(), start, speaks };
        let coordinator = Coordinator::open(now, Ledger::open(disk)?, founding, sidle_node::read_protocol)?;
        Ok(Seat { coordinator, own: info.id, conversations: BTreeMap::new() })
    }

    /// Takes in a node's message.
    pub(super) fn handle(
        &mut self,
        now: MonotonicUs,
        message: ToCoordinator,
        from: Option<StreamId>,
        world: &mut World,
    ) {
        if let Some(conversation) = from {
            self.conversations.insert(message.from, conversation);
        }
        let cancelled = match &message.body {
            NodeSays::Request { request: Request::Cancel { migration }, .. } => Some(*migration),
            _ => None,
        };
        let is_given =
            cancelled.and_then(|id| self.coordinator.map().migration(id)).is_some_and(|at| at.kept_by_source);
        let phase = |seat: &Seat| seat.coordinator.data().migration(cancelled?).and_then(Phase::of);
        let before = phase(self);
        self.coordinator.handle(now, CoordinatorInput::Message(message));
        // It is over, or runs as before. Or the coordinator could not write, or had received it before.
        if is_given {
            world.meet("cancelled while it is given bit by bit", 1);
        } else if let Some(before) =
            before.filter(|before| (phase(self) == Some(*before)) == (*before == Phase::Running))
        {
            world.meet(before.met(), 1);
            world.meet("cancels in a known phase", 1);
        }
    }

    /// A connection has ended.
    pub(super) fn disconnected(&mut self, now: MonotonicUs, conversation: StreamId) {
        let found = self.conversations.iter().find(|(_, known)| **known == conversation);
        if let Some(node) = found.map(|(node, _)| *node) {
            self.coordinator.handle(now, CoordinatorInput::Disconnected { node });
        }
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: MonotonicUs) {
        if self.coordinator.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.coordinator.handle(now, CoordinatorInput::Timer);
        }
    }

    /// Its next message and the connection for it; `None` for its own node.
    pub(super) fn poll(&mut self, world: &mut World) -> Option<(ToNode, Option<StreamId>)> {
        while let Some(event) = self.coordinator.poll_event() {
            if matches!(event, CoordinatorEvent::GoesOn { .. }) {
                world.meet("migrations that went on after a restart", 1);
            }
            if matches!(event, CoordinatorEvent::VersionRaised { .. }) {
                world.meet("versions raised", 1);
                let runs = self.coordinator.map().migrations().iter();
                world.meet("versions raised in a migration", runs.count() as u64);
            }
            world.tell(|| format!("coordinator: {event:?}"));
        }
        loop {
            let message = self.coordinator.poll_transmit()?;
            if message.to == self.own {
                return Some((message, None));
            }
            // Without a connection the message is lost, and repeated.
            if let Some(&conversation) = self.conversations.get(&message.to) {
                return Some((message, Some(conversation)));
            }
        }
    }
}
