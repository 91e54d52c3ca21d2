//! Sorted sets and sets: each key behaves as one map from members to scores, in which members have their
//! order: by scores, and equal ones by name.
//!
//! The rule is linearizability with that map as the state. So a rank, a count and a range agree with the
//! members that they are of, and what is popped was the first, and is gone. A set is such a map without
//! scores.

mod model;

use super::Violation;
use super::search::{Found, search, told};
use crate::workload::MembersOperation;
use model::Action;
use std::collections::BTreeMap;

/// How many configurations of one key are tried before the judge gives up on it.
const CONFIGURATIONS: usize = 30_000;

/// Judges all keys. Returns how many were too hard to decide.
pub fn check_members(history: &[MembersOperation]) -> Result<usize, Violation> {
    let mut keys: BTreeMap<&str, Vec<&MembersOperation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let mut undecided = 0;
    for (key, operations) in keys {
        let actions: Vec<Action<'_>> = operations.iter().copied().map(Action).collect();
        match search(&actions, model::State::default(), CONFIGURATIONS) {
            Found::Order => {}
            Found::GaveUp => undecided += 1,
            Found::Stuck { at, states } => {
                let at = operations[at];
                let until_us = at.answer.as_ref().map_or(at.call_us, |(us, _)| *us);
                let story = told(&operations, |operation| operation.call_us, until_us);
                let what = format!("members of {key}: {at} cannot be, in any of {states}\n  {story}");
                return Err(Violation::new("members", what));
            }
        }
    }
    Ok(undecided)
}

#[cfg(test)]
mod tests;
