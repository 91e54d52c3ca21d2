//! Freeze and activation.
//!
//! M2, M3: `Activate` is sent only after the freeze barrier has passed, and carries what must precede the
//! target's first reply: the range's highest version, and of hot positions that were copied ahead those that
//! were not marked until the freeze (M30). It names what holds, so a target that is told of none keeps none.
//! (It also carries the number of records: the target counts them from then on, and this node no longer after
//! the confirmation.) It is repeated until the target confirms or pulls (M10), and sent again over each new
//! connection: the target may have restarted.

use super::parts::SourceParts;
use crate::resend::Resend;
use crate::tuning::PRIORITY_RESEND_US;
use crate::{BarrierPassed, Serves, SourceEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange, Version, fault};
use sidle_wire::{Activate, Lane};
use std::sync::Arc;

/// The activation's state.
#[derive(Debug)]
pub(super) enum Activation {
    /// Workers may still serve the range.
    NotFrozen,
    /// `Activate` is to be sent, or was and is not confirmed. `unchanged`: what was copied ahead and holds.
    Announcing { frozen: Frozen, unchanged: Box<[Position]>, locks: Arc<[u8]>, resend: Resend },
    /// The target serves.
    Confirmed { frozen: Frozen, locks: Arc<[u8]> },
}

/// The state at the freeze.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frozen {
    /// The publication whose barrier passed.
    pub(super) publication: u64,
    pub(super) highest_version: Version,
    pub(super) records: u64,
}

impl Activation {
    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        if let Activation::Announcing { resend, .. } = self {
            resend.expire(now);
        }
    }

    /// The target greets: it may have restarted, and know of no activation. One that does answers again.
    pub(super) fn reconnected(&mut self) {
        match self {
            Activation::Announcing { resend, .. } => resend.reset(),
            // What was copied ahead holds where it was taken over, if at all.
            Activation::Confirmed { frozen, locks } if !fault!(ActivateSentOnce) => {
                let (frozen, resend) = (*frozen, Resend::new(PRIORITY_RESEND_US));
                let (unchanged, locks) = (Box::default(), Arc::clone(locks));
                *self = Activation::Announcing { frozen, unchanged, locks, resend };
            }
            Activation::NotFrozen | Activation::Confirmed { .. } => {}
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self {
            Activation::Announcing { resend, .. } => resend.deadline(),
            Activation::NotFrozen | Activation::Confirmed { .. } => None,
        }
    }

    pub(super) fn frozen(&self) -> Option<Frozen> {
        match self {
            Activation::NotFrozen => None,
            Activation::Announcing { frozen, .. } | Activation::Confirmed { frozen, .. } => Some(*frozen),
        }
    }

    /// Nothing in the range has changed since the freeze (M2).
    pub(super) fn assert_unchanged(&self, range: PositionRange, store: &Store) {
        let frozen = self.frozen().expect("M8: a migration that was never frozen cannot be done");
        // Versions are counted by slot, so only whole slots show whether anything in the range was written
        // since.
        if range.is_whole_slots() {
            let highest = store.highest_version(range);
            assert_eq!(
                highest, frozen.highest_version,
                "M2: a record changed at the source after the freeze"
            );
        }
    }

    /// No worker uses the range any more. `has_copies`: some of it may have been copied, and is watched.
    pub(super) fn freeze(
        &mut self,
        parts: &mut SourceParts,
        store: &Store,
        passed: BarrierPassed,
        has_copies: bool,
    ) {
        assert!(matches!(self, Activation::NotFrozen), "M2: a range is frozen once");
        let highest_version = store.highest_version(parts.spec.range);
        let records = store.len_in(parts.spec.range);
        let frozen = Frozen { publication: passed.epoch(), highest_version, records };
        parts.writer.freeze();
        let unchanged = if has_copies { parts.writer.unchanged() } else { Box::default() };
        if parts.spec.copies_ahead() {
            parts.governor.hurry();
        }
        let mut locks = Vec::new();
        if parts.spec.protocol.serves != Serves::WhenAllIsHere && parts.spec.version.has_transactions() {
            store.pack_locks(parts.spec.range, &mut locks);
        }
        if fault!(LocksLeftBehind) {
            locks.clear();
        }
        let (locks, resend) = (locks.into(), Resend::new(PRIORITY_RESEND_US));
        *self = Activation::Announcing { frozen, unchanged, locks, resend };
    }

    /// Everything was given, cut by cut: the target serves it all, and pulls what is owed.
    pub(super) fn gave_all(&mut self, parts: &mut SourceParts, store: &Store, publication: u64) {
        assert!(matches!(self, Activation::NotFrozen), "M21: everything is given once");
        let highest_version = store.highest_version(parts.spec.range);
        let records = store.len_in(parts.spec.range);
        parts.writer.freeze();
        // M37: the last cut had them.
        let locks = Arc::default();
        *self = Activation::Confirmed { frozen: Frozen { publication, highest_version, records }, locks };
    }

    pub(super) fn transmit(&mut self, parts: &mut SourceParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let Activation::Announcing { frozen, unchanged, locks, resend } = self else { return false };
        if !resend.is_due() {
            return false;
        }
        resend.sent(now);
        let frozen = *frozen;
        let Frozen { highest_version, records, .. } = frozen;
        let written = Activate::write(parts.scope, highest_version, records, unchanged, locks, out);
        if let Err(error) = written {
            return parts.unsendable(Lane::Priority, parts.spec.range.first(), error, out);
        }
        if fault!(ActivateSentOnce) {
            *self = Activation::Confirmed { frozen, locks: Arc::clone(locks) };
        }
        true
    }

    /// The target confirmed, or pulls, which it does only then.
    pub(super) fn target_activated(&mut self, parts: &mut SourceParts) {
        if let Activation::Announcing { frozen, locks, .. } = self {
            *self = Activation::Confirmed { frozen: *frozen, locks: Arc::clone(locks) };
            parts.writer.hand_over();
            parts.events.push_back(SourceEvent::Activated);
        }
    }
}
