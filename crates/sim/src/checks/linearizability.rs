//! Every key by itself behaves as one register; what a dead node took with it may be gone from then on.

use super::Violation;
use sidle_history::{CheckOptions, Operation, check};

/// How many orders are looked at for one key before the judge gives up on it.
const CONFIGURATIONS: usize = 300_000;

/// Judges a whole history. Returns how many keys were too hard to decide.
pub fn check_history(history: &[Operation]) -> Result<usize, Violation> {
    let options = CheckOptions { configurations_per_key: CONFIGURATIONS, explained_keys: 1 };
    let report = check(history, options);
    match report.failed_keys {
        0 => Ok(report.undecided.len()),
        _ => Err(Violation::new("linearizability", report.to_string())),
    }
}
