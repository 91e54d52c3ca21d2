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
//! The last cut may give all that is left. What was not copied then is *owed* (M30): nothing of it is in the
//! reply, and it is pulled from here as from any frozen range.
//!
//! A target that finds no memory for a cut asks for it again as the last one, and as one that owes all (M38).
//! What it gave is then sent later too, in pieces for which there is memory. The replies before do not count.
//!
//! The reply is never paced: nobody serves what is in transit.

use super::by_load::ByLoad;
use super::parts::SourceParts;
use super::pieces;
use crate::cuts::{Ahead, PositionsGiven, Windows};
use crate::tuning::{PULL_BYTES_MAX, SAFE_POLL_US};
use crate::{BarrierPassed, Cuts as Choices, Load, MigrationSpec, SourceEvent, Uncovered};
use sidle_store::{Commits, Store};
use sidle_types::{CommitNumber, MonotonicUs, Position, PositionRange, Version, fault};
use sidle_wire::limits::CHANGED_RANGES_MAX;
use sidle_wire::{CutCounts, CutPull, CutReply, CutState, Gives, Lane, Piece};
use std::collections::{BTreeSet, VecDeque};

/// A collection takes so much more memory than it is long when packed, as a share of that.
const SPARE_SHARE: u64 = 4;

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
    Stepping { step: Step, is_published: bool },
    /// Every worker has passed its step. If that gives all, what is owed is as frozen: the durable log is to
    /// be safe up to this commit, its last change, before anybody sees it (C11).
    Unsafe { step: Step, last: CommitNumber, look_at: MonotonicUs },
}

/// What a cut gives.
#[derive(Debug)]
struct Step {
    /// What was copied of it lies before these.
    copied: Ahead,
    given: Ahead,
    marked: Ahead,
    taken: Vec<Position>,
    gives: Gives,
}

/// What the last cut that was requested gives.
#[derive(Debug)]
struct Last {
    gives: Gives,
    /// What was given before it.
    before: Ahead,
    /// What it takes out of turn.
    taken: Vec<Position>,
    /// Where it gives, the positions that were given out of turn before it.
    given_before: BTreeSet<Position>,
}

/// The cuts of a migration.
#[derive(Debug)]
pub(super) struct Cuts {
    windows: Windows,
    /// The number of the last cut that was requested.
    cut: u32,
    last: Last,
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
    counts: CutCounts,
    /// If the source gives all once it falls behind: whether it has.
    by_load: Option<ByLoad>,
}

impl Cuts {
    pub(super) fn new(choices: Choices, spec: &MigrationSpec) -> Cuts {
        let windows = Windows::new(spec, u64::from(choices.bytes));
        let given: Ahead = spec.partitions.iter().map(|partition| Some(partition.first())).collect();
        let (gives, before) = (Gives::Named, given.clone());
        let last = Last { gives, before, taken: Vec::new(), given_before: BTreeSet::new() };
        Cuts {
            cut: 0,
            last,
            state: State::Given,
            given,
            marked: windows.first(),
            out_of_turn: BTreeSet::new(),
            queue: VecDeque::new(),
            sent: Vec::new(),
            sent_sequence: 0,
            asked: None,
            highest_version: Version(0),
            counts: CutCounts::default(),
            by_load: (choices.uncovered == Uncovered::ByLoad).then(ByLoad::default),
            windows,
        }
    }

