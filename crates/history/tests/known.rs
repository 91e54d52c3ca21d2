//! Histories with known verdicts, and the checker's explanations of the bad ones.

use sidle_history::{
    CheckOptions, Datum, Explanation, KeyVerdict, Op, Operation, Outcome, Reason, check, check_key,
};

fn ok(client: u64, op: Op, arg: impl Into<Arg>, result: impl Into<Arg>, call: u64, end: u64) -> Operation {
    let (result, return_ns, outcome) = (result.into().0, Some(end), Outcome::Ok);
    Operation { result, return_ns, outcome, ..Operation::begun(client, op, "k", arg.into().0, call) }
}

fn unknown(client: u64, op: Op, arg: impl Into<Arg>, call: u64) -> Operation {
    Operation::begun(client, op, "k", arg.into().0, call)
}

fn refused(client: u64, op: Op, arg: impl Into<Arg>, call: u64, end: u64) -> Operation {
    Operation { outcome: Outcome::None, ..ok(client, op, arg, (), call, end) }
}

struct Arg(Datum);

impl From<()> for Arg {
    fn from((): ()) -> Arg {
        Arg(Datum::Null)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg(text.into())
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Arg {
        Arg(number.into())
    }
}

fn good(history: &[Operation]) {
    assert_eq!(check_key(history, CheckOptions::default()), KeyVerdict::Linearizable);
}

fn bad(history: &[Operation]) -> Explanation {
    match check_key(history, CheckOptions::default()) {
        KeyVerdict::NotLinearizable(explanation) => *explanation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_history_is_linearizable() {
    assert!(check(&[], CheckOptions::default()).is_linearizable());
    good(&[]);
}

#[test]
fn a_concurrent_read_may_see_either_side() {
    let write = ok(1, Op::Set, "new", "OK", 10, 20);
    let before = ok(1, Op::Set, "old", "OK", 0, 5);
    for seen in ["old", "new"] {
        good(&[before.clone(), write.clone(), ok(2, Op::Get, (), seen, 12, 18)]);
    }
}

#[test]
fn a_stale_read_is_explained_by_three_operations() {
    let explanation = bad(&[
        ok(1, Op::Set, "old", "OK", 0, 5),
        ok(3, Op::Get, (), "old", 6, 7),
        ok(1, Op::Set, "new", "OK", 10, 20),
        ok(3, Op::Get, (), "new", 21, 22),
        ok(2, Op::Get, (), "old", 25, 30),
        ok(3, Op::Get, (), "new", 31, 32),
    ]);
    assert_eq!(explanation.reason, Reason::NoOrder);
    assert_eq!(explanation.culprit.as_ref().unwrap().client, 2);
    let shown: Vec<&Datum> = explanation.operations.iter().map(|operation| &operation.arg).collect();
    assert_eq!(shown, [&Datum::from("old"), &"new".into(), &Datum::Null], "{explanation}");
}

#[test]
fn a_lost_write_is_caught() {
    let explanation = bad(&[ok(1, Op::Set, "v", "OK", 0, 5), ok(2, Op::Get, (), (), 6, 7)]);
    assert!(explanation.to_string().contains("ends with the key at \"v\""), "{explanation}");
}

#[test]
fn two_readers_must_not_disagree_about_the_order() {
    bad(&[
        ok(1, Op::Set, "a", "OK", 0, 100),
        ok(2, Op::Set, "b", "OK", 0, 100),
        ok(3, Op::Get, (), "a", 10, 20),
        ok(3, Op::Get, (), "b", 21, 30),
        ok(4, Op::Get, (), "a", 31, 40),
    ]);
}

#[test]
fn values_without_a_writer_are_named() {
    let writes = [ok(1, Op::Set, "v", "OK", 0, 5), refused(1, Op::Set, "refused", 6, 7)];
    for (seen, reason) in [
        ("ghost", Reason::ValueNobodyWrote("ghost".into())),
        ("refused", Reason::ValueRefused("refused".into())),
        ("future", Reason::ValueFromTheFuture("future".into())),
    ] {
        let mut history = writes.to_vec();
        history.push(ok(2, Op::Get, (), seen, 8, 9));
        history.push(ok(1, Op::Set, "future", "OK", 10, 11));
        assert_eq!(bad(&history).reason, reason);
    }
}

#[test]
fn an_unknown_write_may_take_effect_late_or_never() {
    let start = [ok(1, Op::Set, "a", "OK", 0, 1), unknown(2, Op::Set, "b", 2)];
    let history = |reads: &[&str]| {
        let mut history = start.to_vec();
        for (i, &seen) in reads.iter().enumerate() {
            history.push(ok(3, Op::Get, (), seen, 10 + 10 * i as u64, 15 + 10 * i as u64));
        }
        history
    };
    good(&history(&["a", "a", "a"]));
    good(&history(&["a", "a", "b"]));
    good(&history(&["b", "b"]));
    bad(&history(&["a", "b", "a"]));
}

#[test]
fn an_unknown_write_cannot_take_effect_before_its_call() {
    bad(&[ok(1, Op::Get, (), "b", 0, 1), unknown(2, Op::Set, "b", 2)]);
}

#[test]
fn a_flush_removes_at_one_instant_of_its_own() {
    let set = ok(1, Op::Set, "a", "OK", 0, 1);
    let flush = ok(2, Op::Flush, (), "OK", 10, 20);
    let read = |seen: &str, call| match seen {
        "" => ok(3, Op::Get, (), (), call, call + 1),
        seen => ok(3, Op::Get, (), seen, call, call + 1),
    };
    good(&[flush.clone(), read("", 30)]);
    good(&[set.clone(), read("a", 12), flush.clone(), read("", 14), read("", 30)]);
    bad(&[set.clone(), flush.clone(), read("a", 30)]);
    bad(&[set.clone(), read("", 5), flush.clone()]);
    bad(&[set.clone(), read("", 12), read("a", 14), flush.clone()]);
    // A second delete is one too many: set, gone, set, gone again.
    let again = ok(1, Op::Set, "b", "OK", 14, 15);
    good(&[set.clone(), flush.clone(), read("", 12), again.clone(), read("b", 30)]);
    bad(&[set.clone(), flush.clone(), read("", 12), again, read("", 30)]);
    let lost = unknown(2, Op::Flush, (), 10);
    good(&[set.clone(), lost.clone(), read("a", 30), read("", 40), read("", 50)]);
    bad(&[set.clone(), lost.clone(), read("a", 30), read("", 40), read("a", 50)]);
    bad(&[set, lost, read("", 5)]);
}

#[test]
fn unknown_operations_may_have_to_be_chained() {
    good(&[
        ok(1, Op::Set, "a", "OK", 0, 1),
        unknown(2, Op::Del, (), 2),
        unknown(3, Op::SetNx, "b", 2),
        ok(1, Op::Get, (), "b", 10, 11),
    ]);
    good(&[
        ok(1, Op::Set, "ab", "OK", 0, 1),
        unknown(2, Op::Set, "xy", 2),
        ok(1, Op::Append, "c", 3, 10, 11),
        ok(1, Op::Get, (), "xyc", 12, 13),
    ]);
}

#[test]
fn an_increment_applied_twice_is_caught() {
    good(&[ok(1, Op::IncrBy, 1, 1, 0, 1), ok(1, Op::IncrBy, 1, 2, 2, 3)]);
    bad(&[ok(1, Op::IncrBy, 1, 1, 0, 1), ok(1, Op::IncrBy, 1, 3, 2, 3)]);
    good(&[ok(1, Op::IncrBy, 1, 1, 0, 1), unknown(2, Op::IncrBy, 1, 0), ok(1, Op::IncrBy, 1, 3, 2, 3)]);
}

#[test]
fn the_faults_that_migration_bugs_cause_are_caught() {
    // A delete that a delayed replay undid.
    bad(&[
        ok(1, Op::Set, "v", "OK", 0, 1),
        ok(1, Op::Del, (), 1, 2, 3),
        ok(2, Op::Exists, (), 0, 4, 5),
        ok(2, Op::Get, (), "v", 6, 7),
    ]);
    // An increment that started from nothing because the record had not arrived.
    bad(&[ok(1, Op::Set, "41", "OK", 0, 1), ok(1, Op::IncrBy, 1, 1, 2, 3)]);
    // SET NX that took an unarrived key for absent.
    bad(&[ok(1, Op::SetNx, "a", 1, 0, 1), ok(2, Op::SetNx, "b", 1, 2, 3)]);
}

#[test]
fn keys_are_judged_apart_and_counted() {
    let mut history = Vec::new();
    for key in 0..30 {
        let mut write = ok(1, Op::Set, "v", "OK", 0, 5);
        write.key = format!("key{key}");
        let mut read = ok(2, Op::Get, (), if key % 2 == 0 { "v" } else { "w" }, 6, 7);
        read.key.clone_from(&write.key);
        history.extend([write, read]);
    }
    let report = check(&history, CheckOptions::default());
    assert_eq!((report.keys, report.operations, report.failed_keys), (30, 60, 15));
    assert_eq!(report.failures.len(), CheckOptions::default().explained_keys);
    assert!(
        report
            .to_string()
            .ends_with("60 operations (0 of unknown fate, 0 refused) on 30 keys: NOT linearizable: 15 keys")
    );
}

#[test]
fn too_small_a_budget_is_undecided_not_wrong() {
    let history: Vec<Operation> = (0..12)
        .map(|i| ok(i, Op::Append, if i % 2 == 0 { "a" } else { "b" }, i as i64 + 1, 0, 100))
        .collect();
    let options = CheckOptions { configurations_per_key: 3, ..CheckOptions::default() };
    assert_eq!(check_key(&history, options), KeyVerdict::Undecided);
}
