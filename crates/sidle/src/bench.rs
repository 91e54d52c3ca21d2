//! `sidle bench`: a load on servers that run already, and the page of an earlier report.

use crate::cli::Via;
use crate::elsewhere::{self, ElsewhereArguments};
use clap::{Args, Subcommand};
use sidle_bench::limits::{MAX_RECORDS, MAX_SECONDS, memory_budget_bytes};
use sidle_bench::load::Plan;
use sidle_bench::report::Report;
use sidle_bench::steady::{self, SteadyError, SteadyOptions};
use sidle_bench::summary::summary;
use sidle_bench::terminal::Terminal;
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cli::load::{LoadArguments, verdict, write_report};
use sidle_cli::numbers::from_to;
use sidle_workload::{KeyFormat, ValueFormat};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle bench --records 1000000 --seconds 20
  sidle bench --via 10.0.0.1:6379 --no-load --workload c --loop open --rate 50000
  sidle bench --client plain --via 127.0.0.1:6379 --records 100000      any Redis server, its data overwritten
  sidle bench --records 1000 --seconds 5 --history run.jsonl            then: sidle check-history run.jsonl
  sidle bench page run.json --html run.html                             the page of an earlier report

Every value that is read is checked: a wrong, torn, stale or missing one is counted and makes the command fail.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    via: Via,
    #[command(flatten)]
    load: LoadArguments,
    /// How many records
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = from_to::<u64>(1, MAX_RECORDS))]
    records: u64,
    /// How long the load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = from_to::<u64>(0, MAX_SECONDS))]
    seconds: u64,
    /// Write the records and leave
    #[arg(long, conflicts_with = "no_load")]
    load_only: bool,
    /// The records are there already
    #[arg(long)]
    no_load: bool,
    /// Record every operation here, loading included, for `sidle check-history`
    #[arg(long, value_name = "FILE", conflicts_with = "no_load")]
    history: Option<PathBuf>,
    /// Write the report here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the report's page here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// In the program sidle-lab
    #[command(hide = true)]
    Peers(ElsewhereArguments),
    /// Draw the page of a report
    Page(PageArguments),
}

#[derive(Debug, Args)]
struct PageArguments {
    /// The report, as `--json` wrote it
    report: PathBuf,
    /// Where the page goes
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

/// Runs `sidle bench`.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(BenchCommand::Peers(arguments)) => elsewhere::refuse("sidle bench peers", &["peers"], arguments),
        Some(BenchCommand::Page(arguments)) => page(arguments),
        None => steady(arguments),
    }
}

/// Checks what would be run, against `budget_bytes` of memory.
///
/// # Errors
/// What does not fit, and the largest that does.
#[cfg(test)]
pub(crate) fn check(arguments: &BenchArguments, budget_bytes: u64) -> Result<(), String> {
    match &arguments.command {
        Some(BenchCommand::Peers(_) | BenchCommand::Page(_)) => Ok(()),
        None => plan(arguments, budget_bytes).map(|_| ()),
    }
}

fn steady(arguments: &BenchArguments) -> Result<(), Failure> {
    let options = SteadyOptions {
        plan: plan(arguments, memory_budget_bytes()).map_err(Failure::refused)?,
        load: !arguments.no_load,
        duration: Duration::from_secs(if arguments.load_only { 0 } else { arguments.seconds }),
        history: arguments.history.clone(),
    };
    let stop = interrupt::flag()?;
    let report = steady::run(&options, &Terminal::new(false), &stop).map_err(|error| match error {
        SteadyError::Interrupted => Failure::new(Status::Detached, error),
        SteadyError::Control(_) => Failure::new(Status::Unreachable, error),
        SteadyError::Options(_) | SteadyError::Load { .. } | SteadyError::Io(_) => Failure::refused(error),
    })?;
    if arguments.load_only {
        eprintln!("{} records are loaded", arguments.records);
        return Ok(());
    }
    print!("{}", summary(&report));
    write_report(&report, arguments.json.as_deref(), arguments.html.as_deref()).map_err(Failure::refused)?;
    verdict(&report)
}

fn plan(arguments: &BenchArguments, budget_bytes: u64) -> Result<Plan, String> {
    let load = &arguments.load;
    load.size(arguments.records).check(budget_bytes)?;
    Ok(Plan {
        seeds: vec![arguments.via.via.parse().map_err(|error| format!("{error}"))?],
        password: arguments.via.password.clone(),
        client: load.client(),
        records: arguments.records,
        keys: KeyFormat::new(load.key_bytes, arguments.records).map_err(|error| error.to_string())?,
        values: ValueFormat::new(load.value_bytes).map_err(|error| error.to_string())?,
        workload: load.workload(),
        distribution: load.distribution,
        clients: load.clients,
        outstanding: load.outstanding,
        separate_clients: load.separate_clients,
        tracking: true,
        threads: load.threads(),
        pacing: load.pacing(),
        seed: load.seed,
        moving: None,
    })
}

fn page(arguments: &PageArguments) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", arguments.report.display()));
    let text = std::fs::read_to_string(&arguments.report).map_err(|error| failed(&error))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    write_report(&report, None, Some(&arguments.html)).map_err(Failure::refused)
}
