//! The lists of a set, and the effect of an operation on them.
//!
//! Operations without an answer could be anywhere in the order. Three rules leave out what cannot matter, for
//! items are unique:
//! - a push without an answer counts only if its item was seen: an order in which it happened, and its item
//!   was taken unseen, is one without both;
//! - what has no answer takes an item for good only if nobody is told of that item later;
//! - what may have removed everything did so only where nobody is told later of any of it.

use crate::checks::search;
use crate::workload::{End, LISTS, ListOp, ListOperation, Said};
use std::collections::{BTreeMap, BTreeSet};

/// The items of each list, by their numbers.
pub(super) type State = [Vec<u32>; LISTS];

/// An operation, ready to be applied.
pub(super) struct Action<'h> {
    pub(super) operation: &'h ListOperation,
    /// Its own item.
    item: u32,
    /// The items that it was told of.
    told: Vec<u32>,
    /// It has no answer, and no effect that matters.
    is_idle: bool,
    items: std::rc::Rc<Items>,
}

/// What is known of all items.
#[derive(Debug, Default)]
struct Items {
    numbers: BTreeMap<String, u32>,
    /// Those that were delivered for good, or are there at the end.
    kept: BTreeSet<u32>,
}

impl Items {
    fn number(&mut self, item: &str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(item.to_owned()).or_insert(next)
    }
}

impl<'h> Action<'h> {
    /// All operations of a set.
    pub(super) fn all(operations: &[&'h ListOperation]) -> Vec<Action<'h>> {
        let mut items = Items::default();
        let mut seen = BTreeSet::new();
        let mut last_looks: BTreeMap<usize, (u64, Vec<u32>)> = BTreeMap::new();
        let mut drafts = Vec::new();
        for &operation in operations {
            let own = match &operation.op {
                ListOp::Push(_, _, item) | ListOp::Through(_, _, item) => items.number(item),
                _ => 0,
            };
            let told: Vec<u32> = match operation.answer.as_ref().map(|(_, said)| said) {
                Some(Said::Item(_, item)) => vec![items.number(item)],
                Some(Said::Items(all)) => all.iter().map(|item| items.number(item)).collect(),
                _ => Vec::new(),
            };
            seen.extend(told.iter().copied());
            match &operation.op {
                ListOp::Pop(..) => items.kept.extend(told.iter().copied()),
                ListOp::Look(list) if operation.answer.is_some() => {
                    let last = last_looks.entry(*list).or_default();
                    if last.0 <= operation.call_us {
                        *last = (operation.call_us, told.clone());
                    }
                }
                _ => {}
            }
            drafts.push((operation, own, told));
        }
        items.kept.extend(last_looks.into_values().flat_map(|(_, told)| told));
        let items = std::rc::Rc::new(items);
        let action = |(operation, item, told): (&'h ListOperation, u32, Vec<u32>)| {
            let is_idle = operation.answer.is_none()
                && match operation.op {
                    ListOp::Push(..) => !seen.contains(&item),
                    ListOp::Through(..) | ListOp::Look(_) => true,
                    ListOp::Pop(..) | ListOp::Move(..) | ListOp::Clear(_) => false,
                };
            Action { operation, item, told, is_idle, items: std::rc::Rc::clone(&items) }
        };
        drafts.into_iter().map(action).collect()
    }

    /// Whether the answer, if there is one, names this item of this list.
    fn may_take(&self, list: usize, item: u32) -> bool {
        match &self.operation.answer {
            Some((_, Said::Item(from, _))) => *from == list && self.told == [item],
            Some(_) => false,
            None => true,
        }
    }

    /// Whether the answer, if there is one, is that there was nothing.
    fn may_find_nothing(&self) -> bool {
        !matches!(&self.operation.answer, Some((_, said)) if *said != Said::Nothing)
    }

    fn pop(&self, lists: &[usize], end: End, state: &State) -> Option<State> {
        let Some(&list) = lists.iter().find(|&&list| !state[list].is_empty()) else {
            return self.may_find_nothing().then(|| state.clone());
        };
        let mut then = state.clone();
        let item = take(&mut then[list], end)?;
        let is_unseen = self.operation.answer.is_some() || !self.items.kept.contains(&item);
        (self.may_take(list, item) && is_unseen).then_some(then)
    }

    fn move_one(&self, [from, to]: [usize; 2], ends: [End; 2], state: &State) -> Option<State> {
        let mut then = state.clone();
        let Some(item) = take(&mut then[from], ends[0]) else {
            return self.may_find_nothing().then_some(then);
        };
        put(&mut then[to], ends[1], item);
        self.may_take(from, item).then_some(then)
    }

    fn clear(&self, list: usize, state: &State) -> Option<State> {
        let mut then = state.clone();
        let gone = std::mem::take(&mut then[list]);
        let is_certain = self.operation.answer.is_some();
        (is_certain || gone.iter().all(|item| !self.items.kept.contains(item))).then_some(then)
    }
}

impl search::Action for Action<'_> {
    type State = State;

    fn interval(&self) -> Option<(u64, Option<u64>)> {
        let returned_us = self.operation.answer.as_ref().map(|(us, _)| *us);
        (!self.is_idle).then_some((self.operation.call_us, returned_us))
    }

    fn over_us(&self) -> Option<u64> {
        self.operation.over_us
    }

    fn is_read(&self) -> bool {
        let finds_nothing = matches!(&self.operation.answer, Some((_, Said::Nothing)));
        finds_nothing || matches!(self.operation.op, ListOp::Look(_) | ListOp::Through(..))
    }

    fn same_effect(&self) -> Option<u32> {
        if self.operation.answer.is_some() {
            return None;
        }
        let end = |end: End| u32::from(end == End::Right);
        match &self.operation.op {
            ListOp::Clear(list) => Some(*list as u32),
            ListOp::Pop(lists, side) => {
                let all = lists.iter().fold(1, |all, list| all * 4 + *list as u32);
                Some(1_000 + all * 2 + end(*side))
            }
            ListOp::Move([from, to], [first, last]) => {
                Some(1_000_000 + (*from * 8 + *to * 4) as u32 + end(*first) * 2 + end(*last))
            }
            ListOp::Push(..) | ListOp::Through(..) | ListOp::Look(_) => None,
        }
    }

    fn apply(&self, state: &State, next: &mut Vec<State>) {
        let then = match &self.operation.op {
            ListOp::Push(list, end, _) => {
                let mut then = state.clone();
                put(&mut then[*list], *end, self.item);
                Some(then)
            }
            ListOp::Pop(lists, end) => self.pop(lists, *end, state),
            ListOp::Move(lists, ends) => self.move_one(*lists, *ends, state),
            ListOp::Through(..) => Some(state.clone()),
            ListOp::Look(list) => (state[*list] == self.told).then(|| state.clone()),
            ListOp::Clear(list) => self.clear(*list, state),
        };
        next.extend(then);
    }
}

fn take(list: &mut Vec<u32>, end: End) -> Option<u32> {
    match end {
        End::Left => (!list.is_empty()).then(|| list.remove(0)),
        End::Right => list.pop(),
    }
}

fn put(list: &mut Vec<u32>, end: End, item: u32) {
    match end {
        End::Left => list.insert(0, item),
        End::Right => list.push(item),
    }
}
