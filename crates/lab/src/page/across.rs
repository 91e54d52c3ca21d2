//! Comparisons across scenes: write ratios, the source's processor, skew, the size of values.

use super::beside::beside_ratios;
use super::data::{Line, LineChart, Part, Section, XAxis, YAxis};
use super::sources::Sources;
use crate::cell::{Scene, SourceCpu};
use crate::measures::{Unit, during};
use crate::results::Results;
use sidle_bench::spread::Spread;

/// The charts across scenes, each through the scenes that differ from the first in one part only.
pub(super) fn across(results: &Results, first: &Scene, sources: &mut Sources) -> Vec<Section> {
    let by_writes = Axis {
        title: "By the share of writes",
        part: 0,
        label: "writes, % of all operations",
        x: |scene| (!scene.workload.is_tpcc()).then(|| scene.workload.write_percent()),
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
    let axes = [by_writes, by_cpu, by_skew, by_value];
    axes.iter().filter_map(|axis| axis.section(results, first, sources)).collect()
}

struct Axis {
    title: &'static str,
    /// The part of a scene.
    part: usize,
    label: &'static str,
    /// A scene's position on it.
    x: fn(&Scene) -> Option<f64>,
    /// Makes scenes equal that differ in this part only.
    clear: fn(&mut Scene),
}

impl Axis {
    /// The longest row of scenes along this axis, in its order; of equally long ones the first scene's
    /// own.
    fn row<'a>(&self, results: &'a Results, first: &'a Scene) -> Vec<&'a Scene> {
        let cleared = |scene: &Scene| {
            let mut scene = scene.clone();
            (self.clear)(&mut scene);
            scene
        };
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
        row
    }

    fn section(&self, results: &Results, first: &Scene, sources: &mut Sources) -> Option<Section> {
        let row = self.row(results, first);
        if row.len() < 2 {
            return None;
        }
        let line = |name: &str| {
            let points = row.iter().filter_map(|scene| {
                let cell = results.compared(scene).find(|cell| cell.cell.variant.to_string() == name)?;
                Some(((self.x)(scene)?, cell.spread(during)?))
            });
            let points: Vec<(f64, Spread)> = points.collect();
            (!points.is_empty()).then(|| Line::through(name.to_owned(), name, &points, None))
        };
        let chart = LineChart {
            x: XAxis::Values {
                label: self.label,
                values: row.iter().filter_map(|scene| (self.x)(scene)).collect(),
            },
            y: YAxis {
                label: "throughput during / before",
                unit: Unit::Ratio,
                is_log: false,
                reference: Some(1.0),
            },
            lines: results.protocols().into_iter().filter_map(line).collect(),
        };
        let about = format!(
            "Throughput during the move by that before it. All else as in: {}.",
            row[0].title_without(self.part)
        );
        let mut parts = vec![(!chart.lines.is_empty()).then_some(Part::Lines(chart))];
        parts.extend(row.iter().map(|scene| beside_ratios(results, scene, "throughput", sources)));
        Section::of(self.title, about, parts)
    }
}
