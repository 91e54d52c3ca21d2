//! The records of a durable log: which are still needed, and what is recovered from them.

use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_store::{
    Change, CleanOutcome, Entry, ImportNote, ImportStage, Leave, LogHead, MoveIn, Moved, RecordBatch,
    Recovery, RecoveryError, SlotGuards, Store, StoreConfig, WholeDiscard, logged_records,
};
use sidle_types::{CommitNumber, HashedKey, ImportId, Position, PositionRange, ValueKind, WallMs};

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

fn remove(store: &Store, head: &mut LogHead, key: &str) {
    let key = HashedKey::new(key.as_bytes());
    store.lock_slot(key.slot()).remove(head, key, Leave::Nothing).expect("it takes no memory");
}

fn get(store: &Store, key: &str) -> Option<String> {
    let guard = store.pin();
    let value = guard.get(HashedKey::new(key.as_bytes())).value()?;
    Some(String::from_utf8(value.value().to_vec()).expect("a text"))
}

/// Everything written since the last commit.
fn commit(store: &Store) -> Vec<u8> {
    let mut records = Vec::new();
    store.commits().expect("it is durable").take(&mut records);
    records
}

/// What is needed of some records.
fn needed(store: &Store, records: &[u8]) -> Vec<u8> {
    let mut needed = Vec::new();
    assert_eq!(store.survivors_of(records, usize::MAX, &mut needed), records.len());
    needed
}

fn recovered(commits: &[&[u8]]) -> Store {
    let (store, _) = store();
    let mut recovery = Recovery::begin(&store);
    commits.iter().for_each(|records| recovery.replay(records).expect("it was written"));
    recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
    assert_eq!(store.check_accounting(), Ok(()));
    store
}

/// The labels of a large collection's chunks.
fn labels(store: &Store, key: &str) -> Vec<u64> {
    let guard = store.pin();
    let (_, outline) = guard.get_whole(HashedKey::new(key.as_bytes()));
    let outline = outline.expect("a large collection");
    Large::new(&outline, &guard).iter_from(Order::Main, 0).map(|(chunk, _)| chunk.label).collect()
}

fn patch(store: &Store, head: &mut LogHead, key: &str, change: impl FnOnce(&mut Outline)) {
    let key = HashedKey::new(key.as_bytes());
    let slot = store.lock_slot(key.slot());
    let mut outline = match slot.get(key) {
        Entry::Value(record) => slot.outline(record),
        _ => Outline::new(0),
    };
    change(&mut outline);
    slot.put_large(head, key, ValueKind::Set, outline, None).expect("there is room");
}

#[test]
fn the_newest_of_a_key_is_needed_and_nothing_of_what_was_removed() {
    let (store, mut head) = store();
    for (key, value) in [("a", "old"), ("a", "new"), ("b", "gone"), ("c", "kept")] {
        put(&store, &mut head, key, value);
    }
    let first = commit(&store);
    remove(&store, &mut head, "b");
    let second = commit(&store);
    let of_first = needed(&store, &first);
    assert_eq!(logged_records(&of_first).count(), 2, "of a and c");
    assert!(needed(&store, &second).is_empty(), "a removal is needed while its file is there only");
    for commits in [&[&first[..], &second][..], &[&second, &first], &[&second, &of_first], &[&of_first]] {
        let again = recovered(commits);
        assert_eq!((get(&again, "a"), get(&again, "b")), (Some("new".into()), None));
        assert_eq!((get(&again, "c"), again.len()), (Some("kept".into()), 2));
    }
    assert_eq!(recovered(&[&first]).len(), 3, "before the removal");
}

