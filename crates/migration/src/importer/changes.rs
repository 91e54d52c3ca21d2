//! Rounds of changes at the target: the source's changes since it was copied.
//!
//! They begin when everything has been pulled. One pull is in flight; its reply names ranges and carries all
//! records in them. The target discards its records in these ranges, then inserts those of the reply.
//! Applying it twice has the same result (M10), and keys deleted at the source are deleted here. Nobody reads
//! here meanwhile (M3).
//!
//! When few changes are left, or the protocol's rounds are used up, the range may be frozen
//! ([`TargetEvent::CaughtUp`]); until it is, rounds continue at a slow pace. M11: only a reply that was
//! packed after the freeze and left nothing behind is the last one.
//!
//! Out of memory: the same pull is repeated after the stall's wait, with nothing in hand: later pieces, of
//! replies to it before, are ignored (M10). After the freeze that would keep all
//! requests waiting, and the copy without its last round may hold overwritten values. So the copy is
//! discarded, and the frozen range is pulled and served as by a protocol that copies after the freeze.

use super::joining::join;
use super::partial::Partial;
use super::parts::TargetParts;
use super::records::{Untaken, records_of};
use crate::resend::Resend;
use crate::tuning::{PULL_BYTES_MAX, RESEND_US, ROUND_REST_US};
use crate::{Rounds, TargetEvent};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::{ChangedPull, ChangedPullReply, Lane, Piece};

/// The rounds of a copy made before the freeze.
#[derive(Debug)]
pub(super) struct Changes {
    rounds: Rounds,
    /// The number of the pull in flight, or of the next one.
    sequence: u64,
    in_flight: Option<Resend>,
    /// The piece in hand of a position that arrives in pieces.
    partial: Option<Partial>,
    /// A position whose patch does not start from what is here: all of it is asked for.
    wants_whole: Option<Position>,
    /// The next pull is not sent before this.
    rests_until: Option<MonotonicUs>,
    /// Whether the range may be frozen.
    is_caught_up: bool,
    /// Whether the last round has arrived.
    all_here: bool,
}

impl Changes {
    pub(super) fn new(rounds: Rounds) -> Changes {
        Changes {
            rounds,
            sequence: 1,
            in_flight: None,
            partial: None,
            wants_whole: None,
            rests_until: None,
            is_caught_up: false,
            all_here: false,
        }
    }

    /// Whether something arrives in pieces.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("positions of a round that come in pieces", usize::from(self.partial.is_some()), 1)
    }

    /// Whether all of the source's changes are here, for good (M11).
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

    /// The source is frozen: its changes are asked for at once.
    pub(super) fn last_round_begins(&mut self) {
        self.rests_until = None;
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let wants = match &self.in_flight {
            Some(resend) => resend.is_due(),
            None => !self.all_here && self.rests_until.is_none_or(|until| until <= now),
        };
        let stalls = parts.stall.as_ref().and_then(|stall| stall.deadline()).is_some_and(|until| until > now);
        // What was sent before is paid for.
        let is_paced = |parts: &mut TargetParts| self.in_flight.is_none() && parts.is_paced(now);
        if stalls || !wants || !parts.is_all_pulled() || is_paced(parts) {
            return false;
        }
        let (sequence, max_bytes) = (self.sequence, PULL_BYTES_MAX);
        let in_flight = self.in_flight.get_or_insert_with(|| {
            parts.governor.asked(now, u64::from(max_bytes));
            Resend::new(RESEND_US)
        });
        in_flight.sent(now);
        let piece = self.partial.as_ref().map(Partial::in_hand).or(self.wants_whole.map(Piece::nothing));
        ChangedPull { scope: parts.scope, sequence, max_bytes, piece }.write(out);
        parts.counters.pulls += 1;
        true
    }

    /// A reply to a pull of changes. If there is no memory for it, the same pull is repeated.
    pub(super) fn changed(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &ChangedPullReply<'_>,
    ) -> Result<(), Untaken> {
        // M10: a pull that is repeated with nothing in hand is answered with a first piece.
        let is_late = |piece: Piece| piece.offset > 0 && self.partial.is_none();
        if self.in_flight.is_none() || self.sequence != reply.sequence || reply.piece.is_some_and(is_late) {
            return Ok(());
        }
        let taken = self.take(parts, now, store, reply);
        match taken {
            Ok(()) => parts.proved(lane),
            Err(Untaken::NotHeld(piece)) => {
                (self.in_flight, self.wants_whole) = (None, Some(piece.position));
                return Ok(());
            }
            Err(Untaken::OutOfMemory) => self.in_flight = None,
            Err(Untaken::Corrupt(_)) => {}
        }
        taken
    }

    fn take(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        reply: &ChangedPullReply<'_>,
    ) -> Result<(), Untaken> {
        let records = match reply.piece {
            Some(piece) if !parts.spec.range.contains(piece.position) => {
                Err(Untaken::Corrupt("a piece of another range".to_owned()))
            }
            Some(piece) => join(&mut self.partial, parts, store, piece, reply.batch, false),
            None => {
                self.partial = None;
                records_of(reply.ranges, reply.batch, parts.spec.range).map(Some)
            }
        };
        parts.governor.arrived(u64::from(PULL_BYTES_MAX), reply.batch.len() as u64);
        parts.counters.pieces += u64::from(reply.piece.is_some());
        let Some(records) = records? else {
            self.took(parts, now, reply, false);
            return Ok(());
        };
        if !records.is_in_place() && !fault!(RoundKeepsWhatIsGone) {
            for range in reply.ranges.iter() {
                let rest = store.discard(range.first(), range.last(), usize::MAX);
                assert_eq!(rest, None, "without a budget everything is discarded");
            }
        }
        let within = reply.piece.map_or(parts.spec.range, |piece| PositionRange::only(piece.position));
        parts.put_in(store, records, within)?;
        self.took(parts, now, reply, true);
        Ok(())
    }

    /// The reply was taken. `is_whole`: all of it has arrived.
    fn took(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        reply: &ChangedPullReply<'_>,
        is_whole: bool,
    ) {
        (self.in_flight, self.wants_whole) = (None, None);
        self.sequence += 1;
        parts.counters.changes_left = reply.remaining;
        parts.counters.bytes_moved += reply.batch.len() as u64;
        let is_over = is_whole && reply.remaining <= self.rounds.few || reply.round > self.rounds.at_most;
        if is_over && !self.is_caught_up {
            self.is_caught_up = true;
            parts.events.push_back(TargetEvent::CaughtUp);
        }
        if is_whole {
            let is_frozen = reply.is_frozen || fault!(LastRoundBeforeFreeze);
            self.all_here = is_frozen && reply.remaining == 0;
            if self.is_caught_up && !parts.writer.view().source_is_frozen() {
                self.rests_until = Some(now.plus_us(ROUND_REST_US));
            }
            parts.counters.changes += reply.ranges.len() as u64;
            parts.resume();
        }
    }
}
