//! Greeting, freeze and activation.
//!
//! M2, M3: `Activate` leaves only after the freeze barrier has passed, and says what must precede the
//! target's first reply: the highest version in the range. (And how many records there are: the target counts
//! them as its own from then on, and this node from the confirmation on no more.) It is repeated until the
//! target confirms or pulls (M10).

use super::Exporter;
use crate::resend::Resend;
use crate::tuning::PRIORITY_RESEND_US;
use crate::{BarrierPassed, SourceEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Version, fault};
use sidle_wire::{Activate, Hello, Lane, RefusalCode};

/// How far activation is.
#[derive(Debug)]
pub(super) enum Activation {
    /// Workers may still serve the range.
    NotFrozen,
    /// `Activate` is to be sent, or was and is not confirmed.
    Announcing { frozen: Frozen, resend: Resend },
    /// The target serves.
    Confirmed { frozen: Frozen },
}

/// What was true at the freeze.
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

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self {
            Activation::Announcing { resend, .. } => resend.deadline(),
            Activation::NotFrozen | Activation::Confirmed { .. } => None,
        }
    }

    pub(super) fn frozen(&self) -> Option<Frozen> {
        match self {
            Activation::NotFrozen => None,
            Activation::Announcing { frozen, .. } | Activation::Confirmed { frozen } => Some(*frozen),
        }
    }
}

impl Exporter {
    pub(super) fn hello(&mut self, lane: Lane, hello: Hello) {
        if hello.node != self.spec.target || hello.lane != lane {
            let text = format!("migration {} goes to {}", self.scope.migration, self.spec.target);
            return self.outbox.refuse(lane, self.scope, RefusalCode::WrongNode, text);
        }
        self.greeted[lane.index()] = true;
        self.owes_ack[lane.index()] = true;
        if let (Lane::Priority, Activation::Announcing { resend, .. }) = (lane, &mut self.activation) {
            resend.reset();
        }
    }

    /// Every worker has let go of the range.
    pub(super) fn freeze(&mut self, store: &Store, passed: BarrierPassed) {
        assert!(matches!(self.activation, Activation::NotFrozen), "M2: a range is frozen once");
        let highest_version = store.highest_version(self.spec.range);
        let records = store.len_in(self.spec.range);
        let frozen = Frozen { publication: passed.epoch(), highest_version, records };
        self.writer.freeze();
        if self.copies_ahead() {
            self.governor.hurry();
        }
        self.activation = Activation::Announcing { frozen, resend: Resend::new(PRIORITY_RESEND_US) };
    }

    pub(super) fn transmit_activate(&mut self, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let Activation::Announcing { frozen, resend } = &mut self.activation else { return false };
        if !resend.is_due() {
            return false;
        }
        resend.sent(now);
        let frozen = *frozen;
        let Frozen { highest_version, records, .. } = frozen;
        Activate { scope: self.scope, highest_version, records }.write(out);
        if fault!(ActivateSentOnce) {
            self.activation = Activation::Confirmed { frozen };
        }
        true
    }

    /// The target said so, or pulls, which it does only then.
    pub(super) fn target_activated(&mut self) {
        if let Activation::Announcing { frozen, .. } = self.activation {
            self.activation = Activation::Confirmed { frozen };
            self.writer.hand_over();
            self.events.push_back(SourceEvent::Activated);
        }
    }
}
