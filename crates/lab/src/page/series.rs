//! Timelines of several runs laid over each other: time 0 is the start of the move.

use crate::results::CellRuns;
use sidle_bench::report::{Report, TimelinePoint, WINDOW_MS};
use sidle_bench::spread::Spread;

/// The time shown before and after the move.
const MARGIN_S: f64 = 1.5;

/// For each window the spread over the runs. A window in fewer than half of the runs is left out.
pub(super) fn series(
    cell: &CellRuns,
    until_s: f64,
    of: impl Fn(&Report, &TimelinePoint) -> Option<f64>,
) -> Vec<(f64, Spread)> {
    let window_s = WINDOW_MS as f64 / 1000.0;
    let starts: Vec<(usize, &Report)> = cell
        .reports
        .iter()
        .filter_map(|report| Some(((report.migration?.from_ms / WINDOW_MS as f64) as usize, report)))
        .collect();
    let (from, to) = (-(MARGIN_S / window_s) as i64, (until_s / window_s).ceil() as i64);
    let mut series = Vec::new();
    for window in from..=to {
        let values: Vec<f64> = starts
            .iter()
            .filter_map(|&(start, report)| {
                let index = usize::try_from(start as i64 + window).ok()?;
                // The first window holds the start of all clients.
                of(report, report.timeline.get(index).filter(|_| index > 0)?)
            })
            .collect();
        if values.len() * 2 > starts.len() || values.len() == starts.len() {
            series.extend(Spread::of(values).map(|spread| ((window as f64 + 0.5) * window_s, spread)));
        }
    }
    series
}

/// The end of these cells' timelines: the end of the slowest move, and the margin.
pub(super) fn until_s(cells: &[&CellRuns]) -> f64 {
    let ends = cells.iter().filter_map(|cell| cell.spread(|report| report.seconds));
    ends.map(|seconds| seconds.median).fold(0.0, f64::max) + MARGIN_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, Scene, SourceCpu};
    use sidle_bench::report::Interval;

    #[test]
    fn runs_are_laid_over_each_other_at_the_start_of_their_moves() {
        let run = |from_ms: f64, operations: &[u64]| Report {
            migration: Some(Interval { from_ms, to_ms: from_ms + 200.0 }),
            seconds: Some(0.2),
            timeline: operations
                .iter()
                .map(|&operations| TimelinePoint { operations, ..TimelinePoint::default() })
                .collect(),
            ..Report::default()
        };
        let scene = Scene {
            workload: "b".parse().unwrap(),
            distribution: "uniform".parse().unwrap(),
            value_bytes: 1,
            source_cpu: SourceCpu::Shared,
        };
        let cell = CellRuns {
            disturbed: Vec::new(),
            cell: Cell { variant: "fulva".parse().unwrap(), policy: Default::default(), scene },
            reports: vec![run(250.0, &[9, 1, 2, 3]), run(110.0, &[9, 4, 5])],
        };
        let series = series(&cell, until_s(&[&cell]), |_, point| Some(point.operations as f64));
        let seen: Vec<(i64, f64, f64, usize)> =
            series.iter().map(|(at, s)| ((at * 1000.0).round() as i64, s.min, s.max, s.runs)).collect();
        // Window 0 of the first run is its third, of the second its second. Before it only the first run has
        // one that counts.
        assert_eq!(seen, [(50, 2.0, 4.0, 2), (150, 3.0, 5.0, 2)]);
    }
}
