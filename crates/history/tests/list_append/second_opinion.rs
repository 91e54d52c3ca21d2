//! The verdict beside that of crate `adya`, another implementation of what Elle does.

use crate::generated::{falsify, right};
use adya::{History, Opts, Valid, Workload};
use serde_json::{Value, json};
use sidle_history::list_append::{Fate, Step, Transaction, check};
use sidle_testbed::Random;

/// What Jepsen's clients would have recorded: an event at each call and each return. Of one instant the calls
/// come first, since those transactions overlap.
fn recorded(history: &[Transaction]) -> String {
    let mut events: Vec<(u64, bool, Value)> = Vec::new();
    for (process, transaction) in history.iter().enumerate() {
        let step = |step: &Step, shows: bool| match step {
            Step::Append { key, token } => json!(["append", key, token]),
            Step::Read { key, tokens } if shows => json!(["r", key, tokens]),
            Step::Read { key, .. } => json!(["r", key, null]),
        };
        let event = |kind: &str, shows: bool| {
            let value: Vec<Value> = transaction.steps.iter().map(|done| step(done, shows)).collect();
            json!({ "type": kind, "process": process, "value": value })
        };
        events.push((transaction.call, false, event("invoke", false)));
        match transaction.fate {
            Fate::Committed(at) => events.push((at, true, event("ok", true))),
            Fate::Aborted => events.push((transaction.call, true, event("fail", false))),
            Fate::Unknown => events.push((u64::MAX, true, event("info", false))),
        }
    }
    events.sort_by_key(|&(at, returns, _)| (at, returns));
    events.into_iter().map(|(.., event)| event.to_string() + "\n").collect()
}

#[test]
fn another_judge_agrees() {
    let options = Opts { models: vec!["strict-serializable".into()], ..Opts::default() };
    let (mut explained, mut not) = (0, 0);
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let mut history = right(&mut random, 30);
        for _ in 0..random.below(3) {
            falsify(&mut random, &mut history);
        }
        let ours = check(&history);
        let recorded = History::from_json(&recorded(&history)).expect("it is read");
        let theirs = adya::check(&recorded, Workload::ListAppend, &options);
        let expected = if ours.is_ok() { Valid::True } else { Valid::False };
        assert_eq!(theirs.valid, expected, "seed {seed}: {ours:?}, they: {:?}", theirs.anomaly_types);
        explained += u32::from(ours.is_ok());
        not += u32::from(ours.is_err());
    }
    println!("{explained} can be explained, {not} cannot");
    assert!(explained > 500 && not > 200, "{explained} can be explained, {not} cannot");
}
