//! Answering pulls out of frozen data.
//!
//! Requests wait here until their lane takes an answer, and are packed straight into the lane's output. The
//! queues are bounded: one pull for each partition, one sampled pull, one probe, and a few priority pulls.

use super::cuts::Cuts;
use super::parts::SourceParts;
use super::pieces;
use super::recent_replies::{RecentReplies, Request};
use crate::tuning::{PRIORITY_PULLS_QUEUED_MAX, PRIORITY_REPLY_BYTES, PULL_BYTES_MAX, SAMP_REPLY_BYTES};
use crate::{ExportPhase, MigrationSpec};
use sidle_store::{Packed, Store};
use sidle_types::{Fill, HashedKey, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::{
    AbsentKeys, ChangedPull, Lane, Message, Piece, PriorityPull, PriorityPullReplyStart, Probe, ProbeReply,
    Pull, PullReplyStart, RoundState, SampPull, SampPullReplyStart,
};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
struct Positions {
    sequence: u64,
    positions: Vec<Position>,
}

#[derive(Debug)]
struct Keys {
    sequence: u64,
    keys: Vec<Box<[u8]>>,
    /// The piece in hand of the records at the only key's position.
    piece: Option<Piece>,
}

/// Requests that wait for their lane.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// In order of arrival; at most one for each partition.
    pulls: VecDeque<Pull>,
    samp_pull: Option<Positions>,
    priority_pulls: VecDeque<Keys>,
    probe: Option<Positions>,
    /// For a piece of a large collection that is copied ahead.
    collection: Option<ChangedPull>,
    answered: RecentReplies,
}

impl Requests {
    /// How full the queues are. `partitions`: how many the range has.
    pub(super) fn queues(&self, partitions: usize) -> [Fill; 2] {
        let priority = self.priority_pulls.len();
        [
            Fill::new("pulls to be answered", self.pulls.len(), partitions),
            Fill::new("priority pulls to be answered", priority, PRIORITY_PULLS_QUEUED_MAX),
        ]
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.answered.forget(lane);
        match lane {
            Lane::Bulk => {
                self.pulls.clear();
                self.collection = None;
            }
            Lane::Priority => {
                self.samp_pull = None;
                self.probe = None;
                self.priority_pulls.clear();
            }
        }
    }

    pub(super) fn take_pull(&mut self, now: MonotonicUs, pull: Pull) {
        if self.answered.stands(now, Request::Pull(pull.partition, pull.sequence)) {
            return;
        }
        match self.pulls.iter_mut().find(|waiting| waiting.partition == pull.partition) {
            // M10: an older pull that arrives later does not replace a newer one.
            Some(waiting) if waiting.sequence <= pull.sequence => *waiting = pull,
            Some(_) => {}
            None => self.pulls.push_back(pull),
        }
    }

    pub(super) fn take_samp_pull(&mut self, now: MonotonicUs, pull: SampPull<'_>) {
        if self.answered.stands(now, Request::SampPull(pull.sequence)) {
            return;
        }
        if self.samp_pull.as_ref().is_none_or(|waiting| waiting.sequence <= pull.sequence) {
            let positions = pull.positions.iter().collect();
            self.samp_pull = Some(Positions { sequence: pull.sequence, positions });
        }
    }

    pub(super) fn take_probe(&mut self, probe: Probe<'_>) {
        if self.probe.as_ref().is_none_or(|waiting| waiting.sequence <= probe.sequence) {
            let positions = probe.positions.iter().collect();
            self.probe = Some(Positions { sequence: probe.sequence, positions });
        }
    }

    /// A pull of a piece of a large collection, which names what is in hand.
    pub(super) fn take_collection_pull(&mut self, pull: ChangedPull) {
        if self.collection.as_ref().is_none_or(|waiting| waiting.sequence <= pull.sequence) {
            self.collection = Some(pull);
        }
    }

    pub(super) fn take_priority_pull(&mut self, now: MonotonicUs, pull: PriorityPull<'_>) {
        if self.answered.stands(now, Request::PriorityPull(pull.sequence)) {
            return;
        }
        let queue = &mut self.priority_pulls;
        if queue.iter().any(|waiting| waiting.sequence == pull.sequence) {
            return;
        }
        if queue.len() == PRIORITY_PULLS_QUEUED_MAX {
            queue.pop_front();
        }
        let keys = pull.keys.iter().map(Box::from).collect();
        queue.push_back(Keys { sequence: pull.sequence, keys, piece: pull.piece });
    }

