//! Keys with a time to live: each key behaves as one register whose value ends, by slightly inaccurate
//! clocks.
//!
//! The rule is linearizability with a model that knows of ends. A value may be seen only if some order of the
//! operations leaves it in place and the read's machine may have shown a time up to its end. Nothing may be
//! seen only if some order has nothing there or the machine may have shown a time past the end. A value that
//! is certainly gone and reappears is a violation, whatever the cause.
//!
//! It does not claim that two machines agree within [`WALL_OFF_MS`] of an end.

mod model;

use super::Violation;
use super::search::{Found, search};
use crate::clock::WALL_OFF_MS;
use crate::workload::TimedOperation;
use model::Action;
use std::collections::BTreeMap;

/// How many configurations of one key are tried before the judge gives up on it.
const CONFIGURATIONS: usize = 30_000;
/// How far a machine's wall clock may be from the simulation's time, with the rounding to whole milliseconds.
const TOLERANCE_MS: u64 = WALL_OFF_MS + 1;
/// How many of a story's last operations before its break are shown.
const TOLD: usize = 60;

/// Judges the keys with a time to live. Returns how many were too hard to decide.
pub fn check_deadlines(history: &[TimedOperation]) -> Result<usize, Violation> {
    let mut keys: BTreeMap<&str, Vec<&TimedOperation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let mut undecided = 0;
    for (key, operations) in keys {
        let actions: Vec<_> = (0..operations.len()).map(|number| Action::new(&operations, number)).collect();
        match search(&actions, None, CONFIGURATIONS) {
            Found::Order => {}
            Found::GaveUp => undecided += 1,
            Found::Stuck { at, states } => {
                let at = operations[at];
                let what =
                    format!("key {key}: {at} cannot be, in any of {states}\n  {}", told(&operations, at));
                return Err(Violation::new("deadlines", what));
            }
        }
    }
    Ok(undecided)
}

/// The last operations on a key before an impossible one.
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
