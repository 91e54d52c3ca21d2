//! Tests of the tests: the world finds each known fault.

use crate::run;
use crate::scripted::a_forgotten_key_is_asked;
use sidle_types::Fault;

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::LockedTwice, random_runs),
    (Fault::ReadsIgnoreLocks, random_runs),
    (Fault::PreparedAfterRefusal, random_runs),
    (Fault::RefusalIsNotKept, random_runs),
    (Fault::OutcomeIsNotKept, random_runs),
    (Fault::FirstKeyForgetsFirst, random_runs),
    (Fault::FirstKeyIsAskedFirst, a_forgotten_key_is_asked),
    (Fault::SettledIsForgotten, random_runs),
    (Fault::HelperAbortsUnasked, random_runs),
    (Fault::HelperCommitsWithoutVote, random_runs),
    (Fault::PartSentTwice, random_runs),
];

fn random_runs() {
    for seed in 0..30 {
        run(seed);
    }
}

#[test]
fn stories_find_their_faults() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
