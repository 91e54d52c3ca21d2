//! Tests of the tests: each known fault, when put back, fails the scenario written for it, and the checkers
//! of the random runs if these meet its conditions.

use crate::collections::{
    changes_behind_a_copy, changes_while_a_collection_is_given, no_memory_for_what_a_command_needs,
};
use crate::cuts::{
    flushes_that_overtake_a_cut, in_small_steps, late_copy_of_what_was_taken, replies_that_come_again,
    with_few_out_of_turn, writes_everywhere_while_all_is_given, writes_everywhere_while_it_is_given,
};
use crate::dead_source::flush_while_a_copy_is_read;
use crate::faults::what_is_in_transit_does_not_wait_for_memory;
use crate::hot::write_behind_the_copy;
use crate::model::Op;
use crate::net::{Arrival, End};
use crate::random;
use crate::restarts::{copies_of_a_source_that_restarted, notes_of_an_import, notes_of_what_was_given};
use crate::turn::{delete_behind_an_inert_copy, writes_everywhere_while_it_turns};
use crate::world::{Pair, Setup, key};
use sidle_migration::{ExportPhase, FULVA, ProtocolChoices, SOURCE_DRIVEN, TargetEvent, TargetInput, Tuning};
use sidle_types::{Fault, HashedKey};
use sidle_wire::Lane;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 400;

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::ReplayOverwrites, write_then_late_replay),
    (Fault::NoTombstones, delete_then_late_replay),
    (Fault::ProgressBeforeReplay, read_between_arrival_and_replay),
    (Fault::FinishedPartitionResets, many_pulls),
    (Fault::PartitionSkipsPosition, many_pulls),
    (Fault::SourceReleasesAtFin, last_replies_lost),
    (Fault::ActivateSentOnce, activation_lost),
    (Fault::ServedWithoutNote, notes_of_an_import),
    (Fault::GivenWithoutNote, notes_of_what_was_given),
    (Fault::CopiesOutliveTheirMarks, copies_of_a_source_that_restarted),
    (Fault::FlushBeforeTheCopy, flush_while_a_copy_is_read),
    (Fault::AbsentAnswerOverwrites, write_while_the_source_is_asked),
    (Fault::LostWake, two_wait_for_one_key),
    (Fault::TombstonesFreedEarly, delete_then_late_sampled_reply),
    (Fault::FlushLeavesLateRecords, flush_then_late_replay),
    (Fault::ReleaseLeavesRecords, many_pulls),
    (Fault::RoundForgetsUnacknowledged, round_lost),
    (Fault::RoundKeepsWhatIsGone, delete_after_the_copy),
    (Fault::LastRoundBeforeFreeze, write_behind_the_last_round),
    (Fault::PiecesOfTwoVersions, write_between_two_pieces),
    (Fault::CutPackedBeforeBarrier, writes_everywhere_while_it_is_given),
    (Fault::CutIgnoresMarks, writes_everywhere_while_it_is_given),
    (Fault::LateCopyWins, late_copy_of_what_was_taken),
    (Fault::CopyBeforeMarks, writes_everywhere_while_it_is_given),
    (Fault::TargetServesAtRequest, writes_everywhere_while_it_is_given),
    (Fault::SourceServesWhatItGave, writes_everywhere_while_it_is_given),
    (Fault::CutNamesWhatIsNotCopied, writes_everywhere_while_it_is_given),
    (Fault::TakenWithoutRecord, writes_everywhere_while_it_is_given),
    (Fault::GivesWhatDoesNotFit, no_memory_for_what_a_command_needs),
    (Fault::KeptCountsAsGiven, no_memory_for_what_a_command_needs),
    (Fault::CopyClearsMarks, writes_everywhere_while_it_is_given),
    (Fault::CutAppliedTwice, replies_that_come_again),
    (Fault::TurnsBackWithCutInTransit, writes_everywhere_while_it_turns),
    (Fault::StaleGivenSurvivesTurn, writes_everywhere_while_it_turns),
    (Fault::InertCopySentBack, delete_behind_an_inert_copy),
    (Fault::OldCopyEntersOwed, writes_everywhere_while_all_is_given),
    (Fault::OwedKeepsInertCopy, writes_everywhere_while_all_is_given),
    (Fault::GiveAllWithoutMarks, writes_everywhere_while_all_is_given),
    (Fault::FlushedInTransit, flushes_that_overtake_a_cut),
    (Fault::HotCopyKeptThoughMarked, write_behind_the_copy),
    (Fault::HotCopyBeforeTrackingBarrier, write_behind_the_copy),
    (Fault::PatchSkipsAVersion, changes_while_a_collection_is_given),
    (Fault::PatchKeepsWhatIsGone, changes_while_a_collection_is_given),
    (Fault::InertOutlineServed, changes_behind_a_copy),
    (Fault::TransitWaitsForMemory, what_is_in_transit_does_not_wait_for_memory),
];

