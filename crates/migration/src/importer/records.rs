//! Arrived records, and how they enter the store.
//!
//! M5: a record is inserted only where the target has no entry, live, expired or tombstone. The store ensures
//! that under the slot's lock, so a racing write wins either way.

use super::held::Held;
use crate::ImportView;
use sidle_store::{Arrival, Assembly, LogHead, OutOfMemory, RecordBatch, ReplayError, Replayed, Store};
use sidle_types::{Position, PositionRange, fault};
use sidle_wire::{ChangedRanges, Piece};

/// Arrived records.
#[derive(Debug)]
pub(super) enum Records<'b> {
    /// Whole.
    Batch(RecordBatch<'b>),
    /// In pieces, at this position.
    Assembled(Assembly, Position),
    /// A large collection, in patches, of which this piece was the last.
    Arrived(Arrival, Piece),
    /// One that was not fetched completely, since its key has an entry here.
    Superseded,
}

/// Why arrived records were not taken.
#[derive(Debug)]
pub(super) enum Untaken {
    OutOfMemory,
    /// A patch of which this is a piece starts from a state that is not here: the whole is asked for.
    NotHeld(Piece),
    /// They are inconsistent, or not what was asked for.
    Corrupt(String),
}

impl From<OutOfMemory> for Untaken {
    fn from(_: OutOfMemory) -> Untaken {
        Untaken::OutOfMemory
    }
}

impl From<ReplayError> for Untaken {
    fn from(error: ReplayError) -> Untaken {
        match error {
            ReplayError::OutOfMemory(_) => Untaken::OutOfMemory,
            ReplayError::OutsideRange(_)
            | ReplayError::Corrupt(_)
            | ReplayError::Patch(_)
            | ReplayError::Gone => Untaken::Corrupt(error.to_string()),
        }
    }
}

impl<'b> Records<'b> {
    /// A batch that arrived whole.
    pub(super) fn parse(batch: &'b [u8]) -> Result<Records<'b>, Untaken> {
        let batch = RecordBatch::parse(batch).map_err(|error| Untaken::Corrupt(error.to_string()))?;
        Ok(Records::Batch(batch))
    }

    /// Where the last of them stands.
    pub(super) fn last_position(&self) -> Option<Position> {
        match self {
            Records::Batch(batch) => batch.iter().last().map(|record| record.hashed_key().position()),
            Records::Assembled(..) | Records::Arrived(..) | Records::Superseded => None,
        }
    }

    /// Whether it changes a copy where that is: nothing is put in its place.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(self, Records::Arrived(arrival, _) if arrival.is_entry())
    }

    /// Inserts those whose keys have no entry (M5), at positions that this node does not own yet (M24).
    pub(super) fn put_in(
        self,
        store: &Store,
        (head, held): (&mut LogHead, &mut Held),
        within: PositionRange,
        view: &ImportView,
    ) -> Result<Replayed, ReplayError> {
        let takes_back = |at| fault!(InertCopySentBack) && view.began_with().is_some_and(|own| own.has(at));
        let is_owned = |at| view.owns_beyond_progress(at) && !fault!(LateCopyWins) && !takes_back(at);
        let overwrites = fault!(ReplayOverwrites);
        match self {
            Records::Batch(batch) if overwrites => Ok(overwrite(store, head, &batch)?),
            Records::Assembled(assembly, _) if overwrites => {
                Ok(overwrite(store, head, &RecordBatch::parse(assembly.bytes())?)?)
            }
            Records::Batch(batch) if !view.may_own_beyond_progress() => store.replay(head, &batch, within),
            Records::Batch(batch) => store.replay_where(head, &batch, within, |at| !is_owned(at)),
            Records::Assembled(_, position) if is_owned(position) => Ok(Replayed::default()),
            Records::Assembled(assembly, _) => assembly.replay(store, head, within),
            Records::Arrived(arrival, _) if is_owned(arrival.position()) => Ok(Replayed::default()),
            Records::Arrived(mut arrival, piece) => {
                let replayed = arrival.finish(store, head, within)?;
                let arrived = arrival.arrived().filter(|_| arrival.is_entry());
                arrived.into_iter().for_each(|arrived| held.insert(piece, arrived));
                Ok(replayed)
            }
            Records::Superseded => Ok(Replayed { inserted: 0, present: 1 }),
        }
    }
}

/// The named fault `replay_overwrites`: arriving records replace those here.
fn overwrite(store: &Store, head: &mut LogHead, batch: &RecordBatch<'_>) -> Result<Replayed, OutOfMemory> {
    for record in batch {
        let key = record.hashed_key();
        let (kind, value) = (record.kind(), record.value());
        store.lock_slot(key.slot()).put_typed(head, key, kind, &[value], record.expires_at())?;
    }
    Ok(Replayed { inserted: batch.len() as u32, present: 0 })
}

/// The records of a reply that names ranges, checked.
pub(super) fn records_of<'b>(
    ranges: ChangedRanges<'_>,
    batch: &'b [u8],
    whole: PositionRange,
) -> Result<Records<'b>, Untaken> {
    let batch = RecordBatch::parse(batch).map_err(|error| Untaken::Corrupt(error.to_string()))?;
    match is_of_ranges(&batch, ranges, whole) {
        true => Ok(Records::Batch(batch)),
        false => Err(Untaken::Corrupt("its records are not of the ranges that it names".to_owned())),
    }
}

/// Whether the reply's ranges are of the migration, and every record stands in one of them, in their order.
fn is_of_ranges(batch: &RecordBatch<'_>, named: ChangedRanges<'_>, whole: PositionRange) -> bool {
    let mut ranges = named.iter();
    let mut range = None;
    let mut is_in_one = |position| {
        while range.is_none_or(|range: PositionRange| range.last() < position) {
            match ranges.next() {
                Some(next) => range = Some(next),
                None => return false,
            }
        }
        range.is_some_and(|range| range.contains(position))
    };
    named.iter().all(|range| whole.covers(range))
        && batch.iter().all(|record| is_in_one(record.hashed_key().position()))
}
