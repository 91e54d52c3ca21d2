//! Cuts at the source: it gives what the target has copied, bit by bit, and serves the rest.
//!
//! The target requests a cut. Its step is published to the workers: what it names is given, and the windows
//! that are marked move on. Behind the step's barrier nobody here acts on what was given. Then the reply is
//! packed: everything that was marked there since it was copied, and all that is at positions out of turn
//! (M22). The same barrier lets the next windows be copied (M28).
//!
//! M10: a reply's ranges are kept until the next sequence number acknowledges it, and a cut's lists count
//! once. What is given never changes again, so a reply that is packed again is the same.
//!
//! The reply is never paced: nobody serves what is in transit.

use super::parts::SourceParts;
use super::pieces;
use crate::cuts::{Ahead, Windows};
use crate::tuning::PULL_BYTES_MAX;
use crate::{BarrierPassed, Cuts as Choices, MigrationSpec, SourceEvent};
use sidle_store::Store;
use sidle_types::{Position, PositionRange, Version, fault};
use sidle_wire::limits::CHANGED_RANGES_MAX;
use sidle_wire::{CutPull, CutReply, CutState, Lane, Piece};
use std::collections::{BTreeSet, VecDeque};

/// A pull of a cut that is to be answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    sequence: u64,
    max_bytes: u32,
    piece: Option<Piece>,
}

/// The cut under way.
#[derive(Debug)]
enum State {
    /// None; the last one may still be packed again.
    Given,
    /// Its step is to be published, or is published and not passed by every worker.
    Stepping { given: Ahead, marked: Ahead, taken: Vec<Position>, discards: bool, is_published: bool },
}

/// The cuts of a migration.
#[derive(Debug)]
pub(super) struct Cuts {
    windows: Windows,
    /// The number of the last cut that was requested.
    cut: u32,
    state: State,
    /// What every worker has given, and marks.
    given: Ahead,
    marked: Ahead,
    /// Positions given out of turn that lie behind the cursors.
    out_of_turn: BTreeSet<Position>,
    /// Unsent ranges of the cut.
    queue: VecDeque<PositionRange>,
    /// The last reply's ranges, and the pull that it answered.
    sent: Vec<PositionRange>,
    sent_sequence: u64,
    asked: Option<Asked>,
    highest_version: Version,
}

impl Cuts {
    pub(super) fn new(choices: Choices, spec: &MigrationSpec) -> Cuts {
        let windows = Windows::new(spec, u64::from(choices.bytes));
        Cuts {
            cut: 0,
            state: State::Given,
            given: spec.partitions.iter().map(|partition| Some(partition.first())).collect(),
            marked: windows.first(),
            out_of_turn: BTreeSet::new(),
            queue: VecDeque::new(),
            sent: Vec::new(),
            sent_sequence: 0,
            asked: None,
            highest_version: Version(0),
            windows,
        }
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        if lane == Lane::Priority {
            self.asked = None;
        }
    }

    /// Up to where a partition may be copied (M28), exclusive; `None`: to its end.
    pub(super) fn copied_until(&self, partition: usize) -> Option<Position> {
        if fault!(CopyBeforeMarks) {
            return None;
        }
        self.marked[partition]
    }

    /// Whether this node keeps a position of the range.
    pub(super) fn keeps(&self, partitions: &[PositionRange], position: Position) -> bool {
        !is_given(partitions, &self.given, position) && !self.out_of_turn.contains(&position)
    }

    /// The target requests a cut, again or on.
    pub(super) fn take_cut_pull(&mut self, parts: &mut SourceParts, pull: CutPull<'_>) {
        let is_asked_again = pull.sequence == self.sent_sequence;
        let is_next = pull.sequence == self.sent_sequence + 1;
        let begins = pull.cut == self.cut.wrapping_add(1);
        let is_of_it = pull.cut == self.cut || begins && is_next && self.queue.is_empty();
        if pull.sequence == 0 || !(is_asked_again || is_next) || !is_of_it {
            return;
        }
        let CutPull { sequence, max_bytes, piece, .. } = pull;
        self.asked = Some(Asked { sequence, max_bytes, piece });
        if begins && matches!(self.state, State::Given) {
            self.begin(parts, &pull);
        }
    }