/// Faults that random runs do not meet: their partitions fit into one pull each, and their sampled replies
/// arrive in time. None of them turns back.
const NOT_MET_AT_RANDOM: &[Fault] = &[
    Fault::PartitionSkipsPosition,
    Fault::ServedWithoutNote,
    Fault::GivenWithoutNote,
    Fault::CopiesOutliveTheirMarks,
    Fault::FlushBeforeTheCopy,
    Fault::TombstonesFreedEarly,
    Fault::TurnsBackWithCutInTransit,
    Fault::StaleGivenSurvivesTurn,
    Fault::InertCopySentBack,
    Fault::PatchSkipsAVersion,
    Fault::PatchKeepsWhatIsGone,
    Fault::InertOutlineServed,
    Fault::GivesWhatDoesNotFit,
    Fault::KeptCountsAsGiven,
    Fault::TransitWaitsForMemory,
];

fn is_seen(scenario: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(scenario)).is_err()
}

fn serving() -> Pair {
    let setup = Setup::slow(FULVA);
    let mut pair = Pair::with_records(setup, 1_000, 100);
    pair.start();
    pair.run_until_serving();
    pair
}

fn ends_well(mut pair: Pair) {
    pair.run_to_end();
    pair.check_end();
}

fn write_then_late_replay() {
    let mut pair = serving();
    for n in 0..1_000 {
        pair.expect_ok(Op::Set(key(n), b"newer".to_vec(), None));
    }
    ends_well(pair);
}

fn delete_then_late_replay() {
    let mut pair = serving();
    for n in 0..1_000 {
        pair.ask_at(End::Target, Op::Del(key(n)));
    }
    ends_well(pair);
}

fn read_between_arrival_and_replay() {
    let mut pair = serving();
    while !pair.target_events.contains(&TargetEvent::Finished) {
        pair.before_replay = (0..1_000).map(|n| Op::Get(key(n))).collect();
        pair.step();
    }
    ends_well(pair);
}

fn many_pulls() {
    let setup = Setup::of(FULVA);
    let mut pair = Pair::with_records(setup, 1_000, 2_000);
    pair.start();
    ends_well(pair);
}

fn last_replies_lost() {
    let mut pair = serving();
    let sent = |pair: &Pair| pair.source_machine.as_ref().unwrap().counters().records_sent;
    pair.run_until("a pull is answered", |pair| sent(pair) > 0);
    pair.net.cut(pair.now.0, Lane::Bulk, &mut pair.rng);
    ends_well(pair);
}

fn activation_lost() {
    let setup = Setup::of(FULVA);
    let mut pair = Pair::with_records(setup, 10, 100);
    pair.start();
    pair.run_until("frozen", |pair| pair.export.as_ref().unwrap().phase() == ExportPhase::Frozen);
    pair.net.cut(pair.now.0, Lane::Priority, &mut pair.rng);
    ends_well(pair);
}

fn write_while_the_source_is_asked() {
    let mut pair = serving();
    pair.ask_at(End::Target, Op::Get(b"never".to_vec()));
    pair.expect_ok(Op::Set(b"never".to_vec(), b"now".to_vec(), None));
    ends_well(pair);
}

fn two_wait_for_one_key() {
    let mut pair = serving();
    pair.ask_at(End::Target, Op::Get(key(1)));
    pair.ask_at(End::Target, Op::Get(key(1)));
    assert_eq!(pair.parked(), 2);
    pair.run_us(1_000);
    assert_eq!(pair.parked(), 0, "a key that has arrived is waited for");
}

