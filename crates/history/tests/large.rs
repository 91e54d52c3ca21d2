//! Long histories on few keys, as in a stress run. They assert the checker's budget, not times.

use sidle_history::{CheckOptions, Datum, KeyVerdict, Op, Operation, Outcome, check, check_key};
use sidle_testbed::Random;

/// `clients` clients with one operation in flight each, on one linearizable key: operations take effect at a
/// random instant of their interval. One in `unknown_in` mutations is recorded as unknown.
fn behaved(key: &str, count: usize, clients: u64, unknown_in: u64, seed: u64) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut drafts: Vec<(u64, Operation)> = Vec::new();
    let mut free_at = vec![0u64; clients as usize];
    for serial in 0..count {
        let client = serial as u64 % clients;
        let call_ns = free_at[client as usize] + random.below(50);
        let longest_ns = if random.below(1000) == 0 { 200_000 } else { 1000 };
        let return_ns = call_ns + 1 + random.below(longest_ns);
        free_at[client as usize] = return_ns + 1;
        let op = match random.below(20) {
            0..10 => Op::Get,
            10..16 => Op::Set,
            16 => Op::GetSet,
            17 => Op::SetNx,
            18 => Op::Del,
            _ => Op::Exists,
        };
        let arg = match op {
            Op::Set | Op::GetSet | Op::SetNx => Datum::Text(format!("{key}-{serial}")),
            _ => Datum::Null,
        };
        let begun = Operation::begun(client, op, key, arg, call_ns);
        let operation = Operation { return_ns: Some(return_ns), outcome: Outcome::Ok, ..begun };
        drafts.push((call_ns + random.below(return_ns - call_ns + 1), operation));
    }
    drafts.sort_by_key(|&(at, _)| at);
    let mut state = Datum::Null;
    let mut history: Vec<Operation> = Vec::new();
    for (_, mut operation) in drafts {
        let there = i64::from(state != Datum::Null);
        operation.result = match operation.op {
            Op::Get => state.clone(),
            Op::Set => {
                state = operation.arg.clone();
                "OK".into()
            }
            Op::GetSet => std::mem::replace(&mut state, operation.arg.clone()),
            Op::SetNx => {
                if there == 0 {
                    state = operation.arg.clone();
                }
                (1 - there).into()
            }
            Op::Del => {
                state = Datum::Null;
                there.into()
            }
            _ => there.into(),
        };
        if !operation.op.is_read() && random.below(unknown_in) == 0 {
            operation.result = Datum::Null;
            operation.return_ns = None;
            operation.outcome = Outcome::Unknown;
        }
        history.push(operation);
    }
    history
}

#[test]
fn a_hundred_thousand_operations_on_three_keys() {
    let history: Vec<Operation> =
        ["a", "b", "c"].iter().flat_map(|key| behaved(key, 34_000, 24, u64::MAX, 11)).collect();
    let options = CheckOptions { configurations_per_key: 2_000_000, ..CheckOptions::default() };
    let report = check(&history, options);
    assert!(report.is_linearizable(), "{report}");
}

#[test]
fn unknown_fates_do_not_blow_the_search_up() {
    let history = behaved("k", 20_000, 16, 200, 5);
    assert!(history.iter().filter(|operation| operation.outcome == Outcome::Unknown).count() > 20);
    let options = CheckOptions { configurations_per_key: 2_000_000, ..CheckOptions::default() };
    assert_eq!(check_key(&history, options), KeyVerdict::Linearizable);
}

#[test]
fn one_stale_read_among_many_is_found_and_explained_shortly() {
    let mut history = behaved("k", 20_000, 16, u64::MAX, 7);
    let read =
        history.iter().rposition(|operation| operation.op == Op::Get && operation.call_ns < 400_000).unwrap();
    let write = history.iter().find(|operation| operation.op == Op::Set).unwrap().clone();
    history[read].result = write.arg.clone();
    let KeyVerdict::NotLinearizable(explanation) = check_key(&history, CheckOptions::default()) else {
        panic!("the stale read was missed");
    };
    assert_eq!(explanation.culprit.as_ref(), Some(&history[read]), "{explanation}");
    assert!(explanation.operations.contains(&write), "the write that was read back: {explanation}");
    assert!(explanation.operations.len() < 20, "{explanation}");
}
