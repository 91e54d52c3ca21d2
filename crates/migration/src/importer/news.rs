//! When workers are told that there is something to push to clients: some time after the last time, so that
//! several cuts are told at once.

use super::parts::TargetParts;
use crate::TargetEvent;
use crate::tuning::DIGEST_PERIOD_US;
use sidle_types::MonotonicUs;

/// What was given and not told.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Since a cut was given that was not told.
    due_at: Option<MonotonicUs>,
    rests_until: Option<MonotonicUs>,
}

impl News {
    /// A cut was given.
    pub(super) fn given(&mut self, parts: &mut TargetParts, now: MonotonicUs) {
        if parts.writer.view().digest().is_some() {
            self.due_at.get_or_insert(self.rests_until.map_or(now, |until| until.max(now)));
            self.tell(parts, now);
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.due_at
    }

    /// Tells workers of what was given, if that is due.
    pub(super) fn tell(&mut self, parts: &mut TargetParts, now: MonotonicUs) {
        if self.due_at.is_none_or(|at| at > now) {
            return;
        }
        *self = News { due_at: None, rests_until: Some(now.plus_us(DIGEST_PERIOD_US)) };
        let moved_bytes = parts.counters.bytes_moved;
        if parts.writer.view().digest().is_some_and(|digest| digest.announce(moved_bytes)) {
            parts.events.push_back(TargetEvent::Gave);
        }
    }
}
