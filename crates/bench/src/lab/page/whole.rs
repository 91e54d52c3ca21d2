//! What can only be seen across scenes: write ratios, the source's processor, skew, the size of values.

use super::lines::{Line, LineChart};
use super::svg::escape;
use super::{Colours, Sources, chart, trimmed, with_range};
use crate::lab::cell::{Scene, SourceCpu};
use crate::lab::measures::{Unit, during};
use crate::lab::papers::{PAPER_RATIOS, PaperRatio};
use crate::lab::results::{CellRuns, Results};
use crate::lab::spread::Spread;
use crate::report::Report;

/// The charts across scenes, each through the scenes that differ from the first in one thing alone.
pub(super) fn across(
    results: &Results,
    first: &Scene,
    colours: &Colours<'_>,
    sources: &mut Sources,
) -> String {
    let by_writes = Axis {
        title: "By the share of writes",
        part: 0,
        label: "writes, % of all operations",
        x: |scene| Some(scene.workload.write_percent()),
        clear: |scene| scene.workload = "b".parse().expect("a workload"),
    };
    let by_cpu = Axis {
        title: "By the source's processor",
        part: 3,
        label: "the source's share, % of a node's whole",
        x: |scene| match scene.source_cpu {
            SourceCpu::Percent(percent) => Some(f64::from(percent)),
            SourceCpu::Shared => None,
        },
        clear: |scene| scene.source_cpu = SourceCpu::Shared,
    };
    let by_value = Axis {
        title: "By the size of values",
        part: 2,
        label: "bytes of each value",
        x: |scene| Some(scene.value_bytes as f64),
        clear: |scene| scene.value_bytes = 0,
    };
    let by_skew = Axis {
        title: "By skew",
        part: 1,
        label: "Zipf's theta",
        x: |scene| scene.distribution.to_string().strip_prefix("zipf:")?.parse().ok(),
        clear: |scene| scene.distribution = "uniform".parse().expect("a distribution"),
    };
    let mut html = String::new();
    for axis in [by_writes, by_cpu, by_skew, by_value] {
        html += &axis.draw(results, first, colours, sources);
    }
    html
}

struct Axis {
    title: &'static str,
    /// Which part of a scene it is.
    part: usize,
    label: &'static str,
    /// Where a scene stands on it.
    x: fn(&Scene) -> Option<f64>,
    /// Makes scenes equal that differ in this alone.
    clear: fn(&mut Scene),
}

impl Axis {
    fn draw(&self, results: &Results, first: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
        let cleared = |scene: &Scene| {
            let mut scene = scene.clone();
            (self.clear)(&mut scene);
            scene
        };
        // The longest row of scenes along this axis; the first scene's own where they are equally long.
        let mut scenes = results.scenes();
        scenes.retain(|scene| results.compared(scene).any(|cell| cell.cell.variant.is_plain()));
        let along = |scene: &Scene| -> Vec<&Scene> {
            let mut row: Vec<&Scene> = scenes
                .iter()
                .copied()
                .filter(|other| cleared(other) == cleared(scene) && (self.x)(other).is_some())
                .collect();
            row.sort_by(|a, b| (self.x)(a).unwrap_or(0.0).total_cmp(&(self.x)(b).unwrap_or(0.0)));
            row
        };
        let mut row = along(first);
        for scene in &scenes {
            let other = along(scene);
            if other.len() > row.len() {
                row = other;
            }
        }
        if row.len() < 2 {
            return String::new();
        }
        let x_values: Vec<f64> = row.iter().filter_map(|scene| (self.x)(scene)).collect();
        let line = |name: &str| -> Line {
            let points = row.iter().filter_map(|scene| {
                let cell = results.compared(scene).find(|cell| cell.cell.variant.to_string() == name)?;
                Some(((self.x)(scene)?, cell.spread(during)?))
            });
            Line { name: name.to_owned(), colour: colours.of(name), points: points.collect(), end: None }
        };
        let lines: Vec<Line> =
            results.protocols().into_iter().map(line).filter(|line| !line.points.is_empty()).collect();
        let draw = LineChart {
            x_label: self.label,
            y_label: "throughput during / before",
            x_tick: trimmed,
            y_tick: trimmed,
            is_log: false,
            reference: Some(1.0),
            has_marks: true,
            x_values,
            x_range: None,
            has_start: false,
        };
        let about = format!(
            "Throughput during the move by that before it. All else as in: {}.",
            row[0].title_without(self.part)
        );
        let papers: String =
            row.iter().map(|scene| ratio_line(results, scene, "throughput", sources)).collect();
        chart(self.title, &about, &(draw.draw(&lines) + &papers))
    }
}

/// A line with our ratio of one variant to another and a paper's beside it, for what papers compare so in this scene.
pub(super) fn ratio_line(results: &Results, scene: &Scene, measure: &str, sources: &mut Sources) -> String {
    let of: fn(&Report) -> Option<f64> = match measure {
        "seconds" => |report| report.seconds,
        "throughput" => |report| report.throughput.during,
        _ => return String::new(),
    };
    let is_here = |ratio: &&PaperRatio| {
        let cpu = match scene.source_cpu {
            SourceCpu::Percent(percent) => percent,
            SourceCpu::Shared => 100,
        };
        ratio.measure == measure
            && ratio.write_percent == scene.workload.write_percent()
            && ratio.source_cpu == cpu
            && scene.distribution.to_string() == "zipf:0.99"
    };
    let cell = |name: &str| results.compared(scene).find(|cell| cell.cell.variant.to_string() == name);
    let mut words = Vec::new();
    for ratio in PAPER_RATIOS.iter().filter(is_here) {
        let (Some(one), Some(other)) = (cell(ratio.variant), cell(ratio.by)) else { continue };
        let Some(ours) = paired(one, other, of) else { continue };
        words.push(format!(
            "{} / {}: {}, {}",
            escape(ratio.variant),
            escape(ratio.by),
            with_range(&ours, |value| Unit::Ratio.show(value)),
            sources.cite(&format!("{:.2}", ratio.value), ratio.source)
        ));
    }
    if words.is_empty() {
        return String::new();
    }
    let what = if measure == "seconds" { "Duration of the move" } else { "Throughput during the move" };
    format!("<p class=\"papers\">{what}, {}: {}</p>", escape(&scene.title()), words.join(" · "))
}

/// The ratio within each round, which both cells were measured in.
fn paired(one: &CellRuns, other: &CellRuns, of: fn(&Report) -> Option<f64>) -> Option<Spread> {
    let same_round = |report: &Report| other.reports.iter().find(|candidate| candidate.seed == report.seed);
    Spread::of(one.reports.iter().filter_map(|report| Some(of(report)? / of(same_round(report)?)?)))
}
