//! Members: what they report, suspicion, and bringing every member to the present map. Who becomes one and
//! who is forgotten is in `joins`.

use super::{Coordinator, CoordinatorEvent};
use crate::bounds::Bounded;
use crate::timing::{RETRY_US, SUSPECTED_AFTER_US};
use crate::{
    CoordinatorSays, Health, Heartbeat, Incarnation, MetaStore, Metadata, MigrationRecord, NodeInfo,
    NodeLoad, NodeSays, NodeState, Reply, ToCoordinator,
};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, NodeId, fault};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the coordinator has heard of a member since it opened.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// When it was heard of last.
    pub(super) heard_at: Option<MonotonicUs>,
    /// Whether its silence has been noticed.
    pub(super) suspected: bool,
    /// Whether the conversation has ended over which it was heard of last.
    pub(super) disconnected: bool,
    /// The later incarnation that has asked to join while this one was heard of.
    pub(super) successor: Option<Incarnation>,
    /// The epoch of the map that it has published.
    pub(super) map_epoch: MapEpoch,
    /// How full it is.
    pub(super) load: NodeLoad,
    /// What is wrong with its data directory.
    pub(super) trouble: Option<String>,
    /// Which epoch it claimed to use that no map has had yet; told once.
    claimed_epoch: Option<MapEpoch>,
    pub(super) map_sent: Option<(MapEpoch, MonotonicUs)>,
    /// Requests below this number are answered, whatever still comes of them.
    pub(super) oldest_open: u64,
    /// Refusals by request number, so that a late duplicate does not start what was refused.
    pub(super) refusals: BTreeMap<u64, Reply>,
}

impl<M: MetaStore> Coordinator<M> {
    pub(super) fn message(&mut self, now: MonotonicUs, message: ToCoordinator) {
        // What the coordinator's own node says comes without having been read from a text.
        if message.check_bounds().is_err() {
            return;
        }
        let ToCoordinator { from, incarnation, body } = message;
        let body = match body {
            NodeSays::Join { client_addr, bus_addr, cluster, start } => {
                let info = NodeInfo { id: from, incarnation, client_addr, bus_addr };
                return self.join(now, info, start, cluster);
            }
            body => body,
        };
        match self.data.map.node(from) {
            Some(member) if member.incarnation == incarnation => {}
            Some(member) if member.incarnation > incarnation => {
                return self.send_to_life(from, incarnation, CoordinatorSays::Superseded);
            }
            _ => return self.send_to_life(from, incarnation, CoordinatorSays::JoinAgain),
        }
        self.heard(now, from);
        match body {
            NodeSays::Join { .. } => unreachable!("handled above"),
            NodeSays::Heartbeat(heartbeat) => self.heartbeat(from, heartbeat),
            NodeSays::Request { number, oldest_open, request } => {
                self.request(now, from, incarnation, number, oldest_open, request);
            }
            body => self.migration_message(now, from, body),
        }
    }

    pub(super) fn heard(&mut self, now: MonotonicUs, node: NodeId) {
        let Some(member) = self.members.get_mut(&node) else { return };
        member.heard_at = Some(now);
        member.disconnected = false;
        if std::mem::take(&mut member.suspected) {
            self.event(CoordinatorEvent::NodeBack { node });
        }
    }

    fn heartbeat(&mut self, node: NodeId, heartbeat: Heartbeat) {
        let (claimed, present) = (heartbeat.map_epoch, self.data.map.epoch());
        let Some(member) = self.members.get_mut(&node) else { return };
        member.load = heartbeat.load;
        member.trouble = heartbeat.trouble;
        if claimed <= present {
            member.map_epoch = member.map_epoch.max(claimed);
        } else if member.claimed_epoch.replace(claimed).is_none() {
            // Believed, it would be sent no map any more, and would count as one that has frozen what it gave
            // away.
            self.event(CoordinatorEvent::UnknownMap { node, claimed, present });
        }
        for migration in heartbeat.holds {
            if !self.data.unfinished().any(|record| record.id == migration) && !fault!(EndToldOnce) {
                self.send_over(node, migration);
            }
        }
        let health = Some(self.health()).filter(|health| health.fingerprint() != heartbeat.health);
        self.send(node, CoordinatorSays::Heard { map_epoch: self.data.map.epoch(), health });
    }

    /// What the nodes are told of each other's health.
    fn health(&self) -> Health {
        let suspected = self.members.iter().filter(|(_, member)| member.suspected).map(|(&node, _)| node);
        Health { coordinator: self.seat, suspected: suspected.collect() }
    }

    /// Tells a node how a migration ended; `None` stands for one that is no longer remembered.
    pub(super) fn send_over(&mut self, node: NodeId, migration: MigrationId) {
        let record = self.data.migration(migration).cloned().map(Box::new);
        let map_epoch = self.data.map.epoch();
        self.send(node, CoordinatorSays::Over { migration, record, map_epoch });
    }

    /// Whether the member has been silent for too long, counted from the coordinator's own start at the
    /// earliest.
    pub(super) fn is_down(&self, now: MonotonicUs, node: NodeId) -> bool {
        self.members.get(&node).is_none_or(|member| now >= self.suspected_at(member))
    }

    /// The members on other nodes that are not heard of at present, or not yet. They may be looking for the
    /// coordinator where it was before, and can be told where it is. Not among them are those at whose
    /// address another member is heard of.
    pub fn silent_members(&self, now: MonotonicUs) -> impl Iterator<Item = &NodeInfo> {
        let nodes = self.data.map.nodes();
        let is_up = move |node: &NodeInfo| self.state_of(now, node.id) == NodeState::Up;
        let is_silent = move |node: &&NodeInfo| {
            !is_up(node) && !nodes.iter().any(|other| other.bus_addr == node.bus_addr && is_up(other))
        };
        nodes.iter().filter(|node| node.id != self.seat).filter(is_silent)
    }

