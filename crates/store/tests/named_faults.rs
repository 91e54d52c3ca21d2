//! Tests of the tests: a scenario finds each known fault of what a durable log has.

use sidle_outline::{Chunk, Order, Outline};
use sidle_store::{
    Change, CountElements, ImportNote, ImportStage, Leave, LogHead, MoveIn, Moved, Recovery, SlotGuards,
    Store, StoreConfig, logged_records,
};
use sidle_types::{Fault, HashedKey, ImportId, Position, PositionRange, ValueKind, WallMs};

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::PublishedBeforeLogged, a_value_is_in_the_commit_behind_it),
    (Fault::RemovalNotLogged, a_removal_is_in_the_commit_behind_it),
    (Fault::FlushNotLogged, a_flush_is_in_the_commit_behind_it),
    (Fault::HalfAnExec, a_change_of_two_keys_is_in_one_commit),
    (Fault::ChunksGoWithTheirFile, chunks_are_needed_as_long_as_their_collection_has_them),
    (Fault::TombstonesGoWithTheirFile, a_tombstone_of_an_import_is_needed_until_its_end),
    (Fault::RecoveredWithoutTombstones, a_tombstone_of_an_import_is_recovered),
    (Fault::OldTombstonesRecovered, a_removal_of_an_earlier_stay_is_no_tombstone),
    (Fault::SucceededWithoutTombstones, who_takes_a_dead_targets_place_has_its_tombstones),
    (Fault::SucceededWithCopies, who_takes_a_dead_targets_place_has_none_of_its_copies),
    (Fault::FirstRecordReadCounts, the_oldest_commit_is_read_first),
];

const COUNT: CountElements<'static> = &|_, _, _, _| Some(1);

fn store() -> (Store, LogHead) {
    let config = StoreConfig {
        memory_bytes: 4 << 20,
        segment_bytes: 64 << 10,
        is_durable: true,
        ..StoreConfig::default()
    };
    let store = Store::new(config).expect("a valid configuration");
    let head = store.log_head();
    (store, head)
}

fn put(store: &Store, head: &mut LogHead, key: &str, value: &str) {
    let key = HashedKey::new(key.as_bytes());
    store.lock_slot(key.slot()).put(head, key, &[value.as_bytes()], None).expect("there is room");
}

fn commit(store: &Store) -> Vec<u8> {
    let mut records = Vec::new();
    store.commits().expect("it is durable").take(&mut records);
    records
}

fn recovered(commits: &[&[u8]]) -> Store {
    let (store, _) = store();
    let mut recovery = Recovery::begin(&store);
    commits.iter().for_each(|records| recovery.replay(records).expect("it was written"));
    recovery.finish(COUNT).expect("it was written");
    store
}

fn a_value_is_in_the_commit_behind_it() {
    let (store, mut head) = store();
    put(&store, &mut head, "key", "value");
    assert_eq!(recovered(&[&commit(&store)]).len(), 1, "U1");
}

fn a_removal_is_in_the_commit_behind_it() {
    let (store, mut head) = store();
    put(&store, &mut head, "key", "value");
    let first = commit(&store);
    let key = HashedKey::new(b"key");
    store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).expect("it takes no memory");
    assert!(recovered(&[&first, &commit(&store)]).is_empty(), "U1");
}

fn a_flush_is_in_the_commit_behind_it() {
    let (store, mut head) = store();
    put(&store, &mut head, "key", "value");
    let first = commit(&store);
    assert_eq!(store.discard(PositionRange::ALL.first(), PositionRange::ALL.last(), 100), None);
    assert!(recovered(&[&first, &commit(&store)]).is_empty(), "U1");
}

fn a_change_of_two_keys_is_in_one_commit() {
    let (store, mut head) = store();
    let keys = [HashedKey::new(b"{s}one"), HashedKey::new(b"{s}two")];
    let slots = SlotGuards::lock(&store, &[keys[0].slot()]);
    let changes = keys.map(|key| (key, Change::Put(ValueKind::String, b"value", None)));
    slots.publish(&mut head, WallMs(0), changes.into_iter()).expect("there is room");
    drop(slots);
    assert_eq!(recovered(&[&commit(&store)]).len(), 2, "U2");
}

/// How many of these records are needed.
fn needed(store: &Store, records: &[u8]) -> usize {
    let mut survivors = Vec::new();
    store.survivors_of(records, usize::MAX, &mut survivors);
    logged_records(&survivors).count()
}

