//! The table of protocols: hand-off and its rivals under every load, on modelled machines, as Markdown.
//!
//! [`loads()`] and [`VARIANTS`] list the runs, [`make`] makes them on several threads, [`markdown`] and
//! [`csv`] show them. Time is the model's, so the same costs give the same table, whatever else this machine
//! does.

pub mod csv;
mod loads;
pub mod markdown;
mod runs;

pub use loads::{Load, VARIANTS, loads};
pub use runs::{Made, Run, Size, make};

use crate::measures::{Measure, named};
use sidle_bench::report::Report;
use sidle_bench::spread::Spread;

/// The costs of work that the table was made with: round figures of slow processors, so that every machine
/// makes the same table, in minutes.
pub const COSTS: &str = include_str!("../../assets/costs.json");

/// The figures of one variant under one load: medians over the seeds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The variant's name.
    pub variant: &'static str,
    /// The load.
    pub load: Load,
    /// The runs, one a seed.
    pub reports: Vec<Report>,
}

impl Row {
    /// The median of a figure, if a run has it.
    pub fn figure(&self, of: &Figure) -> Option<f64> {
        Spread::of(self.reports.iter().filter_map(of.of)).map(|spread| spread.median)
    }
}

/// A column.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its name in the CSV.
    pub key: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The number, if a run has it.
    pub of: fn(&Report) -> Option<f64>,
    /// Its form for people.
    pub show: fn(f64) -> String,
}

fn of(key: &str, report: &Report) -> Option<f64> {
    let Measure { of, .. } = named(key);
    of(report)
}

fn ratio(value: f64) -> String {
    match value {
        value if value >= 9.95 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

fn millis(value: f64) -> String {
    match value {
        value if value >= 9.95 => format!("{value:.0}"),
        value if value >= 0.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

fn longest_gap(report: &Report) -> Option<f64> {
    [report.longest_gap_ms.reads, report.longest_gap_ms.writes].into_iter().flatten().reduce(f64::max)
}

fn extra(report: &Report) -> Option<f64> {
    Some(of("extra_client", report)? + of("extra_server", report)?)
}

const fn figure(
    key: &'static str,
    title: &'static str,
    of: fn(&Report) -> Option<f64>,
    show: fn(f64) -> String,
) -> Figure {
    Figure { key, title, of, show }
}

/// All columns, in their order.
pub const FIGURES: [Figure; 12] = [
    figure("mean", "throughput", |report| of("during", report), ratio),
    figure("p99", "p99", |report| of("p99", report), ratio),
    figure("p999", "p99.9", |report| of("p999", report), ratio),
    figure("worst", "worst 100 ms", |report| of("worst", report), ratio),
    figure("gap_ms", "longest gap, ms", longest_gap, millis),
    figure("seconds", "seconds", |report| report.seconds, ratio),
    figure("relief_ms", "half of the load, ms", |report| report.relief_ms, millis),
    figure("extra", "extra bytes, %", extra, percent),
    figure("digest", "digests, %", |report| of("digest", report), percent),
    figure("cut_p50_ms", "cut p50, ms", |report| of("cut_p50", report), millis),
    figure("cut_p999_ms", "cut p99.9, ms", |report| of("cut_p999", report), millis),
    figure("cost_s", "cost, s", |report| of("cost", report), ratio),
];

/// The column of this name.
///
/// # Panics
/// If there is none.
pub fn column(key: &str) -> &'static Figure {
    FIGURES.iter().find(|figure| figure.key == key).expect("a column of the list")
}
