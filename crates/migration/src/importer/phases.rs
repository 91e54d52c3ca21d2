//! Transitions between an import's phases: activation, completion, and discarding a copy.
//!
//! M3: only `Activate`, sent by the source after its freeze barrier, makes the import take records and serve,
//! at once or, for some protocols, when everything is here. What must hold before the first reply (versions
//! only grow) is done before the view changes. M10: a repeated `Activate` is only answered again; after
//! completion every reply is outdated, and ignored.

use super::Importer;
use crate::{Serves, TargetEvent, Waiter};
use sidle_store::Store;
use sidle_types::{Version, fault};

impl Importer {
    pub(super) fn activate(&mut self, store: &Store, highest_version: Version, records: u64) {
        self.owes_activated = true;
        if self.parts.writer.view().source_is_frozen() {
            return;
        }
        self.parts.writer.expect(records);
        store.raise_version_floor(self.parts.spec.range, highest_version);
        match self.parts.spec.protocol.serves {
            Serves::AtActivation => {
                self.parts.writer.activate();
                self.parts.events.push_back(TargetEvent::Activated);
            }
            // The activation is announced when the last record has arrived.
            Serves::WhenAllIsHere => self.parts.writer.fill(),
        }
        for waiter in std::mem::take(&mut self.flushes) {
            self.flush(waiter);
        }
        if let Some(changes) = &mut self.changes {
            // Nothing is held back for clients any more.
            self.parts.governor.hurry();
            changes.last_round_begins();
            self.finish_if_all_here();
        }
    }

    pub(super) fn transmit_activated(&mut self, out: &mut Vec<u8>) -> bool {
        let owed = std::mem::take(&mut self.owes_activated);
        if owed {
            self.parts.scope.write_activated(out);
        }
        owed
    }

    pub(super) fn finish_if_all_here(&mut self) {
        let lacks_changes = self.changes.as_ref().is_some_and(|changes| !changes.all_here());
        let view = self.parts.writer.view();
        if !lacks_changes && view.source_is_frozen() && self.parts.is_all_pulled() {
            self.complete();
        }
    }

    /// Nothing will be replayed any more.
    fn complete(&mut self) {
        let was_serving = self.parts.writer.view().activated();
        self.parts.writer.complete();
        if !was_serving {
            self.parts.events.push_back(TargetEvent::Activated);
        }
        self.parts.paced_until = None;
        self.pulls.stop();
        self.changes = None;
        self.samples.stop();
        self.probes.stop();
        self.parts.stall = None;
        let waiters = self.priority.stop();
        self.parts.wake(waiters);
        self.parts.events.push_back(TargetEvent::Finished);
    }

    /// FLUSHALL: what has not arrived is absent for good. Replay belongs to this thread, so none is under
    /// way.
    pub(super) fn flush(&mut self, waiter: Waiter) {
        let phase = self.parts.phase();
        if !self.parts.writer.view().source_is_frozen() {
            // M3: the flush itself may not be acknowledged before activation.
            return self.flushes.push(waiter);
        }
        // First the flush: a waiter for a key that will not arrive reads it as absent, as after the flush.
        self.parts.events.push_back(TargetEvent::Flushed(waiter));
        if phase.takes_records() && !fault!(FlushLeavesLateRecords) {
            self.complete();
        }
    }

    /// Discards a copy that lacks its last round: everything is pulled again, from frozen data.
    pub(super) fn throw_copy_away(&mut self, store: &Store) {
        if self.changes.take().is_some() {
            let range = self.parts.spec.range;
            let rest = store.discard(range.first(), range.last(), usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
            self.parts.writer.begin_anew();
            self.pulls.begin_anew();
            self.parts.counters.changes_left = 0;
        }
    }
}
