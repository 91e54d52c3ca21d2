//! The contents of the lab's page: `assets/lab.js` draws exactly this and adds nothing.
//!
//! Figures are in the base unit of their [`Unit`]: ratios and shares of 1, seconds, milliseconds, bytes,
//! microseconds, nanoseconds, operations per second.

use crate::lab_file::LabMachine;
use crate::measures::Unit;
use crate::settings::Settings;
use serde::Serialize;
use sidle_bench::spread::Spread;

/// The whole page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabPage {
    /// The protocols measured, in the order of their colours.
    pub protocols: Vec<String>,
    /// Complete runs.
    pub runs: usize,
    /// Cells that have at least one.
    pub cells: usize,
    /// The common settings of all runs.
    pub settings: Settings,
    /// Their machine.
    pub machine: LabMachine,
    /// The measuring program: version and build.
    pub sidle: String,
    /// Whether all answers were right.
    pub verdict: Verdict,
    /// The scenes, the one with the most measured first.
    pub scenes: Vec<SceneSections>,
    /// The comparisons across scenes.
    pub across: Vec<Section>,
    /// The sources of the papers' figures on this page; a [`Cited`] names them by their index.
    pub sources: Vec<&'static str>,
}

/// Whether all answers were right, and which runs are without figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Values never written, or not last, in all runs.
    pub wrong_values: u64,
    /// Acknowledged writes that were lost, in all runs.
    pub lost_writes: u64,
    /// Operations that ended in an error, in all runs.
    pub errors: u64,
    /// Runs in which not every record could be read back.
    pub unread_runs: usize,
    /// Runs disturbed by the machine's host.
    pub disturbed_runs: usize,
    /// Those of them left out of all figures.
    pub left_out_runs: usize,
    /// How long a machine may stand still without counting as disturbed, in milliseconds.
    pub still_limit_ms: f64,
    /// The share of its processors that the host may take.
    pub stolen_limit: f64,
    /// Runs that failed.
    pub failed: Vec<Failed>,
    /// Files with a run's name that are no run.
    pub odd: Vec<OddFile>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The title of its cell.
    pub cell: String,
    /// Its number in the cell, from 1.
    pub repeat: u32,
    /// Why.
    pub reason: String,
}

/// An ignored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OddFile {
    /// Its name.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// The contents of one scene.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SceneSections {
    /// Its load, for people.
    pub title: String,
    /// In the page's order.
    pub sections: Vec<Section>,
}

/// A part of the page with a heading of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// The contents, and how to read them.
    pub about: String,
    /// Never empty.
    pub parts: Vec<Part>,
}

impl Section {
    /// The section with the present parts; none without any.
    pub(super) fn of(
        title: &'static str,
        about: impl Into<String>,
        parts: impl IntoIterator<Item = Option<Part>>,
    ) -> Option<Section> {
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| Section { title, about: about.into(), parts })
    }
}

/// A section's part; `kind` names its type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Part {
    /// A heading within the section.
    Heading {
        /// Its text.
        text: String,
    },
    /// The meanings of protocols' changes.
    Meanings {
        /// Each once.
        changes: Vec<Meaning>,
    },
    /// Our figures beside papers'.
    BesidePapers(BesidePapers),
    /// The table of winners.
    Winners(Winners),
    /// A chart of lines.
    Lines(LineChart),
    /// A chart of bars.
    Bars(BarChart),
    /// Duration against impact, over the whole width.
    Frontier(Frontier),
    /// The same in several small charts.
    Panels {
        /// From left to right.
        panels: Vec<Frontier>,
    },
}

/// The meaning of a protocol's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// The change, by its name in the lab.
    pub change: String,
    /// Its effect.
    pub meaning: &'static str,
}

/// A paper's figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cited {
    /// In our unit.
    pub value: f64,
    /// Its source: the index in [`LabPage::sources`], from 0.
    pub source: usize,
}

/// A line of figures, each beside a paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BesidePapers {
    /// The compared measure.
    pub what: String,
    /// Of all figures.
    pub unit: Unit,
    /// At least one.
    pub figures: Vec<BesidePaper>,
}

/// A figure beside a paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BesidePaper {
    /// A variant, or one relative to another.
    pub name: String,
    /// Ours.
    pub ours: Spread,
    /// The paper's.
    pub paper: Cited,
}

/// A table with a column for each cell and a row for each measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Winners {
    /// The columns' heads.
    pub names: Vec<String>,
    /// The rows, in the order of the lab's measures.
    pub rows: Vec<WinnersRow>,
    /// The number of runs in each column.
    pub runs: Vec<usize>,
}

/// A measure of all cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WinnersRow {
    /// The measure.
    pub title: &'static str,
    /// Of all figures.
    pub unit: Unit,
    /// One for each column.
    pub cells: Vec<WinnersCell>,
}

/// A measure of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WinnersCell {
    /// The figure, if it was measured.
    pub spread: Option<Spread>,
    /// Its standing in its row.
    pub standing: Standing,
    /// A paper's value.
    pub paper: Option<Cited>,
}

/// A cell's standing in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Better than all others, by more than the runs' ranges.
    Wins,
    /// Its range meets the best one's: which of them is better is unknown.
    Ties,
    /// Neither.
    Behind,
}

