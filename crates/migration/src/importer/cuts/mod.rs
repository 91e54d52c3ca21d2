//! Cuts at the target: what was copied is taken over bit by bit.
//!
//! One pull of a cut is in flight. It names how far each partition has been copied (M25), and positions that
//! commands wait for. The source stops serving these, and sends what has changed there since it was copied,
//! and all that is at the positions out of turn. Once that is readable the positions are this node's (M23).
//! Until then records here are *inert*: copies that no command sees.
//!
//! Of a large collection among these positions the source keeps what does not fit here (M34): no reply of the
//! cut names it, so it is not owned, and the commands that wait for it fail.
//!
//! The source names positions that are hot (hints). They are taken as well, behind those that commands wait
//! for, and without the rest between cuts.
//!
//! The last cut may give all that is left. What was not copied is then owed (M30): its inert copies go, and
//! the migration ends as one that is copied after the freeze.
//!
//! M38: nobody serves what is in transit. If there is no memory for it within [`CUT_MEMORY_US`], its cut
//! becomes the last one, and owes all that this node does not own: the copies make way, and what is pulled
//! then comes in pieces for which there is memory, or is deleted first.
//!
//! Before a flush all is given (M31), and owed: what is thrown away then need not be brought.
//!
//! M10: a cut that is requested again has the same lists, and its replies count only for the pull in flight.
//! So a cut is applied once, and in order.
//!
//! The machine also counts inert records, so that the number of this node's keys is right in the middle: they
//! change on this thread only.

mod owning;

use super::hints::Hints;
use super::joining::join;
use super::news::News;
use super::partial::Partial;
use super::parts::TargetParts;
use super::priority_pull::PriorityQueue;
use super::pull::Pulls;
use super::records::{Records, Untaken, records_of};
use crate::cuts::{Ahead, PositionsGiven};
use crate::resend::Resend;
use crate::tuning::{CUT_MEMORY_US, NAMES_US, PRIORITY_RESEND_US, PULL_BYTES_MAX};
use crate::{Cuts as Choices, ImportPhase, MigrationSpec, Uncovered};
use sidle_store::{Replayed, Store};
use sidle_types::{Fill, GaveAll, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::{CutPull, CutReply, Gives, HotHints, Lane, Piece, Room};
use std::collections::{BTreeSet, VecDeque};

pub(super) use owning::Given;

/// While memory is short, positions are taken one by one, and only if so many bytes fit: in transit nobody
/// serves them.
const ROOM_BYTES: usize = 4 << 10;

/// A copy that was replayed: where it ends, and how many records it brought.
#[derive(Clone, Copy, Debug)]
struct Copied {
    next: Option<Position>,
    records: u64,
}

/// One partition's copies that this node does not own yet.
#[derive(Debug)]
struct Partition {
    /// Everything before it has been copied.
    next: Option<Position>,
    copies: VecDeque<Copied>,
    /// The last position of which copies may be here, whether counted or not.
    reach: Option<Position>,
}

/// What the cut in flight gives.
#[derive(Debug)]
struct Requested {
    cursors: Ahead,
    taken: Vec<Position>,
    /// How much memory there is for these.
    room: Room,
    /// Those of which a reply has brought what stands there.
    brought: BTreeSet<Position>,
    /// How many of those that are taken are hot, and no command waited for them.
    hinted: usize,
    gives: Gives,
    /// When it was requested first.
    at: MonotonicUs,
    /// Since when there is no memory for what it gives by now.
    unfit_since: Option<MonotonicUs>,
    /// Records that its replies have brought so far.
    records: u64,
}

/// Whether the source has named its large collections. Until then none is taken out of turn: whoever asked
/// for a large one would have all of it sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// They are waited for from the first cut on, until then at most.
    Awaited(Option<MonotonicUs>),
    /// They are known, or do not come.
    Settled,
}

