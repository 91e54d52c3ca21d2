//! A batch of records as a migration sends it: records back to back, as in the log.

use crate::record::{Record, RecordError};

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
