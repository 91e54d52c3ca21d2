//! The names of a set, and the effect of an operation on them.
//!
//! Values are unique. One that nobody was told of stands for every other such: that it was there shows, and
//! not which it was. So the many writes of unknown fate are few different ones.

use crate::checks::search;
use crate::workload::{NAMES, NameOp, NameOperation, NameSaid};
use std::collections::BTreeMap;

/// The value of each name by its number, if it has one.
pub(super) type State = [Option<u32>; NAMES];

/// A value that nobody was told of.
const UNSEEN: u32 = 0;

/// An operation, ready to be applied.
pub(super) struct Action<'h> {
    pub(super) operation: &'h NameOperation,
    /// Its own value.
    value: u32,
    /// The values that it was told of.
    told: Vec<Option<u32>>,
}

impl<'h> Action<'h> {
    /// All operations of a set.
    pub(super) fn all(operations: &[&'h NameOperation]) -> Vec<Action<'h>> {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let values = |operation: &&'h NameOperation| match &operation.answer {
            Some((_, NameSaid::Values(values))) => values.as_slice(),
            _ => &[],
        };
        for value in operations.iter().flat_map(values).flatten() {
            let next = numbers.len() as u32 + 1;
            numbers.entry(value).or_insert(next);
        }
        let number = |value: &String| numbers.get(value.as_str()).copied().unwrap_or(UNSEEN);
        let action = |operation: &&'h NameOperation| Action {
            operation,
            value: if let NameOp::Set(_, value) = &operation.op { number(value) } else { UNSEEN },
            told: values(operation).iter().map(|value| value.as_ref().map(number)).collect(),
        };
        operations.iter().map(action).collect()
    }

    /// Whether the answer, if there is one, is this.
    fn may_say(&self, said: NameSaid) -> bool {
        self.operation.answer.as_ref().is_none_or(|(_, answer)| *answer == said)
    }

    /// The state afterwards, and the answer.
    fn effect(&self, state: &State) -> (State, NameSaid) {
        let mut then = *state;
        let said = match self.operation.op {
            NameOp::Set(name, _) => {
                then[name] = Some(self.value);
                NameSaid::Done
            }
            NameOp::Rename([from, _]) | NameOp::RenameNx([from, _]) if state[from].is_none() => {
                NameSaid::NoSuchKey
            }
            NameOp::RenameNx([_, to]) if state[to].is_some() => NameSaid::NotDone,
            NameOp::Rename([from, to]) | NameOp::RenameNx([from, to]) => {
                then[to] = then[from].take().or(state[to]);
                if from == to {
                    then = *state;
                }
                NameSaid::Done
            }
            NameOp::Copy { names: [from, to], replaces } => {
                let copies = state[from].is_some() && (replaces || state[to].is_none());
                if copies {
                    then[to] = state[from];
                }
                if copies { NameSaid::Done } else { NameSaid::NotDone }
            }
            NameOp::Delete(name) => match then[name].take() {
                Some(_) => NameSaid::Done,
                None => NameSaid::NotDone,
            },
            NameOp::Clear(name) => {
                then[name] = None;
                NameSaid::Done
            }
            NameOp::Get(_) | NameOp::Look => NameSaid::Done,
        };
        (then, said)
    }

    fn finds(&self, state: &State) -> bool {
        match self.operation.op {
            NameOp::Get(name) => self.told == [state[name]],
            _ => self.told == state,
        }
    }
}

impl search::Action for Action<'_> {
    type State = State;

    fn interval(&self) -> Option<(u64, Option<u64>)> {
        let returned_us = self.operation.answer.as_ref().map(|(us, _)| *us);
        let is_idle = self.is_read() && returned_us.is_none();
        (!is_idle).then_some((self.operation.call_us, returned_us))
    }

    fn is_read(&self) -> bool {
        let failed = matches!(&self.operation.answer, Some((_, NameSaid::NotDone | NameSaid::NoSuchKey)));
        failed || matches!(self.operation.op, NameOp::Get(_) | NameOp::Look)
    }

    fn same_effect(&self) -> Option<u32> {
        if self.operation.answer.is_some() {
            return None;
        }
        let pair = |[from, to]: [usize; 2]| (from * NAMES + to) as u32;
        match &self.operation.op {
            NameOp::Set(name, _) if self.value == UNSEEN => Some(*name as u32),
            NameOp::Delete(name) | NameOp::Clear(name) => Some(100 + *name as u32),
            NameOp::Rename(names) => Some(200 + pair(*names)),
            NameOp::RenameNx(names) => Some(300 + pair(*names)),
            NameOp::Copy { names, replaces } => Some(400 + 100 * u32::from(*replaces) + pair(*names)),
            NameOp::Set(..) | NameOp::Get(_) | NameOp::Look => None,
        }
    }

    fn apply(&self, state: &State, next: &mut Vec<State>) {
        if matches!(self.operation.op, NameOp::Get(_) | NameOp::Look) {
            next.extend(self.finds(state).then_some(*state));
            return;
        }
        let (then, said) = self.effect(state);
        next.extend(self.may_say(said).then_some(then));
    }
}
