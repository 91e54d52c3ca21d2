//! The checker against every permutation, on histories small enough for that.

use proptest::prelude::*;
use sidle_history::{CheckOptions, Datum, Judged, KeyChecker, KeyVerdict, Op, Operation, Outcome, check_key};

/// A plain model on strings. `None` is an absent key.
fn apply(op: Op, arg: &Datum, state: &Option<String>) -> (Result<Datum, ()>, Option<String>) {
    let text = match arg {
        Datum::Null => String::new(),
        Datum::Integer(number) => number.to_string(),
        Datum::Text(text) => text.clone(),
    };
    let there = i64::from(state.is_some());
    let value = state.clone().map_or(Datum::Null, Datum::Text);
    match op {
        Op::Get => (Ok(value), state.clone()),
        Op::Set => (Ok("OK".into()), Some(text)),
        Op::SetNx => (Ok((1 - there).into()), Some(state.clone().unwrap_or(text))),
        Op::GetSet => (Ok(value), Some(text)),
        Op::GetDel => (Ok(value), None),
        Op::Del => (Ok(there.into()), None),
        Op::Flush => (Ok("OK".into()), None),
        Op::Exists => (Ok(there.into()), state.clone()),
        Op::StrLen => (Ok((state.as_ref().map_or(0, String::len) as i64).into()), state.clone()),
        Op::Append => {
            let joined = state.clone().unwrap_or_default() + &text;
            (Ok((joined.len() as i64).into()), Some(joined))
        }
        Op::IncrBy => {
            let old = state
                .as_ref()
                .map_or(Some(0), |old| old.parse::<i64>().ok().filter(|number| number.to_string() == *old));
            let Datum::Integer(delta) = arg else { unreachable!("incrby takes an integer") };
            match old.and_then(|old| old.checked_add(*delta)) {
                Some(sum) => (Ok(sum.into()), Some(sum.to_string())),
                None => (Err(()), state.clone()),
            }
        }
    }
}

fn same(claimed: &Datum, reply: &Result<Datum, ()>) -> bool {
    let text = |datum: &Datum| match datum {
        Datum::Integer(number) => Datum::Text(number.to_string()),
        other => other.clone(),
    };
    reply.as_ref().is_ok_and(|reply| text(reply) == text(claimed))
}

/// Whether some order of all definite and some unknown operations explains the history.
fn explainable(left: &[Operation], state: &Option<String>) -> bool {
    if left.iter().all(|operation| operation.outcome != Outcome::Ok) {
        return true;
    }
    let deadline = left.iter().filter_map(|operation| operation.return_ns).min().unwrap_or(u64::MAX);
    (0..left.len()).any(|index| {
        let operation = &left[index];
        if operation.call_ns > deadline || operation.outcome == Outcome::None {
            return false;
        }
        let (reply, next) = apply(operation.op, &operation.arg, state);
        if operation.outcome == Outcome::Ok && !same(&operation.result, &reply) {
            return false;
        }
        let mut rest = left.to_vec();
        rest.remove(index);
        explainable(&rest, &next)
    })
}

fn brute_force(history: &[Operation]) -> bool {
    let mut left: Vec<Operation> = history.to_vec();
    left.retain(|operation| operation.outcome != Outcome::None);
    explainable(&left, &None)
}

#[derive(Clone, Debug)]
struct Draft {
    op: Op,
    arg: u8,
    start: u64,
    length: u64,
    at: u64,
    fate: u8,
    lie: u8,
}

const ALL_OPS: [Op; 11] = [
    Op::Get,
    Op::Set,
    Op::SetNx,
    Op::GetSet,
    Op::GetDel,
    Op::Del,
    Op::Flush,
    Op::IncrBy,
    Op::Append,
    Op::StrLen,
    Op::Exists,
];

/// Values of equal and of different lengths, numbers among them, so that lengths and sums collide.
const VALUES: [&str; 6] = ["a", "b", "7", "cd", "", "-3"];

fn draft(ops: &'static [Op]) -> impl Strategy<Value = Draft> {
    (0..ops.len(), 0..6u8, 0..12u64, 0..8u64, 0..8u64, 0..12u8, 0..30u8).prop_map(
        move |(op, arg, start, length, at, fate, lie)| Draft {
            op: ops[op],
            arg,
            start,
            length,
            at,
            fate,
            lie,
        },
    )
}

