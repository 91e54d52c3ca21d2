//! The coordinator's seat on the node that founded the cluster: the coordinator and its open
//! conversations. It has a thread of its own ([`super::coordinator_thread`]), since it commits to a disk.

use super::calls::Calls;
use super::outbox::Outbox;
use crate::config::NodeConfig;
use crate::data_dir::{DataDir, Identity, random_bytes};
use crate::door::Door;
use crate::start::StartError;
use sidle_cluster::{
    ClusterId, ControlMessage, Coordinator, CoordinatorEvent, CoordinatorInput, Founding, Incarnation,
    MetaStore, MigrationState, NodeInfo, NodeSays, StartNumber, ToCoordinator, ToNode,
};
use sidle_meta_file::FileMetaStore;
use sidle_types::words::counted;
use sidle_types::{MonotonicUs, NodeId, Speaks};
use std::collections::BTreeMap;

/// The coordinator and its open conversations.
pub(super) struct CoordinatorSeat<M = FileMetaStore> {
    coordinator: Coordinator<M>,
    own: NodeId,
    /// The conversation on which the present incarnation of each other member last sent.
    outboxes: BTreeMap<NodeId, Outbox>,
    /// The last sender that is no member, and its conversation: answered, and forgotten when another one
    /// sends.
    guest: Option<(Guest, Outbox)>,
    calls: Calls,
}

/// The recipient of a message to no member: the node, its incarnation, and its process, if it asked to
/// join.
type Guest = (NodeId, Incarnation, Option<StartNumber>);

/// Messages to other nodes fit in any frame.
const _: () = assert!(sidle_cluster::limits::MAX_MESSAGE_BYTES <= sidle_wire::limits::REQUEST_BODY_BYTES_MAX);

impl CoordinatorSeat {
    /// Founds a cluster, or continues the one in the data directory.
    pub(super) fn in_data_dir(
        now: MonotonicUs,
        data_dir: &DataDir,
        info: &NodeInfo,
        start: StartNumber,
        door: Door,
    ) -> Result<CoordinatorSeat, StartError> {
        let path = data_dir.metadata_path();
        let resumes = path.exists();
        let seat = CoordinatorSeat::open(now, FileMetaStore::open(&path)?, info, start, door)?;
        let coordinator = &seat.coordinator;
        if resumes {
            let nodes = coordinator.map().nodes().len();
            let nodes = counted(nodes, "node");
            tracing::info!("coordinator again of cluster {}, {nodes}", coordinator.cluster());
        } else {
            tracing::info!("coordinator of the new cluster {}", coordinator.cluster());
        }
        Ok(seat)
    }
}

impl<M: MetaStore> CoordinatorSeat<M> {
    /// Founds a cluster, or continues the one in the store.
    pub(super) fn open(
        now: MonotonicUs,
        meta: M,
        info: &NodeInfo,
        start: StartNumber,
        door: Door,
    ) -> Result<CoordinatorSeat<M>, StartError> {
        let cluster = ClusterId::from_bits(u128::from_ne_bytes(random_bytes()?));
        let founding = Founding { cluster, first: info.clone(), start, speaks: Speaks::THIS_BUILD };
        let coordinator = Coordinator::open(now, meta, founding, sidle_node::read_protocol)?;
        let calls = Calls::from(info.bus_addr.clone(), door);
        Ok(CoordinatorSeat { coordinator, own: info.id, outboxes: BTreeMap::new(), guest: None, calls })
    }

    /// Handles a node's message. `outbox`: where to answer it; `None` for this node itself.
    pub(super) fn handle(&mut self, now: MonotonicUs, message: ToCoordinator, outbox: Option<Outbox>) {
        let (from, incarnation) = (message.from, message.incarnation);
        // A process that died has closed its conversation; its next incarnation need not wait.
        let (joins, start) = match &message.body {
            NodeSays::Join { start, .. } => (true, *start),
            _ => (false, None),
        };
        if joins && self.outboxes.get(&from).is_some_and(Outbox::is_closed) {
            self.coordinator.handle(now, CoordinatorInput::Disconnected { node: from });
        }
        self.coordinator.handle(now, CoordinatorInput::Message(message));
        let Some(outbox) = outbox else { return };
        let map = self.coordinator.map();
        let joined = self.coordinator.data().start_of(from, incarnation);
        let is_other_process = joins && joined.is_some() && joined != start;
        let is_member = map.node(from).is_some_and(|member| member.incarnation == incarnation);
        // Another process of a member must not receive its answers, and strangers must not be remembered.
        if from != self.own && is_member && !is_other_process {
            // A former guest may have come back over another connection.
            self.guest.take_if(|((guest, life, other), _)| {
                (*guest, *life) == (from, incarnation) && (other.is_none() || *other == joined)
            });
            if self.outboxes.insert(from, outbox).is_none() {
                self.outboxes.retain(|&node, _| map.node(node).is_some());
            }
        } else {
            self.guest = Some(((from, incarnation, start), outbox));
        }
    }

