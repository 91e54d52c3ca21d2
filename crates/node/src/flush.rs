//! FLUSHALL and FLUSHDB: every key that this node owns goes, in slices.
//!
//! Each key is flushed at one instant, so that no reader sees it gone, written, and gone again:
//! - What this node owns whole is cleared range by range, each position once, while other commands run.
//! - Of an import, the mover that owns it first leaves a tombstone for every key that is here, and then sets the rest to
//!   be discarded: from that instant on everything that has not arrived is absent, for good. It does both between two
//!   replays, since a record that arrived in between would outlive the flush.
//! - Frozen copies (exports) belong to another node, and are left alone: their owner is still being sent them.

use crate::parking::{Resume, Ticket};
use crate::queue::ToMover;
use crate::range_table::Role;
use crate::session::Session;
use crate::worker::Worker;
use sidle_resp::ReplyWriter;
use sidle_types::{MigrationId, Position};

/// How many records are cleared before other connections have their turn: well under a millisecond of work.
const FLUSH_SLICE_RECORDS: usize = 2048;

impl Worker {
    /// Goes one step further with the flush that the session asked for; `Err` when there is more to do.
    pub(crate) fn flush(&mut self, session: &mut Session, out: &mut Vec<u8>) -> Result<(), Ticket> {
        let from = match session.route.resume {
            Some(Resume::Flushing { from }) => from,
            Some(Resume::FlushingImports { table }) if table == self.seen() => Position::FIRST,
            // Either the beginning, or other ranges are imports now than the movers were asked to flush.
            _ => match self.flush_imports(session) {
                Ok(()) => Position::FIRST,
                Err(ticket) => return Err(ticket),
            },
        };
        match self.clear_slice(from) {
            Some(from) => {
                session.route.resume = Some(Resume::Flushing { from });
                Err(self.parking.park_for_a_turn())
            }
            None => {
                ReplyWriter::new(out, session.version).ok();
                Ok(())
            }
        }
    }

    /// Has the movers flush the imports; `Err` when there are any.
    fn flush_imports(&mut self, session: &mut Session) -> Result<(), Ticket> {
        let mut imports: Vec<MigrationId> = Vec::new();
        for view in self.ranges.imports() {
            if !view.activated() {
                let migration = view.id();
                return Err(self.parking.park_for_activation(migration));
            }
            imports.push(view.id());
        }
        imports.sort_unstable();
        imports.dedup();
        if imports.is_empty() {
            return Ok(());
        }
        session.route.resume = Some(Resume::FlushingImports { table: self.seen() });
        let ticket = self.parking.park_for_flush(&imports);
        for migration in imports {
            self.send(migration, ToMover::Flush { migration, ticket });
        }
        Err(ticket)
    }

    /// Clears some of what this node owns whole, from a position on; returns where to go on.
    fn clear_slice(&self, from: Position) -> Option<Position> {
        for entry in self.ranges.entries() {
            if !matches!(entry.role, Role::Owned) || entry.range.last() < from {
                continue;
            }
            let first = entry.range.first().max(from);
            let last = entry.range.last();
            // One slice a turn, even when it came to the range's end with less.
            return match self.store.discard(first, last, FLUSH_SLICE_RECORDS) {
                Some(next) => Some(next),
                None => last.next(),
            };
        }
        None
    }
}
