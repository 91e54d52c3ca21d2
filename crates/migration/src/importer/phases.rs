//! Transitions between an import's phases: activation, completion, and discarding a copy.
//!
//! M3: only `Activate`, sent by the source after its freeze barrier, makes the import take records and serve,
//! at once or, for some protocols, when everything is here. What must hold before the first reply (versions
//! only grow) is done before the view changes. M10: a repeated `Activate` is only answered again; after
//! completion every reply is outdated, and ignored.
//!
//! M35: of a dead source nothing is taken, should it live after all, and nobody is asked for anything.
//! The rest comes from a copy of its log, which somebody else reads. What this node did not take over is
//! thrown away, as after a restart of the source (M33). What the copy has enters as pulled records do:
//! what was written or removed here since the activation wins (M5, M6). A flush waits until everything is
//! here, so that nothing arrives behind it.

use super::Importer;
use super::cuts::{Cuts, Given};
use super::joining::serve_outdated;
use super::records::Untaken;
use super::turn::{Cleared, Then};
use crate::cuts::Ahead;
use crate::{ImportPhase, Serves, TargetEvent, Waiter};
use sidle_store::{ImportStage, Store};
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::Activate;

impl Importer {
    pub(super) fn activate(&mut self, store: &Store, activate: &Activate<'_>) -> Result<(), Untaken> {
        if self.parts.writer.view().source_is_frozen() {
            self.owes_activated = true;
            return Ok(());
        }
        self.parts.writer.expect(activate.records);
        store.raise_version_floor(self.parts.spec.range, activate.highest_version);
        if let Some(ahead) = self.ahead.take() {
            // A flush that waits clears whatever was copied.
            let unchanged = self.flushes.is_empty().then_some(activate.unchanged);
            let outdated = ahead.end(&mut self.parts, store, unchanged);
            if fault!(InertOutlineServed) {
                serve_outdated(&mut self.parts, store);
            }
            // M30: no reply from before the freeze counts.
            self.samples.stop();
            self.samples.offer_hot(outdated);
        }
        self.parts.take_locks(store, activate.locks)?;
        self.owes_activated = true;
        match self.parts.spec.protocol.serves {
            Serves::AtActivation => {
                self.parts.activate(store);
                self.pull_patches(store);
                self.parts.events.push_back(TargetEvent::Activated);
            }
            Serves::WhatItWasGiven => return Ok(()),
            // The activation is announced when the last record has arrived.
            Serves::WhenAllIsHere => self.parts.writer.fill(),
        }
        for waiter in std::mem::take(&mut self.flushes) {
            self.flush(store, waiter);
        }
        if let Some(changes) = &mut self.changes {
            // Nothing is held back for clients any more.
            self.parts.governor.hurry();
            changes.last_round_begins();
        }
        // A copy that was made anew after a restart of the source may be here already.
        if self.parts.phase().takes_records() {
            self.finish_if_all_here(store);
        }
        Ok(())
    }

    /// What changed in the collections that were copied ahead is pulled at once.
    fn pull_patches(&mut self, store: &Store) {
        if self.priority.is_on() {
            for key in self.parts.copies.keys() {
                self.priority.pull_soon(&self.parts, store, &key);
            }
        }
    }

    /// Where partitions have come to collections that were copied ahead, the patches are pulled.
    pub(super) fn meet_copies(&mut self, store: &Store) {
        if self.parts.phase() != ImportPhase::Serving || !self.priority.is_on() {
            return;
        }
        for position in self.pulls.cursors() {
            if self.parts.copies.has(position) {
                self.priority.pull_patch(&mut self.parts, store, position);
            }
        }
    }

    pub(super) fn transmit_activated(&mut self, out: &mut Vec<u8>) -> bool {
        let owed = std::mem::take(&mut self.owes_activated);
        if owed {
            self.parts.scope.write_activated(out);
        }
        owed
    }

    pub(super) fn finish_if_all_here(&mut self, store: &Store) {
        let lacks_changes = self.changes.as_ref().is_some_and(|changes| !changes.all_here());
        let view = self.parts.writer.view();
        if !lacks_changes && view.source_is_frozen() && self.parts.is_all_pulled() {
            self.complete(store);
        }
    }

