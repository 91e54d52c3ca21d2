//! M1: at most one node acknowledges writes for a position at any time. M20: of a range that is given bit by
//! bit, either a worker of the source keeps a position, or the target owns it.

use super::Violation;
use crate::host::Host;
use sidle_migration::ImportView;
use sidle_node::Role;
use sidle_types::{Position, PositionRange};
use std::sync::Arc;

/// Checks the range table of every worker of every live process.
pub(super) fn check(hosts: &[Host]) -> Result<(), Violation> {
    let mut served: Vec<(PositionRange, usize)> = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let Some(process) = &host.process else { continue };
        for worker in &process.workers {
            for entry in worker.worker.ranges().entries() {
                let acknowledges = match &entry.role {
                    Role::Owned => true,
                    // See below.
                    Role::Importing(view) => view.activated() && !view.is_by_cuts(),
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

/// Checks every position with a record at the source of a range that is given bit by bit.
pub(super) fn check_given(hosts: &[Host]) -> Result<(), Violation> {
    let live =
        || hosts.iter().enumerate().filter_map(|(number, host)| Some((number, host.process.as_ref()?)));
    let imports = live().flat_map(|(number, process)| {
        let is_given = |view: &&Arc<ImportView>| view.is_by_cuts() || view.gave_all();
        let imports = process.control.control.imports().filter(is_given);
        imports.map(move |view| (number, Arc::clone(view))).collect::<Vec<_>>()
    });
    let imports: Vec<(usize, Arc<ImportView>)> = imports.collect();
    for (number, process) in live() {
        for worker in &process.workers {
            let step = worker.worker.exports_step();
            for view in worker.worker.ranges().exports().filter(|view| view.is_by_cuts()) {
                let Some((target, import)) = imports.iter().find(|(_, import)| import.id() == view.id())
                else {
                    continue;
                };
                let mut both = None;
                process.parts.store.each_entry(view.range(), &mut |record, _| {
                    let position = record.position();
                    let is_owned = import.gave_all() || import.has_arrived(position);
                    if view.keeps(position, step) && is_owned {
                        both = Some(position);
                    }
                });
                if let Some(position) = both {
                    let what = format!("node {number} keeps {position}, and node {target} owns it");
                    return Err(Violation::new("single owner (M20)", what));
                }
            }
        }
    }
    Ok(())
}
