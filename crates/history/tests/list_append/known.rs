//! Histories of transactions whose verdict is known.

use sidle_history::list_append::{Fate, Step, Transaction, Violation, Why, check};

const X: u64 = 1;
const Y: u64 = 2;

fn append(key: u64, token: u64) -> Step {
    Step::Append { key, token }
}

fn read(key: u64, tokens: &[u64]) -> Step {
    Step::Read { key, tokens: tokens.to_vec() }
}

fn committed(call: u64, at: u64, steps: &[Step]) -> Transaction {
    Transaction { call, fate: Fate::Committed(at), steps: steps.to_vec() }
}

fn with_fate(call: u64, fate: Fate, steps: &[Step]) -> Transaction {
    Transaction { call, fate, steps: steps.to_vec() }
}

fn why_of(history: &[Transaction]) -> Vec<Why> {
    match check(history) {
        Err(Violation::Circle(links)) => links.iter().map(|link| link.why).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_after_the_other() {
    let history = [
        committed(0, 1, &[append(X, 1), append(Y, 2)]),
        committed(2, 3, &[read(X, &[1]), append(Y, 3)]),
        committed(4, 5, &[read(X, &[1]), read(Y, &[2, 3])]),
    ];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn half_of_a_transaction() {
    let history =
        [committed(0, 9, &[append(X, 1), append(Y, 2)]), committed(0, 9, &[read(X, &[1]), read(Y, &[])])];
    let why = why_of(&history);
    assert!(why.contains(&Why::Read { key: X, token: 1 }), "{why:?}");
    assert!(why.contains(&Why::NotRead { key: Y, token: 2 }), "{why:?}");
}

#[test]
fn write_skew() {
    let history = [
        committed(0, 9, &[read(X, &[]), append(Y, 1)]),
        committed(0, 9, &[read(Y, &[]), append(X, 2)]),
        committed(10, 11, &[read(X, &[2]), read(Y, &[1])]),
    ];
    assert_eq!(why_of(&history).len(), 2);
}

#[test]
fn an_old_read_after_a_return() {
    let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[])])];
    let why = why_of(&history);
    assert!(why.contains(&Why::Returned), "{why:?}");
    // The same is right where the two overlap.
    let history = [committed(0, 2, &[append(X, 1)]), committed(2, 3, &[read(X, &[])])];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn a_lost_update() {
    let history = [
        committed(0, 9, &[read(X, &[]), append(X, 1)]),
        committed(0, 9, &[read(X, &[]), append(X, 2)]),
        committed(10, 11, &[read(X, &[1, 2])]),
    ];
    assert!(matches!(check(&history), Err(Violation::Circle(_))));
}

#[test]
fn an_append_that_vanished() {
    let history = [
        committed(0, 1, &[append(X, 1)]),
        committed(2, 3, &[append(X, 2)]),
        committed(4, 5, &[read(X, &[1])]),
    ];
    let why = why_of(&history);
    assert!(why.contains(&Why::NotRead { key: X, token: 2 }), "{why:?}");
}

#[test]
fn unknown_ones_may_have_taken_place() {
    let unknown = with_fate(0, Fate::Unknown, &[append(X, 1), append(Y, 2)]);
    let seen = [unknown.clone(), committed(5, 6, &[read(X, &[1]), read(Y, &[2])])];
    assert_eq!(check(&seen), Ok(()));
    let unseen = [unknown.clone(), committed(5, 6, &[read(X, &[]), read(Y, &[])])];
    assert_eq!(check(&unseen), Ok(()));
    let half = [unknown, committed(5, 6, &[read(X, &[1]), read(Y, &[])])];
    assert!(matches!(check(&half), Err(Violation::Circle(_))));
}

#[test]
fn what_did_not_take_place_is_not_read() {
    let aborted = with_fate(0, Fate::Aborted, &[append(X, 1)]);
    let history = [aborted, committed(5, 6, &[read(X, &[1])])];
    assert_eq!(check(&history), Err(Violation::AbortedRead { reader: 1, writer: 0, key: X, token: 1 }));
    let history = [committed(0, 1, &[append(X, 1)]), committed(5, 6, &[read(X, &[1, 1])])];
    assert_eq!(check(&history), Err(Violation::Twice { reader: 1, key: X, token: 1 }));
    let history = [committed(5, 6, &[read(X, &[7])])];
    assert_eq!(check(&history), Err(Violation::Unwritten { reader: 0, key: X, token: 7 }));
}

#[test]
fn a_list_has_one_order() {
    let history = [
        committed(0, 9, &[append(X, 1)]),
        committed(0, 9, &[append(X, 2)]),
        committed(0, 9, &[read(X, &[1, 2])]),
        committed(0, 9, &[read(X, &[2])]),
    ];
    assert_eq!(check(&history), Err(Violation::TwoOrders { readers: [2, 3], key: X }));
}

#[test]
fn own_appends_are_read_and_others_whole() {
    let history = [committed(0, 9, &[append(X, 1), read(X, &[1]), append(X, 2), read(X, &[1, 2])])];
    assert_eq!(check(&history), Ok(()));
    let history = [committed(0, 9, &[append(X, 1), read(X, &[])])];
    assert_eq!(check(&history), Err(Violation::OwnAppendMissing { reader: 0, key: X }));
    let history = [committed(0, 9, &[append(X, 1), append(X, 2)]), committed(0, 9, &[read(X, &[1])])];
    assert_eq!(check(&history), Err(Violation::HalfRead { reader: 1, writer: 0, key: X }));
}

#[test]
fn a_violation_reads_as_a_sentence() {
    let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[])])];
    let violation = check(&history).expect_err("it is one");
    let words = violation.to_string();
    assert!(words.contains("T0 came before T1: T0 had returned before"), "{words}");
    assert!(words.contains("T1 came before T0: T1 did not read 1 of list 1"), "{words}");
}

#[test]
fn a_long_history_takes_little_time() {
    let mut history = Vec::new();
    let mut list = Vec::new();
    for token in 0..3_000 {
        history.push(committed(3 * token, 3 * token + 1, &[read(X, &list), append(X, token)]));
        list.push(token);
        if list.len() > 500 {
            break;
        }
    }
    for number in 0..3_000 {
        history.push(committed(10_000 + number, 10_001 + number, &[read(X, &list)]));
    }
    assert_eq!(check(&history), Ok(()));
}