#[test]
fn a_chunk_that_was_removed_is_not_needed_and_does_not_come_back() {
    let (store, mut head) = store();
    let chunk = |label: u64, byte: u8| Chunk::new(label, 1, &[byte; 300]);
    patch(&store, &mut head, "large", |outline| {
        (0..10).for_each(|label| outline.put(Order::Main, chunk(label, 1)));
    });
    let first = commit(&store);
    patch(&store, &mut head, "large", |outline| {
        assert!(outline.remove(Order::Main, 5));
        outline.put(Order::Main, chunk(7, 2));
    });
    let second = commit(&store);
    let of_first = needed(&store, &first);
    assert_eq!(logged_records(&of_first).count(), 8 + 1, "eight chunks and the head");
    let of_second = needed(&store, &second);
    assert_eq!(logged_records(&of_second).count(), 1, "chunk 7");
    let expected: Vec<u64> = (0..10).filter(|label| *label != 5).collect();
    for commits in [&[&first[..], &second][..], &[&second, &of_first], &[&of_first, &of_second]] {
        let again = recovered(commits);
        assert_eq!(labels(&again, "large"), expected);
        // It goes on as a collection, with a number that none had.
        let mut head = again.log_head();
        patch(&again, &mut head, "large", |outline| outline.put(Order::Main, chunk(5, 3)));
        patch(&again, &mut head, "other", |outline| outline.put(Order::Main, chunk(1, 3)));
        assert_eq!((labels(&again, "large").len(), labels(&again, "other")), (10, vec![1]));
        assert_eq!(again.check_accounting(), Ok(()));
    }
}

#[test]
fn a_collection_that_was_renamed_or_lost_its_key_is_recovered_as_such() {
    let (store, mut head) = store();
    for key in ["{s}from", "{s}gone"] {
        patch(&store, &mut head, key, |outline| {
            (0..5).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, key.as_bytes())));
        });
    }
    let first = commit(&store);
    let (from, to) = (HashedKey::new(b"{s}from"), HashedKey::new(b"{s}to"));
    let outline = {
        let slot = store.lock_slot(from.slot());
        slot.outline(slot.get(from).value().expect("it is there"))
    };
    let slots = SlotGuards::lock(&store, &[from.slot()]);
    let changes =
        [(to, Change::PutLarge(ValueKind::Set, &outline, None)), (from, Change::Remove(Leave::Nothing))];
    slots.publish(&mut head, WallMs(0), changes.into_iter()).expect("there is room");
    drop(slots);
    remove(&store, &mut head, "{s}gone");
    let second = commit(&store);
    let of_first = needed(&store, &first);
    assert_eq!(logged_records(&of_first).count(), 5, "the chunks of the renamed one");
    for commits in [&[&first[..], &second][..], &[&second, &of_first]] {
        let again = recovered(commits);
        assert_eq!((again.len(), labels(&again, "{s}to")), (1, vec![0, 1, 2, 3, 4]));
    }
}

/// What came from elsewhere has a version that says nothing of what happened here.
#[test]
fn what_comes_back_with_an_old_version_is_newer_than_its_removal() {
    let (source, mut source_head) = self::store();
    put(&source, &mut source_head, "key", "value");
    let mut batch = Vec::new();
    source.scan(PositionRange::ALL.first(), PositionRange::ALL.last(), 1 << 20, &mut batch);
    let batch = RecordBatch::parse(&batch).expect("just packed");
    let (store, mut head) = self::store();
    let arrive = |head: &mut LogHead| {
        let replayed = store.replay(head, &batch, PositionRange::ALL).expect("there is room");
        assert_eq!(replayed.inserted, 1);
    };
    let mut log = Vec::new();
    for _ in 0..3 {
        put(&store, &mut head, "key", "own");
        remove(&store, &mut head, "key");
        arrive(&mut head);
        log.push(commit(&store));
        assert_eq!(store.discard(PositionRange::ALL.first(), PositionRange::ALL.last(), 100), None);
        arrive(&mut head);
        log.push(commit(&store));
    }
    let commits: Vec<&[u8]> = log.iter().rev().map(Vec::as_slice).collect();
    let again = recovered(&commits);
    assert_eq!(get(&again, "key"), Some("value".into()));
    // The version is another one now; the record is still the one that is needed.
    let last = log.last().expect("there are some");
    assert!(!needed(&again, last).is_empty() && needed(&again, &log[0]).is_empty());
    store
        .lock_slot(HashedKey::new(b"key").slot())
        .remove(&mut head, HashedKey::new(b"key"), Leave::Tombstone)
        .expect("there is room");
    let removal = commit(&store);
    assert!(recovered(&[&removal, last]).is_empty() && recovered(&[last, &removal]).is_empty());
}

