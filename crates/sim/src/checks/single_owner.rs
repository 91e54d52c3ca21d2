//! M1: at most one node acknowledges writes for a position at any time. M20: of a range that is given bit by
//! bit, either a worker of the source keeps a position, or the target owns it.
//!
//! A process without a lease does not count (Y10): it answers nobody, and others may have taken over what it
//! had.

use super::Violation;
use crate::host::Host;
use sidle_node::Role;
use sidle_types::{Position, PositionRange};
use std::collections::BTreeSet;

/// Checks the range table of every worker of every live process.
pub(super) fn check(hosts: &[Host], now_us: u64) -> Result<(), Violation> {
    let mut served: Vec<(PositionRange, usize)> = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let Some(process) = host.process.as_ref().filter(|process| process.may_answer(now_us)) else {
            continue;
        };
        for worker in &process.workers {
            for entry in worker.worker.ranges().entries() {
                let acknowledges = match &entry.role {
                    Role::Owned => true,
                    // See below.
                    Role::Importing(view) => view.activated() && !view.is_by_cuts(),
                    Role::Exporting(_)
                    | Role::Elsewhere
                    | Role::Lost
                    | Role::TakingOver
                    | Role::Unreadable => false,
                };
                if acknowledges {
                    served.push((entry.range, number));
                }
            }
        }
    }
    served.sort_unstable_by_key(|(range, number)| (range.first(), range.last(), *number));
    let mut reach: Option<(Position, usize)> = None;
    for (range, number) in served {
        if let Some((last, other)) = reach
            && range.first() <= last
            && other != number
        {
            let what =
                format!("nodes {other} and {number} both acknowledge writes from {} on", range.first());
            return Err(Violation::new("single owner (M1)", what));
        }
        reach = Some(match reach {
            Some((last, other)) if last >= range.last() => (last, other),
            _ => (range.last(), number),
        });
    }
    Ok(())
}

/// Checks every position with a record anywhere, of ranges that are given bit by bit: at most one node acts
/// on it. That holds over the turn to a way back, too, while the two nodes use tables of two migrations.
pub(super) fn check_given(hosts: &[Host], now_us: u64) -> Result<(), Violation> {
    let live = || {
        let processes =
            hosts.iter().enumerate().filter_map(|(number, host)| Some((number, host.process.as_ref()?)));
        processes.filter(|(_, process)| process.may_answer(now_us))
    };
    let workers = || live().flat_map(|(number, process)| process.workers.iter().map(move |at| (number, at)));
    let ranges = workers().flat_map(|(_, worker)| worker.worker.ranges().entries().iter());
    let ranges = ranges.filter_map(|entry| match &entry.role {
        Role::Exporting(view) if view.is_by_cuts() => Some(entry.range),
        Role::Importing(view) if view.is_by_cuts() || view.gave_all() => Some(entry.range),
        _ => None,
    });
    let mut positions = BTreeSet::new();
    for range in ranges.collect::<BTreeSet<_>>() {
        for (_, process) in live() {
            process.parts.store.each_entry(range, &mut |record, _| {
                positions.insert(record.position());
            });
        }
    }
    for position in positions {
        let mut owner = None;
        for (number, worker) in workers() {
            let acts = match &worker.worker.ranges().entry_at(position).role {
                Role::Owned => true,
                Role::Importing(view) if view.is_by_cuts() => view.has_arrived(position),
                Role::Importing(view) => view.activated(),
                Role::Exporting(view) => view.keeps(position, worker.worker.exports_step()),
                Role::Elsewhere | Role::Lost | Role::TakingOver | Role::Unreadable => false,
            };
            if acts && owner.replace(number).is_some_and(|other| other != number) {
                let what = format!("another node acts on {position} than node {number}");
                return Err(Violation::new("single owner (M20)", what));
            }
        }
    }
    Ok(())
}
