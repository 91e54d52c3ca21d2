//! The parts of a run, in reports.

use super::course::Moved;
use super::tally::{Conflicts, OfPart, Tally};
use crate::report::{Interval, Percentiles};
use crate::timeline::WINDOW_NS;
use crate::words::{counted, micros, rate};
use serde::{Deserialize, Serialize};

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartFigures {
    /// Transactions that were committed.
    pub committed: u64,
    /// The mean per second.
    pub committed_per_s: f64,
    /// How long they took, with all their attempts.
    pub latency_us: Option<Percentiles>,
    /// How often they were tried again.
    pub conflicts: Conflicts,
}

impl PartFigures {
    /// Of a part that lasted so long.
    pub(super) fn of(of: &OfPart, ms: f64) -> PartFigures {
        let committed = of.latencies.count();
        PartFigures {
            committed,
            committed_per_s: committed as f64 * 1e3 / ms.max(1e-3),
            latency_us: of.latencies.percentiles(),
            conflicts: of.conflicts,
        }
    }
}

impl Tally {
    /// Before, during and after the move.
    pub(crate) fn figures(&self, moved: &Moved) -> [PartFigures; 3] {
        let lengths = moved.lengths_ms();
        std::array::from_fn(|part| PartFigures::of(&self.parts[part], lengths[part]))
    }

    /// Each window of the load.
    pub(crate) fn timeline(&self, moved: &Moved) -> &[OfPart] {
        &self.windows[window(moved, 0.0).min(self.windows.len())..]
    }

    /// Per second in the worst window while data moved.
    pub(crate) fn worst_during(&self, moved: &Moved) -> Option<f64> {
        let Interval { from_ms, to_ms } = moved.interval;
        let touched = self.windows.get(window(moved, from_ms)..=window(moved, to_ms)).unwrap_or_default();
        touched
            .iter()
            .map(|window| window.latencies.count())
            .min()
            .map(|least| least as f64 * 1e9 / WINDOW_NS as f64)
    }
}

fn window(moved: &Moved, at_ms: f64) -> usize {
    ((moved.load_ns[0] as f64 + at_ms * 1e6) / WINDOW_NS as f64) as usize
}

/// A part in words.
pub(crate) fn part_in_words(part: &PartFigures) -> String {
    let per_s = rate(part.committed_per_s);
    let latency = part.latency_us.map_or_else(String::new, |latency| {
        format!(", p50 {}, p99 {}", micros(latency.p50), micros(latency.p99))
    });
    let Conflicts { changed, locked, late, .. } = part.conflicts;
    format!("{per_s}{latency}, {}", counted(changed + locked + late, "conflict"))
}

/// The worst window in words.
pub(crate) fn window_in_words(per_s: f64) -> String {
    format!("{} in the worst window of 100 ms", rate(per_s))
}
