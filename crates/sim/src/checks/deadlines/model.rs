//! An operation's answer and result, by a clock that is known up to a tolerance.

use super::TOLERANCE_MS;
use crate::checks::search;
use crate::clock::WALL_START_MS;
use crate::workload::{Condition, NewEnd, TimedOp, TimedOperation, When};
use sidle_history::{Datum, Outcome};

/// A span of wall-clock instants, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    low: u64,
    high: u64,
}

impl Span {
    /// What the machine's clock may have shown when the operation took effect.
    fn of(operation: &TimedOperation) -> Span {
        let shown = |us: u64| WALL_START_MS + us / 1000;
        let high = operation.return_us.map_or(u64::MAX, |us| shown(us) + TOLERANCE_MS);
        Span { low: shown(operation.call_us) - TOLERANCE_MS, high }
    }

    fn plus(self, ms: u64) -> Span {
        Span { low: self.low.saturating_add(ms), high: self.high.saturating_add(ms) }
    }
}

/// A key with a value: the number of the operation that wrote it, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Present {
    pub(super) writer: u32,
    end: Option<Span>,
}

impl Present {
    fn may_live_at(&self, now: Span) -> bool {
        self.end.is_none_or(|end| now.low <= end.high)
    }

    fn may_be_over_at(&self, now: Span) -> bool {
        self.end.is_some_and(|end| end.low < now.high)
    }
}

/// A key's value, if any.
pub(super) type State = Option<Present>;

/// An operation on a key, ready to be applied.
pub(super) struct Action<'h> {
    pub(super) operation: &'h TimedOperation,
    number: u32,
    now: Span,
    /// The operations of the key, for the values that they wrote.
    all: &'h [&'h TimedOperation],
}

impl search::Action for Action<'_> {
    type State = State;

    fn interval(&self) -> Option<(u64, Option<u64>)> {
        let returned_us = self.operation.return_us.filter(|_| self.operation.outcome == Outcome::Ok);
        (self.operation.outcome != Outcome::None).then_some((self.operation.call_us, returned_us))
    }

    fn is_read(&self) -> bool {
        matches!(
            self.operation.op,
            TimedOp::Get
                | TimedOp::Exists
                | TimedOp::PTtl
                | TimedOp::PExpireTime
                | TimedOp::GetEx(NewEnd::AsBefore)
        )
    }

    /// Whatever may remove the key at any time or never, with no other effect.
    fn same_effect(&self) -> Option<u32> {
        let is_lost_removal = self.operation.outcome != Outcome::Ok
            && matches!(self.operation.op, TimedOp::Del | TimedOp::GetDel | TimedOp::Clear { .. });
        is_lost_removal.then_some(0)
    }

    fn apply(&self, &state: &State, next: &mut Vec<State>) {
        match state {
            None => self.see(state, None, next),
            Some(present) => {
                if present.may_live_at(self.now) {
                    self.see(state, Some(present), next);
                }
                if present.may_be_over_at(self.now) {
                    self.see(state, None, next);
                }
            }
        }
    }
}

