use super::*;
use crate::workload::{End, ListOp, Said};

fn record(op: ListOp, call_us: u64, answer: Option<(u64, Said)>) -> ListOperation {
    ListOperation { answer, ..ListOperation::begun(1, 0, op, call_us) }
}

fn push(item: &str, call_us: u64, return_us: Option<u64>) -> ListOperation {
    record(ListOp::Push(0, End::Right, item.to_owned()), call_us, return_us.map(|us| (us, Said::Done)))
}

fn pop(item: &str, call_us: u64, return_us: u64) -> ListOperation {
    let said = if item.is_empty() { Said::Nothing } else { Said::Item(0, item.to_owned()) };
    record(ListOp::Pop(vec![0], End::Left), call_us, Some((return_us, said)))
}

fn look(items: &[&str], call_us: u64) -> ListOperation {
    let all = Said::Items(items.iter().map(|&item| item.to_owned()).collect());
    record(ListOp::Look(0), call_us, Some((call_us + 1, all)))
}

fn holds(history: &[ListOperation]) -> bool {
    let found = check_lists(history);
    assert_ne!(found, Ok(1), "undecided");
    found.is_ok()
}

#[test]
fn items_are_delivered_once_in_order_and_after_their_push() {
    let two = [push("a", 1, Some(2)), push("b", 3, Some(4))];
    let with = |more: &[ListOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[pop("a", 5, 6), pop("b", 7, 8), pop("", 9, 10)]));
    assert!(!with(&[pop("a", 5, 6), pop("a", 7, 8)]), "twice");
    assert!(!with(&[pop("b", 5, 6)]), "out of order");
    assert!(!with(&[pop("", 5, 6)]), "an item lay there");
    assert!(!with(&[look(&["a"], 5)]), "lost");
    assert!(!holds(&[pop("a", 1, 2), push("a", 3, Some(4))]), "before its push");
    assert!(holds(&[pop("a", 1, 5), push("a", 3, Some(4))]), "it waited");
}

#[test]
fn what_has_no_answer_may_have_happened_once_or_never() {
    let lost_pop = record(ListOp::Pop(vec![0], End::Left), 5, None);
    let two = [push("a", 1, Some(2)), push("b", 3, Some(4)), lost_pop];
    let with = |more: &[ListOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[look(&["a", "b"], 9)]));
    assert!(with(&[look(&["b"], 9)]));
    assert!(!with(&[look(&[], 9)]), "it takes one");
    assert!(holds(&[push("a", 1, None), pop("a", 8, 9), pop("", 10, 11)]));
    assert!(holds(&[push("a", 1, None), pop("", 8, 9)]));
    assert!(!holds(&[push("a", 1, None), pop("a", 8, 9), pop("a", 10, 11)]));
}

#[test]
fn a_client_that_is_gone_takes_nothing() {
    let gone = |over_us| ListOperation { over_us, ..record(ListOp::Pop(vec![0], End::Left), 1, None) };
    let with = |over_us| holds(&[gone(over_us), push("a", 5, Some(6)), look(&[], 9)]);
    assert!(with(None) && with(Some(5)));
    assert!(!with(Some(4)), "its node had forgotten it");
}

#[test]
fn a_death_may_cost_a_list_and_not_a_part_of_it() {
    let clear = record(ListOp::Clear(0), 5, None);
    let two = [push("a", 1, Some(2)), push("b", 3, Some(4)), clear];
    let with = |more: &[ListOperation]| holds(&[&two[..], more].concat());
    assert!(with(&[look(&[], 9)]) && with(&[look(&["a", "b"], 9)]));
    assert!(!with(&[look(&["b"], 9)]));
    assert!(!with(&[look(&[], 9), look(&["a", "b"], 12)]), "it does not come back");
}

#[test]
fn an_item_moves_between_lists_in_one_step() {
    let moved =
        record(ListOp::Move([0, 1], [End::Left, End::Right]), 3, Some((4, Said::Item(0, "a".to_owned()))));
    let of_other = |items: &[&str], call_us| ListOperation { op: ListOp::Look(1), ..look(items, call_us) };
    let begin = [push("a", 1, Some(2)), moved];
    let with = |more: &[ListOperation]| holds(&[&begin[..], more].concat());
    assert!(with(&[look(&[], 5), of_other(&["a"], 7)]));
    assert!(!with(&[of_other(&[], 7)]), "it is nowhere");
    assert!(!with(&[look(&["a"], 5)]), "it is in both");
}
