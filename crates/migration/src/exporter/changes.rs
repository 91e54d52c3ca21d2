//! Rounds of changes: what workers marked while the range was copied.
//!
//! A round is all marks at one moment, in order. Each reply names some of its ranges (a position is a range
//! of one) and carries everything that stands in them when it is packed, so that deletions, flushes and keys
//! of equal positions need no cases of their own. When the round is empty the next one is taken.
//!
//! M11: the marks are taken before what they are of is packed, so that a write which the packing missed is
//! marked anew. M10: what a reply named is kept until the next sequence number acknowledges it; asked again,
//! the source sends the same ranges, or the first of them, with what stands in them by then. Were it to send
//! others, a reply that was only late could acknowledge what never came.
//!
//! M12: what is larger than a piece goes alone, in pieces; once it has changed meanwhile it waits for the
//! next round, so that a round ends however often it changes.
//!
//! Realises: Albatross 4.2 and 4.3 (iterations, atomic hand-over), RAMCloud's migration.

use super::{Exporter, pieces};
use crate::tuning::PULL_BYTES_MAX;
use crate::{BarrierPassed, ExportPhase};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::limits::CHANGED_RANGES_MAX;
use sidle_wire::{ChangedPull, Lane, Piece, RoundState};
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
        let (records, piece) = self.pack_changes(store, &pull, &mut batch);
        let Changes { round, queue, sent, .. } = &self.changes;
        let is_cut = piece.is_some_and(|piece| !piece.and(batch.len()).is_whole());
        let remaining = queue.len() as u64 + self.writer.view().marked() + u64::from(is_cut);
        let round = RoundState { number: *round, remaining, is_frozen };
        match pull.write_reply(round, sent, piece, &batch, out) {
            Ok(()) => {
                self.counters.records_sent += records + pieces::records(piece, batch.len());
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

    /// Packs the next ranges of the round, or the first of the next round: what was sent before has arrived.
    /// Asked again, packs the same ranges as the last time, or the first of them (M10). Or packs a piece of
    /// what stands at one position. What has changed since its first piece was sent comes in the next round.
    fn pack_changes(
        &mut self,
        store: &Store,
        pull: &ChangedPull,
        batch: &mut Vec<u8>,
    ) -> (u64, Option<Piece>) {
        let is_asked_again = pull.sequence == self.changes.sent_sequence;
        self.changes.sent_sequence = pull.sequence;
        let sent = std::mem::take(&mut self.changes.sent);
        if let Some(in_hand) = pull.piece
            && (!is_asked_again || sent == [only(in_hand.position)])
        {
            let piece = pieces::pack_piece(store, &self.spec.tuning, in_hand.position, Some(in_hand), batch);
            match piece {
                Some(piece) if pieces::has_changed(Some(in_hand), &piece) => {
                    batch.clear();
                    if !is_asked_again {
                        self.writer.view().mark(in_hand.position);
                    }
                }
                piece => {
                    self.changes.sent = vec![only(in_hand.position)];
                    return (0, piece);
                }
            }
        }
        let most_ranges = match is_asked_again {
            true => sent.len(),
            false => CHANGED_RANGES_MAX,
        };
        if is_asked_again {
            sent.into_iter().rev().for_each(|range| self.changes.queue.push_front(range));
        } else if self.changes.queue.is_empty() {
            self.changes.queue = self.writer.take_marks().into();
            self.changes.round += u32::from(!self.changes.queue.is_empty());
        }
        self.pack_queued(store, pull, most_ranges, batch)
    }

    /// Packs from the front of the queue.
    fn pack_queued(
        &mut self,
        store: &Store,
        pull: &ChangedPull,
        most_ranges: usize,
        batch: &mut Vec<u8>,
    ) -> (u64, Option<Piece>) {
        let max_bytes = pull.max_bytes.min(PULL_BYTES_MAX) as usize;
        let (tuning, changes) = (&self.spec.tuning, &mut self.changes);
        let large_bytes = tuning.piece_bytes as usize;
        let mut records = 0;
        while changes.sent.len() < most_ranges && batch.len() < max_bytes {
            let Some(range) = changes.queue.pop_front() else { break };
            let (first, last) = (range.first(), range.last());
            let end = store.scan_to_large(first, last, max_bytes - batch.len(), large_bytes, batch);
            records += u64::from(end.records);
            if end.is_large && end.next == Some(first) {
                if !changes.sent.is_empty() {
                    changes.queue.push_front(range);
                    break;
                }
                changes.sent.push(only(first));
                if let Some(rest) = split(range, first.next()).1 {
                    changes.queue.push_front(rest);
                }
                let piece = pieces::pack_piece(store, tuning, first, None, batch);
                return (0, piece);
            }
            let (sent, rest) = split(range, end.next);
            changes.sent.push(sent);
            if let Some(rest) = rest {
                changes.queue.push_front(rest);
            }
            if first < last {
                // The target discards what it has in the range: not much at a time.
                break;
            }
        }
        (records, None)
    }
}

fn only(position: Position) -> PositionRange {
    PositionRange::new(position, position).expect("one position")
}

/// What of the range was packed, and the rest, which begins at `next`.
fn split(range: PositionRange, next: Option<Position>) -> (PositionRange, Option<PositionRange>) {
    let Some((next, last)) = next.and_then(|next| Some((next, next.previous()?))) else {
        return (range, None);
    };
    let sent = PositionRange::new(range.first(), last).expect("a scan makes progress");
    (sent, PositionRange::new(next, range.last()))
}
