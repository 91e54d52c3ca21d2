//! The members: what the coordinator has received from them since it opened, and who is suspected.

use crate::timing::SUSPECTED_AFTER_US;
use crate::{Health, Incarnation, Metadata, NodeInfo, NodeLoad, NodeState, Reply, StartNumber, TabletMap};
use sidle_types::{MapEpoch, MonotonicUs, NodeId, Speaks};
use std::collections::BTreeMap;

/// What the coordinator has received from a member since it opened.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// When its last message arrived.
    pub(super) heard_at: Option<MonotonicUs>,
    /// Whether its silence has been noticed.
    pub(super) suspected: bool,
    /// Whether the connection of its last message has ended.
    pub(super) disconnected: bool,
    /// The later incarnation that has asked to join while this one still sent.
    pub(super) successor: Option<Incarnation>,
    /// The epoch of the map that it has published.
    pub(super) map_epoch: MapEpoch,
    /// How full it is.
    pub(super) load: NodeLoad,
    /// What is wrong with its data directory.
    pub(super) trouble: Option<String>,
    /// What its program speaks, if the record or a join has named it.
    pub(super) speaks: Option<Speaks>,
    /// The epoch that it claimed to use and no map has had yet; reported once.
    pub(super) claimed_epoch: Option<MapEpoch>,
    pub(super) map_sent: Option<(MapEpoch, MonotonicUs)>,
    /// Requests below this number are answered; repeats of them are ignored.
    pub(super) oldest_open: u64,
    /// Refusals by request number, so that a delayed duplicate does not start what was refused.
    pub(super) refusals: BTreeMap<u64, Reply>,
}

/// What a process reports of itself when it joins, apart from its addresses.
#[derive(Clone, Copy)]
pub(super) struct Process {
    /// The number that it drew.
    pub(super) start: Option<StartNumber>,
    /// What its program speaks.
    pub(super) speaks: Speaks,
    /// Since which incarnation its durable log has everything.
    pub(super) log_since: Option<Incarnation>,
}

/// All members.
#[derive(Debug)]
pub(super) struct Members {
    /// The node whose process the coordinator runs in.
    pub(super) seat: NodeId,
    /// What the coordinator's own program speaks.
    pub(super) seat_speaks: Speaks,
    pub(super) opened_at: MonotonicUs,
    /// No silence counts before this: the coordinator itself stood still, and could not receive.
    pub(super) listens_from: MonotonicUs,
    pub(super) by_id: BTreeMap<NodeId, Member>,
}

impl Members {
    /// The recorded members, none of which has sent anything yet.
    pub(super) fn new(now: MonotonicUs, seat: NodeId, seat_speaks: Speaks, data: &Metadata) -> Members {
        let recorded = |node: &NodeInfo| {
            let speaks = data.known_start(node.id, node.incarnation).and_then(|known| known.speaks);
            (node.id, Member { speaks, ..Member::default() })
        };
        let by_id = data.map.nodes().iter().map(recorded).collect();
        Members { seat, seat_speaks, opened_at: now, listens_from: now, by_id }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Member> {
        self.by_id.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Member> {
        self.by_id.get_mut(&node)
    }

    /// Takes in that the member has sent something; returns whether it was suspected.
    pub(super) fn heard(&mut self, now: MonotonicUs, node: NodeId) -> bool {
        let Some(member) = self.by_id.get_mut(&node) else { return false };
        member.heard_at = Some(now);
        member.disconnected = false;
        std::mem::take(&mut member.suspected)
    }

    /// What a member's program speaks. Not known of a member that joined an earlier coordinator in the unsaid
    /// version: it is asked to join again.
    pub(super) fn speaks_of(&self, node: NodeId) -> Option<Speaks> {
        self.get(node).and_then(|member| member.speaks)
    }

    /// The health of the members, as the nodes receive it.
    pub(super) fn health(&self) -> Health {
        let suspected = self.by_id.iter().filter(|(_, member)| member.suspected).map(|(&node, _)| node);
        Health { coordinator: self.seat, suspected: suspected.collect() }
    }

    /// Whether the member has been silent for too long, counted from the coordinator's own start at the
    /// earliest.
    pub(super) fn is_down(&self, now: MonotonicUs, node: NodeId) -> bool {
        self.get(node).is_none_or(|member| now >= self.suspected_at(member))
    }

    /// A member's state in a status report.
    pub(super) fn state_of(&self, now: MonotonicUs, node: NodeId) -> NodeState {
        let heard = self.get(node).is_some_and(|member| member.heard_at.is_some());
        match self.is_down(now, node) {
            true => NodeState::Failed,
            false if heard => NodeState::Up,
            false => NodeState::Suspected,
        }
    }

    pub(super) fn suspected_at(&self, member: &Member) -> MonotonicUs {
        let silent = member.heard_at.unwrap_or(self.opened_at).plus_us(SUSPECTED_AFTER_US);
        silent.max(self.listens_from)
    }

    /// Marks members that have fallen silent, and returns them.
    pub(super) fn suspect(&mut self, now: MonotonicUs) -> Vec<NodeId> {
        let is_silent = |member: &Member| !member.suspected && now >= self.suspected_at(member);
        let silent: Vec<NodeId> =
            self.by_id.iter().filter(|(_, member)| is_silent(member)).map(|(&id, _)| id).collect();
        for node in &silent {
            self.by_id.entry(*node).and_modify(|member| member.suspected = true);
        }
        silent
    }

    /// The members on other nodes that are silent, or have sent nothing yet, except those whose address
    /// belongs to a member that sends.
    pub(super) fn silent<'a>(
        &'a self,
        now: MonotonicUs,
        map: &'a TabletMap,
    ) -> impl Iterator<Item = &'a NodeInfo> {
        let is_up = move |node: &NodeInfo| self.state_of(now, node.id) == NodeState::Up;
        let is_silent = move |node: &&NodeInfo| {
            !is_up(node) && !map.nodes().iter().any(|other| other.bus_addr == node.bus_addr && is_up(other))
        };
        map.nodes().iter().filter(|node| node.id != self.seat).filter(is_silent)
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
