//! No acknowledged write is lost and no overwritten value reappears, judged by a few instants for each key.
//!
//! This is weaker than the search for an order, but fails with one line, at the instant of the answer. Two
//! answers are always impossible:
//! - a text that was overwritten or removed by an operation called after the write had returned, which itself
//!   had returned before the read was called: every text is written once;
//! - "absent" for a key that had a value, if no removal was called since, no removal's outcome is unknown,
//!   and no node with the key died.

use super::Violation;
use super::keys::ByKey;
use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_types::KeyHash;
use std::collections::{BTreeMap, VecDeque};

/// How many operations of each kind are remembered for a key.
const REMEMBERED: usize = 8;

/// The time during which an operation was under way.
#[derive(Clone, Copy, Debug)]
struct Span {
    call_ns: u64,
    return_ns: u64,
}

/// The acknowledged operations on one key.
#[derive(Debug, Default)]
struct Key {
    /// When the write of each text had returned.
    written: BTreeMap<KeyHash, u64>,
    /// The last that changed something.
    changes: VecDeque<Span>,
    /// The last that left a value, or saw one.
    present: VecDeque<Span>,
    /// When the last removal returned.
    removed_ns: Option<u64>,
    /// A removal may happen at any time, or has.
    may_be_gone: bool,
}

/// The acknowledged operations on every key.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    keys: ByKey<Key>,
}

impl Acknowledged {
    /// Takes in an ended operation. `is_removing`: whether one is under way that may remove the key.
    pub(super) fn hear(
        &mut self,
        operation: &Operation,
        is_removing: impl Fn(&str) -> bool,
    ) -> Result<(), Violation> {
        let key = self.keys.entry_ref(&operation.key).or_default();
        match (operation.outcome, operation.return_ns) {
            (Outcome::None, _) => {}
            (Outcome::Ok, Some(return_ns)) => {
                let span = Span { call_ns: operation.call_ns, return_ns };
                if let Some(why) = key.contradiction(operation, &is_removing) {
                    return Err(Violation::new("acknowledged", format!("{operation}: {why}")));
                }
                key.note(operation, span);
            }
            _ => key.may_be_gone |= removes(operation.op),
        }
        Ok(())
    }
}

impl Key {
    /// Why the answer is impossible, if so.
    fn contradiction(&self, operation: &Operation, is_removing: &impl Fn(&str) -> bool) -> Option<String> {
        let call_ns = operation.call_ns;
        if let Some(text) = seen_text(operation)
            && let Some(&written_ns) = self.written.get(&KeyHash::of_key(text.as_bytes()))
        {
            let is_between = |change: &&Span| change.call_ns > written_ns && change.return_ns < call_ns;
            let change = self.changes.iter().find(is_between)?;
            let Span { call_ns, return_ns } = change;
            return Some(format!(
                "its write had returned at {written_ns} ns, and the key was changed [{call_ns} ns .. {return_ns} ns]"
            ));
        }
        if !saw_nothing(operation) || self.may_be_gone {
            return None;
        }
        let before = self.present.iter().filter(|present| present.return_ns < call_ns);
        let last = before.max_by_key(|present| present.call_ns)?;
        let was_removed = self.removed_ns.is_some_and(|removed_ns| removed_ns >= last.call_ns);
        (!was_removed && !is_removing(&operation.key)).then(|| {
            format!("it had a value [{} ns .. {} ns], and nothing removed it", last.call_ns, last.return_ns)
        })
    }

    fn note(&mut self, operation: &Operation, span: Span) {
        if let (Op::Set | Op::SetNx | Op::GetSet, Datum::Text(text)) = (operation.op, &operation.arg)
            && changes(operation)
        {
            self.written.insert(KeyHash::of_key(text.as_bytes()), span.return_ns);
        }
        if changes(operation) {
            remember(&mut self.changes, span);
        }
        if leaves_or_saw_a_value(operation) {
            remember(&mut self.present, span);
        }
        if removes(operation.op) {
            self.removed_ns = self.removed_ns.max(Some(span.return_ns));
        }
    }
}

fn remember(spans: &mut VecDeque<Span>, span: Span) {
    if spans.len() == REMEMBERED {
        spans.pop_front();
    }
    spans.push_back(span);
}

