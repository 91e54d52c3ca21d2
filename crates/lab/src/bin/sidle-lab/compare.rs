//! `sidle-lab compare`: labs beside labs, as tables or as JSON.

use clap::Args;
use serde_json::{Value, json};
use sidle_bench::spread::Spread;
use sidle_bench::words::counted;
use sidle_cli::exit::Failure;
use sidle_cli::table::{Align, Table};
use sidle_lab::measures::{ABSOLUTE, MEASURES, Measure, named};
use sidle_lab::{Compared, ComparedCell, Comparison, Folder, LabFile, Results, compare};
use std::path::PathBuf;

/// The default measures: throughput and latency, in ratios to before the move, and how
/// long it takes.
const USUAL: [&str; 8] = ["during", "worst", "after", "p50", "p99", "after_p50", "after_p99", "seconds"];
const ALL: &str = "all";

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The folders of the one side, A. Runs of one cell are taken together, whichever folder of a side they
    /// are in
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The folders of the other, B
    #[arg(long, required = true, num_args = 1.., value_name = "FOLDER")]
    with: Vec<PathBuf>,
    /// Mark what is not within so many percent of B's
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0, value_parser = percent)]
    within: f64,
    /// What is compared: names of measures, or `all`
    #[arg(long, value_name = "NAME", num_args = 1.., default_values = USUAL, value_parser = names())]
    measures: Vec<String>,
    /// Print JSON instead of tables: every figure with its name, its unit, medians and ranges, their ratio
    /// and its interval
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    percent.filter(|percent| (0.0..=1000.0).contains(percent)).ok_or_else(|| "give 0 to 1000 %".to_owned())
}

fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(MEASURES.iter().map(|measure| measure.key).chain([ALL]))
}

/// A cell with its figures: those for its size, and those held against the limit.
struct Figures<'c> {
    cell: &'c ComparedCell,
    absolute: Vec<Compared>,
    figures: Vec<Compared>,
}

/// How many figures agree, of how many meaningful ones; and how many of those other runs might decide
/// otherwise.
struct Agreement {
    agree: usize,
    of: usize,
    unsure: usize,
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let (a, b) = (read(&arguments.folders)?, read(&arguments.with)?);
    let comparison = compare(&a, &b).map_err(Failure::refused)?;
    let measures: Vec<&Measure> = match arguments.measures.iter().any(|name| name == ALL) {
        true => MEASURES.iter().collect(),
        false => arguments.measures.iter().map(|name| named(name)).collect(),
    };
    let within = arguments.within / 100.0;
    let of_cell = |cell| Figures {
        cell,
        absolute: ComparedCell::figures(cell, &ABSOLUTE.each_ref()),
        figures: ComparedCell::figures(cell, &measures),
    };
    let cells: Vec<Figures<'_>> = comparison.cells.iter().map(of_cell).collect();
    let telling = || cells.iter().flat_map(|cell| &cell.figures).filter(|figure| !figure.is_nothing());
    let agreement = Agreement {
        agree: telling().filter(|figure| figure.agrees(within)).count(),
        of: telling().count(),
        unsure: telling().filter(|figure| figure.is_unsure(within)).count(),
    };
    match arguments.json {
        true => println!("{}", as_json(arguments, &comparison, &cells, &agreement)),
        false => print_tables(arguments, [&a, &b], &comparison, &cells, &agreement),
    }
    Ok(())
}

