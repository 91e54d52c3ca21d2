//! What this node knows of the other members' health.
//!
//! The coordinator answers heartbeats, and tells in the answer who is suspected when the node does not know
//! it yet. Who does not hear of the coordinator for as long as makes a node suspected suspects the node that
//! it runs on; of the others what was heard last still holds.

use super::event::{AgentEvent, Outbox};
use crate::Health;
use crate::timing::SUSPECTED_AFTER_US;
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeSet;

/// What the agent keeps of it.
#[derive(Debug)]
pub(super) struct KnownHealth {
    /// The node that runs the coordinator, once known.
    pub(super) coordinator: Option<NodeId>,
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

    /// The coordinator reports how the members are.
    pub(super) fn heard(&mut self, health: Health) {
        self.coordinator = Some(health.coordinator);
        self.heard = Some(health);
    }

    /// Announces who is suspected, if that has changed. This node is not: it knows better. `heard_at`: when
    /// the coordinator was heard of last.
    pub(super) fn notice(&mut self, now: MonotonicUs, heard_at: Option<MonotonicUs>, out: &mut Outbox) {
        let is_silent = now.since(heard_at.unwrap_or(self.since)) >= SUSPECTED_AFTER_US;
        let silent = self.coordinator.filter(|_| is_silent);
        let heard = self.heard.iter().flat_map(|health| &health.suspected);
        let suspected: BTreeSet<NodeId> =
            heard.copied().chain(silent).filter(|&node| node != out.me.id).collect();
        if suspected != self.announced {
            self.announced.clone_from(&suspected);
            out.event(AgentEvent::Suspected(suspected));
        }
    }
}
