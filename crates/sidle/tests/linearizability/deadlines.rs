//! Keys with a time to live: one client writes them all, others read them, and a simple rule judges.
//!
//! Each value is written once and holds its own time to live. Since each key has one writer, a read may see
//! the last value written before it, or one written while it lasted. The rule:
//! - a value is seen only by reads that began before its deadline, and a margin;
//! - nothing is seen only while no value is certain to live: before its deadline, less the margin, and not
//!   deleted;
//! - a value that a read found gone, or replaced, is not seen by later reads: nothing is resurrected.

use crate::clients::{Plain, connect, request, runtime};
use crate::recording::{Run, begun, ended};
use sidle_client::Awareness;
use sidle_history::{Datum, Op, Operation, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// The difference allowed for clocks, and for the time between two readings of them.
const MARGIN_NS: u64 = 100_000_000;
const KEYS: u64 = 6;
const WRITER: u64 = 200;
const READERS: u64 = 2;

/// The keys with a time to live.
pub(crate) struct Keys(Vec<String>);

impl Keys {
    /// Half of them in the slot of the tag.
    pub(crate) fn new(tag: &str) -> Keys {
        let name = |number: u64| match number.is_multiple_of(2) {
            true => format!("timed{number}"),
            false => format!("{tag}timed{number}"),
        };
        Keys((0..KEYS).map(name).collect())
    }
}

fn words(operation: &Operation, ttl_ms: u64) -> Vec<String> {
    let name = operation.op.name().to_uppercase();
    match &operation.arg {
        Datum::Text(value) => {
            vec![name, operation.key.clone(), value.clone(), "PX".to_owned(), ttl_ms.to_string()]
        }
        _ => vec![name, operation.key.clone()],
    }
}

/// Writes, and reads now and then, over plain connections until the run is over.
pub(crate) fn write_and_read(run: &Run, keys: &Keys, addresses: &[String]) -> Vec<Operation> {
    let mut plain = Plain::new(&addresses[0]);
    let mut random = run.random(WRITER);
    let mut history = Vec::new();
    for serial in 0.. {
        if run.is_over() {
            break;
        }
        let key = keys.0[random.below(KEYS) as usize].clone();
        // Shorter than a migration, about as long, and longer.
        let ttl_ms = [5, 20, 60, 150, 400][random.below(5) as usize] + random.below(10);
        let (op, arg) = match random.below(8) {
            0 => (Op::Del, Datum::Null),
            1..4 => (Op::Get, Datum::Null),
            _ => (Op::Set, Datum::Text(format!("{serial} for {ttl_ms} ms"))),
        };
        let operation = begun(run, WRITER, op, key, arg);
        let answer = plain.request(run, &words(&operation, ttl_ms));
        history.push(ended(run, operation, answer));
        std::thread::sleep(Duration::from_millis(random.below(8)));
    }
    history
}

/// Reads with the library, aware and not, until the run is over.
pub(crate) fn read_aware(run: &Run, keys: &Keys, addresses: &[String]) -> Vec<Operation> {
    runtime().block_on(async {
        let mut clients = Vec::new();
        for awareness in [Awareness::Sidle, Awareness::Plain] {
            clients.push(connect(addresses, awareness, 1).await);
        }
        let mut random = run.random(WRITER + READERS);
        let mut history = Vec::new();
        while !run.is_over() {
            let number = random.below(READERS);
            let key = keys.0[random.below(KEYS) as usize].clone();
            let operation = begun(run, WRITER + 1 + number, Op::Get, key, Datum::Null);
            let answer = request(&clients[number as usize], &words(&operation, 0)).await;
            history.push(ended(run, operation, answer));
            if random.below(4) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        history
    })
}

/// A write of one key.
struct Write<'h> {
    value: Option<&'h str>,
    call_ns: u64,
    return_ns: u64,
    ttl_ns: u64,
}

impl<'h> Write<'h> {
    fn of(operation: &'h Operation) -> Write<'h> {
        let value = match &operation.arg {
            Datum::Text(value) => Some(value.as_str()),
            _ => None,
        };
        let ttl_ms = value.map_or(0, |value| {
            value
                .split(' ')
                .nth(2)
                .and_then(|word| word.parse::<u64>().ok())
                .expect("a value says how long it lives")
        });
        let ttl_ns = ttl_ms * 1_000_000;
        let return_ns = operation.return_ns.unwrap_or(u64::MAX);
        Write { value, call_ns: operation.call_ns, return_ns, ttl_ns }
    }

    /// Whether the key may be without a value, with this write as the last, at some time until then.
    fn may_be_gone_by(&self, at_ns: u64) -> bool {
        self.value.is_none() || at_ns + MARGIN_NS >= self.call_ns + self.ttl_ns
    }
}

/// Checks a history of keys with a time to live; returns what breaks the rule.
pub(crate) fn judge(history: &[Operation]) -> Result<(), String> {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.outcome == Outcome::Ok) {
        keys.entry(&operation.key).or_default().push(operation);
    }
    keys.into_iter()
        .try_for_each(|(key, operations)| judge_key(&operations).map_err(|why| format!("key {key}: {why}")))
}

fn judge_key(operations: &[&Operation]) -> Result<(), String> {
    let writes: Vec<Write<'_>> = operations
        .iter()
        .filter(|operation| matches!(operation.op, Op::Set | Op::Del))
        .map(|operation| Write::of(operation))
        .collect();
    assert!(writes.is_sorted_by_key(|write| write.call_ns), "each key has one writer");
    let mut reads: Vec<&Operation> =
        operations.iter().copied().filter(|operation| operation.op == Op::Get).collect();
    reads.sort_by_key(|read| read.call_ns);
    // Reads that have returned, each with the first write that all later reads must see, or a later
    // one.
    let mut proofs: Vec<(u64, usize)> = Vec::new();
    for read in reads {
        let return_ns = read.return_ns.expect("it was answered");
        // The last write when the read began, and the writes that may have run while it lasted.
        let first = writes.partition_point(|write| write.return_ns < read.call_ns).saturating_sub(1);
        let end = writes.partition_point(|write| write.call_ns <= return_ns);
        let possible = &writes[first.min(end)..end];
        let least = proofs.iter().filter(|proof| proof.0 < read.call_ns).map(|proof| proof.1).max();
        match &read.result {
            Datum::Text(value) => {
                let seen = possible.iter().position(|write| write.value == Some(value));
                let seen = first + seen.ok_or_else(|| format!("{read}: not what was written last"))?;
                let write = &writes[seen];
                if read.call_ns > write.return_ns.saturating_add(write.ttl_ns + MARGIN_NS) {
                    return Err(format!("{read}: seen after its deadline"));
                }
                if least.is_some_and(|least| seen < least) {
                    return Err(format!("{read}: resurrected"));
                }
                proofs.push((return_ns, seen));
            }
            Datum::Null => {
                let is_new = writes.first().is_none_or(|first| first.return_ns >= read.call_ns);
                if !is_new && !possible.iter().any(|write| write.may_be_gone_by(return_ns)) {
                    return Err(format!("{read}: nothing, though a value lives"));
                }
                // The key had no value at some time after these had returned: they are gone for good.
                proofs.push((return_ns, writes.partition_point(|write| write.return_ns < read.call_ns)));
            }
            other => return Err(format!("{read}: {other}")),
        }
        if proofs.len() > 1_000 {
            let best = proofs.iter().filter(|proof| proof.0 < read.call_ns).map(|proof| proof.1).max();
            proofs.retain(|proof| proof.0 >= read.call_ns);
            proofs.extend(best.map(|best| (0, best)));
        }
    }
    Ok(())
}

#[test]
fn the_rule_sees_each_breach() {
    let at = |op, arg: Datum, result: Datum, call_ms: u64| Operation {
        result,
        return_ns: Some(call_ms * 1_000_000 + 1_000),
        outcome: Outcome::Ok,
        ..Operation::begun(1, op, "k", arg, call_ms * 1_000_000)
    };
    let set = |value: &str, ms| at(Op::Set, value.into(), "OK".into(), ms);
    let saw = |value: &str, ms| at(Op::Get, Datum::Null, value.into(), ms);
    let nothing = |ms| at(Op::Get, Datum::Null, Datum::Null, ms);
    let (a, b) = ("1 for 200 ms", "2 for 1000 ms");
    assert_eq!(judge(&[nothing(0), set(a, 1), saw(a, 100), nothing(250), set(b, 300), saw(b, 400)]), Ok(()));
    for (history, why) in [
        (vec![set(a, 1), saw(a, 350)], "seen after its deadline"),
        (vec![set(b, 1), nothing(500)], "nothing, though a value lives"),
        (vec![set(a, 1), nothing(190), saw(a, 195)], "resurrected"),
        (vec![set(b, 1), at(Op::Del, Datum::Null, 1.into(), 2), saw(b, 3)], "not what was written last"),
        (vec![set(a, 1), set(b, 2), saw(a, 3)], "not what was written last"),
    ] {
        let verdict = judge(&history).expect_err(why);
        assert!(verdict.ends_with(why), "{verdict}");
    }
}
