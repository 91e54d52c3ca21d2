//! What each policy makes of a protocol: how long the move takes against what clients feel of it.

use super::frontier::{Frontier, Point, Reach};
use super::svg::escape;
use super::{Colours, chart};
use crate::lab::cell::Scene;
use crate::lab::measures::{Measure, named};
use crate::lab::results::{CellRuns, Results};

const PANEL: Frontier = Frontier {
    width: 530.0,
    height: 250.0,
    names: 122.0,
    impact: "throughput during / before",
    better: "up and left",
    is_log: true,
};

const PANELS: [(&str, Frontier); 2] = [
    ("during", PANEL),
    (
        "p99",
        Frontier { impact: "99th percentile of reads during / before", better: "down and left", ..PANEL },
    ),
];

/// Two panels for each variant that was measured under several policies, all on the same axes.
pub(super) fn policies(results: &Results, scene: &Scene, colours: &Colours<'_>) -> String {
    let groups = results.by_policy(scene);
    let all: Vec<&CellRuns> = groups.iter().flat_map(|(_, cells)| cells.iter().copied()).collect();
    let points = |cells: &[&CellRuns], measure: &'static Measure| -> Vec<Point> {
        let point = |cell: &&CellRuns| {
            Some(Point {
                name: cell.cell.policy.to_string(),
                colour: colours.of(cell.cell.variant.base()),
                is_plain: cell.cell.is_plain(),
                seconds: cell.spread(|report| report.seconds)?,
                impact: cell.spread(measure.of)?,
            })
        };
        cells.iter().filter_map(point).collect()
    };
    let mut html = String::new();
    for (variant, cells) in &groups {
        let mut panels = String::new();
        for (key, panel) in PANELS {
            let Some(reach) = Reach::of(&points(&all, named(key))) else { continue };
            let drawn = panel.draw(&points(cells, named(key)), reach);
            panels += &format!("<figure><figcaption>{}</figcaption>{drawn}</figure>", escape(panel.impact));
        }
        html += &format!("<h3>{}</h3><div class=\"pair\">{panels}</div>", escape(&variant.to_string()));
    }
    chart(
        "Policies: duration against impact",
        "A protocol under each policy; the large point is the unchanged protocol under the default, adaptive. rate: at most so many MB/s. deadline: to end in so many seconds. \
         slo-p99: 99 of 100 requests are to wait no longer than so many microseconds for a worker. On all axes equal ratios stand the same distance apart; \
         all panels of a kind have the same axes.",
        &html,
    )
}
