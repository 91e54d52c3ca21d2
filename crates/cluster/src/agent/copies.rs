//! The record of the copies of the node's log: what the node asks the coordinator to decide.

use super::event::{AgentEvent, Outbox};
use crate::timing::RETRY_US;
use crate::{LogCopies, NodeSays};
use sidle_types::MonotonicUs;

/// What was asked, and not answered.
#[derive(Debug, Default)]
pub(super) struct Copies {
    asked: Option<LogCopies>,
    sent_at: Option<MonotonicUs>,
}

impl Copies {
    /// Asks for a change, or with epoch 0 for the record, until that is answered.
    pub(super) fn ask(&mut self, copies: LogCopies) {
        (self.asked, self.sent_at) = (Some(copies), None);
    }

    /// The coordinator's record.
    pub(super) fn answered(&mut self, copies: Option<LogCopies>, out: &mut Outbox) {
        let epoch = copies.as_ref().map_or(0, |copies| copies.epoch);
        // An answer to an earlier question may come late.
        if self.asked.take_if(|asked| epoch >= asked.epoch).is_some() {
            out.event(AgentEvent::Copies(copies));
        }
    }

    /// Sends what was not sent yet, and repeats what was not answered within the retry interval.
    pub(super) fn send_due(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let is_due = self.due().is_none_or(|due| now >= due);
        if let Some(copies) = self.asked.clone().filter(|_| is_due) {
            self.sent_at = Some(now);
            out.send(NodeSays::Copies { copies });
        }
    }

    /// Has it sent anew, as over a new connection.
    pub(super) fn send_anew(&mut self) {
        self.sent_at = None;
    }

    /// When it is repeated.
    pub(super) fn due(&self) -> Option<MonotonicUs> {
        self.asked.as_ref().and(self.sent_at).map(|sent_at| sent_at.plus_us(RETRY_US))
    }
}