    /// What a status report says of the member.
    pub(super) fn state_of(&self, now: MonotonicUs, node: NodeId) -> NodeState {
        let heard = self.members.get(&node).is_some_and(|member| member.heard_at.is_some());
        match self.is_down(now, node) {
            true => NodeState::Failed,
            false if heard => NodeState::Up,
            false => NodeState::Suspected,
        }
    }

    fn suspected_at(&self, member: &Member) -> MonotonicUs {
        let silent = member.heard_at.unwrap_or(self.opened_at).plus_us(SUSPECTED_AFTER_US);
        silent.max(self.listens_from)
    }

    /// Notices who has fallen silent.
    pub(super) fn suspect(&mut self, now: MonotonicUs) {
        let silent = |(id, member): (&NodeId, &Member)| {
            (!member.suspected && now >= self.suspected_at(member)).then_some(*id)
        };
        let silent: Vec<NodeId> = self.members.iter().filter_map(silent).collect();
        for node in silent {
            if let Some(member) = self.members.get_mut(&node) {
                member.suspected = true;
            }
            self.event(CoordinatorEvent::NodeSuspected { node });
        }
    }

    /// Repeats whatever has not been answered or acknowledged in time.
    pub(super) fn resend(&mut self, now: MonotonicUs) {
        let map = Arc::clone(&self.data.map);
        let behind: Vec<NodeId> = (self.members.iter())
            .filter(|&(&id, member)| self.map_due_at(id, member).is_some_and(|due| now >= due))
            .map(|(&id, _)| id)
            .collect();
        for node in behind {
            self.note_map_sent(now, node);
            self.send(node, CoordinatorSays::MapUpdate { map: Arc::clone(&map) });
        }
        self.ask(now);
    }

    /// The node is about to be sent the present map.
    pub(super) fn note_map_sent(&mut self, now: MonotonicUs, node: NodeId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.map_sent = Some((self.data.map.epoch(), now));
        }
        for record in self.data.map.migrations().iter().filter(|record| record.source == node) {
            self.attempts.entry(record.id).and_modify(|attempt| attempt.is_withheld = false);
        }
    }

    /// When the member is to be sent the present map: never while it has it or nobody hears of it, and not
    /// while a target has to see it first.
    fn map_due_at(&self, node: NodeId, member: &Member) -> Option<MonotonicUs> {
        let epoch = self.data.map.epoch();
        if member.map_epoch >= epoch || member.heard_at.is_none() || member.suspected {
            return None;
        }
        // Two targets must not wait for each other.
        let mut awaited =
            self.data.map.migrations().iter().filter(|record| self.awaits_target(record)).peekable();
        if awaited.peek().is_some() && awaited.all(|record| record.target != node) {
            return None;
        }
        match member.map_sent {
            Some((sent, at)) if sent == epoch => Some(at.plus_us(RETRY_US)),
            _ => Some(MonotonicUs(0)),
        }
    }

    /// Whether a running migration's target has yet to learn that the range is its own. The others are told
    /// after it: the source serves on until it knows, and whom it then sends to the target is expected there.
    /// The other way round each of the two would send clients to the other. A target that is down or was
    /// restarted keeps nobody waiting: if nobody knows of the migration yet, it is not to run, and as long as
    /// that may be written down already nobody gets to know (invariant 7).
    fn awaits_target(&self, record: &MigrationRecord) -> bool {
        let lives = incarnation_of(&self.data, record.target) == record.target_incarnation;
        let Some(target) = self.members.get(&record.target) else { return false };
        let has_map = lives && target.map_epoch >= record.map_epoch;
        if self.attempts.get(&record.id).is_some_and(|attempt| attempt.is_withheld) {
            return !has_map || self.commit_retry_at.is_some();
        }
        lives && !target.suspected && !has_map
    }

    /// Whether the range of a migration that runs goes back to its source if the target dies now (invariant 7).
    pub fn would_give_back(&self, id: MigrationId) -> bool {
        self.attempts.get(&id).is_some_and(|attempt| attempt.is_withheld)
    }

    /// Whether the node is not to know yet that a range was given away that it is the source of.
    pub(super) fn is_kept_from(&self, node: NodeId) -> bool {
        let gives = |record: &&MigrationRecord| record.source == node;
        self.data.map.migrations().iter().filter(gives).any(|record| self.awaits_target(record))
    }

    pub(super) fn member_timeout(&self, node: NodeId, member: &Member) -> Option<MonotonicUs> {
        let suspicion = (!member.suspected).then(|| self.suspected_at(member));
        suspicion.into_iter().chain(self.map_due_at(node, member)).min()
    }
}

/// The incarnation of a member, which is at least its founding incarnation.
pub(super) fn incarnation_of(data: &Metadata, node: NodeId) -> Incarnation {
    data.map.node(node).map_or(Incarnation::default(), |node| node.incarnation)
}

/// A node as `sidle status` shows it: its client address and the start of its id.
pub(super) fn shown(data: &Metadata, node: NodeId) -> String {
    const SHOWN_DIGITS: usize = 8;
    let id = node.to_string();
    data.map
        .node(node)
        .map_or(id.clone(), |member| format!("{} ({})", member.client_addr, &id[..SHOWN_DIGITS]))
}
