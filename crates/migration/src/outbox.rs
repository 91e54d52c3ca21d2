//! Short messages that wait for a lane: refusals and pongs. Excess ones are dropped: their causes recur.

use crate::tuning::NOTICES_QUEUED_MAX;
use sidle_types::{Fill, ProtocolVersion};
use sidle_wire::{Lane, Message, Refusal, RefusalCode, Scope};
use std::collections::VecDeque;

#[derive(Debug)]
enum Notice {
    Refuse(Scope, RefusalCode, String),
    Pong(u64),
}

/// Short messages that wait for a lane.
#[derive(Debug)]
pub(crate) struct Outbox {
    version: ProtocolVersion,
    lanes: [VecDeque<Notice>; Lane::ALL.len()],
}

impl Outbox {
    /// An empty one for a migration whose ends write in this version.
    pub(crate) fn new(version: ProtocolVersion) -> Outbox {
        Outbox { version, lanes: Default::default() }
    }

    pub(crate) fn refuse(&mut self, lane: Lane, scope: Scope, code: RefusalCode, text: String) {
        self.push(lane, Notice::Refuse(scope, code, text));
    }

    pub(crate) fn pong(&mut self, lane: Lane, nonce: u64) {
        self.push(lane, Notice::Pong(nonce));
    }

    fn push(&mut self, lane: Lane, notice: Notice) {
        let queue = &mut self.lanes[lane.index()];
        if queue.len() < NOTICES_QUEUED_MAX {
            queue.push_back(notice);
        }
    }

    /// How full the lanes' queues are.
    pub(crate) fn queues(&self) -> impl Iterator<Item = Fill> {
        self.lanes
            .iter()
            .map(|lane| Fill::new("refusals and pongs for a lane", lane.len(), NOTICES_QUEUED_MAX))
    }

    /// The lane's connection is gone, and so are its messages.
    pub(crate) fn clear(&mut self, lane: Lane) {
        self.lanes[lane.index()].clear();
    }

    /// Appends one message for this lane; returns whether there was one.
    pub(crate) fn transmit(&mut self, lane: Lane, out: &mut Vec<u8>) -> bool {
        match self.lanes[lane.index()].pop_front() {
            Some(Notice::Refuse(scope, code, text)) => Refusal::write(scope, code, &text, out),
            Some(Notice::Pong(nonce)) => Message::write_pong(self.version, nonce, out),
            None => return false,
        }
        true
    }
}
