//! What this node knows of the other members' health.
//!
//! The coordinator answers heartbeats, and reports in the answer who is suspected when the node does not know
//! it yet. A node that has received nothing from the coordinator for as long as makes a node suspected judges
//! by itself until it does: it suspects the node that the coordinator runs on, and whoever it could not reach
//! while it looked for the coordinator. Who was reached is well, whatever the coordinator reported before.

use super::event::{AgentEvent, Outbox};
use crate::timing::SUSPECTED_AFTER_US;
use crate::{Health, Suspects};
use sidle_types::{MonotonicUs, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// What the agent keeps of it.
#[derive(Debug)]
pub(super) struct KnownHealth {
    /// The node that runs the coordinator, once known.
    pub(super) coordinator: Option<NodeId>,
    /// What the coordinator said last.
    heard: Option<Health>,
    /// Whether this node reached the others, as far as it has tried since the coordinator fell silent.
    tried: BTreeMap<NodeId, bool>,
    /// The coordinator's silence counts from here at the earliest.
    since: MonotonicUs,
    /// Who was announced as suspected last.
    announced: Suspects,
}

impl KnownHealth {
    pub(super) fn new(now: MonotonicUs) -> KnownHealth {
        KnownHealth {
            coordinator: None,
            heard: None,
            tried: BTreeMap::new(),
            since: now,
            announced: Suspects::default(),
        }
    }

    /// What the next heartbeat says that the node knows.
    pub(super) fn fingerprint(&self) -> u64 {
        self.heard.as_ref().map_or(0, Health::fingerprint)
    }

    /// The coordinator reports how the members are.
    pub(super) fn heard(&mut self, health: Health) {
        self.coordinator = Some(health.coordinator);
        self.heard = Some(health);
    }

    /// This node has tried to reach these: members that share one address.
    pub(super) fn tried(&mut self, nodes: Vec<NodeId>, is_reached: bool) {
        self.tried.extend(nodes.into_iter().map(|node| (node, is_reached)));
    }

    /// Announces who is suspected, if that has changed. This node is not: it knows better. `heard_at`: when
    /// the coordinator was heard of last.
    pub(super) fn notice(&mut self, now: MonotonicUs, heard_at: Option<MonotonicUs>, out: &mut Outbox) {
        let is_silent = now.since(heard_at.unwrap_or(self.since)) >= SUSPECTED_AFTER_US;
        if !is_silent {
            self.tried.clear();
        }
        let suspects = self.suspects(is_silent, out.me.id);
        if suspects != self.announced {
            self.announced.clone_from(&suspects);
            out.event(AgentEvent::Suspected(suspects));
        }
    }

    fn suspects(&self, is_silent: bool, me: NodeId) -> Suspects {
        let silent = self.coordinator.filter(|_| is_silent);
        let heard = self.heard.iter().flat_map(|health| health.suspected.iter().copied());
        let is_other = |node: &NodeId| *node != me;
        let by_coordinator: BTreeSet<NodeId> =
            heard.filter(is_other).filter(|node| self.tried.get(node) != Some(&true)).collect();
        let unreached = self.tried.iter().filter(|(_, is_reached)| !**is_reached).map(|(node, _)| *node);
        let by_this_node = silent.into_iter().chain(unreached).filter(is_other);
        let by_this_node = by_this_node.filter(|node| !by_coordinator.contains(node)).collect();
        Suspects { by_coordinator, by_this_node }
    }
}
