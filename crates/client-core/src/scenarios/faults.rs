//! Tests of the tests: a scenario finds each injected fault of the client.

use super::*;
use sidle_types::Fault;

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::SourceValueWithoutTargetAnswer, the_source_answers_first),
    (Fault::SourceValueOfOtherMigration, the_target_answers_for_another_migration),
    (Fault::LostWriteSentAgain, a_write_is_cut_off),
];

fn the_source_answers_first() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.answer(2, &bulk("new"));
    assert_eq!(script.ended(), ended(1, "new"));
}

/// Between the two answers the range may have moved back and returned.
fn the_target_answers_for_another_migration() {
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
