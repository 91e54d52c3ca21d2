//! What this node knows of the other members' health.
//!
//! The coordinator answers heartbeats, and tells in the answer who is suspected when the node does not know
//! it yet. Who does not hear of the coordinator for as long as makes a node suspected suspects the node that
//! it runs on; of the others what was heard last still holds.

use super::{AgentEvent, NodeAgent};
use crate::Health;
use crate::timing::SUSPECTED_AFTER_US;
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeSet;

/// What the agent keeps of it.
#[derive(Debug)]
pub(super) struct KnownHealth {
    /// The node that runs the coordinator, once known.
    coordinator: Option<NodeId>,
    /// What the coordinator said last.
    heard: Option<Health>,
    /// The coordinator's silence counts from here at the earliest.
    since: MonotonicUs,
    /// Who was announced as suspected last.
    announced: BTreeSet<NodeId>,
}

impl KnownHealth {
    pub(super) fn new(now: MonotonicUs) -> KnownHealth {
        KnownHealth { coordinator: None, heard: None, since: now, announced: BTreeSet::new() }
    }

    /// What the next heartbeat says that the node knows.
    pub(super) fn fingerprint(&self) -> u64 {
        self.heard.as_ref().map_or(0, Health::fingerprint)
    }
}

impl NodeAgent {
    /// The node that runs the coordinator, as far as known.
    pub const fn coordinator(&self) -> Option<NodeId> {
        self.health.coordinator
    }

    /// The node that ran the coordinator in an earlier incarnation of this one.
    pub fn remember_coordinator(&mut self, coordinator: NodeId) {
        self.health.coordinator = Some(coordinator);
    }

    /// The coordinator reports how the members are.
    pub(super) fn heard_health(&mut self, health: Health) {
        self.health.coordinator = Some(health.coordinator);
        self.health.heard = Some(health);
    }

    /// Announces who is suspected, if that has changed. This node is not: it knows better.
    pub(super) fn notice_health(&mut self, now: MonotonicUs) {
        let heard_at = self.heard_at.unwrap_or(self.health.since);
        let is_silent = now.since(heard_at) >= SUSPECTED_AFTER_US;
        let silent = self.health.coordinator.filter(|_| is_silent);
        let heard = self.health.heard.iter().flat_map(|health| &health.suspected);
        let suspected: BTreeSet<NodeId> =
            heard.copied().chain(silent).filter(|&node| node != self.me.id).collect();
        if suspected != self.health.announced {
            self.health.announced.clone_from(&suspected);
            self.event(AgentEvent::Suspected { nodes: suspected });
        }
    }
}
