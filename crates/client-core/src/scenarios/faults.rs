//! Tests of the tests: each fault of the client that can be put back is seen by the scenario that tells its
//! story.

use super::*;
use sidle_types::Fault;

/// Every fault, with a scenario that holds without it only.
const STORIES: &[(Fault, fn())] = &[
    (Fault::SourceValueWithoutTargetAnswer, the_source_answers_first),
    (Fault::SourceValueOfOtherMigration, the_target_speaks_of_another_migration),
    (Fault::LostWriteSentAgain, a_write_is_cut_off),
];

fn the_source_answers_first() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.answer(2, &bulk("new"));
    assert_eq!(script.ended(), ended(1, "new"));
}

/// Between the two answers the range may have gone back and come again.
fn the_target_speaks_of_another_migration() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.answer(2, "+EMPTY 3\r\n");
    assert_eq!(script.ended(), []);
}

fn a_write_is_cut_off() {
    let mut script = Script::new(moving());
    script.write(1, &["INCR", "k"]);
    script.cut(script.line_to(2));
    script.pass(1_000_000);
    assert_eq!(script.ended(), ended(1, "ConnectionLost Unknown"));
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