/// Whether an operation of this kind may remove its key.
pub(super) fn removes(op: Op) -> bool {
    matches!(op, Op::Del | Op::GetDel | Op::Flush)
}

/// Whether the operation has certainly changed the key.
fn changes(operation: &Operation) -> bool {
    match operation.op {
        Op::Set | Op::GetSet | Op::Flush => true,
        Op::SetNx | Op::Del => operation.result == Datum::Integer(1),
        Op::GetDel => operation.result != Datum::Null,
        Op::Append => operation.arg != Datum::from(""),
        Op::Get | Op::IncrBy | Op::StrLen | Op::Exists => false,
    }
}

/// Whether the key certainly had a value at some instant of the operation, or at its end.
fn leaves_or_saw_a_value(operation: &Operation) -> bool {
    match operation.op {
        Op::Set | Op::SetNx | Op::GetSet | Op::Append => true,
        Op::IncrBy => matches!(operation.result, Datum::Integer(_)),
        Op::Get => operation.result != Datum::Null,
        Op::Exists => operation.result == Datum::Integer(1),
        Op::StrLen | Op::Del | Op::GetDel | Op::Flush => false,
    }
}

fn seen_text(operation: &Operation) -> Option<&str> {
    match (operation.op, &operation.result) {
        (Op::Get | Op::GetSet | Op::GetDel, Datum::Text(text)) => Some(text),
        _ => None,
    }
}

/// Whether the key was certainly absent at some instant of the operation.
fn saw_nothing(operation: &Operation) -> bool {
    match operation.op {
        Op::Get | Op::GetSet | Op::GetDel => operation.result == Datum::Null,
        Op::Exists | Op::Del => operation.result == Datum::Integer(0),
        Op::SetNx => operation.result == Datum::Integer(1),
        Op::Set | Op::Flush | Op::IncrBy | Op::Append | Op::StrLen => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::operation;

    fn hear_all(operations: &[Operation], is_removing: bool) -> Result<(), Violation> {
        let mut acknowledged = Acknowledged::default();
        operations.iter().try_for_each(|operation| acknowledged.hear(operation, |_| is_removing))
    }

    fn set(text: &str, call_ns: u64, return_ns: u64) -> Operation {
        operation(Op::Set, text.into(), "OK".into(), call_ns, Some(return_ns))
    }

    fn get(result: Datum, call_ns: u64) -> Operation {
        operation(Op::Get, Datum::Null, result, call_ns, Some(call_ns + 1))
    }

    #[test]
    fn a_lost_write_is_seen() {
        let lost = [set("a", 1, 2), get(Datum::Null, 5)];
        assert!(hear_all(&lost, false).is_err());
        assert_eq!(hear_all(&lost, true), Ok(()), "something is removing it");
        let late = [set("a", 1, 6), get(Datum::Null, 5)];
        assert_eq!(hear_all(&late, false), Ok(()), "the write had not returned");
        let unknown = operation(Op::Del, Datum::Null, Datum::Null, 0, None);
        assert_eq!(hear_all(&[unknown, set("a", 1, 2), get(Datum::Null, 5)], false), Ok(()));
        let removed = operation(Op::Del, Datum::Null, 0.into(), 0, Some(1));
        assert_eq!(hear_all(&[removed.clone(), set("a", 1, 2), get(Datum::Null, 5)], false), Ok(()));
        assert!(hear_all(&[removed, set("a", 3, 4), get(Datum::Null, 5)], false).is_err());
    }

    #[test]
    fn a_value_that_comes_back_is_seen() {
        let changes = [
            set("b", 3, 4),
            operation(Op::Del, Datum::Null, 1.into(), 3, Some(4)),
            operation(Op::Flush, Datum::Null, "OK".into(), 3, Some(4)),
            operation(Op::Append, "c".into(), 2.into(), 3, Some(4)),
        ];
        for change in changes {
            assert!(hear_all(&[set("a", 1, 2), change.clone(), get("a".into(), 5)], false).is_err());
            assert_eq!(hear_all(&[set("a", 1, 3), change.clone(), get("a".into(), 5)], false), Ok(()));
            assert_eq!(hear_all(&[set("a", 1, 2), change, get("a".into(), 4)], false), Ok(()));
        }
    }
}
