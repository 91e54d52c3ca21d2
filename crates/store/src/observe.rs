//! Observing a key, and reporting its changes, under its slot's lock (I1, I2).

use crate::interest::{Observer, Touch};
use crate::writer::SlotGuard;
use sidle_types::{HashedKey, Position};
use std::sync::Arc;

impl SlotGuard<'_> {
    /// From now on this observer is told of changes of the key. `had_expired`: its value had expired already.
    pub fn observe(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>, had_expired: bool) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        self.data().interest.add(key.position(), observer, had_expired);
        self.table().lock.set_interest(true);
    }

    /// This observer is told no more of the key.
    pub fn stop_observing(&self, key: HashedKey<'_>, observer: &Arc<dyn Observer>) {
        assert!(key.slot() == self.slot(), "I1: the lock is another slot's");
        let is_observed = self.data().interest.remove(key.position(), observer);
        self.table().lock.set_interest(is_observed);
    }

    /// Reports a change to the observers of the key, if there are any.
    #[inline]
    pub(crate) fn touch(&self, position: impl FnOnce() -> Position, touch: Touch) {
        if self.table().lock.has_interest() {
            self.data().interest.report(position(), touch);
        }
    }
}
