//! Rounds of changes: what workers marked while the range was copied.
//!
//! A round is all marks at one moment, in order. Each reply names some of its ranges (a position is a range
//! of one) and carries all records in them at packing time. So deletions, flushes and keys of equal positions
//! need no special cases. When the round is empty the next one is taken.
//!
//! M11: marks are taken before their records are packed, so a write that the packing missed is marked again.
//! M10: a reply's ranges are kept until the next sequence number acknowledges it. Asked again, the source
//! sends the same ranges, or the first of them, with their present records. If it sent others, a delayed
//! reply could acknowledge ranges that never arrived.
//!
//! M12: ranges larger than a piece go alone, in pieces. One that changes meanwhile waits for the next round,
//! so that a round ends however often it changes.
//!
//! Realises: Albatross 4.2 and 4.3 (iterations, atomic hand-over), RAMCloud's migration.

use super::parts::SourceParts;
use super::pieces;
use crate::ExportPhase;
use crate::tuning::PULL_BYTES_MAX;
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::limits::CHANGED_RANGES_MAX;
use sidle_wire::{ChangedPull, Lane, Piece, RoundState};
use std::collections::VecDeque;

/// The current round and its state.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The round's number, from 1.
    round: u32,
    /// Its unsent ranges.
    queue: VecDeque<PositionRange>,
    /// The last reply's ranges, and the pull that it answered.
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

    pub(super) fn take_changed_pull(&mut self, pull: ChangedPull) {
        let is_asked_again = pull.sequence == self.sent_sequence;
        let is_next = pull.sequence == self.sent_sequence + 1;
        if pull.sequence > 0 && (is_asked_again || is_next) {
            self.asked = Some(pull);
        }
    }

    pub(super) fn answer_changed_pull(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.asked.is_none() || parts.is_paced(now) {
            return false;
        }
        let Some(pull) = self.asked.take() else { return false };
        parts.assert_answerable();
        // Before the marks are taken: a reply marked frozen includes the last write.
        let is_frozen = parts.phase() == ExportPhase::Frozen;
        let mut batch = Vec::new();
        let (records, piece) = self.pack_changes(parts, store, &pull, &mut batch);
        parts.sent_whole.sent(piece, batch.len(), false);
        let Changes { round, queue, sent, .. } = &*self;
        let is_cut = piece.is_some_and(|piece| !piece.and(batch.len()).is_whole());
        let remaining = queue.len() as u64 + parts.writer.view().marked() + u64::from(is_cut);
        let round = RoundState { number: *round, remaining, is_frozen };
        match pull.write_reply(round, sent, piece, &batch, out) {
            Ok(()) => {
                parts.counters.records_sent += records + pieces::records(piece, batch.len());
                parts.counters.bytes_sent += batch.len() as u64;
                if fault!(RoundForgetsUnacknowledged) {
                    self.sent.clear();
                }
                true
            }
            Err(error) => {
                let from = sent.first().map_or(parts.spec.range.first(), |range| range.first());
                parts.unsendable(Lane::Bulk, from, error, out)
            }
        }
    }

    /// Packs the next ranges of the round, or the first of the next round: those sent before have arrived.
    /// Asked again, packs the same ranges, or the first of them (M10). Or packs a piece of the records at one
    /// position. What has changed since its first piece was sent goes into the next round.
    fn pack_changes(
        &mut self,
        parts: &mut SourceParts,
        store: &Store,
        pull: &ChangedPull,
        batch: &mut Vec<u8>,
    ) -> (u64, Option<Piece>) {
        let is_asked_again = pull.sequence == self.sent_sequence;
        self.sent_sequence = pull.sequence;
        parts.sent_whole.asked(is_asked_again);
        let sent = std::mem::take(&mut self.sent);
        if let Some(in_hand) = pull.piece
            && (!is_asked_again || sent == [PositionRange::only(in_hand.position)])
        {
            let piece = pieces::pack_piece(&parts.spec, store, in_hand.position, Some(in_hand), batch);
            match piece {
                Some(piece) if pieces::has_changed(Some(in_hand), &piece) => {
                    batch.clear();
                    if !is_asked_again {
                        parts.writer.mark_again(in_hand.position);
                    }
                }
                piece => {
                    self.sent = vec![PositionRange::only(in_hand.position)];
                    return (0, piece);
                }
            }
        }
        let most_ranges = match is_asked_again {
            true => sent.len(),
            false => CHANGED_RANGES_MAX,
        };
        if is_asked_again {
            sent.into_iter().rev().for_each(|range| self.queue.push_front(range));
        } else if self.queue.is_empty() {
            self.queue = parts.writer.take_marks().into();
            self.round += u32::from(!self.queue.is_empty());
        }
        self.pack_queued(parts, store, pull, most_ranges, batch)
    }

    /// Packs from the front of the queue.
    fn pack_queued(
        &mut self,
        parts: &SourceParts,
        store: &Store,
        pull: &ChangedPull,
        most_ranges: usize,
        batch: &mut Vec<u8>,
    ) -> (u64, Option<Piece>) {
        let max_bytes = pull.max_bytes.min(PULL_BYTES_MAX) as usize;
        let large_bytes = parts.spec.piece_bytes();
        let mut records = 0;
        while self.sent.len() < most_ranges && batch.len() < max_bytes {
            let Some(range) = self.queue.pop_front() else { break };
            let (first, last) = (range.first(), range.last());
            let end = store.scan_to_large(first, last, max_bytes - batch.len(), large_bytes, batch);
            records += u64::from(end.records);
            if end.is_large && end.next == Some(first) {
                if !self.sent.is_empty() {
                    self.queue.push_front(range);
                    break;
                }
                self.sent.push(PositionRange::only(first));
                if let Some(rest) = split(range, first.next()).1 {
                    self.queue.push_front(rest);
                }
                let in_hand = parts.sent_whole.in_hand(first);
                let piece = pieces::pack_piece(&parts.spec, store, first, in_hand, batch);
                return (0, piece);
            }
            let (sent, rest) = split(range, end.next);
            self.sent.push(sent);
            if let Some(rest) = rest {
                self.queue.push_front(rest);
            }
            if first < last {
                // The target discards its records in the range: not many at once.
                break;
            }
        }
        (records, None)
    }
}

/// The packed part of the range, and the rest, which begins at `next`.
fn split(range: PositionRange, next: Option<Position>) -> (PositionRange, Option<PositionRange>) {
    let Some((next, last)) = next.and_then(|next| Some((next, next.previous()?))) else {
        return (range, None);
    };
    let sent = PositionRange::new(range.first(), last).expect("a scan makes progress");
    (sent, PositionRange::new(next, range.last()))
}