    /// A cut has been given.
    pub(super) fn given(&mut self, store: &Store, given: &Given) {
        if fault!(FlushedInTransit) {
            let flushed = std::mem::take(&mut self.flushes).into_iter().map(TargetEvent::Flushed);
            self.parts.events.extend(flushed);
        } else if given.is_all {
            // M31: it runs again, and meets an import like any other.
            let flushes = std::mem::take(&mut self.flushes);
            self.parts.wake(flushes);
        }
        if let Some(why) = given.gave_all {
            // The event runs all that wait again. They are not woken: nothing was answered for their keys.
            drop(self.priority.stop());
            self.parts.events.push_back(TargetEvent::GaveAll(why));
        }
        if let Some(cursors) = &given.owed_behind {
            return self.owe(cursors);
        }
        let parts = &mut self.parts;
        self.priority.wake_taken(parts, &given.taken);
        self.priority.refuse_at(parts, &given.kept);
        let owned: Vec<_> = parts.writer.view().progress().collect();
        for ((bounds, before), next) in parts.spec.partitions.clone().iter().zip(&given.before).zip(owned) {
            let last = next.map_or(Some(bounds.last()), Position::previous);
            let newly = before.zip(last).and_then(|(first, last)| PositionRange::new(first, last));
            if let Some(newly) = newly {
                self.priority.wake_covered(parts, newly);
            }
        }
        if given.is_all {
            self.complete(store);
        }
    }

    /// What lies behind these cursors is owed: from here on the import is one of a frozen range (M30).
    fn owe(&mut self, cursors: &Ahead) {
        self.cuts = None;
        self.pulls.begin_again_at(&mut self.parts.governor, cursors);
    }

    /// Nothing more is given: the copies that are not this node's are cleared.
    pub(super) fn give_up(&mut self, now: MonotonicUs) {
        self.clear_inert(now, Then::End);
    }

    /// The source restarted: what it had marked is lost, so copies may be outdated. It gives all (M33).
    pub(super) fn source_restarted(&mut self, now: MonotonicUs, store: &Store) {
        if fault!(CopiesOutliveTheirMarks) {
            return;
        }
        if self.parts.phase() == ImportPhase::Taking {
            self.parts.resume();
            self.clear_inert(now, Then::Resume);
        } else {
            self.throw_copy_away(store);
        }
    }

    /// The migration is to turn back.
    pub(super) fn turn_back(&mut self, now: MonotonicUs) {
        self.cuts.iter_mut().for_each(Cuts::stop);
        self.settle_if_still(now);
    }

    /// If the migration is to turn back and nothing is in transit: clears inert copies.
    pub(super) fn settle_if_still(&mut self, now: MonotonicUs) {
        if self.parts.phase() == ImportPhase::Taking && self.cuts.as_ref().is_some_and(Cuts::is_still) {
            self.parts.resume();
            self.clear_inert(now, Then::Settle);
        }
    }

    fn clear_inert(&mut self, now: MonotonicUs, then: Then) {
        assert_eq!(self.parts.phase(), ImportPhase::Taking, "M23: only there some of it is not this node's");
        (self.cuts, self.parts.paced_until) = (None, None);
        self.pulls.stop();
        self.is_settled = false;
        self.parts.writer.set_takes_no_more(false);
        self.cleared = Some(Cleared::inert(now, self.parts.writer.view(), then));
    }

    /// Clears a slice, if there is something to be cleared.
    pub(super) fn clear_slice(&mut self, now: MonotonicUs, store: &Store) {
        let Some(cleared) = &mut self.cleared else { return };
        let writer = &mut self.parts.writer;
        // The node's count of its keys leaves them out as long as they are here.
        let then = cleared.slice(now, store, &mut |records| {
            writer.set_inert(writer.view().inert_records().saturating_sub(records));
        });
        let Some(then) = then else { return };
        self.cleared = None;
        match then {
            Then::End => self.gave_up(store),
            Then::Begin => self.parts.writer.set_inert(0),
            Then::Resume => {
                self.parts.writer.set_inert(0);
                self.ended();
            }
            Then::Settle => {
                self.is_settled = true;
                self.parts.writer.set_inert(0);
                self.parts.writer.set_takes_no_more(true);
                let owns = !self.parts.writer.view().owned().ranges().is_empty();
                self.parts.events.push_back(TargetEvent::Settled { owns });
            }
        }
    }

    /// The way back begins.
    pub(super) fn turned(&mut self) {
        assert!(self.is_settled, "M21: a way back begins where nothing changes any more");
        self.ended();
    }

    /// Another import, or another migration, goes on. A flush that waits runs again, and meets that one.
    fn ended(&mut self) {
        let flushes = std::mem::take(&mut self.flushes);
        self.parts.wake(flushes);
        self.parts.events.push_back(TargetEvent::Ended);
    }