    /// How the workers keep up.
    pub(super) fn measured(&mut self, now: MonotonicUs, load: Load) {
        self.by_load.iter_mut().for_each(|rule| rule.waits(now, load.worker_lag_us));
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
    pub(super) fn take_cut_pull(&mut self, parts: &mut SourceParts, store: &Store, pull: CutPull<'_>) {
        let is_asked_again = pull.sequence == self.sent_sequence;
        let is_next = pull.sequence == self.sent_sequence + 1;
        let begins = pull.cut == self.cut.wrapping_add(1);
        let is_of_it = pull.cut == self.cut || begins && is_next && self.queue.is_empty();
        if pull.sequence == 0 || !(is_asked_again || is_next) || !is_of_it {
            return;
        }
        let CutPull { sequence, max_bytes, piece, .. } = pull;
        self.asked = Some(Asked { sequence, max_bytes, piece });
        if !matches!(self.state, State::Given) {
            return;
        }
        if begins {
            self.begin(parts, store, &pull);
        } else if pull.gives == Gives::AllOwed && self.last.gives != Gives::AllOwed {
            let step = self.step(self.given.clone(), Vec::new(), pull.gives);
            self.state = State::Stepping { step, is_published: false };
            parts.events.push_back(SourceEvent::Step);
        }
    }

    fn begin(&mut self, parts: &mut SourceParts, store: &Store, pull: &CutPull<'_>) {
        let cursors: Ahead = pull.cursors.iter().collect();
        let is_copied = |(named, marked): (&Option<Position>, &Option<Position>)| match (named, marked) {
            (_, None) => true,
            (Some(named), Some(marked)) => named <= marked,
            (None, Some(_)) => false,
        };
        let mut taken: Vec<Position> = pull.taken.iter().collect();
        taken.sort_unstable();
        let is_sound = cursors.iter().zip(&self.marked).all(is_copied)
            && parts.writer.out_of_turn().has_room(taken.len())
            && taken.iter().copied().all(PositionsGiven::may_have);
        if !is_sound && !fault!(CutNamesWhatIsNotCopied) {
            self.asked = None;
            let text = "a cut of what was not copied".to_owned();
            return parts.refuse(Lane::Priority, sidle_wire::RefusalCode::OutOfRange, text);
        }
        self.cut = pull.cut;
        self.by_load.iter_mut().for_each(|rule| rule.took(pull.took_us));
        let view = parts.writer.view();
        let is_kept = |position: &Position| {
            view.began_with(*position) && !is_given(&parts.spec.partitions, &self.given, *position)
        };
        // M34: what does not fit at the target would be nobody's in transit.
        let fits = |position: &Position| {
            let bytes = store.packed_bytes_at(*position) as u64;
            pull.room.has(bytes + bytes / SPARE_SHARE) || fault!(GivesWhatDoesNotFit)
        };
        let taken = taken.into_iter().filter(is_kept).filter(fits).collect();
        let step = self.step(cursors, taken, pull.gives);
        self.state = State::Stepping { step, is_published: false };
        parts.events.push_back(SourceEvent::Step);
    }

    /// The step of a cut that names these.
    fn step(&mut self, cursors: Ahead, taken: Vec<Position>, gives: Gives) -> Step {
        // M21: what is given stays given.
        let further = |(before, named): (&Option<Position>, Option<Position>)| {
            before.and_then(|before| named.map(|named| named.max(before)))
        };
        let copied: Ahead = self.given.iter().zip(cursors).map(further).collect();
        if gives.is_all() {
            let all = vec![None; copied.len()];
            return Step { copied, given: all.clone(), marked: all, taken, gives };
        }
        for (index, (given, marked)) in copied.iter().zip(&self.marked).enumerate() {
            if given == marked && given.is_some() {
                self.windows.widen(index);
            }
        }
        let ahead = self.windows.ahead_of(&copied);
        let later = |(before, ahead): (&Option<Position>, Option<Position>)| {
            before.and_then(|before| ahead.map(|ahead| ahead.max(before)))
        };
        let marked = self.marked.iter().zip(ahead).map(later).collect();
        Step { given: copied.clone(), copied, marked, taken, gives }
    }

    /// The step of the cut under way counts from this number on, for the workers that see it.
    pub(super) fn publish_step(&mut self, parts: &mut SourceParts, number: u64) {
        let State::Stepping { step, is_published } = &mut self.state else {
            unreachable!("a step is published for a cut")
        };
        *is_published = true;
        let Step { given, marked, taken, .. } = step;
        let out_of_turn = parts.writer.out_of_turn();
        taken.iter().for_each(|&position| out_of_turn.insert(position, number));
        parts.writer.write_step(number, given, marked);
    }

    /// Every worker uses the step: what it gives does not change any more (M20). Whether it is given.
    pub(super) fn stepped(
        &mut self,
        parts: &mut SourceParts,
        now: MonotonicUs,
        store: &Store,
        _passed: BarrierPassed,
    ) -> bool {
        let step = match std::mem::replace(&mut self.state, State::Given) {
            State::Stepping { step, .. } => step,
            other => {
                self.state = other;
                return false;
            }
        };
        let waits = step.gives.is_all() && !fault!(ActivatedBeforeSafe);
        let commits = store.commits().filter(|_| waits);
        let last = commits.map_or(CommitNumber(0), |commits| commits.latest_in(parts.spec.range));
        self.state = State::Unsafe { step, last, look_at: now };
        self.timeout(parts, now, store)
    }

    /// Gives what every worker has passed, if the durable log is safe up to it by now. Whether it is given.
    pub(super) fn timeout(&mut self, parts: &mut SourceParts, now: MonotonicUs, store: &Store) -> bool {
        let safe = store.commits().map_or(CommitNumber(u64::MAX), Commits::safe);
        match std::mem::replace(&mut self.state, State::Given) {
            State::Unsafe { step, last, .. } if last <= safe => {
                self.give(parts, store, step);
                return true;
            }
            State::Unsafe { step, last, look_at } if look_at <= now => {
                self.state = State::Unsafe { step, last, look_at: now.plus_us(SAFE_POLL_US) };
            }
            other => self.state = other,
        }
        false
    }

    /// When to look again whether it is safe.
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self.state {
            State::Unsafe { look_at, .. } => Some(look_at),
            State::Given | State::Stepping { .. } => None,
        }
    }

