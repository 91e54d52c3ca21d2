//! What this node knows of the other members' health.
//!
//! The coordinator answers heartbeats, and includes who is suspected if the node does not know it yet. A node
//! that receives nothing for the suspicion timeout judges by itself until the coordinator answers. It then
//! suspects the coordinator's node, and every node it could not reach while it looked for the coordinator. A
//! node it reached is well, whatever the coordinator reported before.

use super::event::{AgentEvent, Outbox};
use crate::timing::SUSPECTED_AFTER_US;
use crate::{Health, Suspects};
use sidle_types::{MonotonicUs, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The agent's state for it.
#[derive(Debug)]
pub(super) struct KnownHealth {
    /// The node that runs the coordinator, once known.
    pub(super) coordinator: Option<NodeId>,
    /// What the coordinator reported last.
    heard: Option<Health>,
    /// Whether this node reached the others, if it has tried since the coordinator fell silent.
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

    /// The fingerprint for the next heartbeat.
    pub(super) fn fingerprint(&self) -> u64 {
        self.heard.as_ref().map_or(0, Health::fingerprint)
    }

    /// Takes in the coordinator's report on the members.
    pub(super) fn heard(&mut self, health: Health) {
        self.coordinator = Some(health.coordinator);
        self.heard = Some(health);
    }

    /// Takes in whether this node reached these members, which share one address.
    pub(super) fn tried(&mut self, nodes: Vec<NodeId>, is_reached: bool) {
        self.tried.extend(nodes.into_iter().map(|node| (node, is_reached)));
    }

    /// Announces the suspected nodes if they have changed. This node never suspects itself. `heard_at`: when
    /// the coordinator's last message arrived.
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