    /// The copies of a migration that was given up are cleared. A flush waits for nothing else.
    fn gave_up(&mut self, store: &Store) {
        let flushed = std::mem::take(&mut self.flushes);
        if !flushed.is_empty() {
            let range = self.parts.spec.range;
            let rest = store.discard(range.first(), range.last(), usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
        }
        self.parts.events.extend(flushed.into_iter().map(TargetEvent::Flushed));
        self.parts.events.push_back(TargetEvent::Ended);
    }

    /// Nothing will be replayed any more.
    fn complete(&mut self, store: &Store) {
        let was_serving = self.parts.writer.view().activated();
        self.parts.note(store, ImportStage::Complete);
        self.parts.writer.complete();
        if !was_serving {
            self.parts.events.push_back(TargetEvent::Activated);
        }
        self.end_work();
    }

    /// All is here: nothing is requested any more.
    pub(super) fn end_work(&mut self) {
        self.parts.paced_until = None;
        self.pulls.stop();
        self.changes = None;
        self.cuts = None;
        self.samples.stop();
        self.probes.stop();
        self.parts.stall = None;
        self.parts.copies.clear();
        let waiters = self.priority.stop();
        self.parts.wake(waiters);
        self.parts.events.push_back(TargetEvent::Finished);
    }

    /// FLUSHALL: what has not arrived is absent for good. Replay belongs to this thread, so none is under
    /// way.
    pub(super) fn flush(&mut self, store: &Store, waiter: Waiter) {
        let phase = self.parts.phase();
        if phase == ImportPhase::Taking {
            // M31
            self.cuts.iter_mut().for_each(Cuts::flush);
            return self.flushes.push(waiter);
        }
        if self.defers_flush() {
            return self.flushes.push(waiter);
        }
        if !self.parts.writer.view().source_is_frozen() {
            // M3: the flush itself may not be acknowledged before activation.
            return self.flushes.push(waiter);
        }
        // First the flush: a waiter for a key that will not arrive reads it as absent, as after the flush.
        self.parts.events.push_back(TargetEvent::Flushed(waiter));
        if phase.takes_records() && !fault!(FlushLeavesLateRecords) {
            self.complete(store);
        }
    }

    /// Discards a copy that lacks its last round: everything is pulled again, from frozen data.
    pub(super) fn throw_copy_away(&mut self, store: &Store) {
        if self.changes.take().is_some() {
            let range = self.parts.spec.range;
            let rest = store.discard(range.first(), range.last(), usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
            self.parts.writer.begin_anew();
            self.pulls.begin_anew(&mut self.parts.governor);
            self.parts.counters.changes_left = 0;
        }
    }

    /// The source is dead.
    pub(super) fn source_died(&mut self, now: MonotonicUs, store: &Store) {
        let phase = self.parts.phase();
        if phase == ImportPhase::Complete || self.source_is_dead {
            return;
        }
        self.source_restarted(now, store);
        if phase == ImportPhase::Taking {
            // Another one goes on.
            return;
        }
        if let Some(ahead) = self.ahead.take().filter(|_| phase == ImportPhase::Copying) {
            self.samples.stop();
            ahead.end(&mut self.parts, store, None);
        }
        self.source_is_dead = true;
        self.parts.events.push_back(TargetEvent::AwaitsCopy);
    }

    /// Whether a flush is to clear nothing before everything is here.
    pub fn defers_flush(&self) -> bool {
        match self.parts.phase() {
            ImportPhase::Taking => true,
            ImportPhase::Complete => false,
            _ => self.source_is_dead && !fault!(FlushBeforeTheCopy),
        }
    }

    /// Whether a flush waits.
    pub fn has_deferred_flush(&self) -> bool {
        self.source_is_dead && !self.flushes.is_empty()
    }

    /// Everything is here.
    pub(super) fn copy_is_here(&mut self, store: &Store) {
        if !self.source_is_dead || self.parts.phase() == ImportPhase::Complete {
            return;
        }
        if !self.parts.writer.view().source_is_frozen() {
            match self.parts.spec.protocol.serves {
                Serves::AtActivation | Serves::WhatItWasGiven => {
                    self.parts.activate(store);
                    self.parts.events.push_back(TargetEvent::Activated);
                }
                Serves::WhenAllIsHere => self.parts.writer.fill(),
            }
        }
        let flushed = std::mem::take(&mut self.flushes).into_iter().map(TargetEvent::Flushed);
        self.parts.events.extend(flushed);
        self.complete(store);
    }
}
