//! Until when nobody takes the log over, as each copy has promised its writer.
//!
//! A backup promises it from when it has a message; its writer counts from when he sent that, which is
//! earlier, and leaves out what their clocks may differ by (Gray and Cheriton, "Leases").

use crate::backup_id::BackupId;
use sidle_types::MonotonicUs;
use std::collections::BTreeMap;

/// For how long a backup promises that nobody reads its copy to take the log over, in microseconds.
pub const LEASE_US: u64 = 500_000;
/// A copy that was asked for nothing for so long is asked for its promise.
const BEAT_EVERY_US: u64 = 100_000;
/// What the writer counts of a promise, in percent: the rates of two clocks differ by less than one.
const COUNTED_PERCENT: u64 = 98;

/// The promises that a log's writer has.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Also of copies whose connection is lost: a promise holds without one.
    until: BTreeMap<BackupId, MonotonicUs>,
}

impl Leases {
    /// A copy has answered what was sent to it then.
    pub(crate) fn note(&mut self, backup: BackupId, sent_at: MonotonicUs) {
        let until = sent_at.plus_us(LEASE_US * COUNTED_PERCENT / 100);
        let known = self.until.entry(backup).or_default();
        *known = until.max(*known);
    }

    /// Until when this copy's promise holds.
    pub(crate) fn of(&self, backup: BackupId) -> MonotonicUs {
        self.until.get(&backup).copied().unwrap_or_default()
    }

    /// Forgets what is over.
    pub(crate) fn pass_time(&mut self, now: MonotonicUs) {
        self.until.retain(|_, until| *until > now);
    }
}

/// What is asked of one copy only for its promise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beats {
    /// The number of the last one.
    number: u64,
    /// When it was sent, if it is not answered.
    under_way: Option<MonotonicUs>,
    /// When anything was sent last that is answered.
    asked_at: Option<MonotonicUs>,
    is_due: bool,
}

impl Beats {
    /// Something is sent that is answered.
    pub(crate) fn asked(&mut self, now: MonotonicUs) {
        (self.asked_at, self.is_due) = (Some(now), false);
    }

    /// The number of a beat that is to be sent now.
    pub(crate) fn next(&mut self, now: MonotonicUs) -> Option<u64> {
        if !self.is_due {
            return None;
        }
        self.asked(now);
        self.number += 1;
        self.under_way = Some(now);
        Some(self.number)
    }

    /// The beat of this number is answered. When it was sent, if that is so.
    pub(crate) fn answered(&mut self, number: u64) -> Option<MonotonicUs> {
        if number == self.number { self.under_way.take() } else { None }
    }

    /// Whether one is not answered.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// When to call [`Beats::pass_time`].
    pub(crate) fn poll_timeout(&self) -> Option<MonotonicUs> {
        let waits = self.is_due || self.is_under_way();
        let due = || self.asked_at.map_or(MonotonicUs(0), |at| at.plus_us(BEAT_EVERY_US));
        (!waits).then(due)
    }

    /// Time has passed.
    pub(crate) fn pass_time(&mut self, now: MonotonicUs) {
        self.is_due |= self.poll_timeout().is_some_and(|due| due <= now);
    }
}