/// Values of every form: short ones, one in pieces, and one in chunks.
fn of_every_form() -> (Store, LogHead) {
    let (store, mut head) = self::store();
    (0..300).for_each(|key| put(&store, &mut head, &format!("key {key}"), &"short ".repeat(20)));
    put(&store, &mut head, "long", &"long ".repeat(80_000));
    patch(&store, &mut head, "large", |outline| {
        (0..100).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 3000])));
    });
    (store, head)
}

fn clean_up(store: &Store) {
    while store.cleaner().step(1 << 20) != CleanOutcome::Idle {}
}

fn discard_all(store: &Store) {
    let mut from = Some(PositionRange::ALL.first());
    while let Some(at) = from {
        from = store.discard(at, PositionRange::ALL.last(), 1024);
    }
}

/// Whoever takes a range over may need several attempts; and a range may come back. What an earlier stay left
/// in the log has the same versions. None of it is written again.
#[test]
fn of_what_came_several_times_only_the_last_is_needed() {
    let (source, _source_head) = of_every_form();
    for attempts in [1, 2, 6] {
        let (store, mut head) = self::store();
        let mut files = std::collections::VecDeque::new();
        for attempt in 0..attempts {
            let mut moving = MoveIn::new(PositionRange::ALL);
            while moving.step(&source, &store, &mut head).expect("there is room") == Moved::Slice {}
            files.push_back(commit(&store));
            if attempt + 1 < attempts {
                discard_all(&store);
                files.push_back(commit(&store));
                clean_up(&store);
            }
        }
        let live = files.back().expect("an attempt").len();
        for round in 0..3 {
            let before: usize = files.iter().map(Vec::len).sum();
            let mut written = 0;
            for _ in 0..files.len() {
                let oldest = files.pop_front().expect("there are files");
                let kept = needed(&store, &oldest);
                written += kept.len();
                files.push_back(kept);
                let all: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
                let again = recovered(&all);
                assert_eq!((again.len(), labels(&again, "large").len()), (302, 100));
                assert_eq!(get(&again, "long"), get(&source, "long"));
            }
            assert!(
                written <= live,
                "round {round} of {attempts} attempts: {written} of {before}, not {live}"
            );
        }
    }
}

/// The order of a value that arrived is its version, in whatever form it came; so a restart changes none.
#[test]
fn what_arrived_has_the_version_that_it_is_recovered_with() {
    let (source, _source_head) = of_every_form();
    let (store, mut head) = self::store();
    for _ in 0..3 {
        discard_all(&store);
        let mut moving = MoveIn::new(PositionRange::ALL);
        while moving.step(&source, &store, &mut head).expect("there is room") == Moved::Slice {}
        clean_up(&store);
    }
    let again = recovered(&[&commit(&store)]);
    for key in ["key 1", "key 200", "long", "large"] {
        let version = |store: &Store| {
            let guard = store.pin();
            guard.get(HashedKey::new(key.as_bytes())).value().expect("it arrived").version()
        };
        assert!(version(&store) == version(&again) && version(&store) > version(&source), "{key}");
    }
}

#[test]
fn commits_are_numbered_and_name_what_is_read() {
    let (store, mut head) = store();
    let commits = store.commits().expect("it is durable");
    let slot = HashedKey::new(b"key").slot();
    let none = CommitNumber(0);
    assert_eq!((commits.open(), commits.latest_of(slot), commits.safe()), (CommitNumber(1), none, none));
    put(&store, &mut head, "key", "value");
    assert_eq!(commits.latest_of(slot), CommitNumber(1));
    assert!(commits.buffered_bytes() > 0);
    let mut records = Vec::new();
    assert_eq!(commits.take(&mut records), CommitNumber(1));
    assert_eq!((commits.open(), commits.buffered_bytes()), (CommitNumber(2), 0));
    commits.set_safe(CommitNumber(1));
    put(&store, &mut head, "key", "newer");
    assert_eq!((commits.latest_of(slot), commits.safe()), (CommitNumber(2), CommitNumber(1)));
    drop(head);
    records.clear();
    commits.take(&mut records);
    assert_eq!(logged_records(&records).count(), 1, "what a head wrote that is gone");
    commits.resume(CommitNumber(40), true);
    assert_eq!((commits.open(), commits.safe()), (CommitNumber(41), CommitNumber(40)));
}