    pub(super) fn answer_pull(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        cuts: Option<&Cuts>,
        out: &mut Vec<u8>,
    ) -> bool {
        let until = |pull: &Pull| cuts.and_then(|cuts| cuts.copied_until(usize::from(pull.partition)));
        // M28: what is not marked yet waits for a step.
        let may_be_copied = |pull: &Pull| until(pull).is_none_or(|until| pull.range.first() < until);
        let Some(index) = self.pulls.iter().position(may_be_copied) else { return false };
        if parts.is_paced(now) {
            return false;
        }
        let Some(pull) = self.pulls.remove(index) else { return false };
        parts.assert_answerable();
        let start = PullReplyStart::begin(&pull, out);
        let before = out.len();
        let (mut next, records, piece) = Requests::pack_pulled(parts, store, &pull, cuts, out);
        let bytes = out.len() - before;
        assert!(next.is_none_or(|next| next > pull.range.first()), "a pull always makes progress");
        if fault!(PartitionSkipsPosition) && piece.is_none() {
            next = next.and_then(Position::next).filter(|&next| pull.range.contains(next));
        }
        if fault!(SourceReleasesAtFin) && next.is_none() && piece.is_none() {
            let partition = parts.spec.partitions[usize::from(pull.partition)];
            store.discard(partition.first(), partition.last(), usize::MAX);
        }
        match start.finish(next, piece, out) {
            Ok(()) => {
                self.answered.note(now, Request::Pull(pull.partition, pull.sequence));
                parts.counters.records_sent += records + pieces::records(piece, bytes);
                parts.counters.bytes_sent += bytes as u64;
                true
            }
            Err(error) => parts.unsendable(Lane::Bulk, pull.range.first(), error, out),
        }
    }

    /// Packs the answer to a pull: where to continue, how many whole records, or which piece of the records
    /// at the first position. What has changed since its first piece was sent is left to a round (M11).
    fn pack_pulled(
        parts: &mut SourceParts,
        store: &Store,
        pull: &Pull,
        cuts: Option<&Cuts>,
        out: &mut Vec<u8>,
    ) -> (Option<Position>, u64, Option<Piece>) {
        let until = cuts.and_then(|cuts| cuts.copied_until(usize::from(pull.partition)));
        let (first, rest) = (pull.range.first(), pull.range.last());
        let last = until.and_then(Position::previous).map_or(rest, |last| last.min(rest));
        let (before, large_bytes) = (out.len(), parts.spec.piece_bytes());
        let max_bytes = pull.max_bytes.min(PULL_BYTES_MAX) as usize;
        let end = store.scan_to_large(first, last, max_bytes, large_bytes, out);
        if !end.is_large || end.next != Some(first) {
            return (end.next.or(until), u64::from(end.records), None);
        }
        let mut piece = pieces::pack_piece(&parts.spec, store, first, pull.piece, out);
        if parts.phase() == ExportPhase::Tracking {
            parts.sent_whole.sent(piece, out.len() - before, true);
        }
        if parts.phase() == ExportPhase::Tracking
            && piece.is_some_and(|piece| pieces::has_changed(pull.piece, &piece))
        {
            out.truncate(before);
            piece = None;
            // What was given went with its cut.
            if cuts.is_none_or(|cuts| cuts.keeps(&parts.spec.partitions, first)) {
                parts.writer.mark_again(first);
            }
        }
        (first.next().filter(|&next| next <= pull.range.last()), 0, piece)
    }

    pub(super) fn answer_samp_pull(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(Positions { sequence, positions }) = self.samp_pull.take() else { return false };
        parts.assert_answerable();
        let start = SampPullReplyStart::begin(parts.scope, sequence, out);
        let before = out.len();
        let mut records = 0;
        let large_bytes = parts.spec.piece_bytes();
        // M28: before the freeze only what is marked.
        let view = Arc::clone(parts.writer.view());
        let is_copied = |position| parts.phase() == ExportPhase::Frozen || view.is_copied_ahead(position);
        for &position in positions.iter().filter(|&&position| is_copied(position)) {
            // Large records are sent with their partition.
            let end = store.scan_to_large(position, position, usize::MAX, large_bytes, out);
            records += u64::from(end.records);
            if out.len() - before >= SAMP_REPLY_BYTES {
                break;
            }
        }
        let bytes = (out.len() - before) as u64;
        match start.finish(out) {
            Ok(()) => {
                self.answered.note(now, Request::SampPull(sequence));
                parts.counters.records_sent_early += records;
                parts.counters.bytes_sent += bytes;
                true
            }
            Err(error) => parts.unsendable(Lane::Priority, parts.spec.range.first(), error, out),
        }
    }

