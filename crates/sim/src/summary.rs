//! A simulation's results.

use crate::checks::Violation;
use std::collections::BTreeMap;

/// A simulation's results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Two runs of a seed have the same.
    pub digest: u64,
    /// How many nodes the cluster had.
    pub nodes: usize,
    /// How many events there were.
    pub events: u64,
    /// How long it lasted, on its own clock.
    pub simulated_us: u64,
    /// Operations that clients recorded.
    pub operations: u64,
    /// Operations that were answered.
    pub answered: u64,
    /// Migrations that were started.
    pub migrations: u64,
    /// How many faults occurred.
    pub troubles: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Keys whose histories were too hard to decide.
    pub undecided: usize,
    /// How often each situation was met that simulations exist for.
    pub met: BTreeMap<&'static str, u64>,
}

/// A simulation that found a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, on its own clock.
    pub at_us: u64,
    /// What was found.
    pub violation: Violation,
}