/// Runs the drafts in a valid order, then drops, refuses or falsifies a few results.
fn history(drafts: Vec<Draft>, lies: bool) -> Vec<Operation> {
    let mut order: Vec<(u64, usize)> = drafts
        .iter()
        .enumerate()
        .map(|(index, draft)| (draft.start * 10 + draft.at % (draft.length + 1) * 10, index))
        .collect();
    order.sort_unstable();
    let mut state = None;
    let mut operations = Vec::new();
    for (_, index) in order {
        let draft = &drafts[index];
        let arg = match draft.op {
            Op::Set | Op::SetNx | Op::GetSet | Op::Append => Datum::from(VALUES[usize::from(draft.arg)]),
            Op::IncrBy => Datum::from(i64::from(draft.arg) - 2),
            _ => Datum::Null,
        };
        let begun = Operation::begun(index as u64, draft.op, "k", arg, draft.start * 10);
        let return_ns = Some((draft.start + draft.length) * 10);
        let mut operation = Operation { return_ns, outcome: Outcome::Ok, ..begun };
        let happens = draft.fate != 0 && draft.fate != 1;
        let (reply, next) = apply(operation.op, &operation.arg, &state);
        if happens {
            state = next;
        }
        match (reply, draft.fate) {
            (_, 0) | (Err(()), _) => operation.outcome = Outcome::None,
            (_, 1 | 2) => {
                operation.outcome = Outcome::Unknown;
                operation.return_ns = None;
            }
            (Ok(reply), _) => operation.result = reply,
        }
        if lies && draft.lie < 3 && operation.outcome == Outcome::Ok {
            operation.result = match operation.result {
                Datum::Integer(number @ (0 | 1)) if matches!(draft.op, Op::SetNx | Op::Del | Op::Exists) => {
                    Datum::Integer(1 - number)
                }
                Datum::Integer(number) => Datum::Integer(number + i64::from(draft.lie) - 1),
                Datum::Text(text) if text == "OK" => Datum::Text(text),
                _ => Datum::from(VALUES[usize::from(draft.lie)]),
            };
        }
        assert_eq!(operation.validate(), Ok(()));
        operations.push(operation);
    }
    operations.sort_by_key(|operation| operation.client);
    operations
}

/// Judges a history online: each operation when it returns, the others when they are given up.
fn judge_online(history: &[Operation]) -> Judged {
    let mut arrivals = history.to_vec();
    arrivals.sort_by_key(|operation| operation.return_ns.unwrap_or(operation.call_ns + 35));
    let mut checker = KeyChecker::new(100_000);
    for (index, operation) in arrivals.iter().enumerate() {
        checker.add(index, operation);
        let under_way = arrivals[index + 1..].iter().map(|operation| operation.call_ns).min();
        if let Judged::Stuck(culprit) = checker.judge(under_way.unwrap_or(u64::MAX)) {
            return Judged::Stuck(*culprit);
        }
    }
    checker.judge(u64::MAX).clone()
}

fn agree(history: &[Operation]) -> Result<(), TestCaseError> {
    let expected = brute_force(history);
    match judge_online(history) {
        Judged::Fine => prop_assert!(expected, "online an order was found where there is none"),
        Judged::Stuck(culprit) => prop_assert!(!expected, "online an order was missed at {culprit}"),
        Judged::Undecided => prop_assert!(false, "small histories are always decided"),
    }
    match check_key(history, CheckOptions::default()) {
        KeyVerdict::Linearizable => prop_assert!(expected, "the checker found an order where there is none"),
        KeyVerdict::Undecided => prop_assert!(false, "small histories are always decided"),
        KeyVerdict::NotLinearizable(explanation) => {
            prop_assert!(!expected, "the checker missed an order: {explanation}");
            prop_assert!(!explanation.operations.is_empty());
            // The explanation itself must be impossible, unless it was cut to fit.
            if explanation.left_out == 0 {
                let shown: Vec<Operation> = explanation.operations.clone();
                prop_assert!(!brute_force(&shown), "not a contradiction: {explanation}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_on_true_histories(drafts in prop::collection::vec(draft(&ALL_OPS), 1..8)) {
        agree(&history(drafts, false))?;
    }

    #[test]
    fn agrees_on_falsified_histories(drafts in prop::collection::vec(draft(&ALL_OPS), 1..7)) {
        agree(&history(drafts, true))?;
    }

    #[test]
    fn agrees_where_values_cannot_come_back(
        drafts in prop::collection::vec(draft(&[Op::Get, Op::Set, Op::GetSet, Op::GetDel, Op::SetNx]), 1..8)
    ) {
        agree(&history(drafts, true))?;
    }

    #[test]
    fn agrees_where_much_is_unknown(
        drafts in prop::collection::vec(
            draft(&[Op::Get, Op::Set, Op::SetNx, Op::Del, Op::Flush, Op::GetSet, Op::IncrBy, Op::Append]),
            1..8,
        )
    ) {
        let drafts = drafts.into_iter().map(|draft| Draft { fate: draft.fate % 5, ..draft }).collect();
        agree(&history(drafts, true))?;
    }

    #[test]
    fn agrees_where_much_is_flushed(
        drafts in prop::collection::vec(
            draft(&[Op::Get, Op::Set, Op::SetNx, Op::Exists, Op::IncrBy, Op::Flush, Op::Flush]), 1..8)
    ) {
        agree(&history(drafts, true))?;
    }

    #[test]
    fn agrees_on_strings_and_numbers(
        drafts in prop::collection::vec(draft(&[Op::Get, Op::Set, Op::Append, Op::IncrBy, Op::StrLen]), 1..8)
    ) {
        agree(&history(drafts, true))?;
    }
}
