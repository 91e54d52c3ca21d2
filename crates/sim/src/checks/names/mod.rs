//! Names: a value that is renamed is never under both names nor under none, and a copy is of one instant.
//!
//! The rule is linearizability of a set of names as one object, since a value moves between them.

mod model;

use super::Violation;
use super::search::{Found, search, told};
use crate::workload::NameOperation;
use model::Action;
use std::collections::BTreeMap;

/// How many configurations of one set are tried before the judge gives up on it.
const CONFIGURATIONS: usize = 100_000;

/// Judges all sets. Returns how many were too hard to decide.
pub fn check_names(history: &[NameOperation]) -> Result<usize, Violation> {
    let mut sets: BTreeMap<u64, Vec<&NameOperation>> = BTreeMap::new();
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
                let what = format!("names {set}: {at} cannot be, in any of {states}\n  {story}");
                return Err(Violation::new("names", what));
            }
        }
    }
    Ok(undecided)
}

#[cfg(test)]
mod tests;
