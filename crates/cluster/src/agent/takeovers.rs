//! What the node has taken over, until the coordinator has noted it.

use super::event::Outbox;
use crate::timing::RETRY_US;
use crate::{NodeSays, TabletMap};
use sidle_types::{MonotonicUs, PositionRange, TabletEpoch};

/// Ranges that the node has read, and that a map still lists as being taken over.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    done: Vec<(PositionRange, TabletEpoch)>,
    sent_at: Option<MonotonicUs>,
}

impl Takeovers {
    /// The node has everything of a range.
    pub(super) fn done(&mut self, range: PositionRange, epoch: TabletEpoch) {
        self.done.push((range, epoch));
        self.sent_at = None;
    }

    /// Forgets what a map shows as noted.
    pub(super) fn noted(&mut self, map: &TabletMap) {
        let is_listed = |&(range, epoch): &(PositionRange, TabletEpoch)| {
            map.takeovers().iter().any(|takeover| takeover.is_of(range, epoch))
        };
        self.done.retain(is_listed);
    }

    /// Sends what was not sent yet, and repeats it.
    pub(super) fn send_due(&mut self, now: MonotonicUs, out: &mut Outbox) {
        if self.done.is_empty() || self.due().is_some_and(|due| now < due) {
            return;
        }
        self.sent_at = Some(now);
        for &(range, epoch) in &self.done {
            out.send(NodeSays::TookOver { range, epoch });
        }
    }

    /// Has it sent anew, as over a new connection.
    pub(super) fn send_anew(&mut self) {
        self.sent_at = None;
    }

    /// When it is repeated.
    pub(super) fn due(&self) -> Option<MonotonicUs> {
        let repeats = self.sent_at.filter(|_| !self.done.is_empty());
        repeats.map(|sent_at| sent_at.plus_us(RETRY_US))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.done.len()
    }
}
