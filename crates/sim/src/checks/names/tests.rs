use super::*;
use crate::workload::{NameOp, NameSaid};

fn record(op: NameOp, call_us: u64, said: Option<NameSaid>) -> NameOperation {
    NameOperation { answer: said.map(|said| (call_us + 1, said)), ..NameOperation::begun(1, 0, op, call_us) }
}

fn set(name: usize, value: &str, call_us: u64) -> NameOperation {
    record(NameOp::Set(name, value.to_owned()), call_us, Some(NameSaid::Done))
}

fn look(values: [&str; 3], call_us: u64) -> NameOperation {
    let values = values.map(|value| (!value.is_empty()).then(|| value.to_owned()));
    record(NameOp::Look, call_us, Some(NameSaid::Values(values.to_vec())))
}

fn renamed(from: usize, to: usize, call_us: u64, said: Option<NameSaid>) -> NameOperation {
    record(NameOp::Rename([from, to]), call_us, said)
}

fn copied(replaces: bool, call_us: u64, said: NameSaid) -> NameOperation {
    record(NameOp::Copy { names: [0, 1], replaces }, call_us, Some(said))
}

fn holds(history: &[NameOperation]) -> bool {
    let found = check_names(history);
    assert_ne!(found, Ok(1), "undecided");
    found.is_ok()
}

#[test]
fn a_renamed_value_is_under_one_name_at_any_moment() {
    let begin =
        [set(0, "a", 1), NameOperation { answer: Some((20, NameSaid::Done)), ..renamed(0, 1, 5, None) }];
    let with = |more: &[NameOperation]| holds(&[&begin[..], more].concat());
    assert!(with(&[look(["a", "", ""], 7), look(["", "a", ""], 9), look(["", "a", ""], 30)]));
    assert!(!with(&[look(["a", "a", ""], 7)]), "under both");
    assert!(!with(&[look(["", "", ""], 7)]), "under none");
    assert!(!with(&[look(["", "a", ""], 7), look(["a", "", ""], 9)]), "it does not go back");
    assert!(!with(&[look(["a", "", ""], 30)]), "it was done");
}

#[test]
fn a_rename_replaces_and_renamenx_does_not() {
    let two = [set(0, "a", 1), set(1, "b", 3)];
    let with = |more: &[NameOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[renamed(0, 1, 5, Some(NameSaid::Done)), look(["", "a", ""], 7)]));
    let nx = |said| record(NameOp::RenameNx([0, 1]), 5, Some(said));
    assert!(with(&[nx(NameSaid::NotDone), look(["a", "b", ""], 7)]));
    assert!(!with(&[nx(NameSaid::Done)]), "the second name has a value");
    assert!(!with(&[renamed(0, 1, 5, Some(NameSaid::NoSuchKey))]), "the first name has one");
    assert!(with(&[renamed(2, 1, 5, Some(NameSaid::NoSuchKey)), look(["a", "b", ""], 7)]));
    assert!(with(&[renamed(0, 0, 5, Some(NameSaid::Done)), look(["a", "b", ""], 7)]), "to itself");
}

#[test]
fn a_copy_is_of_one_instant() {
    assert!(holds(&[set(0, "a", 1), copied(false, 3, NameSaid::Done), look(["a", "a", ""], 5)]));
    let two = [set(0, "a", 1), set(1, "b", 3)];
    let with = |more: &[NameOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[copied(false, 5, NameSaid::NotDone), look(["a", "b", ""], 7)]));
    assert!(with(&[copied(true, 5, NameSaid::Done), look(["a", "a", ""], 7)]));
    assert!(!with(&[copied(true, 5, NameSaid::NotDone)]));
    let later = [copied(true, 5, NameSaid::Done), set(0, "c", 7), look(["c", "c", ""], 9)];
    assert!(!with(&later), "the value of a later write");
}

#[test]
fn what_has_no_answer_may_have_happened_once_or_never() {
    let begin = [set(0, "a", 1), renamed(0, 1, 3, None)];
    let with = |more: &[NameOperation]| holds(&[&begin[..], more].concat());
    assert!(with(&[look(["a", "", ""], 5), look(["", "a", ""], 7)]));
    assert!(with(&[look(["a", "", ""], 5)]));
    assert!(!with(&[look(["", "a", ""], 5), set(0, "b", 7), look(["", "b", ""], 9)]), "twice");
    let lost = record(NameOp::Set(0, "lost".to_owned()), 1, None);
    let was_there = renamed(0, 1, 5, Some(NameSaid::Done));
    assert!(holds(&[lost.clone(), was_there.clone()]), "that it was there shows");
    assert!(!holds(&[was_there]), "nothing was there");
    assert!(!holds(&[lost, look(["", "", "other"], 9)]));
}

#[test]
fn a_death_may_cost_each_name() {
    let clear = record(NameOp::Clear(0), 5, None);
    let two = [set(0, "a", 1), set(1, "b", 3), clear];
    let with = |more: &[NameOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[look(["", "b", ""], 9)]) && with(&[look(["a", "b", ""], 9)]));
    assert!(!with(&[look(["a", "", ""], 9)]));
    assert!(!with(&[look(["", "b", ""], 9), look(["a", "b", ""], 12)]), "it does not come back");
}