#[test]
fn damaged_records_and_collections_without_chunks_are_refused() {
    let (store, mut head) = store();
    patch(&store, &mut head, "large", |outline| outline.put(Order::Main, Chunk::new(1, 1, b"one")));
    let records = commit(&store);
    for at in 0..records.len() {
        let mut damaged = records.clone();
        damaged[at] ^= 4;
        let (fresh, _) = self::store();
        let replayed = Recovery::begin(&fresh).replay(&damaged);
        assert!(matches!(replayed, Err(RecoveryError::Damaged(_))), "byte {at}: {replayed:?}");
    }
    let only_head: Vec<u8> =
        logged_records(&records).filter_map(Result::ok).last().expect("the head").bytes().to_vec();
    let (fresh, _) = self::store();
    let mut recovery = Recovery::begin(&fresh);
    recovery.replay(&only_head).expect("a record");
    assert!(matches!(recovery.finish(&|_, _, _, _| Some(1)), Err(RecoveryError::Collection(_))));
}

/// Threads take parts of a recovery, in any order, and again; the latest of each key, chunk and range counts.
#[test]
fn parts_of_a_recovery_add_up_whichever_thread_has_what() {
    let (store, mut head) = store();
    let mut commits = Vec::new();
    for round in 0..40u64 {
        for key in 0..50 {
            put(&store, &mut head, &format!("key {key}"), &format!("{round} of {key}"));
        }
        patch(&store, &mut head, "large", |outline| {
            outline.put(Order::Main, Chunk::new(round, 1, format!("{round}").as_bytes()));
        });
        if round == 20 {
            assert_eq!(
                store.discard(PositionRange::ALL.first(), PositionRange::ALL.last(), usize::MAX),
                None
            );
        }
        commits.push(commit(&store));
    }
    let (fresh, _) = self::store();
    let mut recovery = Recovery::begin(&fresh);
    let mut parts: Vec<_> = (0..3).map(|_| recovery.part()).collect();
    std::thread::scope(|scope| {
        for (number, part) in parts.iter_mut().enumerate() {
            let commits = &commits;
            scope.spawn(move || {
                for (at, records) in commits.iter().enumerate() {
                    // The middle thread has all of them.
                    if number == 1 || at % 3 == number {
                        part.replay(records).expect("it was written");
                    }
                }
            });
        }
    });
    parts.into_iter().for_each(|part| recovery.add(part));
    recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
    assert_eq!(fresh.check_accounting(), Ok(()));
    assert_eq!(fresh.len(), store.len());
    assert_eq!(labels(&fresh, "large"), labels(&store, "large"));
    for key in 0..50 {
        assert_eq!(get(&fresh, &format!("key {key}")), get(&store, &format!("key {key}")));
    }
}

/// What commits have while a removal in slices is under way says nothing of it, and none is safe.
#[test]
fn a_removal_in_slices_is_in_one_commit_whatever_comes_between() {
    let (store, mut head) = store();
    let store = std::sync::Arc::new(store);
    let all = PositionRange::ALL;
    (0..500).for_each(|key| put(&store, &mut head, &format!("key {key}"), "value"));
    let commits = store.commits().expect("it is durable");
    let first = commit(&store);
    assert!(commits.set_safe(CommitNumber(commits.open().0 - 1)), "nothing is under way");
    let (safe, mut between, mut steps) = (commits.safe(), Vec::new(), 0);
    let mut removal = WholeDiscard::begin(&store);
    let mut from = Some(all.first());
    while let Some(at) = from {
        from = removal.discard(at, all.last(), 100, &mut Vec::new());
        steps += 1;
        put(&store, &mut head, "between", "kept");
        let number = commits.take(&mut between);
        assert!(!commits.set_safe(number) && commits.safe() == safe, "whoever saw a part waits");
        assert_eq!(recovered(&[&first, &between]).len(), 501, "all are there");
    }
    assert!(steps > 3, "{steps} steps");
    drop(removal);
    assert!(!commits.set_safe(commits.safe()), "the last commit has nothing of it");
    let mut last = Vec::new();
    let number = commits.take(&mut last);
    assert!(commits.set_safe(number));
    let again = recovered(&[&first, &between, &last]);
    assert_eq!(again.len(), store.len());
    assert!(again.len() <= 1, "none is there, but what was written behind its slice");
}

