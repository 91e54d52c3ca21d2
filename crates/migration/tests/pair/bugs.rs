//! Tests of the tests: each known fault, put back by name, is seen by the checkers of the random runs and by the named
//! test that tells its story.

use crate::model::Op;
use crate::net::End;
use crate::random;
use crate::world::{Pair, Setup, key};
use sidle_migration::{Bugs, Tuning};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 60;

fn is_seen_by_random_runs(bugs: Bugs) -> bool {
    let tuning = Tuning { bugs: bugs.into(), ..Tuning::default() };
    (0..SEEDS).any(|seed| catch_unwind(AssertUnwindSafe(|| random::run(seed, tuning))).is_err())
}

fn is_seen(scenario: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(scenario)).is_err()
}

fn serving(bugs: Bugs) -> Pair {
    let mut setup = Setup::slow();
    setup.tuning.bugs = bugs.into();
    let mut pair = Pair::with_records(setup, 1_000, 100);
    pair.start();
    pair.run_until_serving();
    pair
}

fn write_then_late_replay(bugs: Bugs) {
    let mut pair = serving(bugs);
    for n in 0..1_000 {
        pair.expect_ok(Op::Set(key(n), b"newer".to_vec(), None));
    }
    pair.run_to_end();
    pair.check_end();
}

fn delete_then_late_replay(bugs: Bugs) {
    let mut pair = serving(bugs);
    for n in 0..1_000 {
        pair.ask_at(End::Target, Op::Del(key(n)));
    }
    pair.run_to_end();
    pair.check_end();
}

fn read_between_arrival_and_replay(bugs: Bugs) {
    let mut pair = serving(bugs);
    while !pair.target_events.contains(&sidle_migration::TargetEvent::Finished) {
        pair.before_replay = (0..1_000).map(|n| Op::Get(key(n))).collect();
        pair.step();
    }
    pair.run_to_end();
    pair.check_end();
}

#[test]
fn without_faults_every_scenario_holds() {
    write_then_late_replay(Bugs::NONE);
    delete_then_late_replay(Bugs::NONE);
    read_between_arrival_and_replay(Bugs::NONE);
    assert!(!is_seen_by_random_runs(Bugs::NONE));
}

#[test]
fn replay_overwrites_is_seen() {
    let bugs = Bugs { replay_overwrites: true, ..Bugs::NONE };
    assert!(is_seen(|| write_then_late_replay(bugs)));
    assert!(is_seen_by_random_runs(bugs));
}

#[test]
fn no_tombstones_is_seen() {
    let bugs = Bugs { no_tombstones: true, ..Bugs::NONE };
    assert!(is_seen(|| delete_then_late_replay(bugs)));
    assert!(is_seen_by_random_runs(bugs));
}

#[test]
fn progress_before_replay_is_seen() {
    let bugs = Bugs { progress_before_replay: true, ..Bugs::NONE };
    assert!(is_seen(|| read_between_arrival_and_replay(bugs)));
    assert!(is_seen_by_random_runs(bugs));
}