fn print_tables(
    arguments: &CompareArguments,
    [a, b]: [&[Results]; 2],
    comparison: &Comparison,
    cells: &[Figures<'_>],
    agreement: &Agreement,
) {
    let sides = [('A', &arguments.folders, a), ('B', &arguments.with, b)];
    let mut labs =
        Table::new(&[("", Align::Left), ("FOLDER", Align::Left), ("", Align::Left), ("ON", Align::Left)]);
    for (side, folders, results) in sides {
        for (folder, results) in folders.iter().zip(results) {
            labs.row([side.to_string(), folder.display().to_string(), results.extent(), on(&results.lab)]);
        }
    }
    print!("{labs}");
    for (side, alone) in ['A', 'B'].into_iter().zip(comparison.alone).filter(|(_, alone)| *alone > 0) {
        println!("{} only in {side}, not compared", counted(alone, "cell"));
    }
    let differ = comparison.cells.iter().filter(|cell| !cell.has_same_seeds()).count();
    if differ > 0 {
        println!(
            "{}: the seeds of the two sides differ. Which records are popular decides how much of the load moves with them, so better \
             compare labs of the same --seed",
            counted(differ, "cell")
        );
    }
    for Figures { cell, absolute, figures } in cells {
        print!("\n{}\n{}", title(cell), table(absolute, figures, arguments.within / 100.0));
    }
    println!(
        "\n{} of {} are within {} % of B's",
        agreement.agree,
        counted(agreement.of, "figure"),
        arguments.within
    );
    if agreement.unsure > 0 {
        println!(
            "{} unsure: with a confidence of 95 % the ratio of the medians lies in an interval that reaches across that limit; more runs \
             narrow it",
            agreement.unsure
        );
    }
}

/// The contents of the tables, for programs. Figures are in the unit of measurement, not in
/// the one for people.
fn as_json(
    arguments: &CompareArguments,
    comparison: &Comparison,
    cells: &[Figures<'_>],
    agreement: &Agreement,
) -> Value {
    let within = arguments.within / 100.0;
    let paths =
        |folders: &[PathBuf]| folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let figure = |figure: &Compared, is_held: bool| {
        json!({
            "measure": figure.measure.key,
            "title": figure.measure.title,
            "unit": figure.measure.unit,
            "a": figure.a,
            "b": figure.b,
            "ratio": figure.ratio(),
            "interval": figure.interval,
            "agrees": is_held.then(|| figure.agrees(within)),
            "unsure": is_held.then(|| figure.is_unsure(within)),
        })
    };
    let cell = |Figures { cell, absolute, figures }: &Figures<'_>| {
        let all =
            (absolute.iter().map(|it| figure(it, false))).chain(figures.iter().map(|it| figure(it, true)));
        json!({
            "cell": cell.cell().title(),
            "left_out": { "a": cell.a.disturbed.len(), "b": cell.b.disturbed.len() },
            "same_seeds": cell.has_same_seeds(),
            "figures": all.collect::<Vec<_>>(),
        })
    };
    json!({
        "folders": { "a": paths(&arguments.folders), "b": paths(&arguments.with) },
        "cells_alone": { "a": comparison.alone[0], "b": comparison.alone[1] },
        "within": within,
        "agree": agreement.agree,
        "of": agreement.of,
        "unsure": agreement.unsure,
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
    })
}

fn read(folders: &[PathBuf]) -> Result<Vec<Results>, Failure> {
    let read = |path: &PathBuf| Results::read(&Folder::to_read(path)).map_err(Failure::refused);
    folders.iter().map(read).collect()
}

/// A lab's machine.
fn on(lab: &LabFile) -> String {
    match &lab.settings.modelled {
        Some(on) => format!("modelled machines: {}", on.machines),
        None => format!("{}, {}", lab.machine.processor, counted(lab.machine.cores as usize, "core")),
    }
}

fn title(cell: &ComparedCell) -> String {
    let runs = [&cell.a, &cell.b].map(|side| match side.disturbed.len() {
        0 => counted(side.reports.len(), "run"),
        left_out => format!("{} ({left_out} left out)", counted(side.reports.len(), "run")),
    });
    format!("{}: {} and {}", cell.cell().title(), runs[0], runs[1])
}

/// The first figures show what the others stand on; only the others are held against the limit.
fn table(absolute: &[Compared], figures: &[Compared], within: f64) -> Table {
    let right = |heading| (heading, Align::Right);
    let mut table =
        Table::new(&[("", Align::Left), right("A"), right("B"), right("A / B"), ("", Align::Left)]);
    let mut row = |figure: &Compared, mark: &str| {
        let shown = |spread: &Spread| {
            let show = |value| figure.measure.unit.show(value);
            match spread.runs {
                1 => show(spread.median),
                _ => format!("{} ({} .. {})", show(spread.median), show(spread.min), show(spread.max)),
            }
        };
        let ratio = match (figure.ratio(), figure.interval) {
            (Some(ratio), Some([low, high])) => format!("{ratio:.2} ({low:.2} .. {high:.2})"),
            (Some(ratio), None) => format!("{ratio:.2}"),
            (None, _) => "-".to_owned(),
        };
        table.row([
            figure.measure.title.to_owned(),
            shown(&figure.a),
            shown(&figure.b),
            ratio,
            mark.to_owned(),
        ]);
    };
    absolute.iter().for_each(|figure| row(figure, ""));
    for figure in figures {
        let mark = match (figure.agrees(within), figure.is_unsure(within)) {
            (true, false) => "",
            (true, true) => "unsure",
            (false, false) => "beyond",
            (false, true) => "beyond, unsure",
        };
        row(figure, mark);
    }
    table
}
