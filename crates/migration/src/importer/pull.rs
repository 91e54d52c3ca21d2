//! Bulk pulls: one in flight for each partition, sequential within it.
//!
//! The cursor is a position: a pull contains all that the source needs. When a reply arrives, the next pull
//! is sent before the reply is replayed (Rocksteady, figure 2.8). Each partition's pull size adapts to the
//! duration of its last pull. M10: a reply counts only for the pull in flight. A rewind gives the next pull a
//! new number, so that a reply to the previous one is recognised. So are, after a cut that gave all, the
//! replies packed before its barrier (M30).

use super::Replay;
use super::copies::Copies;
use super::joining::join;
use super::partial::Partial;
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use crate::cuts::Ahead;
use crate::resend::Resend;
use crate::tuning::{PULL_BYTES_MAX, PULL_BYTES_MIN, PULL_TARGET_US, RESEND_US};
use crate::{ImportPhase, MigrationSpec, PullBytes};
use sidle_pacing::Governor;
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::{Lane, Pull, PullReply};

#[derive(Debug)]
struct InFlight {
    from: Position,
    asked_bytes: u32,
    /// Whether it was first sent after the cut that gave all (M30).
    is_of_owed: bool,
    sent_at: MonotonicUs,
    resend: Resend,
}

/// One partition's pulls.
#[derive(Debug)]
struct Partition {
    bounds: PositionRange,
    /// From where to pull next; `None` when everything has been asked for and has arrived.
    cursor: Option<Position>,
    /// The number of the pull in flight, or of the next one.
    sequence: u64,
    in_flight: Option<InFlight>,
    /// The piece in hand of the records at the cursor, if these arrive in pieces.
    partial: Option<Partial>,
    /// A reply was handed out as a [`Replay`] that has not come back.
    replaying: bool,
    pull_bytes: u32,
}

impl Partition {
    fn adapt(&mut self, took_us: u64, asked_bytes: u32, bytes: usize) {
        let was_full = bytes >= asked_bytes as usize / 2;
        if took_us > PULL_TARGET_US * 2 {
            self.pull_bytes = (self.pull_bytes / 2).max(PULL_BYTES_MIN);
        } else if took_us < PULL_TARGET_US / 2 && was_full {
            self.pull_bytes = (self.pull_bytes * 2).min(PULL_BYTES_MAX);
        }
    }
}

/// The pulls of all partitions.
#[derive(Debug)]
pub(super) struct Pulls {
    partitions: Vec<Partition>,
    /// Which partition sends first next time, so that a slow lane starves none.
    turn: usize,
    /// When the last reply arrived.
    replied_at: MonotonicUs,
    /// Whether what is pulled is owed (M30).
    is_owed: bool,
    /// Whether it leaves patches of what was copied ahead to priority pulls.
    waits_for_patches: bool,
}

impl Pulls {
    pub(super) fn new(spec: &MigrationSpec) -> Pulls {
        let partition = |&bounds: &PositionRange| Partition {
            bounds,
            cursor: Some(bounds.first()),
            sequence: 0,
            in_flight: None,
            partial: None,
            replaying: false,
            pull_bytes: spec.protocol.pulls.first(),
        };
        Pulls {
            partitions: spec.partitions.iter().map(partition).collect(),
            turn: 0,
            replied_at: MonotonicUs(0),
            is_owed: false,
            waits_for_patches: spec.protocol.priority.in_flight > 0,
        }
    }

    /// From where the partitions go on.
    pub(super) fn cursors(&self) -> impl Iterator<Item = Position> {
        self.partitions.iter().filter_map(|partition| partition.cursor)
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.in_flight_mut().for_each(|pull| pull.resend.expire(now));
    }

    pub(super) fn reconnected(&mut self) {
        self.in_flight_mut().for_each(|pull| pull.resend.reset());
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        let resends = self.partitions.iter().filter_map(|partition| partition.in_flight.as_ref());
        resends.filter_map(|pull| pull.resend.deadline()).min()
    }

    /// Everything is here, or will never arrive: nothing more is pulled.
    pub(super) fn stop(&mut self) {
        for partition in &mut self.partitions {
            (partition.cursor, partition.in_flight, partition.partial) = (None, None, None);
        }
    }

