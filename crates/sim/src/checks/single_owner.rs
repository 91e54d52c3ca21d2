//! M1: at most one node acknowledges writes for a position at any time.

use super::Violation;
use crate::host::Host;
use sidle_node::Role;
use sidle_types::{Position, PositionRange};

/// Checks the range table of every worker of every live process.
pub(super) fn check(hosts: &[Host]) -> Result<(), Violation> {
    let mut served: Vec<(PositionRange, usize)> = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let Some(process) = &host.process else { continue };
        for worker in &process.workers {
            for entry in worker.worker.ranges().entries() {
                let acknowledges = match &entry.role {
                    Role::Owned => true,
                    Role::Importing(view) => view.activated(),
                    Role::Exporting(_) | Role::Elsewhere | Role::Lost => false,
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