const IMPORT: ImportId = ImportId(5);

/// Notes how far the import of a range is.
fn note(store: &Store, range: PositionRange, stage: ImportStage) {
    store.note_import(ImportNote { id: IMPORT, range, stage });
}

fn bury(store: &Store, head: &mut LogHead, key: &str) {
    let key = HashedKey::new(key.as_bytes());
    store.lock_slot(key.slot()).remove(head, key, Leave::Tombstone).expect("there is room");
}

/// Whether a key that is pulled now enters.
fn enters(store: &Store, key: &str) -> bool {
    matches!(store.pin().get(HashedKey::new(key.as_bytes())), Entry::Absent)
}

#[test]
fn an_import_is_recovered_as_far_as_it_was_with_the_tombstones_of_its_range() {
    let slot = HashedKey::new(b"in").slot();
    let range = PositionRange::new(Position::first_of(slot), Position::last_of(slot)).expect("a slot");
    let (store, mut head) = store();
    note(&store, range, ImportStage::Serving);
    for key in ["in", "{in}b", "out"] {
        put(&store, &mut head, key, "v");
    }
    let first = commit(&store);
    bury(&store, &mut head, "in");
    bury(&store, &mut head, "out");
    bury(&store, &mut head, "{in}never");
    let second = commit(&store);
    for commits in [&[&first[..], &second][..], &[&second, &first], &[&second, &needed(&store, &first)]] {
        let again = recovered(commits);
        assert_eq!(again.noted_imports().len(), 1);
        assert!(!enters(&again, "in") && !enters(&again, "{in}never") && !enters(&again, "{in}b"));
        assert!(enters(&again, "out"), "it is swept where nothing is imported");
        // What is needed of the log then recovers the same.
        let files = [needed(&again, &first), needed(&again, &second)];
        let third = recovered(&[&files[0], &files[1]]);
        assert!(!enters(&third, "in") && !enters(&third, "{in}never") && enters(&third, "out"));
        assert_eq!((get(&third, "{in}b"), third.len()), (Some("v".into()), 1));
    }
    note(&store, range, ImportStage::Complete);
    note(&store, range, ImportStage::Serving);
    let third = commit(&store);
    let again = recovered(&[&third, &second, &first]);
    let stages = || again.noted_imports().into_iter().map(|note| note.stage);
    assert_eq!(stages().collect::<Vec<_>>(), [ImportStage::Complete], "it never goes back");
    assert!(enters(&again, "in"), "nothing is pulled any more");
    note(&again, range, ImportStage::Over);
    note(&again, range, ImportStage::Over);
    let fourth = commit(&again);
    assert_eq!(logged_records(&fourth).count(), 1, "its end is noted once");
    assert!(recovered(&[&fourth, &third, &second, &first]).noted_imports().is_empty());
}

#[test]
fn what_has_a_tombstone_is_removed_once_however_often_a_change_of_several_keys_removes_it() {
    let (store, mut head) = store();
    note(&store, PositionRange::ALL, ImportStage::Serving);
    bury(&store, &mut head, "{s}buried");
    let first = commit(&store);
    let [buried, other] = [b"{s}buried", b"{s}others"].map(|key| HashedKey::new(key));
    let mut publish = |cleared: &[PositionRange], changes: &[(HashedKey<'static>, Change<'static>)]| {
        let slots = SlotGuards::lock(&store, &[buried.slot()]);
        slots.publish_over(cleared, &mut head, WallMs(0), changes.iter().copied()).expect("there is room");
        drop(slots);
        commit(&store)
    };
    let (put, removed) = (Change::Put(ValueKind::String, b"value", None), Change::Remove(Leave::Tombstone));
    let again = publish(&[], &[(buried, removed), (other, put), (buried, removed)]);
    assert_eq!(logged_records(&again).count(), 1, "the other key's value");
    assert_eq!(logged_records(&needed(&store, &[&first[..], &again].concat())).count(), 1 + 1 + 1);
    for commits in [&[&first[..], &again][..], &[&again, &first]] {
        let recovered = recovered(commits);
        assert_eq!((recovered.len(), get(&recovered, "{s}others")), (1, Some("value".into())));
    }
    // Behind a value of the same change it counts.
    let put_and_removed = publish(&[], &[(buried, put), (buried, removed)]);
    assert_eq!(logged_records(&put_and_removed).count(), 2);
    for commits in [&[&first[..], &again, &put_and_removed][..], &[&put_and_removed, &again, &first]] {
        assert_eq!(recovered(commits).len(), 1);
    }
    let last = publish(&[], &[(buried, removed)]);
    assert!(last.is_empty() && get(&store, "{s}buried").is_none());
    assert_eq!(store.check_accounting(), Ok(()));
}