    /// Pulls everything again, from the start.
    pub(super) fn begin_anew(&mut self, governor: &mut Governor) {
        for index in 0..self.partitions.len() {
            self.rewind(governor, index, self.partitions[index].bounds.first());
        }
    }

    /// A cut gave all that is left. What lies behind these cursors is pulled, anew: by partition, from where
    /// on. No reply to an earlier pull counts (M30).
    pub(super) fn begin_again_at(&mut self, governor: &mut Governor, cursors: &Ahead) {
        self.is_owed = true;
        for (index, cursor) in cursors.iter().enumerate() {
            if fault!(OldCopyEntersOwed) && self.partitions[index].in_flight.is_some() {
                continue;
            }
            match *cursor {
                Some(from) => self.rewind(governor, index, from),
                None => self.partitions[index].cursor = None,
            }
        }
    }

    /// Pulls the partition again from `from` on. A pull in flight is forgotten, and its reply will be ignored
    /// (M10).
    pub(super) fn rewind(&mut self, governor: &mut Governor, partition: usize, from: Position) {
        let partition = &mut self.partitions[partition];
        partition.cursor = Some(from);
        partition.sequence += 1;
        if let Some(forgotten) = partition.in_flight.take() {
            // What its reply brings is counted when it comes.
            governor.arrived(u64::from(forgotten.asked_bytes), 0);
        }
        partition.partial = None;
        partition.replaying = false;
    }

    /// How many partitions have a piece in hand.
    pub(super) fn queue(&self) -> Fill {
        let partials = self.partitions.iter().filter(|partition| partition.partial.is_some()).count();
        Fill::new("positions that come in pieces", partials, self.partitions.len())
    }

    pub(super) fn replayed(&mut self, partition: usize) {
        self.partitions[partition].replaying = false;
    }

