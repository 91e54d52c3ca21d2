//! Removing values past their deadline.
//!
//! Purpose: an expired value reads as absent, but keeps its memory until it is removed. There are two orders
//! of search. By position, all of them are found. By segment, oldest first, a writer gets memory now: what
//! expires together was mostly written together, and a segment without live records is free at once.
//!
//! Both skip what cannot have expired: a slot and a segment know a time before which nothing in it expires.
//! It is never later than the earliest deadline. A segment's deadlines only disappear: its time is set when
//! its head closes it, and after each pass over it. Each write lowers a slot's time, and a call that visits
//! the whole slot sets it anew. Such a call removes it first, so that concurrent writes lower it from the
//! maximum, and restores it if it ends early.
//!
//! The caller decides whether and how a value may be removed, since it knows what is being moved.

use crate::data::{Data, Entry};
use crate::log::{LogHead, SEGMENT_START};
use crate::record::NEVER;
use crate::segment::State;
use crate::slot_table::SlotTable;
use crate::writer::{Leave, SlotGuard};
use sidle_types::{HashedKey, Position, Slot, WallMs};

/// Decides about expired values.
pub trait Expiring {
    /// What the removal of the value at this position leaves behind; none if it must stay.
    fn leave(&mut self, position: Position) -> Option<Leave>;
    /// The value at this position has been removed; its slot is still locked.
    fn removed(&mut self, position: Position);
}

/// The result of a removal of expired values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpirySweep {
    /// Visited values with a deadline.
    pub looked: usize,
    /// Expired ones, which were removed.
    pub removed: usize,
    /// Where to continue; none after the last position.
    pub next: Option<Position>,
}

/// A removal, with what it borrows.
pub(crate) struct Expiry<'e> {
    pub(crate) data: &'e Data,
    pub(crate) head: &'e mut LogHead,
    pub(crate) now: WallMs,
    pub(crate) expiring: &'e mut dyn Expiring,
}

impl Expiry<'_> {
    /// See [`Store::expire`](crate::Store::expire).
    pub(crate) fn expire(&mut self, from: Position, budget: usize) -> ExpirySweep {
        let mut sweep = ExpirySweep::default();
        for slot in self.data.index.occupancy.between(from.slot(), Slot::LAST) {
            let from = if slot == from.slot() { from } else { Position::first_of(slot) };
            if self.data.index.slot(slot).may_have_expired(self.now) {
                sweep.next = self.expire_in_slot(from, budget, &mut sweep);
                if sweep.next.is_some_and(|next| next.slot() == slot) || sweep.looked >= budget {
                    return sweep;
                }
            }
        }
        sweep.next = None;
        sweep
    }

    /// Visits a slot; returns where to continue.
    fn expire_in_slot(&mut self, from: Position, budget: usize, sweep: &mut ExpirySweep) -> Option<Position> {
        let (data, now, slot) = (self.data, self.now, from.slot());
        let table = data.index.slot(slot);
        let before = with_lock(data, slot, SlotTable::take_earliest);
        let mut earliest = NEVER;
        let mut at = Some(from);
        while let Some(from) = at.filter(|at| at.slot() == slot && sweep.looked < budget) {
            let guard = data.pin();
            let pin = guard.pinned();
            let Some((span, positions)) = data.index.bucket_at(from, pin) else {
                at = Position::last_of(slot).next();
                break;
            };
            let words = span.entries(pin).map(|(_, word)| word).filter(|word| word.kind().has_deadline);
            words.clone().for_each(|word| data.log.prefetch(word.address()));
            for word in words {
                let record = data.log.record(word.address(), pin);
                sweep.looked += 1;
                let is_removed = record.is_expired(now) && self.remove_expired(record.hashed_key());
                sweep.removed += usize::from(is_removed);
                if !is_removed && let Some(deadline) = record.expires_at() {
                    earliest = earliest.min(deadline);
                }
            }
            at = positions.last().next();
        }
        let is_whole = from == Position::first_of(slot) && at.is_none_or(|at| at.slot() != slot);
        with_lock(data, slot, |_| table.note_deadline(if is_whole { earliest } else { before }));
        at
    }

    /// See [`Store::expire_segment`](crate::Store::expire_segment).
    pub(crate) fn expire_segment(&mut self) -> Option<ExpirySweep> {
        let (data, now) = (self.data, self.now);
        let segments = &data.log.segments;
        let may_have_expired = |&number: &u64| {
            let segment = segments.at(number);
            segment.earliest() < now && segment.state() == State::Closed
        };
        let oldest =
            (0..segments.ordinary()).filter(may_have_expired).min_by_key(|&number| segments.at(number).age());
        let number = oldest.filter(|&number| segments.at(number).try_leave())?;
        let mut sweep = ExpirySweep::default();
        let mut earliest = NEVER;
        for (_, record) in data.log.records_of(number, SEGMENT_START) {
            let Some(deadline) = record.expires_at() else { continue };
            sweep.looked += 1;
            if deadline >= now {
                earliest = earliest.min(deadline);
                continue;
            }
            sweep.removed += usize::from(self.remove_expired(record.hashed_key()));
        }
        // What has to stay is found by position: here it would block every later pass.
        segments.at(number).set_earliest(earliest);
        data.log.stay_or_retire(number);
        Some(sweep)
    }

    /// Removes a key's value if it is expired and may go; whether it did.
    fn remove_expired(&mut self, key: HashedKey<'_>) -> bool {
        let Some(leave) = self.expiring.leave(key.position()) else { return false };
        let slot = SlotGuard::lock(self.data, key.slot());
        let is_expired = matches!(slot.get(key), Entry::Value(record) if record.is_expired(self.now));
        if is_expired {
            slot.remove(self.head, key, leave).expect("an existing entry can be removed");
            self.expiring.removed(key.position());
        }
        is_expired
    }
}

fn with_lock<T>(data: &Data, slot: Slot, f: impl FnOnce(&SlotTable) -> T) -> T {
    f(SlotGuard::lock(data, slot).table())
}