/// The cuts of a migration.
#[derive(Debug)]
pub(super) struct Cuts {
    choices: Choices,
    /// The number of the cut in flight, or of the next one.
    cut: u32,
    /// The number of the pull in flight, or of the next one.
    sequence: u64,
    requested: Option<Requested>,
    in_flight: Option<Resend>,
    /// The piece in hand of a position that arrives in pieces.
    partial: Option<Partial>,
    /// A position whose patch does not start from what is here: all of it is asked for.
    wants_whole: Option<Position>,
    /// The ranges of the reply to this pull that have been put in, where memory was short for the rest.
    put: Vec<PositionRange>,
    /// The next cut is not requested before this, unless a command waits.
    rests_until: Option<MonotonicUs>,
    /// Which large collections the source serves until their turn comes is not known yet.
    names: Names,
    partitions: Vec<Partition>,
    /// Of a protocol that gives hot positions first.
    hints: Option<Hints>,
    inert: u64,
    /// Why the next cut is to give all that is left.
    gives_all: Option<GaveAll>,
    /// Whether a flush waits until all is given.
    flushes: bool,
    /// Whether the migration is to turn back.
    is_stopped: bool,
    news: News,
    /// How long the last cut took.
    took_us: u32,
}

/// How much memory there is for what is taken, if a large collection is among it.
fn room_for(parts: &TargetParts, store: &Store, taken: &[Position]) -> Room {
    let view = parts.writer.view();
    match taken.iter().any(|&position| view.is_left_to_source(position)) {
        true => Room::of(store.memory().room()),
        false => Room::ANY,
    }
}

impl Cuts {
    pub(super) fn new(choices: Choices, spec: &MigrationSpec) -> Cuts {
        let partition = |bounds: &PositionRange| Partition {
            next: Some(bounds.first()),
            copies: VecDeque::new(),
            reach: None,
        };
        Cuts {
            choices,
            cut: 1,
            sequence: 1,
            requested: None,
            in_flight: None,
            partial: None,
            wants_whole: None,
            put: Vec::new(),
            rests_until: None,
            names: Names::Awaited(None),
            partitions: spec.partitions.iter().map(partition).collect(),
            hints: spec.protocol.hot_first.then(|| Hints::new(choices.keys)),
            inert: 0,
            gives_all: (choices.uncovered == Uncovered::Target).then_some(GaveAll::Option),
            flushes: false,
            is_stopped: false,
            news: News::default(),
            took_us: 0,
        }
    }

    /// Everything is to be given, and is thrown away then.
    pub(super) fn flush(&mut self) {
        self.flushes = true;
        self.gives_all = self.gives_all.or(Some(GaveAll::Flush));
    }

    /// No further cut is requested.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Whether no cut is requested any more, and none is in transit.
    pub(super) fn is_still(&self) -> bool {
        self.is_stopped && (self.requested.is_none() || fault!(TurnsBackWithCutInTransit))
    }

    /// How full its queue of hints is.
    pub(super) fn queue(&self) -> Option<Fill> {
        self.hints.as_ref().map(Hints::queue)
    }

    /// The source names hot positions, and large collections that it serves until their turn comes.
    pub(super) fn hinted(&mut self, parts: &mut TargetParts, hints: &HotHints<'_>) -> Result<(), Untaken> {
        let mut named = hints.positions.iter().chain(hints.collections.iter());
        if !named.all(|position| parts.spec.range.contains(position)) {
            return Err(Untaken::Corrupt("a hint of another migration".to_owned()));
        }
        parts.writer.leave_to_source(hints.collections.iter());
        self.names = Names::Settled;
        if let Some(queue) = &mut self.hints {
            queue.offer(hints.positions.iter(), parts.writer.view());
        }
        Ok(())
    }

    pub(super) fn timeout(&mut self, parts: &mut TargetParts, now: MonotonicUs) {
        self.news.tell(parts, now);
        self.hints.iter_mut().for_each(|hints| hints.timeout(now));
        if let Some(resend) = &mut self.in_flight {
            resend.expire(now);
        }
        self.rests_until = self.rests_until.filter(|&until| until > now);
        if matches!(self.names, Names::Awaited(Some(until)) if until <= now) {
            self.names = Names::Settled;
        }
    }

