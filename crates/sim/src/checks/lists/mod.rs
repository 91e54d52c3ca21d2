//! Lists as queues: no item is delivered twice or before its push, none is lost, and each list keeps its
//! order.
//!
//! The rule is linearizability of a set of lists as one object, since an item moves between them, and a
//! client may wait for several. What a client was told while it waited counts from the second half of its
//! wait: an item that lay there longer was to be delivered.

mod model;

use super::Violation;
use super::search::{Found, search, told};
use crate::workload::ListOperation;
use model::Action;
use std::collections::BTreeMap;

/// How many configurations of one set are tried before the judge gives up on it.
const CONFIGURATIONS: usize = 100_000;

/// Judges all sets. Returns how many were too hard to decide.
pub fn check_lists(history: &[ListOperation]) -> Result<usize, Violation> {
    let mut sets: BTreeMap<u64, Vec<&ListOperation>> = BTreeMap::new();
    for operation in history {
        sets.entry(operation.set).or_default().push(operation);
    }
    let mut undecided = 0;
    for (set, operations) in sets {
        let actions = Action::all(&operations);
        match search(&actions, model::State::default(), CONFIGURATIONS) {
            Found::Order => {}
            Found::GaveUp => undecided += 1,
            Found::Stuck { at, states } => {
                let at = actions[at].operation;
                let until_us = at.answer.as_ref().map_or(at.call_us, |(us, _)| *us);
                let story = told(&operations, |operation| operation.call_us, until_us);
                let what = format!("lists {set}: {at} cannot be, in any of {states}\n  {story}");
                return Err(Violation::new("lists", what));
            }
        }
    }
    Ok(undecided)
}

#[cfg(test)]
mod tests;
