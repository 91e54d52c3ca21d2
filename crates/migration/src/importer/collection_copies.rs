//! Large collections that are copied before the freeze, of a range that freezes whole.
//!
//! One after the other is pulled, piece by piece, while the source serves and changes it. Then each is
//! patched, again and again until the activation, so that little is missing behind the freeze. When all of
//! them have been patched once, the range may be frozen.
//!
//! M32: each is whole as of a version, and no key's value. Behind the freeze it is patched once more, and
//! only then it becomes one ([`Copies`](super::copies::Copies)).
//!
//! Out of memory: nothing is copied ahead, and everything comes in its turn.

use super::joining::take_ahead;
use super::parts::TargetParts;
use super::records::Untaken;
use crate::ImportPhase;
use crate::resend::Resend;
use crate::tuning::{RESEND_US, ROUND_REST_US};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position};
use sidle_wire::{ChangedPull, ChangedPullReply, Lane, Piece, Positions};
use std::collections::VecDeque;

/// The pulls of what is copied ahead: see the module's header.
#[derive(Debug, Default)]
pub(super) struct CollectionCopies {
    /// Those to be copied or patched in this round, the one under way first.
    queue: VecDeque<Position>,
    /// How many rounds are over. The first one copies, the others patch.
    rounds: u32,
    /// The number of the pull in flight, or of the next one.
    sequence: u64,
    in_flight: Option<Resend>,
    /// The next round does not begin before this.
    rests_until: Option<MonotonicUs>,
    is_caught_up: bool,
}

impl CollectionCopies {
    /// The source names them.
    pub(super) fn named(&mut self, collections: Positions<'_>) {
        self.queue = collections.iter().collect();
        self.is_caught_up = self.queue.is_empty();
    }

    /// Whether all of them are here, but for a few changes.
    pub(super) fn is_caught_up(&self) -> bool {
        self.is_caught_up
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.in_flight.iter_mut().for_each(|resend| resend.expire(now));
        self.rests_until = self.rests_until.filter(|&until| until > now);
    }

    pub(super) fn reconnected(&mut self) {
        self.in_flight.iter_mut().for_each(Resend::reset);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.in_flight.as_ref().map_or(self.rests_until, Resend::deadline)
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        if parts.phase() != ImportPhase::Copying {
            return false;
        }
        let Some(&position) = self.queue.front() else { return false };
        let wants = match &self.in_flight {
            Some(resend) => resend.is_due(),
            None => self.rests_until.is_none_or(|until| until <= now) && !parts.is_paced(now),
        };
        if !wants {
            return false;
        }
        let max_bytes = parts.spec.piece_bytes() as u32;
        let in_flight = self.in_flight.get_or_insert_with(|| {
            parts.governor.asked(now, u64::from(max_bytes));
            Resend::new(RESEND_US)
        });
        in_flight.sent(now);
        let piece = Some(parts.copies.in_hand(position).unwrap_or(Piece::nothing(position)));
        ChangedPull { scope: parts.scope, sequence: self.sequence, max_bytes, piece }.write(out);
        parts.counters.pulls += 1;
        true
    }

    /// A reply to a pull; anything but the one in flight is ignored (M10).
    pub(super) fn pulled(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &ChangedPullReply<'_>,
    ) -> Result<(), Untaken> {
        let Some(&position) = self.queue.front() else { return Ok(()) };
        let is_awaited = self.in_flight.is_some() && self.sequence == reply.sequence;
        if !is_awaited || parts.phase() != ImportPhase::Copying {
            return Ok(());
        }
        if reply.piece.is_some_and(|piece| piece.position != position || piece.patch.is_none()) {
            return Err(Untaken::Corrupt("a piece of another collection".to_owned()));
        }
        parts.governor.arrived(parts.spec.piece_bytes() as u64, reply.batch.len() as u64);
        parts.counters.bytes_moved += reply.batch.len() as u64;
        parts.counters.pieces += u64::from(reply.piece.is_some());
        let taken = match reply.piece {
            Some(piece) => take_ahead(parts, store, piece, reply.batch),
            // No collection that can be patched stands there any more.
            None => {
                parts.copies.forget(position);
                Ok(true)
            }
        };
        match taken {
            Ok(is_copied) => {
                (self.in_flight, self.sequence) = (None, self.sequence + 1);
                parts.proved(lane);
                if is_copied {
                    self.copied(parts, now);
                }
                Ok(())
            }
            // All of it is asked for.
            Err(Untaken::NotHeld(_)) => {
                (self.in_flight, self.sequence) = (None, self.sequence + 1);
                Ok(())
            }
            Err(Untaken::OutOfMemory) => {
                parts.copies.clear();
                *self = CollectionCopies { is_caught_up: true, ..CollectionCopies::default() };
                Ok(())
            }
            Err(corrupt) => Err(corrupt),
        }
    }

    /// The first one is here, or will not be.
    fn copied(&mut self, parts: &TargetParts, now: MonotonicUs) {
        self.queue.pop_front();
        if !self.queue.is_empty() {
            return;
        }
        self.rounds += 1;
        self.queue = parts.copies.positions().collect();
        self.is_caught_up |= self.rounds > 1 || self.queue.is_empty();
        self.rests_until = self.is_caught_up.then(|| now.plus_us(ROUND_REST_US));
    }
}
