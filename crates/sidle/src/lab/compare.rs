//! `sidle lab compare`: labs beside labs, as tables.

use crate::exit::Failure;
use crate::table::{Align, Table};
use clap::Args;
use sidle_bench::lab::measures::{ABSOLUTE, MEASURES, Measure, named};
use sidle_bench::lab::{Compared, ComparedCell, Folder, LabFile, Results, Spread, compare};
use sidle_bench::words::counted;
use std::path::PathBuf;

/// Compared where nothing else is asked for: throughput and latency, in ratios to before the move, and how long it takes.
const USUAL: [&str; 8] = ["during", "worst", "after", "p50", "p99", "after_p50", "after_p99", "seconds"];
const ALL: &str = "all";

#[derive(Debug, Args)]
pub(super) struct CompareArguments {
    /// The folders of the one side, A. Runs of one cell are taken together, whichever folder of a side they are in
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
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    percent.filter(|percent| (0.0..=1000.0).contains(percent)).ok_or_else(|| "give 0 to 1000 %".to_owned())
}

fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(MEASURES.iter().map(|measure| measure.key).chain([ALL]))
}

pub(super) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let (a, b) = (read(&arguments.folders)?, read(&arguments.with)?);
    let comparison = compare(&a, &b).map_err(Failure::refused)?;
    let sides = [('A', &arguments.folders, &a), ('B', &arguments.with, &b)];
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
    let measures: Vec<&Measure> = match arguments.measures.iter().any(|name| name == ALL) {
        true => MEASURES.iter().collect(),
        false => arguments.measures.iter().map(|name| named(name)).collect(),
    };
    let within = arguments.within / 100.0;
    let (mut agree, mut counted_figures) = (0, 0);
    for cell in &comparison.cells {
        let figures = cell.figures(&measures);
        print!("\n{}\n{}", title(cell), table(&cell.figures(&ABSOLUTE.each_ref()), &figures, within));
        let figures = || figures.iter().filter(|figure| !figure.is_nothing());
        counted_figures += figures().count();
        agree += figures().filter(|figure| figure.agrees(within)).count();
    }
    println!("\n{agree} of {} are within {} % of B's", counted(counted_figures, "figure"), arguments.within);
    Ok(())
}

fn read(folders: &[PathBuf]) -> Result<Vec<Results>, Failure> {
    let read = |path: &PathBuf| Results::read(&Folder::to_read(path)).map_err(Failure::refused);
    folders.iter().map(read).collect()
}

/// What a lab ran on.
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

/// The first figures say on what the others stand; only those are held against the limit.
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
        let ratio = figure.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
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
        row(figure, if figure.agrees(within) { "" } else { "beyond" });
    }
    table
}
