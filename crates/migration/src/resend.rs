//! When an unanswered message is resent (M10).

use crate::tuning::RESEND_US_MAX;
use sidle_types::MonotonicUs;

/// When an unanswered message is resent: first after a fixed wait, then after twice that, and so on up to
/// [`RESEND_US_MAX`].
#[derive(Debug)]
pub(crate) struct Resend {
    first_us: u64,
    wait_us: u64,
    /// `None`: it is to be sent as soon as its lane accepts it.
    deadline: Option<MonotonicUs>,
}

impl Resend {
    /// Something that has not been sent yet.
    pub(crate) fn new(first_us: u64) -> Resend {
        Resend { first_us, wait_us: first_us, deadline: None }
    }

    /// Whether it is to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.deadline.is_none()
    }

    /// It was sent now.
    pub(crate) fn sent(&mut self, now: MonotonicUs) {
        self.deadline = Some(now.plus_us(self.wait_us));
        self.wait_us = (self.wait_us * 2).min(RESEND_US_MAX);
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self, now: MonotonicUs) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
        }
    }

    /// Its connection is new: it may have been lost.
    pub(crate) fn reset(&mut self) {
        *self = Resend::new(self.first_us);
    }

    /// The next instant at which time matters.
    pub(crate) fn deadline(&self) -> Option<MonotonicUs> {
        self.deadline
    }
}