    fn give(&mut self, parts: &mut SourceParts, store: &Store, step: Step) {
        let before = std::mem::replace(&mut self.given, step.given.clone());
        self.marked.clone_from(&step.marked);
        self.note_last(parts, &before, &step);
        let counts = self.count_given(parts, store, &before, &step);
        parts.writer.gave_records(counts.records);
        let mut queue = self.take_marks(parts, &before, &step);
        if step.gives == Gives::AllOwed {
            return self.owe_all(parts, store, counts);
        }
        self.counts = counts;
        if fault!(CutIgnoresMarks) || step.gives == Gives::All && fault!(GiveAllWithoutMarks) {
            queue.clear();
        }
        if step.gives == Gives::All {
            queue.extend(self.locked_behind(parts, store, &step.copied));
        }
        queue.extend(step.taken);
        self.queue = queue.into_iter().map(PositionRange::only).collect();
        self.highest_version = store.highest_version(parts.spec.range);
    }

    /// Notes what this step gives: as a cut, or with what its cut gave before (M38).
    fn note_last(&mut self, parts: &SourceParts, before: &Ahead, step: &Step) {
        let newly = newly_given(&parts.spec.partitions, before, &step.given);
        let given_before = newly.flat_map(|range| self.out_of_turn.range(range.first()..=range.last()));
        let Last { gives, taken, given_before: noted, .. } = &mut self.last;
        if step.gives == Gives::AllOwed {
            *gives = step.gives;
            noted.extend(given_before.filter(|position| taken.binary_search(position).is_err()));
        } else {
            let given_before = given_before.copied().collect();
            let (before, taken) = (before.clone(), step.taken.clone());
            self.last = Last { gives: step.gives, before, taken, given_before };
        }
    }

    /// M38: all that this cut gives is owed, also what it gave already. Of that nothing is sent yet.
    fn owe_all(&mut self, parts: &SourceParts, store: &Store, counts: CutCounts) {
        let records = self.counts.records + counts.records;
        self.counts = CutCounts { records, owed: records };
        self.sent.clear();
        self.queue = self.locked_behind(parts, store, &self.last.before).map(PositionRange::only).collect();
        self.highest_version = store.highest_version(parts.spec.range);
    }