impl<'h> Action<'h> {
    pub(super) fn new(all: &'h [&'h TimedOperation], number: usize) -> Action<'h> {
        let operation = all[number];
        Action { operation, number: number as u32, now: Span::of(operation), all }
    }

    /// The machine takes the key for `seen`; in `state` it may still have an expired value.
    fn see(&self, state: State, seen: State, next: &mut Vec<State>) {
        let is_there = i64::from(seen.is_some());
        let mut step = |answers: bool, then: State| {
            if answers && !next.contains(&then) {
                next.push(then);
            }
        };
        match &self.operation.op {
            TimedOp::Get => step(self.answers_value(seen), state),
            TimedOp::Exists => step(self.answers(is_there), state),
            TimedOp::PTtl => step(self.answers_end(seen, true), state),
            TimedOp::PExpireTime => step(self.answers_end(seen, false), state),
            TimedOp::Set { end, when, returns_old, .. } => {
                let writes = match when {
                    When::Always => true,
                    When::Absent => seen.is_none(),
                    When::Present => seen.is_some(),
                };
                let answers = match (returns_old, writes) {
                    (true, _) => self.answers_value(seen),
                    (false, true) => self.is_answered(&Datum::from("OK")),
                    (false, false) => self.is_answered(&Datum::Null),
                };
                let end = match end {
                    NewEnd::AsBefore => seen.and_then(|present| present.end),
                    end => self.new_end(*end),
                };
                step(answers, if writes { Some(Present { writer: self.number, end }) } else { state });
            }
            TimedOp::Expire(end, condition) => match seen {
                None => step(self.answers(0), state),
                Some(present) => {
                    let end = self.new_end(*end);
                    let (may, may_not) = allows(*condition, present.end, end);
                    step(may && self.answers(1), Some(Present { end, ..present }));
                    step(may_not && self.answers(0), state);
                }
            },
            TimedOp::Persist => match seen {
                Some(present) if present.end.is_some() => {
                    step(self.answers(1), Some(Present { end: None, ..present }));
                }
                _ => step(self.answers(0), state),
            },
            TimedOp::GetEx(end) => {
                let then = match (seen, end) {
                    (None, _) | (_, NewEnd::AsBefore) => state,
                    (Some(present), end) => Some(Present { end: self.new_end(*end), ..present }),
                };
                step(self.answers_value(seen), then);
            }
            TimedOp::Del => step(self.answers(is_there), None),
            TimedOp::GetDel => step(self.answers_value(seen), None),
            TimedOp::Clear { is_certain } => {
                step(true, None);
                step(!is_certain, state);
            }
        }
    }

    fn new_end(&self, end: NewEnd) -> Option<Span> {
        match end {
            NewEnd::Never | NewEnd::AsBefore => None,
            NewEnd::In(ms) => Some(self.now.plus(ms)),
            NewEnd::At(ms) => Some(Span { low: ms, high: ms }),
        }
    }

    fn is_answered(&self, result: &Datum) -> bool {
        self.operation.outcome != Outcome::Ok || self.operation.result == *result
    }

    fn answers(&self, number: i64) -> bool {
        self.is_answered(&Datum::Integer(number))
    }

    fn answers_value(&self, seen: State) -> bool {
        if self.operation.outcome != Outcome::Ok {
            return true;
        }
        match (seen, &self.operation.result) {
            (None, result) => *result == Datum::Null,
            (Some(present), Datum::Text(text)) => self.value_of(present.writer) == text,
            (Some(_), _) => false,
        }
    }

    fn value_of(&self, writer: u32) -> &str {
        match &self.all[writer as usize].op {
            TimedOp::Set { value, .. } => value,
            other => unreachable!("{other:?} writes no value"),
        }
    }

    /// Whether the end, or the time left until then, may be the answer.
    fn answers_end(&self, seen: State, is_left: bool) -> bool {
        if self.operation.outcome != Outcome::Ok {
            return true;
        }
        let Datum::Integer(answer) = self.operation.result else { return false };
        match seen {
            None => answer == -2,
            Some(Present { end: None, .. }) => answer == -1,
            Some(Present { end: Some(end), .. }) => {
                let Ok(answer) = u64::try_from(answer) else { return false };
                let told = match is_left {
                    true => self.now.plus(answer),
                    false => Span { low: answer, high: answer },
                };
                told.low <= end.high && end.low <= told.high
            }
        }
    }
}

/// Whether a new end may be accepted under this condition, and whether it may be refused.
fn allows(condition: Condition, old: Option<Span>, new: Option<Span>) -> (bool, bool) {
    let certainly = |holds: bool| (holds, !holds);
    match (condition, old, new) {
        (Condition::Always, _, _) => certainly(true),
        (Condition::Endless, old, _) => certainly(old.is_none()),
        (Condition::Ending, old, _) => certainly(old.is_some()),
        (Condition::Later, Some(old), Some(new)) => (new.high > old.low, new.low <= old.high),
        (Condition::Earlier, Some(old), Some(new)) => (new.low < old.high, new.high >= old.low),
        (Condition::Later, None, _) => certainly(false),
        (Condition::Earlier, None, _) => certainly(true),
        (Condition::Later, Some(_), None) => certainly(true),
        (Condition::Earlier, Some(_), None) => certainly(false),
    }
}
