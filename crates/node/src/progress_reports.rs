//! What an opted-in client has been told of running migrations, and when it is told again.
//!
//! Realises design "Tell clients" (Fulva, section 4.2, MCR): the progress travels as an attribute before a
//! reply, only when it moved by 1/256 of the range, or moved at all and some time has passed since that
//! connection was told.

use sidle_migration::ImportView;
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_types::{MigrationId, MonotonicUs, Position, PositionRange};
use smallvec::SmallVec;

/// Progress is told at once when it moved by the range's length divided by this.
pub(crate) const TELL_FRACTION: u64 = 256;
/// Progress that moved less is told when so long has passed since the last time. Of so little nobody saves
/// many second requests, and a client with many connections hears it on each of them.
pub(crate) const TELL_INTERVAL_US: u64 = 10_000;
/// Of how many migrations a session remembers what it was told; beyond that the oldest is forgotten, and told
/// anew.
const REMEMBERED: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Last {
    migration: MigrationId,
    at: MonotonicUs,
    /// How many positions had arrived.
    arrived: u64,
}

/// What one connection was told last, by migration.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressReports {
    last: SmallVec<[Last; 1]>,
}

impl ProgressReports {
    /// Whether to tell now; if so, notes that it was told. `arrived`: how many positions of `range` are here.
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
        let step = (range.last().0 - range.first().0) / TELL_FRACTION;
        let due = moved > 0 && (moved >= step || now.since(last.at) >= TELL_INTERVAL_US);
        if due {
            *last = this;
        }
        due
    }

    /// Writes the progress of an import as an attribute of the reply that follows, if the connection is due
    /// to be told: the migration's number, then for each partition its first position that is not here yet,
    /// or `done`.
    pub(crate) fn tell(
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
        for next in view.progress() {
            match next {
                Some(position) => reply.bulk(position.to_string().as_bytes()),
                None => reply.bulk(b"done"),
            }
        }
    }
}

/// How many positions of an import are here; the last one of a partition is not counted.
fn positions_arrived(view: &ImportView) -> u64 {
    let arrived = |(partition, next): (&PositionRange, Option<Position>)| {
        next.unwrap_or(partition.last()).0.saturating_sub(partition.first().0)
    };
    view.partitions().iter().zip(view.progress()).map(arrived).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::Position;

    const M: MigrationId = MigrationId(3);

    #[test]
    fn is_due_by_distance_or_by_time() {
        let range = PositionRange::new(Position(0), Position(25_600)).expect("in order");
        let mut told = ProgressReports::default();
        let mut due = |us, arrived| told.is_due(MonotonicUs(us), M, range, arrived);
        assert!(due(0, 0), "the first time");
        assert!(!due(5, 99), "neither far nor long ago");
        assert!(due(5, 100), "a 256th of the range");
        assert!(!due(10_004, 101));
        assert!(due(10_005, 101), "10 ms ago");
        assert!(!due(1_000_000, 101), "it did not move");
    }

    #[test]
    fn is_due_again_when_forgotten() {
        let mut told = ProgressReports::default();
        for migration in 0..=REMEMBERED as u64 {
            assert!(told.is_due(MonotonicUs(0), MigrationId(migration), PositionRange::ALL, 0));
        }
        assert!(told.is_due(MonotonicUs(0), MigrationId(0), PositionRange::ALL, 0));
        assert!(!told.is_due(MonotonicUs(0), MigrationId(REMEMBERED as u64), PositionRange::ALL, 0));
    }
}
