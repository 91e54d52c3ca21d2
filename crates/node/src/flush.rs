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

use crate::dispatch::NOT_SERVED;
use crate::parking::Ticket;
use crate::position_set::PositionSet;
use crate::queue::ToMover;
use crate::range_table::Role;
use crate::session::Session;
use crate::worker::Worker;
use sidle_resp::ReplyWriter;
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

impl Worker {
    /// Goes one step further with the flush that the session asked for; `Err` when there is more to do.
    pub(crate) fn flush(&mut self, session: &mut Session, out: &mut Vec<u8>) -> Result<(), Ticket> {
        let begun = session.route.flush.take();
        if begun.is_none()
            && self.executor.ranges.entries().iter().any(|entry| matches!(entry.role, Role::Lost))
        {
            self.write_error(session, NOT_SERVED, out);
            return Ok(());
        }
        let mut flush = begun.unwrap_or_default();
        if let Some((ticket, asked)) = flush.asked.take() {
            let flushed = self.parking.take_flushed(ticket);
            // An import that was over before its mover was asked is the node's own, and is cleared as such.
            for (migration, range) in asked {
                if flushed.contains(&migration) && !fault!(ImportFlushedTwice) {
                    flush.done.add(range);
                }
            }
        }
        match self.flush_imports(&mut flush).or_else(|| self.clear_slice(&mut flush)) {
            Some(ticket) => {
                session.route.flush = Some(flush);
                Err(ticket)
            }
            None => {
                ReplyWriter::new(out, session.version).ok();
                Ok(())
            }
        }
    }

    /// Has the movers flush the imports; returns what to wait for when there are any. An import that touches
    /// what was flushed already came to this node later, and is left alone.
    fn flush_imports(&mut self, flush: &mut Flush) -> Option<Ticket> {
        let mut imports: Vec<(MigrationId, PositionRange)> = Vec::new();
        for view in self.executor.ranges.imports().filter(|view| !flush.done.touches(view.range())) {
            if !view.activated() {
                let migration = view.id();
                return Some(self.parking.park_for_activation(migration));
            }
            imports.push((view.id(), view.range()));
        }
        imports.sort_unstable_by_key(|(migration, _)| *migration);
        imports.dedup();
        if imports.is_empty() {
            return None;
        }
        let ticket = self.parking.park_for_flush(imports.iter().map(|(migration, _)| *migration));
        for &(migration, _) in &imports {
            self.send(migration, ToMover::Flush { migration, ticket });
        }
        flush.asked = Some((ticket, imports));
        Some(ticket)
    }

    /// Clears some of what this node owns whole and has not cleared; returns the ticket to go on with.
    fn clear_slice(&mut self, flush: &mut Flush) -> Option<Ticket> {
        let owned = self.executor.ranges.entries().iter().filter(|entry| matches!(entry.role, Role::Owned));
        let (gap, tracked) =
            owned.into_iter().find_map(|entry| Some((flush.done.first_gap(entry.range)?, &entry.tracked)))?;
        // One slice a turn, even when it came to the range's end with less.
        let next = self.executor.store.discard(gap.first(), gap.last(), FLUSH_SLICE_RECORDS);
        let last = next.and_then(|next| next.previous()).unwrap_or(gap.last());
        let cleared = PositionRange::new(gap.first(), last).expect("a slice makes progress");
        if let Some(view) = tracked.as_ref().filter(|_| !fault!(FlushMarksNothing)) {
            // M11: after it was cleared, under the same range table.
            view.mark_range(cleared);
        }
        flush.done.add(cleared);
        Some(self.parking.park_for_a_turn())
    }
}
