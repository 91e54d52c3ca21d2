//! The keys that this node owns, one slice after the other.

use super::value::LongValue;
use crate::range_table::Reach;
use crate::shared::NodeParts;
use sidle_commands::{Content, Value, with_dumped};
use sidle_rdb::FileWriter;
use sidle_store::Record;
use sidle_types::{HashedKey, MigrationId, Position, ValueKind, WallMs};
use std::io::{Result, Seek, Write};

/// How many records are visited under one guard.
const VISIT_RECORDS: usize = 64;
/// Above this a string is read in slices of its own.
const LONG_BYTES: usize = 16 << 10;

/// What a step of a save has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavingStep {
    /// It has written something.
    Wrote,
    /// The next keys are this node's, and this import still brings them.
    Awaits(MigrationId),
    /// All keys are written.
    End,
}

/// A walk over the keys that this node owns, into a file.
pub struct SavedKeys<'n> {
    parts: &'n NodeParts,
    /// Where the next visit begins.
    next: Option<Position>,
    /// What was found by the last visit, and is too large for it.
    long: Vec<Vec<u8>>,
    /// What is being written of these.
    value: Option<LongValue>,
    found: Found,
}

/// Values that were copied out of the store.
#[derive(Debug, Default)]
struct Found {
    bytes: Vec<u8>,
    values: Vec<FoundValue>,
}

#[derive(Debug)]
struct FoundValue {
    kind: ValueKind,
    expires_at: Option<WallMs>,
    /// In `bytes`: where the key ends, and the value.
    ends: (usize, usize),
}

impl<'n> SavedKeys<'n> {
    /// From the first position on.
    pub fn of(parts: &'n NodeParts) -> SavedKeys<'n> {
        SavedKeys {
            parts,
            next: Some(Position::FIRST),
            long: Vec::new(),
            value: None,
            found: Found::default(),
        }
    }

    /// Writes the next slice.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn step<W: Write + Seek>(&mut self, now: WallMs, file: &mut FileWriter<W>) -> Result<SavingStep> {
        if let Some(value) = &mut self.value {
            if value.step(&self.parts.store, now, file)? {
                self.value = None;
            }
            return Ok(SavingStep::Wrote);
        }
        if let Some(key) = self.long.pop() {
            // It may have been given away since. Then the file of the next owner has it.
            if self.parts.published.table().is_owned(HashedKey::new(&key).position()) {
                self.value = Some(LongValue::new(key, file.checkpoint()));
            }
            return Ok(SavingStep::Wrote);
        }
        let Some(from) = self.next else { return Ok(SavingStep::End) };
        // What has arrived is asked before the store is looked at (M7).
        match self.parts.published.table().reach(from) {
            Reach::End => self.next = None,
            Reach::NotYet(position, migration) => {
                self.next = Some(position);
                return Ok(SavingStep::Awaits(migration));
            }
            Reach::Here(range) => {
                let within = self.visit(range.first(), range.last(), now);
                self.next = within.or_else(|| range.last().next());
                self.found.write(file)?;
            }
        }
        Ok(SavingStep::Wrote)
    }

    fn visit(&mut self, from: Position, last: Position, now: WallMs) -> Option<Position> {
        let (found, long) = (&mut self.found, &mut self.long);
        found.bytes.clear();
        found.values.clear();
        self.parts.store.visit(from, last, VISIT_RECORDS, &mut |record| {
            let is_long =
                record.is_large() || record.kind() == ValueKind::String && record.value().len() > LONG_BYTES;
            if is_long {
                long.push(record.key().to_vec());
            } else if !record.is_expired(now) {
                found.add(record);
            }
        })
    }
}

impl Found {
    fn add(&mut self, record: Record<'_>) {
        self.bytes.extend_from_slice(record.key());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(record.value());
        let ends = (key_end, self.bytes.len());
        self.values.push(FoundValue { kind: record.kind(), expires_at: record.expires_at(), ends });
    }

    fn write<W: Write>(&self, file: &mut FileWriter<W>) -> Result<()> {
        let mut start = 0;
        for &FoundValue { kind, expires_at, ends: (key_end, end) } in &self.values {
            let (key, bytes) = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
            start = end;
            let value = Value { kind, content: Content::Whole(bytes), expires_at };
            with_dumped(value, |dumped| file.key(key, expires_at.map(|at| at.0), dumped))?;
        }
        Ok(())
    }
}
