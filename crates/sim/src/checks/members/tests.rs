use super::*;
use crate::workload::{MembersOp, Shown as Answer};

fn record(key: &str, op: MembersOp, call_us: u64, answer: Option<Answer>) -> MembersOperation {
    let answer = answer.map(|found| (call_us + 1, found));
    MembersOperation { answer, ..MembersOperation::begun(1, key.to_owned(), op, call_us) }
}

fn add(key: &str, members: &[(usize, i64)], call_us: u64) -> MembersOperation {
    let new = Answer::Number(members.len() as i64);
    record(key, MembersOp::Add(members.to_vec()), call_us, Some(new))
}

fn look(key: &str, members: &[(usize, i64)], call_us: u64) -> MembersOperation {
    record(key, MembersOp::Look, call_us, Some(Answer::All(members.to_vec())))
}

fn holds(history: &[MembersOperation]) -> bool {
    let found = check_members(history);
    assert_ne!(found, Ok(1), "undecided");
    found.is_ok()
}

#[test]
fn ranks_and_ranges_follow_scores_and_then_names() {
    let with = |more: MembersOperation| holds(&[add("z", &[(2, 5), (1, 5), (0, 9)], 1), more]);
    assert!(with(look("z", &[(1, 5), (2, 5), (0, 9)], 3)));
    assert!(!with(look("z", &[(2, 5), (1, 5), (0, 9)], 3)), "equal scores are in the order of names");
    assert!(!with(look("z", &[(1, 5), (0, 9)], 3)), "one is missing");
    let rank = |found| record("z", MembersOp::Rank(2), 3, Some(found));
    assert!(with(rank(Answer::Number(1))) && !with(rank(Answer::Number(0))));
    assert!(!with(rank(Answer::Nothing)));
}

#[test]
fn an_increment_happens_once() {
    let increment = |call_us, answer| record("z", MembersOp::Increment(0, 2), call_us, answer);
    let twice = [increment(1, Some(Answer::Number(2))), increment(3, Some(Answer::Number(4)))];
    assert!(holds(&twice));
    assert!(!holds(&[twice[0].clone(), increment(3, Some(Answer::Number(2)))]), "a lost one");
    let lost = [twice[0].clone(), increment(3, None)];
    let with = |score| holds(&[&lost[..], &[look("z", &[(0, score)], 9)]].concat());
    assert!(with(2) && with(4) && !with(6));
}

#[test]
fn what_is_popped_was_there_and_is_gone() {
    let pop = |key: &str, member, score| record(key, MembersOp::Pop, 3, Some(Answer::Member(member, score)));
    let sorted = |more: &[MembersOperation]| holds(&[&[add("z", &[(0, 9), (1, 5)], 1)], more].concat());
    assert!(sorted(&[pop("z", 1, 5), look("z", &[(0, 9)], 5)]));
    assert!(!sorted(&[pop("z", 0, 9)]), "it is not the first");
    assert!(!sorted(&[pop("z", 1, 5), look("z", &[(1, 5), (0, 9)], 5)]), "it came back");
    let set = |more: &[MembersOperation]| holds(&[&[add("m", &[(0, 0), (1, 0)], 1)], more].concat());
    assert!(set(&[pop("m", 0, 0), look("m", &[(1, 0)], 5)]));
    assert!(set(&[pop("m", 1, 0), look("m", &[(0, 0)], 5)]));
    assert!(!set(&[pop("m", 2, 0)]), "it was never there");
    let lost = record("m", MembersOp::Pop, 3, None);
    assert!(set(&[lost.clone(), look("m", &[(1, 0)], 5)]) && !set(&[lost, look("m", &[], 5)]));
}

#[test]
fn a_death_may_cost_a_key_and_not_a_part_of_it() {
    let clear = |answer| record("z", MembersOp::Clear, 3, answer);
    let with = |clear, more: MembersOperation| holds(&[add("z", &[(0, 1), (1, 2)], 1), clear, more]);
    let all = || look("z", &[(0, 1), (1, 2)], 5);
    assert!(with(clear(None), look("z", &[], 5)) && with(clear(None), all()));
    assert!(!with(clear(None), look("z", &[(0, 1)], 5)));
    assert!(!with(clear(Some(Answer::Done)), all()), "a flush is certain");
    assert!(!with(clear(Some(Answer::Number(0))), look("z", &[], 5)), "there was something to delete");
}

#[test]
fn counts_are_of_what_changed() {
    let with = |op: MembersOp, count| {
        holds(&[add("m", &[(0, 0), (1, 0)], 1), record("m", op, 3, Some(Answer::Number(count)))])
    };
    assert!(with(MembersOp::Add(vec![(1, 0), (2, 0)]), 1) && !with(MembersOp::Add(vec![(1, 0), (2, 0)]), 2));
    assert!(with(MembersOp::Remove(vec![1, 2]), 1) && !with(MembersOp::Remove(vec![1, 2]), 0));
    assert!(with(MembersOp::Count, 2) && with(MembersOp::Score(1), 1) && !with(MembersOp::Score(2), 1));
}