    fn in_flight_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.partitions.iter_mut().filter_map(|partition| partition.in_flight.as_mut())
    }

    /// The next partition with something to send. `alone`: only while nothing else is in flight or being
    /// replayed, and first one with a piece in hand, whose memory is taken: the others wait for memory.
    /// `paced`: nothing but what was sent before.
    fn next_to_send(&mut self, copies: &Copies, alone: bool, paced: bool) -> Option<usize> {
        let count = self.partitions.len();
        let is_busy = |partition: &Partition| partition.in_flight.is_some() || partition.replaying;
        let others = self.partitions.iter().any(is_busy);
        let wants = |partition: &Partition| match &partition.in_flight {
            Some(pull) => pull.resend.is_due(),
            None => {
                let waits = |at| self.waits_for_patches && copies.has(at);
                let is_held = paced || alone && others;
                !is_held && partition.cursor.is_some_and(|at| !waits(at))
            }
        };
        let mut wanting =
            (0..count).map(|step| (self.turn + step) % count).filter(|&i| wants(&self.partitions[i]));
        let begun = wanting.clone().find(|&i| alone && self.partitions[i].partial.is_some());
        let index = begun.or_else(|| wanting.next())?;
        self.turn = (index + 1) % count;
        Some(index)
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let is_ahead = parts.phase() == ImportPhase::Copying && parts.spec.protocol.names_ahead();
        if !parts.phase().takes_records() || is_ahead {
            return false;
        }
        // Out of memory: wait, then ask for one reply at a time until one fits.
        let alone = match &parts.stall {
            Some(stall) if stall.deadline().is_some_and(|deadline| deadline > now) => return false,
            stall => stall.is_some(),
        };
        let paced = parts.is_paced(now);
        let Some(index) = self.next_to_send(&parts.copies, alone, paced) else { return false };
        let partition = &mut self.partitions[index];
        if let (None, Some(at), None) = (&partition.in_flight, partition.cursor, &partition.partial) {
            partition.partial = parts.copies.take(at);
        }
        let pull = partition.in_flight.get_or_insert_with(|| {
            parts.governor.asked(now, u64::from(partition.pull_bytes));
            InFlight {
                from: partition.cursor.expect("it wants to send"),
                asked_bytes: partition.pull_bytes,
                is_of_owed: self.is_owed,
                sent_at: now,
                resend: Resend::new(RESEND_US),
            }
        });
        pull.sent_at = now;
        pull.resend.sent(now);
        let pull_from = pull.from;
        let range = PositionRange::new(pull_from, partition.bounds.last()).expect("cursors stay in bounds");
        let (sequence, max_bytes) = (partition.sequence, pull.asked_bytes);
        let piece = partition.partial.as_ref().map(Partial::in_hand);
        let piece = piece.or_else(|| parts.copies.complete(pull_from));
        Pull { scope: parts.scope, partition: index as u8, sequence, range, max_bytes, piece }.write(out);
        parts.counters.pulls += 1;
        true
    }

    /// Whether it is the reply to a pull in flight (M10).
    fn awaits(&self, reply: &PullReply<'_>) -> bool {
        let partition = self.partitions.get(usize::from(reply.partition));
        partition.is_some_and(|own| own.sequence == reply.sequence && own.in_flight.is_some())
    }

    /// Handles a reply to a pull: moves the cursor, so that the next pull can be sent, and returns the
    /// records for replay. The cursor stays while pieces are missing.
    pub(super) fn pulled<'b>(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &PullReply<'b>,
    ) -> Result<Option<Replay<'b>>, Untaken> {
        if !self.awaits(reply) {
            parts.governor.arrived(0, reply.batch.len() as u64);
            return Ok(None);
        }
        let index = usize::from(reply.partition);
        let partition = &mut self.partitions[index];
        let pull = partition.in_flight.as_ref().expect("its reply is awaited");
        assert!(!partition.replaying, "call order: a replay was handed out and did not come back");
        if pull.from != reply.from || reply.next.is_some_and(|next| !partition.bounds.contains(next)) {
            return Err(Untaken::Corrupt("it is not of the partition that was pulled".to_owned()));
        }
        let is_of_owed = pull.is_of_owed;
        let joined = match reply.piece {
            Some(piece) if parts.copies.complete(piece.position).is_some() => Ok(Some(Records::Superseded)),
            Some(piece) => {
                // What is frozen has no patch.
                let catches_up = parts.phase() == ImportPhase::Taking;
                join(&mut partition.partial, parts, store, piece, reply.batch, catches_up)
            }
            None => Records::parse(reply.batch).map(Some),
        };
        let mut records = match joined {
            Ok(records) => records,
            Err(Untaken::OutOfMemory) => {
                self.rewind(&mut parts.governor, index, reply.from);
                return Err(Untaken::OutOfMemory);
            }
            Err(untaken) => return Err(untaken),
        };
        if records.is_none() && partition.partial.as_ref().is_some_and(|partial| partial.is_superseded(store))
        {
            records = Some(Records::Superseded);
        }
        self.advance_cursor(parts, now, index, reply, records.is_some());
        parts.counters.pieces += u64::from(reply.piece.is_some());
        parts.proved(lane);
        let Some(records) = records else {
            parts.counters.bytes_moved += reply.batch.len() as u64;
            return Ok(None);
        };
        // What is copied ahead of cuts is no progress yet.
        if fault!(ProgressBeforeReplay) && !parts.writer.view().is_by_cuts() {
            parts.writer.advance(index, reply.next);
        }
        let last = reply
            .next
            .map_or(self.partitions[index].bounds.last(), |next| next.previous().expect("after `from`"));
        let covers = PositionRange::new(reply.from, last).expect("the cursor moved");
        let (next, bytes) = (reply.next, reply.batch.len());
        Ok(Some(Replay { partition: index, covers, next, is_of_owed, records, bytes }))
    }

    /// The reply was taken. `is_whole`: all records before the next cursor have arrived.
    fn advance_cursor(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        index: usize,
        reply: &PullReply<'_>,
        is_whole: bool,
    ) {
        let partition = &mut self.partitions[index];
        let pull = partition.in_flight.take().expect("the reply is to a pull");
        // The source answers pulls one after the other, so a reply's time starts at the previous reply.
        let took_us = now.since(pull.sent_at.max(self.replied_at));
        self.replied_at = now;
        if matches!(parts.spec.protocol.pulls, PullBytes::Adaptive(_)) {
            partition.adapt(took_us, pull.asked_bytes, reply.batch.len());
        }
        partition.sequence += 1;
        partition.replaying = is_whole;
        if is_whole {
            (partition.cursor, partition.partial) = (reply.next, None);
        }
        parts.governor.arrived(u64::from(pull.asked_bytes), reply.batch.len() as u64);
    }
}
