//! Rounds of changes: what workers marked while the range was copied.
//!
//! A round is all marks at one moment, in order. Each reply names some of its ranges (a position is a range
//! of one) and carries everything that stands in them when it is packed, so that deletions, flushes and keys
//! of equal positions need no cases of their own. When the round is empty the next one is taken.
//!
//! M11: the marks are taken before what they are of is packed, so that a write which the packing missed is
//! marked anew. M10: what a reply named is kept until the next sequence number acknowledges it; asked again,
//! the source sends the same ranges with what stands in them by then. Were it to send others, a reply that
//! was only late could acknowledge what never came.
//!
//! Realises: Albatross 4.2 and 4.3 (iterations, atomic hand-over), RAMCloud's migration.

use super::Exporter;
use crate::tuning::PULL_BYTES_MAX;
use crate::{BarrierPassed, ExportPhase};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::limits::CHANGED_RANGES_MAX;
use sidle_wire::{ChangedPull, Lane};
use std::collections::VecDeque;

/// The round at hand and what of it is under way.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Which round it is, from 1.
    round: u32,
    /// What of it has not been sent.
    queue: VecDeque<PositionRange>,
    /// What the last reply named, and the pull that it answered.
    sent: Vec<PositionRange>,
    sent_sequence: u64,
    asked: Option<ChangedPull>,
}

impl Changes {
    pub(super) fn forget(&mut self, lane: Lane) {
        if lane == Lane::Bulk {
            self.asked = None;
        }
    }
}

impl Exporter {
    /// Every worker marks what it changes.
    pub(super) fn track(&mut self, _passed: BarrierPassed) {
        self.writer.track();
    }

    pub(super) fn take_changed_pull(&mut self, lane: Lane, pull: ChangedPull) {
        let is_asked_again = pull.sequence == self.changes.sent_sequence;
        let is_next = pull.sequence == self.changes.sent_sequence + 1;
        if self.accepts(lane, self.copies_ahead()) && pull.sequence > 0 && (is_asked_again || is_next) {
            self.changes.asked = Some(pull);
        }
    }

    pub(super) fn answer_changed_pull(&mut self, now: MonotonicUs, store: &Store, out: &mut Vec<u8>) -> bool {
        if self.changes.asked.is_none() || self.is_paced(now) {
            return false;
        }
        let Some(pull) = self.changes.asked.take() else { return false };
        self.assert_answerable();
        // Before the marks are taken: what is said to be frozen was marked to the last write.
        let is_frozen = self.writer.view().phase() == ExportPhase::Frozen;
        let mut batch = Vec::new();
        let records = if pull.sequence == self.changes.sent_sequence {
            self.pack_again(store, &mut batch)
        } else {
            self.pack_next(store, pull, &mut batch)
        };
        let Changes { round, queue, sent, .. } = &self.changes;
        let remaining = queue.len() as u64 + self.writer.view().marked();
        match pull.write_reply(*round, remaining, is_frozen, sent, &batch, out) {
            Ok(()) => {
                self.counters.records_sent += records;
                self.counters.bytes_sent += batch.len() as u64;
                if fault!(RoundForgetsUnacknowledged) {
                    self.changes.sent.clear();
                }
                true
            }
            Err(error) => {
                let from = sent.first().map_or(self.spec.range.first(), |range| range.first());
                self.unsendable(Lane::Bulk, from, error, out)
            }
        }
    }

    /// The same ranges as the last time (M10).
    fn pack_again(&mut self, store: &Store, batch: &mut Vec<u8>) -> u64 {
        let pack = |range: &PositionRange| store.scan(range.first(), range.last(), usize::MAX, batch).records;
        self.changes.sent.iter().map(pack).map(u64::from).sum()
    }

    /// The next ranges of the round, or the first of the next round. What was sent before has arrived.
    fn pack_next(&mut self, store: &Store, pull: ChangedPull, batch: &mut Vec<u8>) -> u64 {
        let max_bytes = pull.max_bytes.min(PULL_BYTES_MAX) as usize;
        let changes = &mut self.changes;
        changes.sent.clear();
        changes.sent_sequence = pull.sequence;
        if changes.queue.is_empty() {
            changes.queue = self.writer.take_marks().into();
            changes.round += u32::from(!changes.queue.is_empty());
        }
        let mut records = 0;
        while changes.sent.len() < CHANGED_RANGES_MAX && batch.len() < max_bytes {
            let Some(range) = changes.queue.pop_front() else { break };
            let end = store.scan(range.first(), range.last(), max_bytes - batch.len(), batch);
            records += u64::from(end.records);
            let (sent, rest) = split(range, end.next);
            changes.sent.push(sent);
            if let Some(rest) = rest {
                changes.queue.push_front(rest);
            }
            if range.first() < range.last() {
                // The target discards what it has in the range: not much at a time.
                break;
            }
        }
        records
    }
}

/// What of the range was packed, and the rest, which begins at `next`.
fn split(range: PositionRange, next: Option<Position>) -> (PositionRange, Option<PositionRange>) {
    let Some((next, last)) = next.and_then(|next| Some((next, next.previous()?))) else {
        return (range, None);
    };
    let sent = PositionRange::new(range.first(), last).expect("a scan makes progress");
    (sent, PositionRange::new(next, range.last()))
}
