//! Rounds of changes at the target: what changed at the source since it was copied.
//!
//! They begin when everything has been pulled. One pull is in flight; its reply names ranges and carries all
//! records that stand in them. What is here of these ranges is discarded, then the records are inserted:
//! applied twice it comes to the same (M10), and what is gone at the source is gone here. Nobody reads here
//! meanwhile (M3).
//!
//! When few changes are left, or the rounds that the protocol allows are over, the range may be frozen
//! ([`TargetEvent::CaughtUp`]); until it is, rounds go on at leisure. M11: only a reply that was packed after
//! the freeze and left nothing behind is the last one.
//!
//! Out of memory: the same pull is sent again, after the stall's wait. After the freeze that would keep
//! everybody waiting, and the copy without its last round may hold what was overwritten: it is thrown away
//! instead, and the frozen range is pulled and served as by a protocol that copies after the freeze.

use super::Importer;
use super::partial::{Partial, Unjoined, join};
use super::replay::Records;
use crate::resend::Resend;
use crate::tuning::{PULL_BYTES_MAX, RESEND_US, ROUND_REST_US};
use crate::{Breach, Rounds, TargetEvent};
use sidle_store::{RecordBatch, ReplayError, Store};
use sidle_types::{Fill, MonotonicUs, PositionRange, fault};
use sidle_wire::{ChangedPull, ChangedPullReply, Lane};

/// The rounds of a copy made before the freeze.
#[derive(Debug)]
pub(super) struct Changes {
    rounds: Rounds,
    /// Of the pull in flight, or of the next one.
    sequence: u64,
    in_flight: Option<Resend>,
    /// What is in hand of what stands at a position, where that comes in pieces.
    partial: Option<Partial>,
    /// The next pull is not sent before this.
    rests_until: Option<MonotonicUs>,
    /// Whether the range may be frozen.
    is_caught_up: bool,
    /// Whether the last round is here.
    all_here: bool,
}

impl Changes {
    pub(super) fn new(rounds: Rounds) -> Changes {
        Changes {
            rounds,
            sequence: 1,
            in_flight: None,
            partial: None,
            rests_until: None,
            is_caught_up: false,
            all_here: false,
        }
    }

    /// Whether something comes in pieces.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("positions of a round that come in pieces", usize::from(self.partial.is_some()), 1)
    }

    /// Whether nothing that changed at the source is missing here, for good (M11).
    pub(super) fn all_here(&self) -> bool {
        self.all_here
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        if let Some(resend) = &mut self.in_flight {
            resend.expire(now);
        }
        self.rests_until = self.rests_until.filter(|&until| until > now);
    }

    pub(super) fn reconnected(&mut self) {
        if let Some(resend) = &mut self.in_flight {
            resend.reset();
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.in_flight.as_ref().map_or(self.rests_until, Resend::deadline)
    }
}

impl Importer {
    pub(super) fn transmit_changed_pull(&mut self, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let wants = |changes: &Changes| match &changes.in_flight {
            Some(resend) => resend.is_due(),
            None => !changes.all_here && changes.rests_until.is_none_or(|until| until <= now),
        };
        let stalls = self.stall.as_ref().and_then(|stall| stall.deadline()).is_some_and(|until| until > now);
        if stalls || !self.changes.as_ref().is_some_and(wants) || !self.is_all_pulled() || self.is_paced(now)
        {
            return false;
        }
        let Some(changes) = &mut self.changes else { return false };
        changes.in_flight.get_or_insert_with(|| Resend::new(RESEND_US)).sent(now);
        let (sequence, max_bytes) = (changes.sequence, PULL_BYTES_MAX);
        let piece = changes.partial.as_ref().map(Partial::in_hand);
        ChangedPull { scope: self.scope, sequence, max_bytes, piece }.write(out);
        self.governor.asked(now, u64::from(max_bytes));
        self.counters.pulls += 1;
        true
    }

    /// A reply to a pull of changes.
    pub(super) fn changed(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &ChangedPullReply<'_>,
    ) {
        let is_awaited =
            |changes: &&mut Changes| changes.in_flight.is_some() && changes.sequence == reply.sequence;
        let Some(changes) = self.changes.as_mut().filter(is_awaited) else { return };
        let records = match reply.piece.filter(|piece| self.spec.range.contains(piece.position)) {
            Some(piece) => join(&mut changes.partial, store, piece, reply.batch),
            None => {
                changes.partial = None;
                records_of(reply, self.spec.range)
            }
        };
        self.governor.arrived(u64::from(PULL_BYTES_MAX), reply.batch.len() as u64);
        self.counters.pieces += u64::from(reply.piece.is_some());
        let records = match records {
            Ok(Some(records)) => records,
            Ok(None) => return self.took_piece(lane, reply),
            Err(Unjoined::OutOfMemory) => return self.changes_find_no_memory(now, store),
            Err(Unjoined::Corrupt(reason)) => return self.breach(lane, Breach::CorruptBatch(reason)),
        };
        if !fault!(RoundKeepsWhatIsGone) {
            for range in reply.ranges.iter() {
                let rest = store.discard(range.first(), range.last(), usize::MAX);
                assert_eq!(rest, None, "without a budget everything is discarded");
            }
        }
        let within = reply.piece.and_then(|piece| PositionRange::new(piece.position, piece.position));
        match self.put_in(store, records, within.unwrap_or(self.spec.range)) {
            Ok(_) => self.took_changes(now, lane, reply),
            Err(ReplayError::OutOfMemory(_)) => self.changes_find_no_memory(now, store),
            Err(error @ (ReplayError::OutsideRange(_) | ReplayError::Corrupt(_))) => {
                self.breach(lane, Breach::CorruptBatch(error.to_string()));
            }
        }
    }