/// Lines over time, or through measured values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineChart {
    /// Their x axis.
    pub x: XAxis,
    /// Their y axis.
    pub y: YAxis,
    /// At least one, and each has points.
    pub lines: Vec<Line>,
}

/// The x axis of lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum XAxis {
    /// Seconds from the start of the move.
    Time {
        /// Where the axis begins.
        from: f64,
        /// Where it ends.
        to: f64,
    },
    /// The measured values, and only those.
    Values {
        /// Their meaning.
        label: &'static str,
        /// In ascending order.
        values: Vec<f64>,
    },
}

/// The y axis of lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YAxis {
    /// Its meaning.
    pub label: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether equal ratios have equal distances; otherwise it begins at 0.
    pub is_log: bool,
    /// A value to draw a thin line at.
    pub reference: Option<f64>,
}

impl YAxis {
    /// One that begins at 0.
    pub(super) fn from_0(label: &'static str, unit: Unit) -> YAxis {
        YAxis { label, unit, is_log: false, reference: None }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// The protocol of its colour.
    pub protocol: String,
    /// From left to right.
    pub points: Vec<LinePoint>,
    /// The most runs in a point: a single one has no range.
    pub runs: usize,
    /// Where the move ended, in seconds, if the x axis is time.
    pub end: Option<f64>,
}

impl Line {
    /// The line through these points.
    pub(super) fn through(name: String, protocol: &str, points: &[(f64, Spread)], end: Option<f64>) -> Line {
        Line {
            name,
            protocol: protocol.to_owned(),
            points: points.iter().map(|(x, y)| LinePoint(*x, y.median, y.min, y.max)).collect(),
            runs: points.iter().map(|(_, y)| y.runs).max().unwrap_or(0),
            end,
        }
    }
}

/// A point of a line: x, then the median, the least and the most of the runs. An array, because there are
/// thousands of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinePoint(pub f64, pub f64, pub f64, pub f64);

/// Bars, from 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarChart {
    /// Its meaning, for screen readers.
    pub label: String,
    /// Of all bars.
    pub unit: Unit,
    /// A value to mark with a thin line.
    pub reference: Option<f64>,
    /// With a gap between each two; none is empty.
    pub groups: Vec<Vec<Bar>>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Its label.
    pub label: String,
    /// The protocol of its colour.
    pub protocol: String,
    /// Its length.
    pub spread: Spread,
    /// A paper's value.
    pub paper: Option<Cited>,
}

/// The moves' duration against their cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frontier {
    /// The kind of impact.
    pub impact: &'static str,
    /// The better direction.
    pub better: &'static str,
    /// Whether equal ratios have equal distances on both axes; otherwise both begin at 0.
    pub is_log: bool,
    /// The axes' ranges.
    pub reach: Reach,
    /// The variants, or policies.
    pub points: Vec<FrontierPoint>,
}

/// One variant, or one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// Its name.
    pub name: String,
    /// The protocol of its colour.
    pub protocol: String,
    /// Whether the others are variations of it: drawn larger.
    pub is_plain: bool,
    /// How long the move took.
    pub seconds: Spread,
    /// What it cost, as a ratio.
    pub impact: Spread,
}

/// The ranges of both axes: the least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// Of durations.
    pub seconds: [f64; 2],
    /// Of impacts.
    pub impact: [f64; 2],
}

impl Reach {
    /// The ranges of all these points, and an impact of 1.
    pub(super) fn of(points: &[FrontierPoint]) -> Option<Reach> {
        let wider = |[low, high]: [f64; 2], spread: &Spread| [low.min(spread.min), high.max(spread.max)];
        let first = points.first()?.seconds.min;
        let mut reach = Reach { seconds: [first, first], impact: [1.0, 1.0] };
        for point in points {
            reach.seconds = wider(reach.seconds, &point.seconds);
            reach.impact = wider(reach.impact, &point.impact);
        }
        Some(reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_cover_all_points_and_no_impact() {
        let point = |seconds: [f64; 2], impact: [f64; 2]| FrontierPoint {
            name: String::new(),
            protocol: String::new(),
            is_plain: false,
            seconds: Spread::of(seconds).unwrap(),
            impact: Spread::of(impact).unwrap(),
        };
        assert_eq!(Reach::of(&[]), None);
        let points = [point([2.0, 3.0], [0.5, 0.7]), point([1.0, 2.5], [0.6, 0.9])];
        assert_eq!(Reach::of(&points), Some(Reach { seconds: [1.0, 3.0], impact: [0.5, 1.0] }));
    }

    #[test]
    fn a_part_says_its_kind_and_a_point_is_an_array() {
        let spread = Spread::of([1.0, 3.0]).unwrap();
        let part = Part::Lines(LineChart {
            x: XAxis::Time { from: -1.0, to: 2.0 },
            y: YAxis { label: "y", unit: Unit::Ratio, is_log: false, reference: None },
            lines: vec![Line::through("fulva".into(), "fulva", &[(0.5, spread)], None)],
        });
        let json = serde_json::to_value(part).unwrap();
        assert_eq!((&json["kind"], &json["x"]["kind"]), (&"lines".into(), &"time".into()));
        assert_eq!(json["lines"][0]["points"], serde_json::json!([[0.5, 2.0, 1.0, 3.0]]));
        assert_eq!(json["lines"][0]["runs"], 2);
    }
}
