//! What an agent has to say, to the coordinator and to its driver.

use super::event::AgentEvent;
use crate::limits::{MAX_EVENTS, MAX_TRANSMIT};
use crate::{NodeInfo, NodeSays, ToCoordinator};
use std::collections::VecDeque;

/// The agent's messages and events, lent to whatever part of it has something to say.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) me: NodeInfo,
    pub(super) transmit: VecDeque<ToCoordinator>,
    pub(super) events: VecDeque<AgentEvent>,
}

impl Outbox {
    pub(super) fn new(me: NodeInfo) -> Outbox {
        Outbox { me, transmit: VecDeque::new(), events: VecDeque::new() }
    }

    /// Sends a message to the coordinator; when too many wait, the oldest is lost.
    pub(super) fn send(&mut self, body: NodeSays) {
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToCoordinator { from: self.me.id, incarnation: self.me.incarnation, body });
    }

    /// Asks the driver for something.
    pub(super) fn event(&mut self, event: AgentEvent) {
        assert!(self.events.len() < MAX_EVENTS, "the driver does not take the agent's events");
        self.events.push_back(event);
    }
}
