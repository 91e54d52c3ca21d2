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

impl Conflicts {
    fn note(&mut self, conflict: &Conflict) {
        *match conflict {
            Conflict::Changed => &mut self.changed,
            Conflict::Locked => &mut self.locked,
            Conflict::Moved => &mut self.moved,
            Conflict::Late => &mut self.late,
        } += 1;
    }

    fn add(&mut self, other: Conflicts) {
        self.changed += other.changed;
        self.locked += other.locked;
        self.moved += other.moved;
        self.late += other.late;
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.changed + self.locked + self.moved + self.late
    }
}

/// What was counted in a part of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfPart {
    /// How long transactions took that were committed, with all their attempts.
    pub(crate) latencies: Latencies,
    pub(crate) conflicts: Conflicts,
}

impl OfPart {
    fn add(&mut self, other: &OfPart) {
        self.latencies.add(&other.latencies);
        self.conflicts.add(other.conflicts);
    }
}

/// What clients have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(super) parts: [OfPart; 3],
    /// The same of each window.
    pub(super) windows: Vec<OfPart>,
    /// Transactions that were committed of each client.
    pub(crate) committed: BTreeMap<u32, u64>,
    /// What went wrong.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn note_conflict(&mut self, part: Part, conflict: &Conflict, at_ns: u64) {
        self.parts[part as usize].conflicts.note(conflict);
        self.window(at_ns).conflicts.note(conflict);
    }

    pub(crate) fn note_committed(&mut self, part: Part, client: u32, latency_ns: u64, at_ns: u64) {
        self.parts[part as usize].latencies.record(latency_ns);
        *self.committed.entry(client).or_default() += 1;
        self.window(at_ns).latencies.record(latency_ns);
    }

    /// The window of this moment.
    fn window(&mut self, at_ns: u64) -> &mut OfPart {
        let window = (at_ns / WINDOW_NS) as usize;
        if self.windows.len() <= window {
            self.windows.resize_with(window + 1, OfPart::default);
        }
        &mut self.windows[window]
    }

    pub(crate) fn note_error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.add(other));
        if self.windows.len() < other.windows.len() {
            self.windows.resize_with(other.windows.len(), OfPart::default);
        }
        self.windows.iter_mut().zip(&other.windows).for_each(|(own, other)| own.add(other));
        self.committed.extend(other.committed);
        other.errors.into_iter().for_each(|(what, count)| *self.errors.entry(what).or_default() += count);
    }
}