    /// Answers with the next piece of the collection's patch (M32); with nothing if none that can be patched
    /// stands there.
    pub(super) fn answer_collection_pull(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.collection.is_none() || parts.is_paced(now) {
            return false;
        }
        let Some(pull) = self.collection.take() else { return false };
        let Some(in_hand) = pull.piece else { return false };
        parts.assert_answerable();
        let (position, mut batch) = (in_hand.position, Vec::new());
        let piece = pieces::pack_patch(&parts.spec, store, position, pull.piece, &mut batch);
        let ranges = piece.map(|_| PositionRange::only(position));
        let is_frozen = parts.phase() == ExportPhase::Frozen;
        let round = RoundState { number: 0, remaining: 0, is_frozen };
        match pull.write_reply(round, ranges.as_slice(), piece, &batch, out) {
            Ok(()) => {
                parts.counters.records_sent_early += pieces::records(piece, batch.len());
                parts.counters.bytes_sent += batch.len() as u64;
                true
            }
            Err(error) => parts.unsendable(Lane::Bulk, position, error, out),
        }
    }

    pub(super) fn answer_probe(&mut self, parts: &SourceParts, store: &Store, out: &mut Vec<u8>) -> bool {
        let Some(Positions { sequence, positions }) = self.probe.take() else { return false };
        parts.assert_answerable();
        let has_keys = |position| store.len_in(PositionRange::only(position)) > 0;
        let found = positions.iter().filter(|&&position| has_keys(position)).count() as u64;
        ProbeReply { scope: parts.scope, sequence, found }.write(out);
        true
    }

    pub(super) fn answer_priority_pull(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(Keys { sequence, keys, piece: in_hand }) = self.priority_pulls.pop_front() else {
            return false;
        };
        parts.assert_answerable();
        let start = PriorityPullReplyStart::begin(parts.scope, sequence, out);
        let before = out.len();
        let mut absent = AbsentKeys::default();
        let mut answered = 0;
        let mut piece = None;
        let large_bytes = parts.spec.piece_bytes();
        for (index, key) in keys.iter().enumerate() {
            let key = HashedKey::new(key);
            match store.pack_unless_large(key, large_bytes, out) {
                Packed::Whole => parts.counters.records_sent_early += 1,
                Packed::Absent => absent.insert(index),
                Packed::Large if index > 0 => break,
                Packed::Large => {
                    piece = pieces::pack_piece(&parts.spec, store, key.position(), in_hand, out);
                    break;
                }
            }
            answered = index + 1;
            if out.len() - before >= PRIORITY_REPLY_BYTES {
                break;
            }
        }
        let bytes = out.len() - before;
        match start.finish(answered, absent, piece, out) {
            Ok(()) => {
                self.answered.note(now, Request::PriorityPull(sequence));
                parts.counters.records_sent_early += pieces::records(piece, bytes);
                parts.counters.bytes_sent += bytes as u64;
                true
            }
            Err(error) => parts.unsendable(Lane::Priority, Position::of_key(&keys[0]), error, out),
        }
    }
}

/// Whether a request is for positions in the range, and of this protocol; `None` if it is no request.
pub(super) fn is_in_range(spec: &MigrationSpec, message: &Message<'_>) -> Option<bool> {
    let range = spec.range;
    match message {
        Message::Pull(pull) => {
            let partition = spec.partitions.get(usize::from(pull.partition));
            let is_rest_of =
                |bounds: &PositionRange| bounds.covers(pull.range) && bounds.last() == pull.range.last();
            Some(partition.is_some_and(is_rest_of))
        }
        Message::SampPull(pull) => Some(pull.positions.iter().all(|position| range.contains(position))),
        Message::Probe(probe) => Some(probe.positions.iter().all(|position| range.contains(position))),
        Message::PriorityPull(pull) => {
            let is_of_piece =
                |key| pull.piece.is_none_or(|piece: Piece| piece.position == Position::of_key(key));
            let is_in_range = |key| range.contains(Position::of_key(key)) && is_of_piece(key);
            Some(!pull.keys.is_empty() && pull.keys.iter().all(is_in_range))
        }
        Message::ChangedPull(pull) => {
            let is_in_range = pull.piece.is_none_or(|piece| range.contains(piece.position));
            let names_one = spec.protocol.copies_collections_ahead() && pull.piece.is_some();
            Some((spec.copies_ahead() || names_one) && is_in_range)
        }
        Message::CutPull(pull) => {
            let is_inside = |(bounds, next): (&PositionRange, Option<Position>)| {
                next.is_none_or(|next| bounds.contains(next))
            };
            let cursors = pull.cursors.iter();
            let are_inside = cursors.len() == spec.partitions.len()
                && spec.partitions.iter().zip(cursors).all(is_inside)
                && pull.taken.iter().all(|position| range.contains(position))
                && pull.piece.is_none_or(|piece| range.contains(piece.position));
            Some(spec.cuts().is_some() && are_inside)
        }
        _ => None,
    }
}
