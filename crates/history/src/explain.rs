//! Why a key's operations have no order: the smallest set of operations that fails.
//!
//! A failing history is first cut to its shortest failing prefix. Operations that return later become
//! operations of unknown fate, and those called later are dropped: both can only make an order easier to
//! find. Then operations are left out while the rest still fails. Two kinds can go: reads (a good history
//! without a read stays good), and plain writes whose value nobody read and that left no trace.

use crate::model::State;
use crate::search::{Call, Found, search};
use crate::{Datum, Op, Operation, Outcome};

/// Configurations per search while shrinking, and the most searches.
const SHRINK_CONFIGURATIONS: usize = 200_000;
const SHRINK_SEARCHES: usize = 400;
const SHOWN_OPERATIONS: usize = 16;

/// The kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A value was read that no operation wrote, not even one of unknown fate.
    ValueNobodyWrote(Datum),
    /// A value was read that only refused operations tried to write.
    ValueRefused(Datum),
    /// A value was read before any write of it was called.
    ValueFromTheFuture(Datum),
    /// Every value has a writer, but no order of the operations fits: a lost, stale or repeated effect.
    NoOrder,
}

/// Why a key's operations have no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The key.
    pub key: String,
    /// What kind of failure it is.
    pub reason: Reason,
    /// The operation that cannot be placed: the first whose return makes the history fail, if there is one.
    pub culprit: Option<Operation>,
    /// The operations that make up the contradiction, in order of their calls.
    pub operations: Vec<Operation>,
    /// How many more operations were omitted.
    pub left_out: usize,
    /// The key's state where the longest possible order ends, in words.
    pub stuck_at: String,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key \"{}\": ", self.key.escape_debug())?;
        match &self.reason {
            Reason::ValueNobodyWrote(value) => writeln!(f, "nobody wrote {value}")?,
            Reason::ValueRefused(value) => writeln!(f, "{value} was read, but its writes were refused")?,
            Reason::ValueFromTheFuture(value) => writeln!(f, "{value} was read before its write was called")?,
            Reason::NoOrder => writeln!(f, "no order of its operations fits")?,
        }
        if let Some(culprit) = &self.culprit {
            writeln!(f, "  cannot be placed: {culprit}")?;
        }
        writeln!(f, "  the longest order that fits ends with the key {}", self.stuck_at)?;
        for operation in &self.operations {
            writeln!(f, "    {operation}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "    ... and {} more", self.left_out)?;
        }
        Ok(())
    }
}

/// Explains a failed search over `calls`; `shrink` seeks the fewest operations, which takes many searches.
pub(crate) fn explain(
    operations: &[Operation],
    calls: Vec<Call>,
    state: State,
    waiting: &[usize],
    shrink: bool,
) -> Explanation {
    let key = calls.first().map(|call| operations[call.source].key.clone()).unwrap_or_default();
    let mut explanation = Explanation {
        key,
        reason: Reason::NoOrder,
        culprit: None,
        operations: Vec::new(),
        left_out: 0,
        stuck_at: describe(state, &calls, operations),
    };
    if let Some((culprit, reason)) = impossible_value(operations, &calls) {
        explanation.operations = writers_of(operations, &calls[culprit]);
        explanation.operations.push(operations[calls[culprit].source].clone());
        explanation.culprit = Some(operations[calls[culprit].source].clone());
        explanation.reason = reason;
        return explanation;
    }
    if !shrink {
        explanation.operations = waiting
            .iter()
            .take(SHOWN_OPERATIONS)
            .map(|&index| operations[calls[index].source].clone())
            .collect();
        explanation.left_out = waiting.len().saturating_sub(SHOWN_OPERATIONS);
        return explanation;
    }
    let shrunk = leave_out(shortest_prefix(calls));
    if let Found::Stuck { state, .. } = search(&shrunk, SHRINK_CONFIGURATIONS) {
        explanation.stuck_at = describe(state, &shrunk, operations);
    }
    let culprit = shrunk.iter().filter(|call| call.reply.is_some()).max_by_key(|call| call.return_ns);
    explanation.culprit = culprit.map(|call| operations[call.source].clone());
    let mut shown: Vec<&Call> = shrunk.iter().collect();
    let sought = culprit.and_then(Call::observed_value);
    shown.sort_by_key(|call| {
        let wrote_it = sought.is_some() && call.written_value() == sought;
        std::cmp::Reverse((wrote_it, call.reply.is_some(), call.return_ns))
    });
    explanation.left_out = shown.len().saturating_sub(SHOWN_OPERATIONS);
    shown.truncate(SHOWN_OPERATIONS);
    shown.sort_by_key(|call| call.call_ns);
    explanation.operations = shown.into_iter().map(|call| operations[call.source].clone()).collect();
    explanation
}

