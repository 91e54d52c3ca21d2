//! A move's duration against its effect on clients: of each variant, and of each policy.

use super::data::{Frontier, FrontierPoint, Part, Reach, Section};
use crate::cell::Scene;
use crate::measures::{Measure, named};
use crate::results::{CellRuns, Results};

/// A policy's panels: the measure, its title, and the better direction.
const PANELS: [(&str, &str, &str); 2] = [
    ("during", "throughput during the move / before", "up and left"),
    ("p99", "99th percentile of reads during / before", "down and left"),
];

fn point(cell: &CellRuns, name: String, is_plain: bool, measure: &Measure) -> Option<FrontierPoint> {
    Some(FrontierPoint {
        name,
        protocol: cell.cell.variant.base().to_owned(),
        is_plain,
        seconds: cell.spread(|report| report.seconds)?,
        impact: cell.spread(measure.of)?,
    })
}

/// Every variant of the scene, under the policy of their comparison.
pub(super) fn variants(results: &Results, scene: &Scene) -> Option<Section> {
    let of = |cell: &CellRuns| {
        let variant = &cell.cell.variant;
        point(cell, variant.to_string(), variant.is_plain(), named("during"))
    };
    let points: Vec<FrontierPoint> = results.compared(scene).filter_map(of).collect();
    let frontier = Reach::of(&points).map(|reach| {
        let (_, impact, better) = PANELS[0];
        Part::Frontier(Frontier { impact, better, is_log: false, reach, points })
    });
    Section::of(
        "Duration against impact",
        "Throughput during the move by that before it, against how long the move took: a longer move costs its \
         price for longer.",
        [frontier],
    )
}

/// Panels for each variant measured under several policies, all of a kind on the same axes.
pub(super) fn policies(results: &Results, scene: &Scene) -> Option<Section> {
    let groups = results.by_policy(scene);
    let points = |cells: &[&CellRuns], key: &str| -> Vec<FrontierPoint> {
        let of =
            |cell: &&CellRuns| point(cell, cell.cell.policy.to_string(), cell.cell.is_plain(), named(key));
        cells.iter().filter_map(of).collect()
    };
    let all: Vec<&CellRuns> = groups.iter().flat_map(|(_, cells)| cells.iter().copied()).collect();
    let mut parts = Vec::new();
    for (variant, cells) in &groups {
        let panel = |(key, impact, better)| {
            let reach = Reach::of(&points(&all, key))?;
            Some(Frontier { impact, better, is_log: true, reach, points: points(cells, key) })
        };
        parts.push(Some(Part::Heading { text: variant.to_string() }));
        parts.push(Some(Part::Panels { panels: PANELS.into_iter().filter_map(panel).collect() }));
    }
    Section::of(
        "Policies: duration against impact",
        "A protocol under each policy; the large point is the unchanged protocol under the default, adaptive. \
         rate: at most so many MB/s. deadline: to end in so many seconds. slo-p99: 99 of 100 requests are to wait \
         no longer than so many microseconds for a worker. On all axes equal ratios stand the same distance apart; \
         all panels of a kind have the same axes.",
        parts,
    )
}
