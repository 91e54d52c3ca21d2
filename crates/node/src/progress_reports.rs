//! The progress of running migrations that an opted-in client was sent, and when it is sent again.
//!
//! Realises Fulva, section 4.2 (MCR). Progress travels as an attribute before a reply.
//! It is sent only after 1/256 of the range, or after any progress once some time has passed on that
//! connection.

use sidle_migration::ImportView;
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_types::{MigrationId, MonotonicUs, Position, PositionRange};
use smallvec::SmallVec;

/// Progress of the range's length divided by this is sent at once.
pub(crate) const REPORT_FRACTION: u64 = 256;
/// Smaller progress is sent after this time. It saves few second requests, and a client with many connections
/// receives it on each of them.
pub(crate) const REPORT_INTERVAL_US: u64 = 10_000;
/// The migrations that a session remembers; beyond that the oldest is dropped, and sent anew.
const REMEMBERED: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Last {
    migration: MigrationId,
    at: MonotonicUs,
    /// How many positions had arrived.
    arrived: u64,
}

/// The last progress sent on one connection, by migration.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressReports {
    last: SmallVec<[Last; 1]>,
}

impl ProgressReports {
    /// Whether to send now; if so, notes it as sent. `arrived`: how many positions of `range` are here.
    fn is_due(
        &mut self,
        now: MonotonicUs,
        migration: MigrationId,
        range: PositionRange,
        arrived: u64,
    ) -> bool {
        let this = Last { migration, at: now, arrived };
        let Some(last) = self.last.iter_mut().find(|last| last.migration == migration) else {
            if self.last.len() == REMEMBERED {
                self.last.remove(0);
            }
            self.last.push(this);
            return true;
        };
        let moved = arrived.saturating_sub(last.arrived);
        let step = (range.last().0 - range.first().0) / REPORT_FRACTION;
        let due = moved > 0 && (moved >= step || now.since(last.at) >= REPORT_INTERVAL_US);
        if due {
            *last = this;
        }
        due
    }

    /// Writes the progress of an import as an attribute of the next reply, if it is due on this connection.
    /// It holds the migration's number, then each partition's first missing position, or `done`.
    pub(crate) fn report(
        &mut self,
        version: RespVersion,
        now: MonotonicUs,
        view: &ImportView,
        out: &mut Vec<u8>,
    ) {
        let arrived = positions_arrived(view);
        if !self.is_due(now, view.id(), view.range(), arrived) {
            return;
        }
        let mut reply = ReplyWriter::new(out, version);
        reply.attribute(1);
        reply.simple("sidle-progress");
        reply.array(1 + view.partitions().len());
        reply.integer(i64::try_from(view.id().0).expect("the coordinator counts migrations from 1"));
        for next in view.asked_up_to() {
            match next {
                Some(position) => reply.bulk(position.to_string().as_bytes()),
                None => reply.bulk(b"done"),
            }
        }
    }
}

/// How many positions of an import are here; each partition's last one is not counted.
fn positions_arrived(view: &ImportView) -> u64 {
    let arrived = |(partition, next): (&PositionRange, Option<Position>)| {
        next.unwrap_or(partition.last()).0.saturating_sub(partition.first().0)
    };
    view.partitions().iter().zip(view.asked_up_to()).map(arrived).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::Position;

    const M: MigrationId = MigrationId(3);

    #[test]
    fn is_due_by_distance_or_by_time() {
        let range = PositionRange::new(Position(0), Position(25_600)).expect("in order");
        let mut reports = ProgressReports::default();
        let mut due = |us, arrived| reports.is_due(MonotonicUs(us), M, range, arrived);
        assert!(due(0, 0), "the first time");
        assert!(!due(5, 99), "neither far nor long ago");
        assert!(due(5, 100), "a 256th of the range");
        assert!(!due(10_004, 101));
        assert!(due(10_005, 101), "10 ms ago");
        assert!(!due(1_000_000, 101), "it did not move");
    }

    #[test]
    fn is_due_again_when_forgotten() {
        let mut reports = ProgressReports::default();
        for migration in 0..=REMEMBERED as u64 {
            assert!(reports.is_due(MonotonicUs(0), MigrationId(migration), PositionRange::ALL, 0));
        }
        assert!(reports.is_due(MonotonicUs(0), MigrationId(0), PositionRange::ALL, 0));
        assert!(!reports.is_due(MonotonicUs(0), MigrationId(REMEMBERED as u64), PositionRange::ALL, 0));
    }
}
