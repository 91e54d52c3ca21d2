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
    /// The next keys are being taken over from a dead node: rest, and ask again.
    AwaitsTakeover,
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
            Reach::TakingOver(position) | Reach::Unreadable(position) => {
                self.next = Some(position);
                return Ok(SavingStep::AwaitsTakeover);
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
            } else if !record.is_expired(now) && record.kind().is_shown() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_table::RangeTable;
    use crate::testing::{SoloNode, migration_spec, node_info};
    use sidle_cluster::{Tablet, TabletMap};
    use sidle_migration::{ExportView, ImportView};
    use sidle_rdb::FileReader;
    use sidle_testbed::fixtures::node_id as id;
    use sidle_types::{MapEpoch, PositionRange, Slot, TabletEpoch};
    use std::io::Cursor;
    use std::sync::Arc;

    fn slots(first: u16, last: u16) -> PositionRange {
        let slot = |number| Slot::new(number).expect("a slot");
        PositionRange::of_slots(slot(first), slot(last)).expect("in order")
    }

    #[test]
    fn only_keys_that_this_node_owns_are_saved_and_those_that_arrive_are_awaited() {
        let mut node = SoloNode::new();
        let mut client = node.connect();
        for number in 0..2000 {
            node.ask(&mut client, &format!("SET key:{number} v"));
        }
        let (own, left, other, arrives) =
            (slots(0, 4095), slots(4096, 8191), slots(8192, 12287), slots(12288, 16383));
        let tablets = [(own, 1), (left, 2), (other, 2), (arrives, 1)];
        let tablet = |(range, owner)| Tablet { range, owner: id(owner), epoch: TabletEpoch(1) };
        let map = TabletMap::new(
            MapEpoch(5),
            vec![node_info(1), node_info(2)],
            tablets.map(tablet).to_vec(),
            Vec::new(),
        );
        let (export, _export_writer) = ExportView::new(&migration_spec(1, left, 1, 2), &[]);
        let (import, _import_writer) = ImportView::new(&migration_spec(2, arrives, 2, 1));
        let table = RangeTable::new(id(1), Arc::new(map.expect("a sound map")), &[import], &[export]);
        let _ticket = node.parts.published.publish(Arc::new(table));

        let mut keys = SavedKeys::of(&node.parts);
        let mut file = FileWriter::new(Cursor::new(Vec::new()), &[]).expect("it fits");
        let end = loop {
            match keys.step(node.now.wall, &mut file).expect("it fits") {
                SavingStep::Wrote => {}
                end => break end,
            }
        };
        assert_eq!(end, SavingStep::Awaits(MigrationId(2)));
        assert_eq!(keys.step(node.now.wall, &mut file).expect("it fits"), end);
        let file = file.end().expect("it fits").into_inner();
        let mut reader = FileReader::new(&file[..]).expect("a file");
        let mut count = 0;
        while let Some(key) = reader.next_key().expect("it is whole") {
            assert!(own.contains(HashedKey::new(&key.name).position()), "{:?}", key.name);
            count += 1;
        }
        assert_eq!(count, node.parts.store.len_in(own));
    }
}
