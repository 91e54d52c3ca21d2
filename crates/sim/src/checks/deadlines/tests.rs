use super::*;
use crate::clock::WALL_START_MS;
use crate::workload::{Condition, NewEnd, TimedOp, When};
use sidle_history::{Datum, Outcome};

/// An operation that took a tenth of a millisecond.
fn at(ms: u64, op: TimedOp, result: impl Into<Datum>) -> TimedOperation {
    let call_us = ms * 1000;
    TimedOperation {
        result: result.into(),
        return_us: Some(call_us + 100),
        outcome: Outcome::Ok,
        ..TimedOperation::begun(1, "t".to_owned(), op, call_us)
    }
}

fn lost(ms: u64, op: TimedOp) -> TimedOperation {
    TimedOperation::begun(2, "t".to_owned(), op, ms * 1000)
}

fn put(value: &str, end: NewEnd) -> TimedOp {
    TimedOp::Set { value: value.to_owned(), end, when: When::Always, returns_old: false }
}

fn set(ms: u64, value: &str, life_ms: u64) -> TimedOperation {
    at(ms, put(value, NewEnd::In(life_ms)), "OK")
}

fn saw(ms: u64, value: &str) -> TimedOperation {
    at(ms, TimedOp::Get, value)
}

fn nothing(ms: u64) -> TimedOperation {
    at(ms, TimedOp::Get, Datum::Null)
}

fn is_sound(history: &[TimedOperation]) -> bool {
    check_deadlines(history).is_ok()
}

#[test]
fn values_are_seen_until_their_end_and_not_after() {
    assert!(is_sound(&[
        nothing(0),
        set(1, "a", 200),
        saw(100, "a"),
        nothing(250),
        set(300, "b", 9),
        saw(301, "b")
    ]));
    assert!(!is_sound(&[set(1, "a", 200), saw(300, "a")]), "seen after its end");
    assert!(!is_sound(&[set(1, "a", 200), nothing(100)]), "gone before its end");
    assert!(is_sound(&[set(1, "a", 200), nothing(199), saw(203, "a")]), "clocks differ near the end");
}

#[test]
fn what_is_gone_does_not_come_back() {
    let del = |ms| at(ms, TimedOp::Del, 1);
    assert!(!is_sound(&[set(1, "a", 900), del(2), saw(3, "a")]), "deleted");
    assert!(!is_sound(&[set(1, "a", 900), set(2, "b", 900), saw(3, "a")]), "overwritten");
    assert!(!is_sound(&[set(1, "a", 50), at(90, TimedOp::Persist, 0), saw(91, "a")]), "over");
    let clear = at(2, TimedOp::Clear { is_certain: true }, Datum::Null);
    assert!(!is_sound(&[set(1, "a", 900), clear, saw(3, "a")]), "flushed");
    let clear = at(2, TimedOp::Clear { is_certain: false }, Datum::Null);
    assert!(is_sound(&[set(1, "a", 900), clear.clone(), saw(3, "a")]));
    assert!(is_sound(&[set(1, "a", 900), clear, nothing(3)]));
}

#[test]
fn ends_change_and_are_told() {
    let left = |ms, answer: i64| at(ms, TimedOp::PTtl, answer);
    assert!(is_sound(&[
        set(0, "a", 500),
        left(100, 400),
        at(101, TimedOp::Persist, 1),
        left(102, -1),
        saw(900, "a")
    ]));
    assert!(!is_sound(&[set(0, "a", 500), left(100, 450)]), "the end moved by itself");
    assert!(!is_sound(&[set(0, "a", 500), left(100, -1)]), "the end was lost");
    let end = |condition| TimedOp::Expire(NewEnd::At(WALL_START_MS + 900), condition);
    assert!(is_sound(&[set(0, "a", 500), at(1, end(Condition::Later), 1), saw(800, "a"), nothing(950)]));
    assert!(!is_sound(&[set(0, "a", 500), at(1, end(Condition::Earlier), 1)]), "it is later");
    assert!(!is_sound(&[set(0, "a", 500), at(1, end(Condition::Endless), 1)]), "there is an end");
    assert!(is_sound(&[
        set(0, "a", 500),
        at(1, put("b", NewEnd::AsBefore), "OK"),
        saw(400, "b"),
        nothing(600)
    ]));
    assert!(!is_sound(&[set(0, "a", 500), at(1, put("b", NewEnd::AsBefore), "OK"), saw(700, "b")]));
}

#[test]
fn what_is_of_unknown_fate_may_happen_at_any_time_or_never() {
    let unknown = lost(1, put("a", NewEnd::In(50)));
    assert!(is_sound(&[unknown.clone(), nothing(10), saw(3_000, "a"), nothing(9_000)]));
    assert!(
        !is_sound(&[unknown, saw(10, "a"), set(11, "b", 900), saw(12, "b"), saw(13, "a")]),
        "it happens once"
    );
    assert!(is_sound(&[set(1, "a", 900), lost(2, TimedOp::Del), saw(3, "a"), nothing(4)]));
    let many: Vec<TimedOperation> = (0..200).map(|n| lost(n, put(&n.to_string(), NewEnd::Never))).collect();
    let reads = (0..200).map(|n| saw(1_000 + n, &n.to_string()));
    assert_eq!(check_deadlines(&many.into_iter().chain(reads).collect::<Vec<_>>()), Ok(0));
}