    fn begin(&mut self, parts: &mut SourceParts, pull: &CutPull<'_>) {
        let cursors: Ahead = pull.cursors.iter().collect();
        let is_copied = |(named, marked): (&Option<Position>, &Option<Position>)| match (named, marked) {
            (_, None) => true,
            (Some(named), Some(marked)) => named <= marked,
            (None, Some(_)) => false,
        };
        let mut taken: Vec<Position> = pull.taken.iter().collect();
        taken.sort_unstable();
        let is_sound = (pull.discards || cursors.iter().zip(&self.marked).all(is_copied))
            && taken.iter().all(|&at| parts.writer.out_of_turn().takes(at, taken.len()));
        if !is_sound && !fault!(CutNamesWhatIsNotCopied) {
            self.asked = None;
            let text = "a cut of what was not copied".to_owned();
            return parts.refuse(Lane::Priority, sidle_wire::RefusalCode::OutOfRange, text);
        }
        self.cut = pull.cut;
        // M21: what is given stays given.
        let further = |(before, named): (&Option<Position>, Option<Position>)| {
            before.and_then(|before| named.map(|named| named.max(before)))
        };
        let given: Ahead = self.given.iter().zip(cursors).map(further).collect();
        for (index, (given, marked)) in given.iter().zip(&self.marked).enumerate() {
            if given == marked && given.is_some() {
                self.windows.widen(index);
            }
        }
        let ahead = self.windows.ahead_of(&given);
        let later = |(before, ahead): (&Option<Position>, Option<Position>)| {
            before.and_then(|before| ahead.map(|ahead| ahead.max(before)))
        };
        let marked = self.marked.iter().zip(ahead).map(later).collect();
        let is_kept =
            |position: &Position| !is_given(parts.spec.partitions.as_slice(), &self.given, *position);
        let taken = pull.taken.iter().filter(is_kept).collect();
        self.state = State::Stepping { given, marked, taken, discards: pull.discards, is_published: false };
        parts.events.push_back(SourceEvent::Step);
    }

    /// The step of the cut under way counts from this number on, for the workers that see it.
    pub(super) fn publish_step(&mut self, parts: &mut SourceParts, number: u64) {
        let State::Stepping { given, marked, taken, is_published, .. } = &mut self.state else {
            unreachable!("a step is published for a cut")
        };
        *is_published = true;
        let out_of_turn = parts.writer.out_of_turn();
        taken.iter().for_each(|&position| out_of_turn.insert(position, number));
        parts.writer.write_step(number, given, marked);
    }

    /// Every worker uses the step: what it gives does not change any more (M20).
    pub(super) fn stepped(&mut self, parts: &mut SourceParts, store: &Store, _passed: BarrierPassed) {
        self.give(parts, store);
    }

    fn give(&mut self, parts: &mut SourceParts, store: &Store) {
        let State::Stepping { given, marked, taken, discards, .. } =
            std::mem::replace(&mut self.state, State::Given)
        else {
            return;
        };
        let before = std::mem::replace(&mut self.given, given);
        self.marked = marked;
        let records = self.count_given(parts, store, &before, &taken);
        parts.writer.gave_records(records);
        let mut queue = self.take_marks(parts, &before, &taken);
        if !fault!(TakenWithoutRecord) {
            queue.extend(taken);
        }
        if discards || fault!(CutIgnoresMarks) {
            queue.clear();
        }
        self.queue = queue.into_iter().map(PositionRange::only).collect();
        self.highest_version = store.highest_version(parts.spec.range);
    }

    /// The number of records that this cut gives. Nothing changes there any more, so each counts once.
    fn count_given(&mut self, parts: &SourceParts, store: &Store, before: &Ahead, taken: &[Position]) -> u64 {
        let at = |position: Position| store.len_in(PositionRange::only(position));
        let mut records: u64 = taken.iter().copied().map(at).sum();
        self.out_of_turn.extend(taken);
        for range in newly_given(&parts.spec.partitions, before, &self.given) {
            records += store.len_in(range);
            let counted = self.out_of_turn.extract_if(range.first()..=range.last(), |_| true);
            records -= counted.map(at).sum::<u64>();
        }
        records
    }

    /// What was marked where this cut gives. Marks at what is kept stay.
    fn take_marks(&self, parts: &mut SourceParts, before: &Ahead, taken: &[Position]) -> BTreeSet<Position> {
        let mut changed = BTreeSet::new();
        for range in parts.writer.take_marks() {
            assert_eq!(range.first(), range.last(), "M22: what is kept is marked by position");
            let position = range.first();
            let is_below = |cursors| is_given(&parts.spec.partitions, cursors, position);
            let is_out_of_turn = self.out_of_turn.contains(&position);
            let was_given = is_below(before) || is_out_of_turn && taken.binary_search(&position).is_err();
            assert!(!was_given || fault!(SourceServesWhatItGave), "M20: {position} changed though given");
            if is_out_of_turn || is_below(&self.given) {
                changed.insert(position);
            } else if !fault!(CopyClearsMarks) {
                parts.writer.view().mark(position);
            }
        }
        changed
    }

