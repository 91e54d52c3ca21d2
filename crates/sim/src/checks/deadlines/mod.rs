//! Keys with a time to live: each by itself behaves as one register whose value ends, by clocks that are a
//! little off.
//!
//! The rule is linearizability with a model that knows of ends: a value may be seen only where some order of
//! the operations leaves it in place and the read's machine may have shown a time up to its end; nothing may
//! be seen only where some order has nothing there or the machine may have shown a time past the end. What is
//! gone for certain and comes back all the same is a violation, whatever brought it back.
//!
//! What is not claimed: that two machines agree within [`WALL_OFF_MS`] of an end.

mod model;
mod search;

use super::Violation;
use crate::clock::WALL_OFF_MS;
use crate::workload::TimedOperation;
use search::{Found, search};
use std::collections::BTreeMap;

/// How many configurations of one key are looked at before the judge gives up on it.
const CONFIGURATIONS: usize = 30_000;
/// What a machine's wall clock may differ by from the simulation's time, with what whole milliseconds cut
/// off.
const TOLERANCE_MS: u64 = WALL_OFF_MS + 1;
/// How much of a story is told: the last operations before it breaks.
const TOLD: usize = 60;

/// Judges the keys with a time to live. Returns how many were too hard to decide.
pub fn check_deadlines(history: &[TimedOperation]) -> Result<usize, Violation> {
    let mut keys: BTreeMap<&str, Vec<&TimedOperation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let mut undecided = 0;
    for (key, operations) in keys {
        match search(&operations, CONFIGURATIONS) {
            Found::Order => {}
            Found::GaveUp => undecided += 1,
            Found::Stuck { at, states } => {
                let what =
                    format!("key {key}: {at} cannot be, in any of {states}\n  {}", told(&operations, at));
                return Err(Violation::new("deadlines", what));
            }
        }
    }
    Ok(undecided)
}

/// The last operations on a key before one that cannot be.
fn told(operations: &[&TimedOperation], at: &TimedOperation) -> String {
    let until_us = at.return_us.unwrap_or(at.call_us);
    let mut story: Vec<&TimedOperation> = operations.to_vec();
    story.retain(|operation| operation.call_us <= until_us);
    story.sort_by_key(|operation| operation.call_us);
    let lines: Vec<String> =
        story.iter().skip(story.len().saturating_sub(TOLD)).map(ToString::to_string).collect();
    lines.join("\n  ")
}

#[cfg(test)]
mod tests;
