//! FLUSHALL and FLUSHDB: every key that this node owns is removed, in slices.
//!
//! Each key is flushed at one instant: no reader sees it gone, written, and gone again:
//! - What this node owns whole is cleared range by range, each position once, while other commands run.
//! - Of an import, its mover first leaves a tombstone for every key that is here, and then discards the rest:
//!   from then on everything that has not arrived stays absent. It does both between two replays: a record
//!   that arrived in between would outlive the flush.
//! - What is being copied is cleared as well, and marked: the target clears it too (M11).
//! - While the node owns a range without its data (R3), it refuses: another node may still serve it.
//! - What transactions have at keys stays. A key that has voted is flushed once its transaction has ended; no
//!   key votes meanwhile (`locks/flush.rs`).
//! - Frozen copies (exports) belong to another node and stay: their owner is still receiving them. What this
//!   node keeps of a range that it gives bit by bit is cleared, and marked (M22).

use crate::locks::remove_at;
use crate::parking::ParkingLot;
use crate::position_set::PositionSet;
use crate::queue::{Ticket, ToMover};
use crate::range_table::{RangeEntry, RangeTable, Role};
use sidle_migration::ExportView;
use sidle_store::{Leave, LogHead, Store, WholeDiscard};
use sidle_types::{MigrationId, Position, PositionRange, ValueKind, fault};
use std::sync::Arc;

/// How many records are cleared in one turn: well under a millisecond of work.
const FLUSH_SLICE_RECORDS: usize = 2048;

/// What a flush waits for.
pub(crate) enum Wait {
    Until(Ticket),
    /// Keys that have voted for transactions.
    ForVotes,
}

/// The progress of a flush. What it has cleared stays alone from then on, whatever the range becomes: a
/// flushed import is soon the node's own.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// Begun with the first slice. A kill leaves all keys, or none: the durable log has the whole flush, or
    /// nothing of it.
    discard: Option<WholeDiscard>,
    /// What has been flushed.
    done: PositionSet,
    /// The parts that movers were asked to flush, and the ticket.
    asked: Option<(Ticket, Vec<(MigrationId, PositionRange)>)>,
}

impl Flush {
    /// Whether everything that this node owns is here, so that a flush may begin.
    pub(crate) fn may_begin(ranges: &RangeTable) -> bool {
        !ranges
            .entries()
            .iter()
            .any(|entry| matches!(entry.role, Role::Lost | Role::TakingOver | Role::Unreadable))
    }

    /// Runs one step, by a worker at this step of what it gives bit by bit; returns what to wait for if more
    /// is left. `is_held`: whether keys in a range have voted.
    pub(crate) fn step(
        &mut self,
        ranges: &RangeTable,
        (store, head): (&Arc<Store>, &mut LogHead),
        step: u64,
        is_held: &dyn Fn(PositionRange) -> bool,
        parking: &mut ParkingLot,
    ) -> Option<Wait> {
        if let Some((ticket, asked)) = self.asked.take() {
            let flushed = parking.take_flushed(ticket);
            // An import that ended before its mover was asked is the node's own, and is cleared as such.
            for (migration, range) in asked {
                if flushed.contains(&migration) && !fault!(ImportFlushedTwice) {
                    self.done.add(range);
                }
            }
        }
        if let Some(wait) = self.flush_imports(ranges, is_held, parking) {
            return Some(wait);
        }
        let (entry, gap) = self.first_gap(ranges)?;
        if is_held(entry.range) {
            return Some(Wait::ForVotes);
        }
        self.clear_slice((store, head), step, entry, gap);
        Some(Wait::Until(parking.park_for_a_turn()))
    }

    /// Has the movers flush the imports; returns what to wait for, if any. An import that touches flushed
    /// positions came to this node later, and is left alone.
    fn flush_imports(
        &mut self,
        ranges: &RangeTable,
        is_held: &dyn Fn(PositionRange) -> bool,
        parking: &mut ParkingLot,
    ) -> Option<Wait> {
        let mut imports: Vec<(MigrationId, PositionRange)> = Vec::new();
        for view in ranges.imports().filter(|view| !self.done.touches(view.range())) {
            if !view.activated() {
                return Some(Wait::Until(parking.park_for_activation(view.id())));
            }
            if is_held(view.range()) {
                return Some(Wait::ForVotes);
            }
            imports.push((view.id(), view.range()));
        }
        imports.sort_unstable_by_key(|(migration, _)| *migration);
        imports.dedup();
        if imports.is_empty() {
            return None;
        }
        let ticket = parking.park_for_flush(imports.iter().map(|(migration, _)| *migration));
        for &(migration, _) in &imports {
            parking.send(migration, ToMover::Flush { migration, ticket });
        }
        self.asked = Some((ticket, imports));
        Some(Wait::Until(ticket))
    }

    /// What this node owns whole, or keeps, and has not cleared: its first part, and the entry that has it.
    fn first_gap<'r>(&self, ranges: &'r RangeTable) -> Option<(&'r RangeEntry, PositionRange)> {
        let is_here = |entry: &&RangeEntry| match &entry.role {
            Role::Owned => true,
            Role::Exporting(view) => view.is_by_cuts(),
            Role::Importing(_) | Role::Elsewhere | Role::Lost | Role::TakingOver | Role::Unreadable => false,
        };
        let mut here = ranges.entries().iter().filter(is_here);
        here.find_map(|entry| Some((entry, self.done.first_gap(entry.range)?)))
    }

    /// Clears a slice of this.
    fn clear_slice(
        &mut self,
        (store, head): (&Arc<Store>, &mut LogHead),
        step: u64,
        entry: &RangeEntry,
        gap: PositionRange,
    ) {
        // One slice a turn, even if it reached the range's end early.
        let next = match &entry.role {
            Role::Exporting(view) => clear_kept(store, head, view, step, gap),
            _ => {
                let discard = self.discard.get_or_insert_with(|| WholeDiscard::begin(store));
                let mut left = Vec::new();
                let next = discard.discard(gap.first(), gap.last(), FLUSH_SLICE_RECORDS, &mut left);
                left.into_iter().for_each(|position| remove_at(store, head, position));
                next
            }
        };
        let last = next.and_then(|next| next.previous()).unwrap_or(gap.last());
        let cleared = PositionRange::new(gap.first(), last).expect("a slice makes progress");
        if let Some(view) = entry.tracked.as_ref().filter(|_| !fault!(FlushMarksNothing)) {
            // M11: after the clearing, under the same range table.
            view.mark_range(cleared);
        }
        self.done.add(cleared);
    }
}

/// Removes a slice of what this node keeps of a range that it gives bit by bit, for a worker at this step;
/// returns where to continue.
fn clear_kept(
    store: &Store,
    head: &mut LogHead,
    view: &ExportView,
    step: u64,
    gap: PositionRange,
) -> Option<Position> {
    store.visit(gap.first(), gap.last(), FLUSH_SLICE_RECORDS, &mut |record| {
        let key = record.hashed_key();
        if record.kind() == ValueKind::Locks || !view.keeps(key.position(), step) {
            return;
        }
        let slot = store.lock_slot(key.slot());
        slot.remove(head, key, Leave::Nothing).expect("what leaves nothing takes no memory");
        drop(slot);
        if !fault!(FlushMarksNothing) {
            view.mark_kept(key.position(), step);
        }
    })
}