    /// What is given, once every worker agrees on it.
    pub(super) fn given(&self, partitions: &[PositionRange]) -> Option<Vec<PositionRange>> {
        let firsts: Ahead = partitions.iter().map(|partition| Some(partition.first())).collect();
        let below = newly_given(partitions, &firsts, &self.given);
        let given = below.chain(self.out_of_turn.iter().copied().map(PositionRange::only)).collect();
        matches!(self.state, State::Given).then_some(given)
    }

    /// Whether everything is given.
    pub(super) fn has_given_all(&self) -> bool {
        matches!(self.state, State::Given) && self.given.iter().all(Option::is_none)
    }

    pub(super) fn answer_cut_pull(
        &mut self,
        parts: &mut SourceParts,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        if let State::Stepping { is_published, .. } = self.state {
            if !(is_published && fault!(CutPackedBeforeBarrier)) {
                return false;
            }
            self.give(parts, store);
        }
        let Some(asked) = self.asked.take() else { return false };
        parts.assert_answerable();
        let mut batch = Vec::new();
        let piece = self.pack(parts, store, &asked, &mut batch);
        let is_part = piece.is_some_and(|piece| !piece.and(batch.len()).is_whole());
        let state = CutState {
            sequence: asked.sequence,
            cut: self.cut,
            highest_version: self.highest_version,
            remaining: self.queue.len() as u64 + u64::from(is_part),
        };
        match CutReply::write(parts.scope, state, &self.sent, piece, &batch, out) {
            Ok(()) => {
                parts.counters.records_sent_early += self.sent.len() as u64;
                parts.counters.bytes_sent += batch.len() as u64;
                true
            }
            Err(error) => {
                let from = self.sent.first().map_or(parts.spec.range.first(), |range| range.first());
                parts.unsendable(Lane::Priority, from, error, out)
            }
        }
    }

    /// Packs the next positions of the cut; asked again, the same. Or a piece of what is at one position.
    fn pack(
        &mut self,
        parts: &SourceParts,
        store: &Store,
        asked: &Asked,
        batch: &mut Vec<u8>,
    ) -> Option<Piece> {
        let is_asked_again = asked.sequence == self.sent_sequence;
        self.sent_sequence = asked.sequence;
        let sent = std::mem::take(&mut self.sent);
        let large_bytes = parts.spec.piece_bytes();
        if let Some(in_hand) = asked.piece
            && (!is_asked_again || sent == [PositionRange::only(in_hand.position)])
        {
            self.sent = vec![PositionRange::only(in_hand.position)];
            return pieces::pack_piece(store, large_bytes, in_hand.position, Some(in_hand), batch);
        }
        let most = if is_asked_again { sent.len() } else { CHANGED_RANGES_MAX };
        if is_asked_again {
            sent.into_iter().rev().for_each(|range| self.queue.push_front(range));
        }
        let max_bytes = asked.max_bytes.min(PULL_BYTES_MAX) as usize;
        while self.sent.len() < most && batch.len() < max_bytes {
            let Some(range) = self.queue.pop_front() else { break };
            let position = range.first();
            let end = store.scan_to_large(position, position, usize::MAX, large_bytes, batch);
            if end.is_large && self.sent.is_empty() {
                self.sent.push(range);
                return pieces::pack_piece(store, large_bytes, position, None, batch);
            }
            if end.is_large {
                self.queue.push_front(range);
                break;
            }
            self.sent.push(range);
        }
        None
    }
}

/// Whether a position is before its partition's cursor.
fn is_given(partitions: &[PositionRange], cursors: &Ahead, position: Position) -> bool {
    let index = partitions.partition_point(|partition| partition.last() < position);
    cursors[index].is_none_or(|next| position < next)
}

/// What lies between the cursors.
fn newly_given(
    partitions: &[PositionRange],
    before: &Ahead,
    given: &Ahead,
) -> impl Iterator<Item = PositionRange> {
    let between = |((bounds, before), given): ((&PositionRange, &Option<Position>), &Option<Position>)| {
        let last = given.map_or(Some(bounds.last()), Position::previous)?;
        PositionRange::new((*before)?, last)
    };
    partitions.iter().zip(before).zip(given).filter_map(between)
}