    pub(super) fn reconnected(&mut self) {
        if let Some(resend) = &mut self.in_flight {
            resend.reset();
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        let named = match self.names {
            Names::Awaited(until) => until,
            Names::Settled => None,
        };
        let hints = self.hints.as_ref().and_then(Hints::deadline);
        let rests = [self.rests_until, hints, named].into_iter().flatten().min();
        let cut = self.in_flight.as_ref().map_or(rests, Resend::deadline);
        [cut, self.news.deadline()].into_iter().flatten().min()
    }

    /// From where the partition's next copy is replayed.
    pub(super) fn copied_before(&self, partition: usize) -> Option<Position> {
        self.partitions[partition].next
    }

    /// A partition's records up to this position are about to be copied.
    pub(super) fn copies_up_to(&mut self, partition: usize, last: Position) {
        let reach = &mut self.partitions[partition].reach;
        *reach = (*reach).max(Some(last));
    }

    /// A partition's records before `next` are here, inert.
    pub(super) fn copied(
        &mut self,
        parts: &mut TargetParts,
        partition: usize,
        next: Option<Position>,
        replayed: Replayed,
    ) {
        // What was here already came by an attempt for which there was no memory.
        let records = u64::from(replayed.inserted) + u64::from(replayed.present);
        let partition = &mut self.partitions[partition];
        partition.next = next;
        partition.copies.push_back(Copied { next, records });
        self.set_inert(parts, self.inert + records);
    }

    fn set_inert(&mut self, parts: &mut TargetParts, records: u64) {
        self.inert = records;
        parts.writer.set_inert(records);
    }

    /// Whether a cut is in flight.
    pub(super) fn is_in_transit(&self) -> bool {
        self.requested.is_some()
    }

    /// Requests the cut in flight again or on, or the next one if it is due.
    pub(super) fn transmit(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        waiting: &mut PriorityQueue,
        out: &mut Vec<u8>,
    ) -> bool {
        let stalls = parts.stall.as_ref().and_then(|stall| stall.deadline()).is_some_and(|until| until > now);
        if parts.phase() != ImportPhase::Taking {
            return false;
        }
        if parts.stall.is_some() {
            self.refuse(parts, store, waiting);
        }
        // A cut that has just become the last one takes no memory.
        let waits =
            |requested: &Requested| requested.gives != Gives::AllOwed || requested.unfit_since.is_some();
        if stalls && self.requested.as_ref().map_or(!waiting.is_asked(), waits) {
            return false;
        }
        if self.in_flight.as_ref().is_some_and(|resend| !resend.is_due()) {
            return false;
        }
        if self.requested.is_none() && !self.begin(parts, now, store, waiting) {
            return false;
        }
        let Some(requested) = &self.requested else { return false };
        self.in_flight.get_or_insert_with(|| Resend::new(PRIORITY_RESEND_US)).sent(now);
        let piece = self.partial.as_ref().map(Partial::in_hand).or(self.wants_whole.map(Piece::nothing));
        let Requested { cursors, taken, room, gives, .. } = requested;
        let (numbers, gives) = ((self.sequence, self.cut), (*gives, self.took_us));
        CutPull::write(parts.scope, numbers, PULL_BYTES_MAX, gives, cursors, piece, (taken, *room), out);
        parts.counters.cuts += 1;
        true
    }

    /// While memory is short, what there is no room for stays where it is, and commands do not wait for it.
    fn refuse(&self, parts: &mut TargetParts, store: &Store, waiting: &mut PriorityQueue) {
        let is_full = !parts.writer.view().has_room_out_of_turn(1);
        if is_full && self.choices.uncovered == Uncovered::Source && self.requested.is_none() {
            // They wait for their turn: for copies.
            waiting.refuse_waiting(parts);
        } else if waiting.is_asked() && !store.has_room(ROOM_BYTES) {
            waiting.refuse_all(parts);
        }
    }

    /// Whether there is a cut to be requested.
    fn begin(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        waiting: &mut PriorityQueue,
    ) -> bool {
        if self.is_stopped {
            return false;
        }
        let gives = self.gives(parts, waiting);
        let most = if parts.stall.is_some() { 1 } else { self.choices.keys };
        let mut taken = Vec::new();
        if self.names == Names::Awaited(None) {
            self.names = Names::Awaited(Some(now.plus_us(NAMES_US)));
        }
        if !gives.is_all() && self.names == Names::Settled {
            let arrived;
            let limits = (most, self.choices.uncovered != Uncovered::Source);
            (taken, arrived) = waiting.positions_for_cut(store, parts.writer.view(), limits);
            parts.wake(arrived);
        }
        let cursors = self.cursors(parts, gives);
        let hinted =
            if gives.is_all() { 0 } else { self.take_hints(parts, now, store, &cursors, most, &mut taken) };
        let rests = self.rests_until.is_some_and(|until| until > now);
        let has_copies = parts.writer.view().progress().ne(cursors.iter().copied());
        if taken.is_empty() && !gives.is_all() && (rests || !has_copies) {
            return false;
        }
        if fault!(TargetServesAtRequest) {
            parts.writer.own(&cursors, &taken);
        }
        let (room, brought) = (room_for(parts, store, &taken), BTreeSet::new());
        let (at, unfit_since) = (now, None);
        self.requested =
            Some(Requested { cursors, taken, room, brought, hinted, gives, at, unfit_since, records: 0 });
        true
    }

    /// The cursors of the next cut: behind all that is copied. While memory is short, behind one copy: nobody
    /// serves what a cut gives until there is room for what has changed of it, and the other copies make way.
    fn cursors(&self, parts: &TargetParts, gives: Gives) -> Ahead {
        if fault!(CutNamesWhatIsNotCopied) {
            return vec![None; self.partitions.len()];
        }
        if parts.stall.is_none() || gives.is_all() {
            return self.partitions.iter().map(|partition| partition.next).collect();
        }
        let mut cursors: Ahead = parts.writer.view().progress().collect();
        let copied = |partition: &Partition| partition.copies.front().map(|copy| copy.next);
        let mut copies = self.partitions.iter().map(copied).enumerate();
        if let Some((index, next)) = copies.find_map(|(index, next)| Some((index, next?))) {
            cursors[index] = next;
        }
        cursors
    }

    /// Adds hot positions to those that the next cut gives out of turn; how many.
    fn take_hints(
        &mut self,
        parts: &TargetParts,
        now: MonotonicUs,
        store: &Store,
        cursors: &Ahead,
        most: usize,
        taken: &mut Vec<Position>,
    ) -> usize {
        let Some(hints) = &mut self.hints else { return 0 };
        let due = hints.due(now).min(most - taken.len());
        // While memory is short, only what is requested comes out of turn.
        if due == 0 || parts.stall.is_some() {
            return 0;
        }
        let (view, bounds) = (parts.writer.view(), parts.spec.partitions.as_slice());
        // Half of the room out of turn is for what commands wait for.
        let is_full = !view.has_room_out_of_turn(self.choices.out_of_turn / 2 + taken.len() + due);
        if is_full || !store.has_room(due * ROOM_BYTES) {
            hints.clear();
            return 0;
        }
        let is_wanted = |position: Position| {
            let index = bounds.partition_point(|partition| partition.last() < position);
            let is_given = cursors[index].is_none_or(|next| position < next) || view.has_arrived(position);
            !is_given && taken.binary_search(&position).is_err() && PositionsGiven::may_have(position)
        };
        let hot = hints.take(due, is_wanted);
        taken.extend(&hot);
        taken.sort_unstable();
        hot.len()
    }

    /// Whether the next cut gives all that is left.
    fn gives(&mut self, parts: &TargetParts, waiting: &PriorityQueue) -> Gives {
        let is_full = waiting.is_asked() && !parts.writer.view().has_room_out_of_turn(1);
        if is_full && self.choices.uncovered != Uncovered::Source {
            self.gives_all = self.gives_all.or(Some(GaveAll::TableFull));
        }
        match self.gives_all {
            Some(_) => Gives::All,
            None => Gives::Named,
        }
    }

    /// A reply to a pull of a cut. If there is no memory for it, the same pull is repeated. Whether it was
    /// the last of its cut: all that it gives is this node's now.
    pub(super) fn replied(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &CutReply<'_>,
    ) -> Result<Option<Given>, Untaken> {
        // M10: a pull that is repeated with nothing in hand is answered with a first piece.
        let is_late = |piece: Piece| piece.offset > 0 && self.partial.is_none();
        let is_awaited = self.in_flight.is_some() && (self.sequence, self.cut) == (reply.sequence, reply.cut);
        if !is_awaited && !fault!(CutAppliedTwice) || reply.piece.is_some_and(is_late) {
            return Ok(None);
        }
        if self.owes_all() && !reply.owes_all {
            // M38: it was packed before the source learned of that.
            return Ok(None);
        }
        if self.flushes && !self.owes_all() {
            parts.proved(lane);
            self.owe_all(parts);
            return Ok(None);
        }
        if reply.asks && self.choices.uncovered == Uncovered::ByLoad {
            self.gives_all = self.gives_all.or(Some(GaveAll::Load));
        }
        let taken = self.take(parts, store, reply);
        match taken {
            Ok(is_whole) => {
                parts.proved(lane);
                let requested = self.requested.as_mut().expect("a cut is in flight");
                requested.brought.extend(reply.ranges.iter().map(PositionRange::first));
                self.took(parts, reply);
                parts.counters.changes += reply.ranges.len() as u64;
                let is_last = is_whole && reply.remaining == 0;
                Ok(is_last.then(|| self.own(parts, now, store, reply)).flatten())
            }
            Err(Untaken::OutOfMemory) => {
                self.in_flight = None;
                self.does_not_fit(parts, now);
                Err(Untaken::OutOfMemory)
            }
            Err(Untaken::NotHeld(piece)) => {
                (self.in_flight, self.wants_whole) = (None, Some(piece.position));
                Ok(None)
            }
            Err(corrupt) => Err(corrupt),
        }
    }

    /// M38: what nobody serves may not wait for memory for long.
    fn does_not_fit(&mut self, parts: &TargetParts, now: MonotonicUs) {
        let Some(requested) = &mut self.requested else { return };
        let since = *requested.unfit_since.get_or_insert(now);
        let waits = !requested.gives.is_all() && now.since(since) < CUT_MEMORY_US;
        if waits || requested.gives == Gives::AllOwed || fault!(TransitWaitsForMemory) {
            return;
        }
        self.gives_all = self.gives_all.or(Some(GaveAll::Memory));
        self.owe_all(parts);
    }

    /// M38: the cut in flight, which the source knows of, is to give all that is left, and to owe it.
    fn owe_all(&mut self, parts: &TargetParts) {
        let Some(requested) = &mut self.requested else { return };
        (requested.gives, requested.unfit_since) = (Gives::AllOwed, None);
        requested.cursors = parts.writer.view().progress().collect();
        // They are owed as well.
        requested.taken.clear();
        (self.in_flight, self.partial, self.wants_whole) = (None, None, None);
        self.put.clear();
    }

    /// Whether all that the cut in flight gives is owed.
    fn owes_all(&self) -> bool {
        self.requested.as_ref().is_some_and(|requested| requested.gives == Gives::AllOwed)
    }

    /// The reply is not asked for again.
    fn took(&mut self, parts: &mut TargetParts, reply: &CutReply<'_>) {
        (self.in_flight, self.wants_whole) = (None, None);
        self.sequence += 1;
        self.put.clear();
        parts.counters.bytes_moved += reply.batch.len() as u64;
    }

    /// Whether the cut in flight gives all that is left.
    fn gives_all_now(&self) -> bool {
        self.requested.as_ref().is_some_and(|requested| requested.gives.is_all())
    }

    /// Makes a reply's records readable here, in place of what was copied before. Whether it was not a piece
    /// with more to come.
    fn take(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        reply: &CutReply<'_>,
    ) -> Result<bool, Untaken> {
        let is_own = |range: PositionRange| parts.writer.view().has_arrived(range.first());
        let whole = parts.spec.range;
        if !reply.ranges.iter().all(|range| whole.covers(range)) {
            return Err(Untaken::Corrupt("a range of another migration".to_owned()));
        }
        if reply.ranges.iter().any(is_own) && !fault!(CutAppliedTwice) && !fault!(TargetServesAtRequest) {
            return Err(Untaken::Corrupt("a position that was given before".to_owned()));
        }
        let records = match reply.piece {
            Some(piece) => join(&mut self.partial, parts, store, piece, reply.batch, false),
            None => {
                self.partial = None;
                records_of(reply.ranges, reply.batch, whole).map(Some)
            }
        };
        parts.counters.pieces += u64::from(reply.piece.is_some());
        let Some(records) = records? else { return Ok(false) };
        // While memory is short, one range after the other: each makes room for the next.
        match &records {
            Records::Batch(batch) if parts.stall.is_some() && !self.gives_all_now() => {
                for range in reply.ranges.iter() {
                    if !self.put.contains(&range) {
                        self.put_in(parts, store, Records::Batch(batch.within(range)), &[range], whole)?;
                        self.put.push(range);
                    }
                }
            }
            _ => {
                let ranges: Vec<PositionRange> = reply.ranges.iter().collect();
                let within = reply.piece.map_or(whole, |piece| PositionRange::only(piece.position));
                self.put_in(parts, store, records, &ranges, within)?;
            }
        }
        Ok(true)
    }

    /// Puts records in place of what these ranges have, all or none.
    fn put_in(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        records: Records<'_>,
        ranges: &[PositionRange],
        within: PositionRange,
    ) -> Result<(), Untaken> {
        if records.is_in_place() {
            return parts.put_in(store, records, within).map(drop);
        }
        ranges.iter().for_each(|range| self.discard(parts, store, *range));
        let replayed = parts.put_in(store, records, within).inspect_err(|_| {
            // Nothing of it is counted.
            let rest = |range: &PositionRange| store.discard(range.first(), range.last(), usize::MAX);
            assert!(ranges.iter().all(|range| rest(range).is_none()), "everything is discarded");
        })?;
        let requested = self.requested.as_mut().expect("a cut is in flight");
        requested.records += u64::from(replayed.inserted);
        parts.counters.records_moved += u64::from(replayed.inserted);
        self.set_inert(parts, self.inert + u64::from(replayed.inserted));
        Ok(())
    }

    /// There is no memory for the cut in flight. Nobody serves what it gives, so the copies that it does not
    /// give make room for it. They are pulled again once it is owned.
    pub(super) fn make_room(&mut self, parts: &mut TargetParts, store: &Store, pulls: &mut Pulls) {
        let Some(Requested { cursors, taken, brought, .. }) = &self.requested else { return };
        let cursors = cursors.clone();
        let locked = Cuts::brought_locks(parts, store, brought);
        for position in self.copies_behind(parts, store, &cursors, |at| locked.contains(&at)) {
            // What the cut has brought out of turn stays.
            if taken.binary_search(&position).is_err() {
                let rest = store.discard(position, position, usize::MAX);
                assert_eq!(rest, None, "without a budget everything is discarded");
            }
        }
        let mut left = self.inert;
        for (index, cursor) in cursors.iter().enumerate() {
            let partition = &mut self.partitions[index];
            if partition.next == *cursor {
                continue;
            }
            let from = cursor.expect("what is copied to its end has nothing behind it");
            let is_behind = |copy: &mut Copied| copy.next.is_none_or(|next| next > from);
            while let Some(copy) = partition.copies.pop_back_if(is_behind) {
                left -= copy.records;
            }
            partition.next = Some(from);
            pulls.rewind(&mut parts.governor, index, from);
        }
        self.set_inert(parts, left);
    }

    /// Discards the inert records of a range.
    fn discard(&mut self, parts: &mut TargetParts, store: &Store, range: PositionRange) {
        let records = store.len_in(range);
        let rest = store.discard(range.first(), range.last(), usize::MAX);
        assert_eq!(rest, None, "without a budget everything is discarded");
        let bounds = &parts.spec.partitions;
        let index = bounds.partition_point(|partition| partition.last() < range.first());
        let mut copies = self.partitions[index].copies.iter_mut();
        // What a copy began and had no memory for is not counted yet.
        if let Some(copy) = copies.find(|copy| copy.next.is_none_or(|next| next > range.first())) {
            let counted = records.min(copy.records);
            copy.records -= counted;
            self.set_inert(parts, self.inert - counted);
        }
    }
}
