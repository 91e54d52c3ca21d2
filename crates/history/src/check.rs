//! The verdict over a whole history: each key by itself, since operations on different keys never conflict
//! and linearizability is local (Herlihy and Wing, theorem 1).

use crate::explain::{Explanation, explain};
use crate::search::{Call, Found, by_key, search};
use crate::{Operation, Outcome};
use sidle_types::words::{count, counted};

/// Bounds of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The most configurations visited for one key; each takes about 20 bytes.
    pub configurations_per_key: usize,
    /// How many failing keys are explained; the rest are only counted.
    pub explained_keys: usize,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { configurations_per_key: 10_000_000, explained_keys: 10 }
    }
}

/// The verdict on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyVerdict {
    /// Some order explains every operation.
    Linearizable,
    /// No order does.
    NotLinearizable(Box<Explanation>),
    /// Too many possible orders for the budget; no verdict.
    Undecided,
}

/// The verdict on a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many operations there were.
    pub operations: u64,
    /// How many of them are of unknown fate.
    pub unknown: u64,
    /// How many were refused and left out.
    pub refused: u64,
    /// How many keys there were.
    pub keys: u64,
    /// Keys that no order explains.
    pub failed_keys: u64,
    /// Explanations of the first of them.
    pub failures: Vec<Explanation>,
    /// Keys that were too hard to decide.
    pub undecided: Vec<String>,
}

impl Report {
    /// Whether every key is proved linearizable.
    pub const fn is_linearizable(&self) -> bool {
        self.failed_keys == 0 && self.undecided.is_empty()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        for key in &self.undecided {
            writeln!(f, "key \"{}\": too many possible orders, undecided", key.escape_debug())?;
        }
        let verdict = match (self.failed_keys, self.undecided.len()) {
            (0, 0) => "linearizable".to_owned(),
            (0, undecided) => format!("undecided: {}", counted(undecided, "key")),
            (failed, _) => format!("NOT linearizable: {}", counted(failed, "key")),
        };
        write!(
            f,
            "{} ({} of unknown fate, {} refused) on {}: {verdict}",
            counted(self.operations, "operation"),
            count(self.unknown),
            count(self.refused),
            counted(self.keys, "key")
        )
    }
}

/// Checks a history. Every key starts absent.
pub fn check(operations: &[Operation], options: CheckOptions) -> Report {
    let count = |outcome| operations.iter().filter(|operation| operation.outcome == outcome).count() as u64;
    let keys = by_key(operations);
    let mut report = Report {
        operations: operations.len() as u64,
        unknown: count(Outcome::Unknown),
        refused: count(Outcome::None),
        keys: keys.len() as u64,
        ..Report::default()
    };
    for (key, indexes) in keys {
        let calls = indexes.into_iter().filter_map(|index| Call::new(&operations[index], index)).collect();
        let explained = report.failures.len() < options.explained_keys;
        match verdict(operations, calls, options, explained) {
            KeyVerdict::Linearizable => {}
            KeyVerdict::Undecided => report.undecided.push(key.to_owned()),
            KeyVerdict::NotLinearizable(explanation) => {
                report.failed_keys += 1;
                if explained {
                    report.failures.push(*explanation);
                }
            }
        }
    }
    report
}

/// Checks operations that are all on one key, which starts absent.
///
/// # Panics
///
/// If the operations are on different keys.
pub fn check_key(operations: &[Operation], options: CheckOptions) -> KeyVerdict {
    assert!(operations.windows(2).all(|pair| pair[0].key == pair[1].key), "check_key takes one key");
    let calls =
        operations.iter().enumerate().filter_map(|(index, operation)| Call::new(operation, index)).collect();
    verdict(operations, calls, options, true)
}

fn verdict(operations: &[Operation], calls: Vec<Call>, options: CheckOptions, explained: bool) -> KeyVerdict {
    match search(&calls, options.configurations_per_key) {
        Found::Order => KeyVerdict::Linearizable,
        Found::GaveUp => KeyVerdict::Undecided,
        Found::Stuck { state, waiting } => {
            let explanation = explain(operations, calls, state, &waiting, explained);
            KeyVerdict::NotLinearizable(Box::new(explanation))
        }
    }
}