    /// M37: where transactions have something at keys behind these cursors, but for those that were given
    /// before this cut. What is owed has none of its records in the cut, but these.
    fn locked_behind<'a>(
        &'a self,
        parts: &SourceParts,
        store: &'a Store,
        cursors: &'a Ahead,
    ) -> impl Iterator<Item = Position> + 'a {
        let owed: Vec<_> = newly_given(&parts.spec.partitions, cursors, &self.given).collect();
        let locked = owed.into_iter().flat_map(|range| store.positions_with_locks(range));
        let given_before = &self.last.given_before;
        locked.filter(move |position| !given_before.contains(position) && !fault!(LocksLeftBehind))
    }

    /// How many records this cut gives, and owes. Nothing changes there any more, so each counts once.
    fn count_given(&mut self, parts: &SourceParts, store: &Store, before: &Ahead, step: &Step) -> CutCounts {
        let at = |position: Position| store.len_in(PositionRange::only(position));
        self.out_of_turn.extend(&step.taken);
        let mut between = |from: &Ahead, to: &Ahead| {
            let mut records = 0;
            for range in newly_given(&parts.spec.partitions, from, to) {
                let counted = self.out_of_turn.extract_if(range.first()..=range.last(), |_| true);
                records += store.len_in(range) - counted.map(at).sum::<u64>();
            }
            records
        };
        let in_turn = between(before, &step.copied);
        let owed = between(&step.copied, &step.given);
        CutCounts { records: step.taken.iter().copied().map(at).sum::<u64>() + in_turn + owed, owed }
    }

    /// What was marked where this cut gives, and was copied before. Marks at what is kept stay; at what is
    /// owed they mean nothing.
    fn take_marks(&self, parts: &mut SourceParts, before: &Ahead, step: &Step) -> BTreeSet<Position> {
        let mut changed = BTreeSet::new();
        for range in parts.writer.take_marks() {
            assert_eq!(range.first(), range.last(), "M22: what is kept is marked by position");
            let position = range.first();
            let is_below = |cursors| is_given(&parts.spec.partitions, cursors, position);
            let is_taken = step.taken.binary_search(&position).is_ok();
            let was_given = is_below(before) || self.out_of_turn.contains(&position) && !is_taken;
            assert!(!was_given || fault!(SourceServesWhatItGave), "M20: {position} changed though given");
            if was_given || is_taken || is_below(&step.copied) {
                changed.insert(position);
            } else if !is_below(&step.given) && !fault!(CopyClearsMarks) {
                parts.writer.mark_again(position);
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
        match std::mem::replace(&mut self.state, State::Given) {
            State::Given => {}
            State::Stepping { step, is_published: true } if fault!(CutPackedBeforeBarrier) => {
                self.give(parts, store, step);
            }
            waits => {
                self.state = waits;
                return false;
            }
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
            counts: self.counts,
            owes_all: self.last.gives == Gives::AllOwed,
            asks: self.by_load.as_ref().is_some_and(ByLoad::has_fallen_behind),
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
        parts: &mut SourceParts,
        store: &Store,
        asked: &Asked,
        batch: &mut Vec<u8>,
    ) -> Option<Piece> {
        let is_asked_again = asked.sequence == self.sent_sequence;
        self.sent_sequence = asked.sequence;
        parts.sent_whole.asked(is_asked_again);
        let sent = std::mem::take(&mut self.sent);
        let large_bytes = parts.spec.piece_bytes();
        if let Some(in_hand) = asked.piece
            && (!is_asked_again || sent == [PositionRange::only(in_hand.position)])
        {
            self.sent = vec![PositionRange::only(in_hand.position)];
            return pieces::pack_piece(&parts.spec, store, in_hand.position, Some(in_hand), batch);
        }
        let most = if is_asked_again { sent.len() } else { CHANGED_RANGES_MAX };
        if is_asked_again {
            sent.into_iter().rev().for_each(|range| self.queue.push_front(range));
        }
        let max_bytes = asked.max_bytes.min(PULL_BYTES_MAX) as usize;
        while self.sent.len() < most && batch.len() < max_bytes {
            let Some(range) = self.queue.pop_front() else { break };
            let position = range.first();
            if fault!(TakenWithoutRecord) && self.out_of_turn.contains(&position) {
                self.sent.push(range);
                continue;
            }
            let end = store.scan_to_large(position, position, usize::MAX, large_bytes, batch);
            if end.is_large && self.sent.is_empty() {
                self.sent.push(range);
                let in_hand = parts.sent_whole.in_hand(position);
                return pieces::pack_piece(&parts.spec, store, position, in_hand, batch);
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