fn chunks_are_needed_as_long_as_their_collection_has_them() {
    let (store, mut head) = store();
    let key = HashedKey::new(b"large");
    let mut outline = Outline::new(0);
    (0..3).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[1; 100])));
    let slot = store.lock_slot(key.slot());
    slot.put_large(&mut head, key, ValueKind::Set, outline, None).expect("there is room");
    drop(slot);
    let records = commit(&store);
    assert_eq!(needed(&store, &records), 3 + 1, "three chunks and the head");
}

/// A store that serves a range which it imports, and in which a key was deleted, with its commits.
fn deleted_in_an_import() -> (Store, Vec<u8>) {
    let (store, mut head) = store();
    let (id, range) = (ImportId(3), PositionRange::ALL);
    store.note_import(ImportNote { id, range, stage: ImportStage::Serving });
    put(&store, &mut head, "key", "value");
    let key = HashedKey::new(b"key");
    store.lock_slot(key.slot()).remove(&mut head, key, Leave::Tombstone).expect("there is room");
    let records = commit(&store);
    (store, records)
}

fn a_tombstone_of_an_import_is_needed_until_its_end() {
    let (store, records) = deleted_in_an_import();
    assert_eq!(needed(&store, &records), 2, "M6: the tombstone, and the note of the import");
    let (id, range) = (ImportId(3), PositionRange::ALL);
    store.note_import(ImportNote { id, range, stage: ImportStage::Over });
    store.sweep_tombstones(range.first(), range.last(), usize::MAX);
    assert_eq!(needed(&store, &records), 0);
}

fn a_tombstone_of_an_import_is_recovered() {
    let (_, records) = deleted_in_an_import();
    let again = recovered(&[&records]);
    assert_eq!(again.tombstones_in(PositionRange::ALL), 1, "M6");
}

/// What was removed here before the range left may have come back elsewhere, and arrive.
fn a_removal_of_an_earlier_stay_is_no_tombstone() {
    let (store, mut head) = store();
    put(&store, &mut head, "key", "old");
    let key = HashedKey::new(b"key");
    store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).expect("there is room");
    let range = PositionRange::ALL;
    store.note_import(ImportNote { id: ImportId(9), range, stage: ImportStage::Serving });
    let again = recovered(&[&commit(&store)]);
    assert_eq!(again.noted_imports().len(), 1);
    assert_eq!(again.tombstones_in(range), 0, "M6: the key may arrive");
}

/// Another store that goes on with the import that this log has, in this range.
fn succeeded(records: &[u8], range: PositionRange) -> Store {
    let dead = recovered(&[records]);
    let (store, mut head) = store();
    let noted = dead.noted_import(ImportId(3));
    store.note_succession(ImportId(4), range, &noted);
    for part in noted.answered_in(&[range]) {
        let mut moving = MoveIn::new(part).and_tombstones(noted.needs_tombstones());
        while moving.step(&dead, &store, &mut head).expect("there is room") == Moved::Slice {}
    }
    recovered(&[&commit(&store)])
}

fn who_takes_a_dead_targets_place_has_its_tombstones() {
    let (_, records) = deleted_in_an_import();
    let next = succeeded(&records, PositionRange::ALL);
    let stages: Vec<_> = next.noted_imports().into_iter().map(|note| (note.id, note.stage)).collect();
    assert_eq!(stages, [(ImportId(4), ImportStage::Serving)]);
    assert_eq!((next.len(), next.tombstones_in(PositionRange::ALL)), (0, 1), "M36");
}

fn who_takes_a_dead_targets_place_has_none_of_its_copies() {
    let (store, mut head) = store();
    put(&store, &mut head, "given", "value");
    put(&store, &mut head, "copied", "value");
    let slot = HashedKey::new(b"given").slot();
    let given = PositionRange::new(Position::first_of(slot), Position::last_of(slot)).expect("a slot");
    store.note_given(ImportId(3), [given]);
    let next = succeeded(&commit(&store), PositionRange::ALL);
    assert_eq!(next.noted_as_given(ImportId(4)), [given]);
    assert_eq!((next.len(), next.len_in(given)), (1, 1), "M36: the rest is to arrive");
}

fn the_oldest_commit_is_read_first() {
    let (store, mut head) = store();
    put(&store, &mut head, "key", "old");
    let first = commit(&store);
    put(&store, &mut head, "key", "new");
    let again = recovered(&[&first, &commit(&store)]);
    let guard = again.pin();
    let value = guard.get(HashedKey::new(b"key")).value().expect("it is there");
    assert_eq!(value.value(), b"new");
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
