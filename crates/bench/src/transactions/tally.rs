//! What clients have counted.

use crate::latencies::Latencies;
use crate::timeline::{Part, WINDOW_NS};
use serde::{Deserialize, Serialize};
use sidle_client::Conflict;
use std::collections::BTreeMap;

/// How often transactions were tried again, by what was in their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflicts {
    /// What they had read was changed by another one.
    pub changed: u64,
    /// An older one had locked a key.
    pub locked: u64,
    /// The keys of one of their commands were parted by a move.
    pub moved: u64,
    /// An answer was missing for too long.
    pub late: u64,
}

/// What was counted in a part of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfPart {
    /// How long transactions took that were committed, with all their attempts.
    pub(crate) latencies: Latencies,
    pub(crate) conflicts: Conflicts,
}

/// What clients have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(super) parts: [OfPart; 3],
    /// Transactions that were committed in each window.
    pub(super) windows: Vec<u64>,
    /// Transactions that were committed of each client.
    pub(crate) committed: BTreeMap<u32, u64>,
    /// What went wrong.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn note_conflict(&mut self, part: Part, conflict: &Conflict) {
        let conflicts = &mut self.parts[part as usize].conflicts;
        *match conflict {
            Conflict::Changed => &mut conflicts.changed,
            Conflict::Locked => &mut conflicts.locked,
            Conflict::Moved => &mut conflicts.moved,
            Conflict::Late => &mut conflicts.late,
        } += 1;
    }

    pub(crate) fn note_committed(&mut self, part: Part, client: u32, latency_ns: u64, at_ns: u64) {
        self.parts[part as usize].latencies.record(latency_ns);
        *self.committed.entry(client).or_default() += 1;
        let window = (at_ns / WINDOW_NS) as usize;
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
    }

    pub(crate) fn note_error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        for (own, other) in self.parts.iter_mut().zip(&other.parts) {
            own.latencies.add(&other.latencies);
            own.conflicts.changed += other.conflicts.changed;
            own.conflicts.locked += other.conflicts.locked;
            own.conflicts.moved += other.conflicts.moved;
            own.conflicts.late += other.conflicts.late;
        }
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), 0);
        }
        self.windows.iter_mut().zip(&other.windows).for_each(|(own, other)| *own += other);
        self.committed.extend(other.committed);
        other.errors.into_iter().for_each(|(what, count)| *self.errors.entry(what).or_default() += count);
    }
}
