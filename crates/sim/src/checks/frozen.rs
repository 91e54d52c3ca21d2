//! M2: after the freeze nothing changes in the range at the source, until the source may free the memory.
//!
//! The range's content is recorded when the mover is notified of the freeze: each record's key and its
//! header, whose checksum covers the rest. Tombstones of an earlier import may still be swept, since every
//! request to the source treats them as nothing; no new ones may appear.

use super::Violation;
use crate::world::HostId;
use sidle_store::Store;
use sidle_types::{KeyHash, MigrationId, Position, PositionRange};
use std::collections::BTreeMap;

/// The bytes of a record with its checksum, lengths, flags and version.
const HEADER_BYTES: usize = 20;

/// One record of a frozen range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrozenRecord {
    /// Where it stands.
    pub(super) position: Position,
    /// Its key.
    pub(super) key: Box<[u8]>,
    header: [u8; HEADER_BYTES],
}

/// A range's content, in a few words that do not depend on the order of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    values: u64,
    sum: u64,
}

/// A range's content at its freeze.
#[derive(Debug)]
pub(super) struct FrozenCopy {
    range: PositionRange,
    digest: Digest,
    tombstones: u64,
    /// In the order of positions.
    pub(super) records: Vec<FrozenRecord>,
}

/// The frozen ranges of all live sources.
#[derive(Debug, Default)]
pub(super) struct FrozenCopies {
    copies: BTreeMap<MigrationId, (HostId, FrozenCopy)>,
}

fn digest(store: &Store, range: PositionRange) -> (Digest, u64) {
    let (mut digest, mut tombstones) = (Digest::default(), 0);
    store.each_entry(range, &mut |record, is_tombstone| {
        if is_tombstone {
            tombstones += 1;
        } else {
            // The checksums of two keys' records are not distinct enough to be added up.
            let word = KeyHash::of_key(record.key()).0 ^ KeyHash::of_key(record.head()).0.rotate_left(1);
            digest.values += 1;
            digest.sum = digest.sum.wrapping_add(word);
        }
    });
    (digest, tombstones)
}

fn records(store: &Store, range: PositionRange) -> Vec<FrozenRecord> {
    let mut records = Vec::new();
    store.each_entry(range, &mut |record, is_tombstone| {
        if !is_tombstone {
            let (position, key) = (record.position(), record.key().into());
            records.push(FrozenRecord { position, key, header: *record.head() });
        }
    });
    records.sort_unstable();
    records
}

impl FrozenCopy {
    fn new(store: &Store, range: PositionRange) -> FrozenCopy {
        let (digest, tombstones) = digest(store, range);
        FrozenCopy { range, digest, tombstones, records: records(store, range) }
    }

    /// What has changed, in words.
    fn difference(&self, store: &Store) -> Option<String> {
        let (digest, tombstones) = digest(store, self.range);
        if tombstones > self.tombstones {
            return Some(format!("{} tombstones became {tombstones}", self.tombstones));
        }
        if digest == self.digest {
            return None;
        }
        let now = records(store, self.range);
        let is_other = |record: &&FrozenRecord| !self.records.contains(record);
        let gone = self.records.iter().find(|record| !now.contains(record));
        let changed = now.iter().find(is_other).or(gone);
        let key = changed.map_or("nobody knows which".into(), |record| record.key.escape_ascii().to_string());
        Some(format!("{} records became {}, first of them \"{key}\"", self.digest.values, digest.values))
    }
}

impl FrozenCopies {
    /// The range of a migration is frozen at this machine.
    pub(super) fn freeze(&mut self, host: HostId, id: MigrationId, store: &Store, range: PositionRange) {
        self.copies.insert(id, (host, FrozenCopy::new(store, range)));
    }

    /// This migration's frozen content, while its source's process runs and may not release it yet.
    pub(super) fn copy(&self, id: MigrationId) -> Option<&FrozenCopy> {
        self.copies.get(&id).map(|(_, copy)| copy)
    }

    /// Whether everything frozen at this machine is unchanged.
    pub(super) fn check(&self, host: HostId, store: &Store) -> Result<(), Violation> {
        for (id, (_, copy)) in self.copies.iter().filter(|(_, (at, _))| *at == host) {
            if let Some(difference) = copy.difference(store) {
                let what = format!("node {}, migration {id}: {difference}", host.0);
                return Err(Violation::new("frozen (M2)", what));
            }
        }
        Ok(())
    }

    /// The source may free the memory: its content may go from now on.
    pub(super) fn release(&mut self, host: HostId, id: MigrationId, store: &Store) -> Result<(), Violation> {
        self.check(host, store)?;
        self.copies.remove(&id);
        Ok(())
    }

    /// The machine's process has died.
    pub(super) fn forget(&mut self, host: HostId) {
        self.copies.retain(|_, (at, _)| *at != host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::{put, remove, store};
    use sidle_store::Leave;

    const HOST: HostId = HostId(1);
    const M: MigrationId = MigrationId(4);

    fn frozen(store: &Store) -> FrozenCopies {
        let mut copies = FrozenCopies::default();
        copies.freeze(HOST, M, store, PositionRange::ALL);
        assert_eq!(copies.check(HOST, store), Ok(()));
        copies
    }

    #[test]
    fn a_frozen_range_must_not_change() {
        let changes: [fn(&Store); 4] = [
            |store| put(store, b"key 1", b"another"),
            |store| put(store, b"new", b"value"),
            |store| remove(store, b"key 2", Leave::Nothing),
            |store| remove(store, b"never there", Leave::Tombstone),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let store = store();
            let mut copies = frozen(&store);
            change(&store);
            assert!(copies.check(HOST, &store).is_err(), "change {number}");
            assert_eq!(copies.check(HostId(0), &store), Ok(()), "it is another node's");
            assert!(copies.release(HOST, M, &store).is_err());
            copies.forget(HOST);
            assert_eq!(copies.check(HOST, &store), Ok(()));
        }
    }

    #[test]
    fn the_same_value_written_again_is_a_change() {
        let store = store();
        let copies = frozen(&store);
        put(&store, b"key 1", b"value");
        let violation = copies.check(HOST, &store).expect_err("it has another version");
        assert!(violation.what.contains("key 1"), "{violation}");
    }

    #[test]
    fn an_earlier_imports_tombstones_may_be_swept() {
        let store = store();
        remove(&store, b"key 3", Leave::Tombstone);
        let copies = frozen(&store);
        assert_eq!(store.sweep_tombstones(Position::FIRST, Position::LAST, usize::MAX), None);
        assert_eq!(copies.check(HOST, &store), Ok(()));
    }

    #[test]
    fn what_is_outside_the_range_may_change() {
        let store = store();
        let here = Position::of_key(b"key 1");
        let mut copies = FrozenCopies::default();
        copies.freeze(HOST, M, &store, PositionRange::only(here));
        put(&store, b"key 2", b"another");
        assert_eq!(copies.check(HOST, &store), Ok(()));
        assert_eq!(copies.copy(M).map(|copy| copy.records.len()), Some(1));
    }
}
