//! The promises.

use crate::worlds::{metadata, worlds};
use sidle_cluster::limits::{HISTORY, MAX_PROTOCOL_BYTES};
use sidle_cluster::{MetaError, Metadata, MigrationRecord, MigrationState, Place};
use sidle_meta_etcd::MAX_VALUE_BYTES;
use sidle_testbed::fixtures::running;
use sidle_types::{MigrationId, PositionRange};
use std::sync::Arc;

#[test]
fn what_is_committed_is_loaded_by_the_next_process() {
    for (name, mut world) in worlds("what_is_committed_is_loaded_by_the_next_process") {
        let mut store = world.next_process().expect("nobody has it");
        assert_eq!(store.load(), Ok(None), "{name}: a new store is empty");
        for number in 1..=3 {
            assert_eq!(store.commit(&metadata(number)), Ok(()), "{name}");
            assert_eq!(store.load(), Ok(Some(metadata(number))), "{name}");
            assert_eq!(store.keep(&metadata(number)), Ok(Place::Kept), "{name}");
        }
        drop(store);
        let mut next = world.next_process().expect("the one before is gone");
        assert_eq!(next.load(), Ok(Some(metadata(3))), "{name}");
        assert_eq!(next.commit(&metadata(4)), Ok(()), "{name}");
        assert_eq!(next.load(), Ok(Some(metadata(4))), "{name}");
    }
}

/// As the coordinator does: after an error it commits again, the same or what was before.
#[test]
fn a_commit_whose_answer_is_lost_is_the_old_or_the_new_until_the_next_one() {
    for (name, mut world) in worlds("a_commit_whose_answer_is_lost_is_the_old_or_the_new") {
        for again in [1, 2] {
            let mut store = world.next_process().expect("nobody has it");
            store.load().unwrap();
            store.commit(&metadata(1)).unwrap();
            if !world.lose_answers(true) {
                continue;
            }
            let lost = store.commit(&metadata(2));
            assert!(matches!(lost, Err(MetaError::Failed(_))), "{name}: {lost:?}");
            world.lose_answers(false);
            let found = store.load().unwrap().expect("there is one");
            assert!(found == metadata(1) || found == metadata(2), "{name}");
            assert_eq!(store.commit(&metadata(again)), Ok(()), "{name}");
            assert_eq!(store.load(), Ok(Some(metadata(again))), "{name}");
        }
    }
}

/// The process commits again without having looked: a later commit finds its own earlier one there.
#[test]
fn a_commit_after_lost_ones_needs_no_look() {
    for (name, mut world) in worlds("a_commit_after_lost_ones_needs_no_look") {
        let mut store = world.next_process().expect("nobody has it");
        if !world.lose_answers(false) {
            continue;
        }
        store.commit(&metadata(1)).unwrap();
        world.lose_answers(true);
        store.commit(&metadata(2)).expect_err(name);
        store.commit(&metadata(3)).expect_err(name);
        world.lose_answers(false);
        assert_eq!(store.commit(&metadata(4)), Ok(()), "{name}");
        assert_eq!(store.load(), Ok(Some(metadata(4))), "{name}");
        world.lose_commits(true);
        store.commit(&metadata(5)).expect_err(name);
        world.lose_commits(false);
        assert_eq!(store.load(), Ok(Some(metadata(4))), "{name}: it was not written");
        assert_eq!(store.commit(&metadata(6)), Ok(()), "{name}");
    }
}

#[test]
fn of_two_writers_one_is_deposed_or_not_let_in() {
    for (name, mut world) in worlds("of_two_writers_one_is_deposed_or_not_let_in") {
        let mut first = world.next_process().expect("nobody has it");
        first.commit(&metadata(1)).unwrap();
        let second = world.next_process();
        if !world.may_be_contested() {
            // A file is locked; memory is lent to whoever the test gives it to.
            assert!(second.is_none() || name == "memory", "{name}");
            continue;
        }
        let mut second = second.expect("the lease of the first has ended");
        assert_eq!(first.commit(&metadata(2)), Err(MetaError::Deposed), "{name}: before the second writes");
        assert_eq!(second.load(), Ok(Some(metadata(1))), "{name}");
        assert_eq!(second.commit(&metadata(3)), Ok(()), "{name}");
        assert_eq!(first.commit(&metadata(4)), Err(MetaError::Deposed), "{name}");
        assert_eq!(second.load(), Ok(Some(metadata(3))), "{name}");
        assert_eq!(second.commit(&metadata(5)), Ok(()), "{name}: it goes on");
    }
}

/// Metadata whose text is longer than etcd takes.
fn oversized() -> Metadata {
    let ended = |id: u64| MigrationRecord {
        state: MigrationState::Failed { why: "w".repeat(4_000) },
        protocol: "p".repeat(MAX_PROTOCOL_BYTES),
        ..running(id, PositionRange::ALL, 7, 7, 0)
    };
    let history = (1..=HISTORY as u64 * 5).map(|id| Arc::new(ended(id))).collect();
    Metadata { next_migration: MigrationId(1 << 20), history, ..metadata(1) }
}

#[test]
fn what_is_too_large_for_the_store_is_refused_in_words_and_changes_nothing() {
    for (name, mut world) in worlds("what_is_too_large_for_the_store_is_refused_in_words") {
        let mut store = world.next_process().expect("nobody has it");
        store.commit(&metadata(1)).unwrap();
        match store.commit(&oversized()) {
            Ok(()) => assert_ne!(name, "etcd"),
            Err(MetaError::Failed(why)) => {
                assert_eq!(name, "etcd");
                let most = MAX_VALUE_BYTES.to_string();
                assert!(why.contains(&most) && why.contains("not changed"), "{why}");
                assert_eq!(store.load(), Ok(Some(metadata(1))));
                assert_eq!(store.commit(&metadata(2)), Ok(()), "the next one is taken");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}
