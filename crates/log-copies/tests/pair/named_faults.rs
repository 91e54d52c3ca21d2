//! Tests of the tests: a scenario finds each known fault.

use crate::leases::a_restarted_backup_keeps_its_promise;
use crate::random::run;
use crate::scripted::{
    a_backup_takes_nothing_of_a_deposed_writer, a_gap_is_refused, a_log_goes_on_behind_its_longest_copy,
    a_log_without_a_copy_is_synced_itself,
};
use sidle_types::Fault;

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::LostCopyDoesNotCount, random_runs),
    (Fault::UndecidedCopyDoesNotCount, random_runs),
    (Fault::JoinsBeforeItHasEverything, random_runs),
    (Fault::BackupForgetsBeforeItSyncs, random_runs),
    (Fault::CopyThatCountsBeginsAnew, random_runs),
    (Fault::GapIsAppended, a_gap_is_refused),
    (Fault::OlderEpochIsTaken, a_backup_takes_nothing_of_a_deposed_writer),
    (Fault::GoesOnBehindItsOwnEnd, a_log_goes_on_behind_its_longest_copy),
    (Fault::LogStandsInUnsynced, a_log_without_a_copy_is_synced_itself),
    (Fault::RestartedBackupForgetsItsPromise, a_restarted_backup_keeps_its_promise),
    (Fault::CopyKeepsWhatWasGone, random_runs),
    (Fault::CleanStopIsNotCompared, random_stops),
    (Fault::EarlierCopyBeginsAnew, many_random_runs),
];

fn random_runs() {
    for seed in 0..100 {
        run(seed);
    }
}

/// Runs with every kind of trouble, stops among them.
fn random_stops() {
    for number in 0..60 {
        run(5 * number + 4);
    }
}

/// It takes a restart of the backup, and one of a writer that has lost its power, before a decision arrives.
fn many_random_runs() {
    for seed in 0..1_200 {
        run(seed);
    }
}

#[test]
fn stories_find_their_faults() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
