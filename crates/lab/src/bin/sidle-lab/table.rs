//! `sidle-lab table`: the protocols beside each other on modelled machines, as Markdown.

use clap::Args;
use sidle_bench::limits::MAX_RECORDS;
use sidle_bench::terminal::Terminal;
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cli::numbers::from_to;
use sidle_cli::output::OutputFile;
use sidle_lab::table::{COSTS, Load, Made, Size, VARIANTS, csv, loads, make, markdown};
use sidle_model::Costs;
use sidle_model::machines::Machines;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle-lab table                  # the table of the documentation
  sidle-lab table --csv table.csv  # every figure, for programs
  # loads whose name begins so
  sidle-lab table --variants handoff --loads B,0.99

Exit status: 0 done; 1 a file could not be read or written; 2 wrong command line; 3 runs failed; \
130 interrupted.";

/// Flags of `sidle-lab table`.
#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// Also write every figure there, as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What work costs, as `sidle-lab demo --modelled --costs` writes it [default: what the documentation's
    /// table was made with]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Only these, of those that the whole table has
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(VARIANTS))]
    variants: Vec<String>,
    /// Only the loads that begin with one of these: `B`, `B,0.99`, `B,0.99,40`
    #[arg(long, value_name = "LOAD", num_args = 1..)]
    loads: Vec<String>,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(1, 1024))]
    jobs: Option<u32>,
    /// Runs of each variant under each load, with seeds one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = from_to::<u32>(1, 99))]
    repeat: u32,
    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many records; half of them move
    #[arg(long, value_name = "NUMBER", default_value_t = 500_000, value_parser = from_to::<u64>(10_000, MAX_RECORDS))]
    records: u64,
    /// So many of the records are in memory and stand for the others
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = from_to::<u64>(1000, 10_000_000))]
    sample: u64,
    /// Clients
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = from_to::<u32>(1, 10_000))]
    clients: u32,
}

/// Runs `sidle-lab table`.
pub(crate) fn run(arguments: &TableArguments) -> Result<(), Failure> {
    let terminal = Terminal::new(false);
    let kept = arguments.csv.as_deref().map(OutputFile::to_write).transpose()?;
    let size = Size {
        machines: Machines::four_cores(),
        costs: costs(arguments.costs.as_deref())?,
        records: arguments.records,
        sample: arguments.sample,
        clients: arguments.clients,
        seeds: arguments.seed..=arguments.seed.saturating_add(u64::from(arguments.repeat) - 1),
    };
    let is_wanted = |variant: &&str| {
        arguments.variants.is_empty() || arguments.variants.iter().any(|wanted| wanted == variant)
    };
    let variants: Vec<&'static str> = VARIANTS.into_iter().filter(is_wanted).collect();
    let loads = wanted(&arguments.loads)?;
    let jobs = arguments.jobs.unwrap_or_else(sidle_bench::machine::cores);
    let stop = interrupt::flag()?;
    let line = terminal.live();
    let made = make(&size, &variants, &loads, jobs as usize, &stop, &|number, all| {
        line.show_run(number, all, "on modelled machines");
    });
    drop(line);
    if stop.load(Relaxed) {
        return Err(Failure::new(Status::Detached, "interrupted"));
    }
    let Made { rows, failed } = made;
    print!("{}", markdown::markdown(&rows));
    if let Some(kept) = kept {
        kept.write(&csv::csv(&rows))?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Status::FailedInTheMiddle, failed.join("\n"))),
    }
}

/// The loads that begin so; all where nothing is named.
fn wanted(names: &[String]) -> Result<Vec<Load>, Failure> {
    let mut wanted = loads();
    if names.is_empty() {
        return Ok(wanted);
    }
    let words = |load: &Load| {
        let rate = load.rate_percent.map(|percent| percent.to_string());
        let source = load.source_percent.to_string();
        [Some(load.mix.replace(' ', "")), Some(load.skew.to_string()), Some(source), rate]
    };
    let is_named = |load: &Load, name: &str| {
        let words: Vec<String> = words(load).into_iter().flatten().collect();
        let named: Vec<&str> = name.split(',').collect();
        named.len() <= words.len() && named.iter().zip(&words).all(|(named, word)| named == word)
    };
    if let Some(unknown) = names.iter().find(|name| !wanted.iter().any(|load| is_named(load, name))) {
        let why = format!("no load begins with '{unknown}': give for instance A, B,0.99, or 30%,0.01,40");
        return Err(Failure::wrong_line(why));
    }
    let chosen: Vec<Load> =
        wanted.iter().copied().filter(|load| names.iter().any(|name| is_named(load, name))).collect();
    // An open loop's rate is known by its closed loop.
    wanted.retain(|load| {
        chosen
            .iter()
            .any(|chosen| chosen == load || chosen.rate_percent.is_some() && chosen.closed() == *load)
    });
    Ok(wanted)
}

fn costs(file: Option<&Path>) -> Result<Costs, Failure> {
    let json = match file {
        None => COSTS.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?,
    };
    let shown = file.map_or_else(|| "assets/costs.json".to_owned(), |path| path.display().to_string());
    serde_json::from_str(&json).map_err(|error| Failure::refused(format!("{shown}: {error}")))
}