    /// The same pull is sent again.
    fn changes_find_no_memory(&mut self, now: MonotonicUs, store: &Store) {
        if let Some(changes) = &mut self.changes {
            changes.in_flight = None;
        }
        self.stall(now, store);
    }

    /// More is missing of what the reply brought.
    fn took_piece(&mut self, lane: Lane, reply: &ChangedPullReply<'_>) {
        let Some(changes) = &mut self.changes else { return };
        changes.in_flight = None;
        changes.sequence += 1;
        let is_over = reply.round > changes.rounds.at_most;
        self.counters.changes_left = reply.remaining;
        self.counters.bytes_moved += reply.batch.len() as u64;
        self.greetings[lane.index()].proved();
        self.may_be_frozen(is_over);
    }

    /// Reports, if it is so, that the range may be frozen.
    fn may_be_frozen(&mut self, is_so: bool) {
        let Some(changes) = self.changes.as_mut().filter(|changes| is_so && !changes.is_caught_up) else {
            return;
        };
        changes.is_caught_up = true;
        self.events.push_back(TargetEvent::CaughtUp);
    }

    /// What the reply brought is here.
    fn took_changes(&mut self, now: MonotonicUs, lane: Lane, reply: &ChangedPullReply<'_>) {
        let Some(changes) = &mut self.changes else { return };
        changes.in_flight = None;
        changes.sequence += 1;
        let is_frozen = reply.is_frozen || fault!(LastRoundBeforeFreeze);
        changes.all_here = is_frozen && reply.remaining == 0;
        let is_over = reply.remaining <= changes.rounds.few || reply.round > changes.rounds.at_most;
        self.may_be_frozen(is_over);
        let Some(changes) = &mut self.changes else { return };
        if changes.is_caught_up && !self.writer.view().source_is_frozen() {
            changes.rests_until = Some(now.plus_us(ROUND_REST_US));
        }
        self.counters.changes += reply.ranges.len() as u64;
        self.counters.changes_left = reply.remaining;
        self.counters.bytes_moved += reply.batch.len() as u64;
        self.greetings[lane.index()].proved();
        self.resume();
        self.finish_if_all_here();
    }

    /// Throws the copy away, if this is one that lacks its last round: everything is pulled anew, out of
    /// frozen data.
    pub(super) fn throw_copy_away(&mut self, store: &Store) {
        if self.changes.take().is_some() {
            let rest = store.discard(self.spec.range.first(), self.spec.range.last(), usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
            self.writer.begin_anew();
            self.pulls.begin_anew();
            self.counters.changes_left = 0;
        }
    }

    /// The source is frozen: what has changed is asked for at once, and nothing is held back for clients.
    pub(super) fn last_round_begins(&mut self) {
        if let Some(changes) = &mut self.changes {
            self.governor.hurry();
            changes.rests_until = None;
            self.finish_if_all_here();
        }
    }
}

/// What a reply brought that is no piece, checked.
fn records_of<'b>(
    reply: &ChangedPullReply<'b>,
    whole: PositionRange,
) -> Result<Option<Records<'b>>, Unjoined> {
    let batch = RecordBatch::parse(reply.batch).map_err(|error| Unjoined::Corrupt(error.to_string()))?;
    match is_of_ranges(&batch, reply, whole) {
        true => Ok(Some(Records::Batch(batch))),
        false => Err(Unjoined::Corrupt("its records are not of the ranges that it names".to_owned())),
    }
}

/// Whether the reply's ranges are of the migration, and every record stands in one of them, in their order.
fn is_of_ranges(batch: &RecordBatch<'_>, reply: &ChangedPullReply<'_>, whole: PositionRange) -> bool {
    let mut ranges = reply.ranges.iter();
    let mut range = None;
    let mut is_in_one = |position| {
        while range.is_none_or(|range: PositionRange| range.last() < position) {
            match ranges.next() {
                Some(next) => range = Some(next),
                None => return false,
            }
        }
        range.is_some_and(|range| range.contains(position))
    };
    reply.ranges.iter().all(|range| whole.covers(range))
        && batch.iter().all(|record| is_in_one(record.hashed_key().position()))
}
