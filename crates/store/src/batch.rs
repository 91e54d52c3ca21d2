//! A batch of records as a migration sends it: records back to back, as in the log.

use crate::record::{Record, RecordError};
use sidle_types::PositionRange;

/// A batch with every record checked, checksums included.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatch<'b> {
    bytes: &'b [u8],
    records: u32,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A record is invalid.
    #[error("the record at byte {at}: {error}")]
    Record {
        /// The record's start in the batch.
        at: usize,
        /// The record's error.
        error: RecordError,
    },
    /// Batches hold values only.
    #[error("the record at byte {at} is a tombstone")]
    Tombstone {
        /// The record's start in the batch.
        at: usize,
    },
}

impl<'b> RecordBatch<'b> {
    /// Those of its records that stand in this range, if they follow one another.
    pub fn within(self, range: PositionRange) -> RecordBatch<'b> {
        let is_in = |record: &Record<'_>| range.contains(record.position());
        let mut records = self.iter();
        while records.clone().next().is_some_and(|record| !is_in(&record)) {
            records.next();
        }
        let from = records.rest;
        let mut count = 0;
        while records.clone().next().is_some_and(|record| is_in(&record)) {
            records.next();
            count += 1;
        }
        RecordBatch { bytes: &from[..from.len() - records.rest.len()], records: count }
    }

    /// Checks the bytes in full.
    pub fn parse(bytes: &'b [u8]) -> Result<RecordBatch<'b>, BatchError> {
        let mut at = 0;
        let mut records = 0;
        while at < bytes.len() {
            let record = Record::check(&bytes[at..]).map_err(|error| BatchError::Record { at, error })?;
            if record.is_tombstone() {
                return Err(BatchError::Tombstone { at });
            }
            at += record.in_log().len();
            records += 1;
        }
        Ok(RecordBatch { bytes, records })
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The records in the order that they were packed in.
    pub fn iter(&self) -> RecordBatchIter<'b> {
        RecordBatchIter { rest: self.bytes }
    }
}

impl<'b> IntoIterator for &RecordBatch<'b> {
    type Item = Record<'b>;
    type IntoIter = RecordBatchIter<'b>;

    fn into_iter(self) -> RecordBatchIter<'b> {
        self.iter()
    }
}

/// The records of a batch.
#[derive(Clone, Debug)]
pub struct RecordBatchIter<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for RecordBatchIter<'b> {
    type Item = Record<'b>;

    fn next(&mut self) -> Option<Record<'b>> {
        if self.rest.is_empty() {
            return None;
        }
        let (record, rest) = self.rest.split_at(crate::record::Shape::total_bytes_at(self.rest));
        self.rest = rest;
        Some(Record::trusted(record))
    }
}
