//! FLUSHALL and FLUSHDB: every key that this node owns goes, in slices.
//!
//! Each key is flushed at one instant, so that no reader sees it gone, written, and gone again:
//! - What this node owns whole is cleared range by range, each position once, while other commands run.
//! - Of an import, the mover that owns it first leaves a tombstone for every key that is here, and then sets
//!   the rest to be discarded: from that instant on everything that has not arrived is absent, for good. It
//!   does both between two replays, since a record that arrived in between would outlive the flush.
//! - What is copied at present is cleared as well, and marked: the target clears it too (M11).
//! - While the node owns a range without its data (R3), it refuses: another node may still answer for what is
//!   there.
//! - Frozen copies (exports) belong to another node, and are left alone: their owner is still being sent
//!   them.

use crate::parking::ParkingLot;
use crate::position_set::PositionSet;
use crate::queue::{Ticket, ToMover};
use crate::range_table::{RangeTable, Role};
use sidle_store::Store;
use sidle_types::{MigrationId, PositionRange, fault};

/// How many records are cleared before other connections have their turn: well under a millisecond of work.
const FLUSH_SLICE_RECORDS: usize = 2048;

/// How far a flush has come. What it has cleared it leaves alone from then on, whatever becomes of the range
/// meanwhile: an import that was flushed is soon the node's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flush {
    /// What has been flushed.
    done: PositionSet,
    /// What the movers were asked to flush, and with which ticket.
    asked: Option<(Ticket, Vec<(MigrationId, PositionRange)>)>,
}

impl Flush {
    /// Whether everything that this node owns is here, so that a flush may begin.
    pub(crate) fn may_begin(ranges: &RangeTable) -> bool {
        !ranges.entries().iter().any(|entry| matches!(entry.role, Role::Lost))
    }

    /// Goes one step further; returns the ticket to go on with when there is more to do.
    pub(crate) fn step(
        &mut self,
        ranges: &RangeTable,
        store: &Store,
        parking: &mut ParkingLot,
    ) -> Option<Ticket> {
        if let Some((ticket, asked)) = self.asked.take() {
            let flushed = parking.take_flushed(ticket);
            // An import that was over before its mover was asked is the node's own, and is cleared as such.
            for (migration, range) in asked {
                if flushed.contains(&migration) && !fault!(ImportFlushedTwice) {
                    self.done.add(range);
                }
            }
        }
        if let Some(ticket) = self.flush_imports(ranges, parking) {
            return Some(ticket);
        }
        self.clear_slice(ranges, store).then(|| parking.park_for_a_turn())
    }

    /// Has the movers flush the imports; returns what to wait for when there are any. An import that touches
    /// what was flushed already came to this node later, and is left alone.
    fn flush_imports(&mut self, ranges: &RangeTable, parking: &mut ParkingLot) -> Option<Ticket> {
        let mut imports: Vec<(MigrationId, PositionRange)> = Vec::new();
        for view in ranges.imports().filter(|view| !self.done.touches(view.range())) {
            if !view.activated() {
                return Some(parking.park_for_activation(view.id()));
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
        Some(ticket)
    }

    /// Clears some of what this node owns whole and has not cleared; whether there was any.
    fn clear_slice(&mut self, ranges: &RangeTable, store: &Store) -> bool {
        let mut owned = ranges.entries().iter().filter(|entry| matches!(entry.role, Role::Owned));
        let next = owned.find_map(|entry| Some((self.done.first_gap(entry.range)?, &entry.tracked)));
        let Some((gap, tracked)) = next else { return false };
        // One slice a turn, even when it came to the range's end with less.
        let next = store.discard(gap.first(), gap.last(), FLUSH_SLICE_RECORDS);
        let last = next.and_then(|next| next.previous()).unwrap_or(gap.last());
        let cleared = PositionRange::new(gap.first(), last).expect("a slice makes progress");
        if let Some(view) = tracked.as_ref().filter(|_| !fault!(FlushMarksNothing)) {
            // M11: after it was cleared, under the same range table.
            view.mark_range(cleared);
        }
        self.done.add(cleared);
        true
    }
}