    /// Sends the coordinator's address to silent members.
    pub(super) fn call_members(&mut self, now: MonotonicUs) {
        self.calls.call(now, self.coordinator.silent_members(now));
    }

    /// The cluster.
    pub(super) const fn cluster(&self) -> ClusterId {
        self.coordinator.cluster()
    }

    /// Whether another coordinator has taken over.
    pub(super) const fn is_deposed(&self) -> bool {
        self.coordinator.is_deposed()
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: MonotonicUs) {
        if self.timeout().is_some_and(|timeout| timeout <= now) {
            self.coordinator.handle(now, CoordinatorInput::Timer);
        }
    }

    /// When to call `tick` next.
    pub(super) fn timeout(&self) -> Option<MonotonicUs> {
        self.coordinator.poll_timeout()
    }

    /// Sends the messages to other nodes, logs what matters, and returns the next message to this
    /// node.
    pub(super) fn poll_local(&mut self) -> Option<ToNode> {
        while let Some(event) = self.coordinator.poll_event() {
            log(&event);
        }
        while let Some(message) = self.coordinator.poll_transmit() {
            if let Some((guest, outbox)) = &self.guest
                && *guest == (message.to, message.incarnation, message.start)
            {
                outbox.send(&ControlMessage::from(message));
                continue;
            }
            if message.to == self.own {
                return Some(message);
            }
            // The recipient's process is gone, and the member is another one.
            if message.start.is_some() {
                continue;
            }
            // Without a conversation the message is lost, and sent again.
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
            tracing::info!("node {node} joined the cluster, incarnation {incarnation}");
        }
        CoordinatorEvent::NodeJoined { node, incarnation, restarted: true } => {
            tracing::info!("node {node} is back, incarnation {incarnation}");
        }
        CoordinatorEvent::JoinRefused { node, why } => tracing::warn!("node {node} was not let in: {why}"),
        CoordinatorEvent::NodeForgotten { node } => tracing::info!("node {node} is no member any more"),
        CoordinatorEvent::VersionRaised { before, version } => {
            tracing::info!("the cluster speaks {version} from now on, where it spoke {before}");
        }
        CoordinatorEvent::UnknownMap { node, claimed, present } => tracing::error!(
            "node {node} claims to use a map of epoch {}, and the last one is of epoch {}: if the cluster's \
             record was replaced by an older copy, stop all nodes",
            claimed.0,
            present.0
        ),
        CoordinatorEvent::RecordWrittenAnew => {
            tracing::warn!("the cluster's record had gone from the data directory, and was written anew");
        }
        CoordinatorEvent::RecordGone { error } => tracing::error!("{error}"),
        CoordinatorEvent::NodeSuspected { node } => tracing::warn!("node {node} has gone silent"),
        CoordinatorEvent::GoesOn { migration } => {
            tracing::info!("migration {migration} goes on: a node that restarted has all that it had");
        }
        CoordinatorEvent::HasAnotherTarget { migration, target } => {
            tracing::warn!("migration {migration} goes on with node {target}: its target died");
        }
        CoordinatorEvent::TakenOver { node, ranges } => {
            let ranges = counted(*ranges, "range");
            tracing::warn!("what node {node} had is taken over from copies of its log, in {ranges}");
        }
        CoordinatorEvent::NotTakenOver { node, why } => {
            tracing::warn!("node {node} is silent and cannot be taken over by itself yet: {why}");
        }
        CoordinatorEvent::CannotTakeOver { node, range, why, instead: None } => {
            tracing::warn!("node {node} cannot take {range} over, and tries again: {why}");
        }
        CoordinatorEvent::CannotTakeOver { node, range, why, instead: Some(instead) } => {
            tracing::warn!("node {node} cannot take {range} over, node {instead} does it instead: {why}");
        }
        CoordinatorEvent::TookOver { node, range } => tracing::info!("node {node} has taken {range} over"),
        CoordinatorEvent::NodeBack { node } => tracing::info!("node {node} is heard of again"),
        CoordinatorEvent::Migration { migration, state: MigrationState::Failed { why } } => {
            tracing::warn!("migration {migration} failed: {why}");
        }
        CoordinatorEvent::Migration { migration, state } => tracing::info!("migration {migration}: {state}"),
        CoordinatorEvent::Deposed => {
            tracing::warn!("another node coordinates the cluster by now: this one has stopped to do so");
        }
        CoordinatorEvent::CommitFailed { error } => {
            tracing::error!("the cluster's metadata could not be written, trying again: {error}");
        }
    }
}