/// A read whose value is impossible in any order. Keys with `append` or `incrby` are skipped: their values
/// are in no argument.
fn impossible_value(operations: &[Operation], calls: &[Call]) -> Option<(usize, Reason)> {
    if calls.iter().any(|call| matches!(call.action.op, Op::Append | Op::IncrBy)) {
        return None;
    }
    let mut first_written: std::collections::BTreeMap<State, u64> = std::collections::BTreeMap::new();
    for call in calls {
        if let Some(value) = call.written_value() {
            let first = first_written.entry(value).or_insert(call.call_ns);
            *first = (*first).min(call.call_ns);
        }
    }
    let mut reads: Vec<usize> =
        (0..calls.len()).filter(|&index| calls[index].observed_value().is_some()).collect();
    reads.sort_by_key(|&index| calls[index].return_ns);
    reads.into_iter().find_map(|index| {
        let call = &calls[index];
        let value = operations[call.source].result.clone();
        let written = first_written.get(&call.observed_value()?);
        match written {
            Some(&call_ns) if call_ns <= call.return_ns => None,
            Some(_) => Some((index, Reason::ValueFromTheFuture(value))),
            None if writers_of(operations, call).is_empty() => Some((index, Reason::ValueNobodyWrote(value))),
            None => Some((index, Reason::ValueRefused(value))),
        }
    })
}

/// The operations of the key, refused ones included, that tried to write the value that `read` saw.
fn writers_of(operations: &[Operation], read: &Call) -> Vec<Operation> {
    let seen = &operations[read.source];
    let writes = |operation: &&Operation| {
        operation.key == seen.key
            && Call::new(&Operation { outcome: Outcome::Unknown, return_ns: None, ..(*operation).clone() }, 0)
                .and_then(|call| call.written_value())
                .is_some_and(|value| Some(value) == read.observed_value())
    };
    operations.iter().filter(writes).take(SHOWN_OPERATIONS).cloned().collect()
}

fn fails(calls: &[Call]) -> bool {
    matches!(search(calls, SHRINK_CONFIGURATIONS), Found::Stuck { .. })
}

/// The history up to the first `count` returns (in order of time).
fn prefix(calls: &[Call], returns: &[u64], count: usize) -> Vec<Call> {
    let end = returns[count - 1];
    calls
        .iter()
        .filter(|call| call.call_ns <= end)
        .filter_map(|call| {
            let mut call = call.clone();
            if call.return_ns > end {
                if call.action.op.is_read() {
                    return None;
                }
                call.reply = None;
                call.return_ns = u64::MAX;
            }
            Some(call)
        })
        .collect()
}

fn shortest_prefix(calls: Vec<Call>) -> Vec<Call> {
    let mut returns: Vec<u64> =
        calls.iter().filter(|call| call.reply.is_some()).map(|call| call.return_ns).collect();
    returns.sort_unstable();
    returns.dedup();
    let (mut good, mut bad) = (0, returns.len());
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        if fails(&prefix(&calls, &returns, middle)) {
            bad = middle;
        } else {
            good = middle;
        }
    }
    let shortest = prefix(&calls, &returns, bad.max(1));
    if fails(&shortest) { shortest } else { calls }
}

/// Removes calls that the contradiction does not need: halves first, then smaller pieces.
fn leave_out(mut calls: Vec<Call>) -> Vec<Call> {
    let mut searches = 0;
    let mut piece = calls.len().div_ceil(2);
    loop {
        let mut from = 0;
        let mut shrank = false;
        while from < calls.len() && searches < SHRINK_SEARCHES {
            let last = (from + piece).min(calls.len());
            let removable = removable(&calls, from..last);
            if removable.iter().any(|&remove| remove) {
                let kept: Vec<Call> = calls
                    .iter()
                    .zip(&removable)
                    .filter(|&(_, &remove)| !remove)
                    .map(|(call, _)| call.clone())
                    .collect();
                searches += 1;
                if fails(&kept) {
                    from += piece - removable.iter().filter(|&&remove| remove).count().min(piece);
                    calls = kept;
                    shrank = true;
                    continue;
                }
            }
            from = last;
        }
        if searches >= SHRINK_SEARCHES || (piece == 1 && !shrank) {
            return calls;
        }
        piece = (piece / 2).max(1);
    }
}

/// Which calls of a piece can be removed without making a good history bad.
fn removable(calls: &[Call], piece: std::ops::Range<usize>) -> Vec<bool> {
    let senses_presence = |call: &Call| {
        call.reply.is_some()
            && !matches!(call.action.op, Op::Get | Op::Set | Op::GetSet | Op::GetDel | Op::Flush)
    };
    let presence_matters = calls.iter().any(senses_presence);
    let is_seen = |value: State| calls.iter().any(|call| call.observed_value() == Some(value));
    calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            piece.contains(&index)
                && (call.action.op.is_read()
                    || (call.action.op == Op::Set
                        && !presence_matters
                        && call.written_value().is_some_and(|value| !is_seen(value))))
        })
        .collect()
}

/// A state in words: its value as an operation wrote it.
fn describe(state: State, calls: &[Call], operations: &[Operation]) -> String {
    if state == State::Absent {
        return "absent".to_owned();
    }
    let spelt = calls.iter().find_map(|call| {
        let operation = &operations[call.source];
        if call.written_value() == Some(state) {
            Some(operation.arg.to_string())
        } else if call.observed_value() == Some(state) {
            Some(operation.result.to_string())
        } else {
            None
        }
    });
    spelt.map_or_else(|| "at a value that was never read".to_owned(), |value| format!("at {value}"))
}