fn delete_then_late_sampled_reply() {
    let mut pair = serving();
    let first = pair.spec.partitions[0];
    let wanted = (0..).map(key).find(|key| first.contains(HashedKey::new(key).position())).unwrap();
    pair.net.record = Some(Vec::new());
    pair.target_input(TargetInput::SampledMiss(HashedKey::new(&wanted).position()));
    pair.pump();
    // Sent frames still arrive; the reply is kept here.
    pair.net.faults.blocked = Some(Lane::Priority);
    pair.expect_ok(Op::Set(wanted.clone(), b"newer".to_vec(), None));
    pair.expect_ok(Op::Del(wanted.clone()));
    let arrived = |pair: &Pair| pair.import.as_ref().unwrap().progress().next() == Some(None);
    pair.run_until("the partition is here", |pair| arrived(pair));
    assert!(!pair.target_events.contains(&TargetEvent::Finished), "other partitions are not");
    let sent = pair.net.record.take().unwrap();
    let late = sent.into_iter().find(|(to, lane, _)| (*to, *lane) == (End::Target, Lane::Priority));
    let (_, lane, reply) = late.expect("the source has answered the sampled pull");
    pair.arrive(Arrival::Message(lane, End::Target.side(), reply));
    pair.expect_ok(Op::Get(wanted));
    pair.net.faults.blocked = None;
    ends_well(pair);
}

fn flush_then_late_replay() {
    let mut pair = serving();
    pair.ask_at(End::Target, Op::Flush);
    ends_well(pair);
}

/// Everything is copied, and the range is not frozen.
fn copied() -> Pair {
    let setup = Setup::of(SOURCE_DRIVEN);
    let mut pair = Pair::with_records(setup, 1_000, 100);
    pair.prepare();
    pair.run_until("caught up", |pair| pair.is_caught_up());
    pair
}

fn round_lost() {
    let mut pair = copied();
    let sent = |pair: &Pair| pair.source_machine.as_ref().unwrap().counters().records_sent;
    let before = sent(&pair);
    pair.ask_at(End::Source, Op::Set(key(1), b"newer".to_vec(), None));
    pair.run_until("a round is answered", |pair| sent(pair) > before);
    pair.net.cut(pair.now.0, Lane::Bulk, &mut pair.rng);
    pair.commit();
    ends_well(pair);
}

fn delete_after_the_copy() {
    let mut pair = copied();
    pair.ask_at(End::Source, Op::Del(key(1)));
    pair.commit();
    ends_well(pair);
}

fn write_behind_the_last_round() {
    let mut pair = copied();
    pair.ask_at(End::Source, Op::Set(key(1), b"newer".to_vec(), None));
    pair.commit();
    ends_well(pair);
}

fn write_between_two_pieces() {
    let mut setup = Setup::of(SOURCE_DRIVEN);
    setup.tuning.piece_bytes = 1_000;
    let mut pair = Pair::with_records(setup, 1, 20_000);
    pair.prepare();
    pair.run_until("a piece is here", |pair| pair.has_pieces());
    pair.ask_at(End::Source, Op::Set(key(0), vec![b'n'; 20_000], None));
    pair.run_until("caught up", |pair| pair.is_caught_up());
    pair.commit();
    ends_well(pair);
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}

#[test]
fn random_runs_see_the_faults_and_nothing_else() {
    let hot_first = ProtocolChoices { hot_first: true, ..FULVA };
    let protocols = [FULVA, SOURCE_DRIVEN, in_small_steps(), with_few_out_of_turn(2), hot_first];
    // Most faults show in a few seeds of one protocol, and never in any other.
    let is_seen_at_random = || {
        (0..SEEDS).any(|seed| {
            let is_seen_by = |protocol| is_seen(|| random::run(seed, Tuning::default(), protocol));
            protocols.into_iter().any(is_seen_by)
        })
    };
    assert!(!is_seen_at_random());
    for &(fault, _) in STORIES.iter().filter(|(fault, _)| !NOT_MET_AT_RANDOM.contains(fault)) {
        let _in_effect = fault.put_back();
        assert!(is_seen_at_random(), "{fault:?}");
    }
}
