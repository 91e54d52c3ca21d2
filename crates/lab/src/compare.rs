//! Labs side by side, cell by cell: how closely a model agrees with its original, or the effect of a change.

use crate::cell::Cell;
use crate::confidence::ratio_interval;
use crate::measures::Measure;
use crate::results::{CellRuns, Results};
use crate::settings::Settings;
use sidle_bench::report::Report;
use sidle_bench::spread::Spread;
use std::collections::BTreeSet;

/// One number of a cell, on either side.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Which number.
    pub measure: &'static Measure,
    /// On the one side.
    pub a: Spread,
    /// On the other.
    pub b: Spread,
    /// The interval of the ratio of the medians with a confidence of 95 %, if there are enough
    /// runs.
    pub interval: Option<[f64; 2]>,
}

impl Compared {
    /// The one median divided by the other; none if either is 0.
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a.median, self.b.median);
        (a != 0.0 && b != 0.0).then(|| a / b)
    }

    /// Whether the one is within this share of the other: 0.25 for 25 %. Zero agrees with zero only.
    pub fn agrees(&self, within: f64) -> bool {
        match self.ratio() {
            Some(ratio) => (ratio - 1.0).abs() <= within,
            None => self.is_nothing(),
        }
    }

    /// Whether the interval of the ratio crosses that limit, so that other runs might decide otherwise.
    pub fn is_unsure(&self, within: f64) -> bool {
        let reaches_in = |[low, high]: [f64; 2]| low <= 1.0 + within && high >= 1.0 - within;
        let reaches_out = |[low, high]: [f64; 2]| low < 1.0 - within || high > 1.0 + within;
        self.interval.is_some_and(|interval| reaches_in(interval) && reaches_out(interval))
    }

    /// Whether there is nothing on either side, which shows little about either.
    pub fn is_nothing(&self) -> bool {
        self.a.median == 0.0 && self.b.median == 0.0
    }
}

/// A cell that both sides have measured.
#[derive(Clone, Debug)]
pub struct ComparedCell {
    /// The runs of the one side.
    pub a: CellRuns,
    /// Those of the other.
    pub b: CellRuns,
}

impl ComparedCell {
    /// The compared cell.
    pub const fn cell(&self) -> &Cell {
        &self.a.cell
    }

    /// Whether both sides have runs of the same seeds. The seed decides how much of the load moves with the
    /// popular records, and so the throughput afterwards: with other seeds these differ, too.
    pub fn has_same_seeds(&self) -> bool {
        let seeds = |runs: &CellRuns| runs.reports.iter().map(|report| report.seed).collect::<BTreeSet<_>>();
        seeds(&self.a) == seeds(&self.b)
    }

    /// The measures present in runs of both sides.
    pub fn figures(&self, measures: &[&'static Measure]) -> Vec<Compared> {
        let figure = |measure: &&'static Measure| {
            let [a, b] = [&self.a, &self.b].map(|side| side.values(measure.of));
            let interval = ratio_interval(&a, &b);
            Some(Compared { measure, a: Spread::of(a)?, b: Spread::of(b)?, interval })
        };
        measures.iter().filter_map(figure).collect()
    }
}

/// The common part of two sides.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Cells of both, in the order of the one.
    pub cells: Vec<ComparedCell>,
    /// How many cells either has alone.
    pub alone: [usize; 2],
}

/// Compares the runs of some labs with those of others. Runs of one cell are pooled, from all labs of a
/// side.
///
/// # Errors
/// The difference of their loads, or that they have no cell in common.
pub fn compare(a: &[Results], b: &[Results]) -> Result<Comparison, String> {
    if let Some((first, others)) = a.iter().chain(b).collect::<Vec<_>>().split_first() {
        others.iter().try_for_each(|other| same_load(&first.lab.settings, &other.lab.settings))?;
    }
    let (a, mut b) = (pooled(a), pooled(b));
    let mut alone = 0;
    let mut cells = Vec::new();
    for a in a {
        match b.iter().position(|b| b.cell == a.cell) {
            Some(at) => cells.push(ComparedCell { a, b: b.remove(at) }),
            None => alone += 1,
        }
    }
    match cells.is_empty() {
        true => Err("no cell was measured on both sides".to_owned()),
        false => Ok(Comparison { cells, alone: [alone, b.len()] }),
    }
}

/// The seed may differ, and so may the machines and a node's share: these are compared.
fn same_load(a: &Settings, b: &Settings) -> Result<(), String> {
    let loads = [a, b].map(|settings| {
        let rate =
            settings.rate.map_or_else(|| "as fast as answers come".to_owned(), |rate| format!("{rate}/s"));
        let Settings { records, seconds, clients, key_bytes, database, .. } = settings;
        [
            format!("{records} records"),
            format!("{seconds} s before and after"),
            format!("{clients} clients"),
            format!("keys of {key_bytes} bytes"),
            format!("a load of {rate}"),
            format!("{} warehouses at {} %", database.warehouses, database.scale_percent),
        ]
    });
    let differs = loads[0].iter().zip(&loads[1]).find(|(a, b)| a != b);
    differs.map_or(Ok(()), |(a, b)| Err(format!("their loads differ: {a} here, {b} there")))
}

/// The cells of all labs, each once with all its runs: which runs are left out is decided over all of them.
fn pooled(labs: &[Results]) -> Vec<CellRuns> {
    let mut pooled: Vec<(&Cell, Vec<Report>)> = Vec::new();
    for runs in labs.iter().flat_map(|lab| &lab.cells) {
        let reports = runs.all().cloned();
        match pooled.iter_mut().find(|(cell, _)| **cell == runs.cell) {
            Some((_, all)) => all.extend(reports),
            None => pooled.push((&runs.cell, reports.collect())),
        }
    }
    pooled.into_iter().map(|(cell, reports)| CellRuns::new(cell.clone(), reports)).collect()
}