/// Whether the coordinator's seat is on this node, always: it founded the cluster, or will found one, and the
/// metadata is in a file.
pub(crate) fn belongs_here(identity: &Identity, data_dir: &DataDir, node: &NodeConfig) -> bool {
    let NodeConfig { join, metadata, .. } = node;
    let is_in_file = metadata.is_empty();
    is_in_file && data_dir.metadata_path().exists()
        || (is_in_file && join.is_empty() && identity.found_at.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::outbox::{Outboxes, Queue};
    use crate::door::Bounds;
    use sidle_cluster::{CoordinatorSays, MemoryMetaStore};
    use sidle_testbed::fixtures::node_info;
    use sidle_wire::{FrameReader, Message};

    fn info(node: u8, incarnation: u64) -> NodeInfo {
        NodeInfo { incarnation: Incarnation(incarnation), ..node_info(node) }
    }

    fn joins(info: &NodeInfo) -> ToCoordinator {
        let NodeInfo { id, incarnation, client_addr, bus_addr } = info.clone();
        let body = NodeSays::Join {
            client_addr,
            bus_addr,
            cluster: None,
            start: Some(StartNumber(1)),
            speaks: Speaks::THIS_BUILD,
            log_since: None,
        };
        ToCoordinator { from: id, incarnation, body }
    }

    /// The messages sent over a conversation so far.
    fn said(queue: &mut Queue) -> Vec<CoordinatorSays> {
        let mut all = Vec::new();
        while let Some(frame) = queue.try_next() {
            let mut reader = FrameReader::default();
            reader.receive_buffer().extend_from_slice(frame.as_ref());
            let frame = reader.next_frame().unwrap().unwrap();
            let Message::Control(json) = frame.message().unwrap() else { panic!("a control message") };
            let ControlMessage::ToNode(message) = ControlMessage::from_json(json).unwrap() else {
                panic!("to a node")
            };
            all.push(message.body);
        }
        all
    }

    /// A seat on node 1, and conversations with it.
    struct Seated {
        seat: CoordinatorSeat<MemoryMetaStore>,
        outboxes: Outboxes,
    }

    impl Seated {
        fn new() -> Seated {
            let door = Door::new(&info(1, 1).bus_addr, None, "nowhere".into(), Bounds::MOST);
            let store = MemoryMetaStore::new();
            let seat = CoordinatorSeat::open(MonotonicUs(0), store, &info(1, 1), StartNumber(1), door);
            Seated { seat: seat.unwrap(), outboxes: Outboxes::default() }
        }

        /// A message over a new conversation, on which the answers come.
        fn hears(&mut self, at: u64, message: ToCoordinator) -> Queue {
            let (outbox, queue) = self.outboxes.open(sidle_wire::limits::FROM_NODE_BODY_BYTES_MAX);
            self.seat.handle(MonotonicUs(at), message, Some(outbox));
            assert!(self.seat.poll_local().is_none());
            queue
        }
    }

    /// The seat once answered a guest that came back over another connection on the old
    /// one, until another guest was sent away.
    #[test]
    fn a_member_that_was_a_guest_is_answered_where_it_speaks_now() {
        let mut seated = Seated::new();
        let mut earlier = seated.hears(1, joins(&info(2, 1)));
        assert!(matches!(said(&mut earlier)[..], [CoordinatorSays::Welcome { .. }]));
        let mut guest = seated.hears(2, joins(&info(2, 2)));
        assert!(matches!(said(&mut guest)[..], [CoordinatorSays::JoinLater { .. }]), "not before the end");
        drop((earlier, guest));
        let mut later = seated.hears(3, joins(&info(2, 2)));
        assert!(matches!(said(&mut later)[..], [CoordinatorSays::Welcome { .. }]), "where it speaks now");
    }

    /// An older copy of a data directory was put back and its process joins as the incarnation that serves.
    #[test]
    fn a_second_process_in_a_members_incarnation_is_refused_and_takes_none_of_its_answers() {
        let mut seated = Seated::new();
        let mut member = seated.hears(1, joins(&info(2, 1)));
        assert!(matches!(said(&mut member)[..], [CoordinatorSays::Welcome { .. }]));
        let mut message = joins(&info(2, 1));
        let NodeSays::Join { start, .. } = &mut message.body else { panic!("it joins") };
        *start = Some(StartNumber(2));
        let mut other = seated.hears(2, message);
        // The changed map may be sent to the member before the refusal is.
        let mut third = seated.hears(3, joins(&info(3, 1)));
        assert!(matches!(said(&mut other)[..], [CoordinatorSays::JoinRefused { .. }]));
        assert!(matches!(said(&mut third)[..], [CoordinatorSays::Welcome { .. }]));
        assert!(matches!(said(&mut member)[..], [CoordinatorSays::MapUpdate { .. }]));
    }
}