#[test]
fn replies_about_the_range_of_an_import_wait_for_its_note() {
    let (store, _) = store();
    commit(&store);
    let slot = HashedKey::new(b"in").slot();
    let commits = store.commits().expect("it is durable");
    assert_eq!(commits.latest_of(slot), CommitNumber(0));
    note(&store, PositionRange::ALL, ImportStage::Serving);
    assert_eq!(commits.latest_of(slot), commits.open());
}

#[test]
fn a_recovery_in_stretches_keeps_the_tombstones_of_an_import() {
    let (store, mut head) = store();
    note(&store, PositionRange::ALL, ImportStage::Serving);
    put(&store, &mut head, "in", "v");
    bury(&store, &mut head, "in");
    let records = commit(&store);
    let (again, _) = self::store();
    let mut recovery = Recovery::begin(&again);
    recovery.replay(&records).expect("it was written");
    recovery.begin_again(3);
    loop {
        recovery.replay(&records).expect("it was written");
        if !recovery.reads_on() {
            break;
        }
    }
    recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
    assert!(!enters(&again, "in"));
    assert_eq!(again.check_accounting(), Ok(()));
}

/// A process that dies while a file is cleaned leaves twice what it had written again. Of each record all but
/// one are noted, in whatever sequence they are read: then each is written again once, and none is lost.
#[test]
fn of_what_the_log_has_several_times_one_is_needed() {
    let (store, mut head) = store();
    (0..40).for_each(|key| put(&store, &mut head, &format!("key {key}"), "value"));
    patch(&store, &mut head, "large", |outline| {
        (0..10).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 300])));
    });
    let first = commit(&store);
    (0..10).for_each(|key| put(&store, &mut head, &format!("key {key}"), "new"));
    let second = commit(&store);
    let again = needed(&store, &first);
    let files = [(1, &first), (2, &second), (3, &again), (4, &again)];
    for sequence in [[3, 2, 1, 0], [0, 1, 2, 3], [2, 0, 3, 1]] {
        let (fresh, _) = self::store();
        let mut recovery = Recovery::begin(&fresh);
        let mut part = recovery.part();
        for (step, at) in sequence.into_iter().enumerate() {
            let (file, records) = files[at];
            match step {
                0 => part.replay_of(file, 64, records).expect("it was written"),
                _ => recovery.replay_of(file, 64, records).expect("it was written"),
            }
        }
        recovery.add(part);
        let repeated = recovery.take_repeated();
        recovery.finish(&|_, _, _, _| Some(1)).expect("it was written");
        let mut kept = Vec::new();
        for (file, records) in files {
            let noted = repeated.get(&file).cloned().unwrap_or_default();
            let mut at = 64;
            for record in logged_records(records).map(Result::unwrap) {
                let place = at..at + record.bytes().len();
                at = place.end;
                if !noted.iter().any(|range| range.start <= place.start && place.end <= range.end) {
                    fresh.survivors_of(record.bytes(), usize::MAX, &mut kept);
                }
            }
        }
        let live = needed(&fresh, &again).len() + needed(&fresh, &second).len();
        assert_eq!(kept.len(), live, "each once");
        let after = recovered(&[&kept]);
        assert_eq!((after.len(), labels(&after, "large").len()), (41, 10));
        assert_eq!(get(&after, "key 3"), Some("new".into()));
    }
}
