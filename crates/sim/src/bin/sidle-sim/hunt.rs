//! Every known fault put back, one after the other.

use crate::side_by_side;
use sidle_sim::{Drawn, Story, run};
use sidle_types::Fault;
use std::ops::{ControlFlow, RangeInclusive};
use std::process::ExitCode;
use std::time::Instant;

/// Where faults were found lately that take many seeds: these are tried first. If the stories have changed
/// and one does not show its fault any more, all seeds are tried in their order. That only takes longer.
const LATELY: &[(Fault, u64)] = &[
    (Fault::NoTombstones, 15),
    (Fault::AbsentAnswerOverwrites, 17),
    (Fault::TombstonesFreedEarly, 26),
    (Fault::PiecesOfTwoVersions, 16),
    (Fault::LateCopyWins, 22),
    (Fault::CutAppliedTwice, 26),
    (Fault::TurnsBackWithCutInTransit, 48),
    (Fault::StaleGivenSurvivesTurn, 81),
    (Fault::InertCopySentBack, 52),
    (Fault::OldCopyEntersOwed, 24),
    (Fault::GiveAllWithoutMarks, 23),
    (Fault::HotCopyKeptThoughMarked, 48),
    (Fault::HotCopyBeforeTrackingBarrier, 48),
    (Fault::PatchSkipsAVersion, 39),
    (Fault::PatchKeepsWhatIsGone, 41),
    (Fault::InertOutlineServed, 23),
    (Fault::FreezeWithoutBarrier, 31),
    (Fault::ExpiryLeavesNoTombstone, 164),
    (Fault::ForwardedWithoutOwnershipCheck, 45),
    (Fault::HalfMsetVisible, 62),
    (Fault::WatchOutlivesHandOver, 244),
    (Fault::WatchOutlivesTheEnd, 10),
    (Fault::WaitsWithoutLook, 22),
    (Fault::PlaceOutlivesItsCommand, 17),
    (Fault::GivenKeyKeepsItsWaiters, 25),
    (Fault::ActBeforeCommit, 146),
    (Fault::GivenBackThoughSent, 137),
    (Fault::SilenceCountsAsDeath, 110),
    (Fault::RequestExecutedTwice, 33),
    (Fault::OlderMapAdopted, 11),
    (Fault::RaisedBeforeAllSpeak, 61),
    (Fault::RestartedTargetServesAtOnce, 31),
    (Fault::LostWriteSentAgain, 24),
    (Fault::FileGoesBeforeSurvivorsSynced, 51),
    (Fault::FailedSyncIsRepeated, 258),
];

/// A fault that was seen, and how long that took.
struct Found {
    seed: u64,
    check: &'static str,
    seconds: f64,
}

/// Puts each known fault back in turn, and fails unless each is found within its number of seeds from `first`
/// on.
pub(crate) fn hunt(first: u64, threads: usize) -> ExitCode {
    // Failed assertions are the goal here.
    std::panic::set_hook(Box::new(|_| {}));
    let faults: Vec<(Fault, u64)> =
        Fault::ALL.iter().filter_map(|&fault| Some((fault, fault.about().seeds?))).collect();
    let lately = find_lately(&faults, first, threads);
    let mut missed = 0;
    for (&(fault, limit), lately) in faults.iter().zip(lately) {
        let name = fault.about().name;
        let started = Instant::now();
        match lately.or_else(|| find(fault, seeds_of(first, limit), threads)) {
            Some(Found { seed, check, seconds }) => {
                println!("{name:36} seed {seed:4} of {limit:4}, {seconds:5.1} s: {check}");
            }
            None => {
                missed += 1;
                let seconds = started.elapsed().as_secs_f64();
                println!("{name:36} NOT FOUND within {limit} seeds, {seconds:.1} s");
            }
        }
    }
    match missed {
        0 => ExitCode::SUCCESS,
        _ => {
            println!("{missed} known faults were not seen by any checker");
            ExitCode::FAILURE
        }
    }
}

fn seeds_of(first: u64, limit: u64) -> RangeInclusive<u64> {
    first..=first.saturating_add(limit - 1)
}

/// Tries only the seeds that showed these faults lately, of those that count.
fn find_lately(faults: &[(Fault, u64)], first: u64, threads: usize) -> Vec<Option<Found>> {
    let mut all = Vec::with_capacity(faults.len());
    side_by_side::each(
        threads,
        0..=faults.len() as u64 - 1,
        || true,
        |at| {
            let (fault, limit) = faults[at as usize];
            let (_, seed) = LATELY.iter().find(|(found, _)| *found == fault)?;
            seeds_of(first, limit).contains(seed).then(|| try_seed(fault, *seed)).flatten()
        },
        |_, found| {
            all.push(found);
            ControlFlow::Continue(())
        },
    );
    all
}

/// Tries these seeds in their order.
fn find(fault: Fault, seeds: RangeInclusive<u64>, threads: usize) -> Option<Found> {
    let started = Instant::now();
    let mut first = None;
    side_by_side::each(
        threads,
        seeds,
        || true,
        |seed| try_seed(fault, seed),
        |_, found| {
            first = found;
            if first.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    first.map(|found| Found { seconds: started.elapsed().as_secs_f64(), ..found })
}

fn try_seed(fault: Fault, seed: u64) -> Option<Found> {
    let started = Instant::now();
    let failure = run(seed, Drawn { fault: Some(fault), world: None }, Story::silent()).err()?;
    Some(Found { seed, check: failure.violation.check, seconds: started.elapsed().as_secs_f64() })
}
