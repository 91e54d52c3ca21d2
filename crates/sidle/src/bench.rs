//! `sidle bench`: a load on servers that run already, a comparison with Redis, and the page of an earlier
//! report.

use crate::cli::Via;
use crate::exit::{Failure, Status};
use crate::interrupt;
use crate::load_arguments::{LoadArguments, write_report};
use crate::numbers::from_to;
use clap::{Args, Subcommand};
use sidle_bench::limits::{
    LoadSize, MAX_CLIENTS, MAX_KEY_BYTES, MAX_RECORDS, MAX_SECONDS, MAX_VALUE_BYTES, memory_budget_bytes,
};
use sidle_bench::load::Plan;
use sidle_bench::peers::{self, PeerOptions};
use sidle_bench::report::Report;
use sidle_bench::steady::{self, SteadyError, SteadyOptions};
use sidle_bench::summary::summary;
use sidle_bench::terminal::Terminal;
use sidle_workload::{KeyFormat, ValueFormat};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle bench --records 1000000 --seconds 20
  sidle bench --via 10.0.0.1:6379 --no-load --workload c --loop open --rate 50000
  sidle bench --client plain --via 127.0.0.1:6379 --records 100000      any Redis server, its data overwritten
  sidle bench --records 1000 --seconds 5 --history run.jsonl            then: sidle check-history run.jsonl
  sidle bench peers                                                     against redis-server, in one run
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
    /// Compare the server processor time of a request with Redis's, in one run
    Peers(PeersArguments),
    /// Draw the page of a report
    Page(PageArguments),
}

#[derive(Debug, Args)]
struct PeersArguments {
    /// The Redis server
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/bin/redis-server")]
    redis: PathBuf,
    /// How many records
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = from_to::<u64>(1, MAX_RECORDS))]
    records: u64,
    /// Bytes of each key
    #[arg(long, value_name = "BYTES", default_value_t = 30, value_parser = from_to::<usize>(1, MAX_KEY_BYTES as u64))]
    key_bytes: usize,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = from_to::<usize>(1, MAX_VALUE_BYTES as u64))]
    value_bytes: usize,
    /// How long one turn of one server lasts
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500, value_parser = from_to::<u64>(50, 3_600_000))]
    slice_ms: u64,
    /// Turns of each server for each command and depth
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = from_to::<u32>(1, 1000))]
    rounds: u32,
    /// Requests per batch; 1: unpipelined
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,16", value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    depths: Vec<u32>,
    /// Connections to each server
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    clients: u32,
    /// What every draw is made from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the comparison here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
        Some(BenchCommand::Peers(arguments)) => compare(arguments),
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
        Some(BenchCommand::Peers(arguments)) => arguments.check(budget_bytes),
        Some(BenchCommand::Page(_)) => Ok(()),
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

/// Fails if anything that was read was wrong, or anything acknowledged was lost.
pub(crate) fn verdict(report: &Report) -> Result<(), Failure> {
    if report.is_correct() {
        return Ok(());
    }
    let (wrong, lost) = (report.wrong_values, report.lost_writes.unwrap_or(0));
    Err(Failure::new(Status::WrongAnswers, format!("{wrong} wrong values, {lost} lost writes")))
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

impl PeersArguments {
    /// Checks what this program itself needs, and the two servers beside it.
    fn check(&self, budget_bytes: u64) -> Result<(), String> {
        let deepest = self.depths.iter().max().copied().unwrap_or(1);
        let size = LoadSize {
            records: self.records,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            underway: u64::from(self.clients) * u64::from(deepest),
        };
        size.check(budget_bytes)?;
        let record_bytes = (self.key_bytes + self.value_bytes + 128) as u64;
        let fit = budget_bytes / 4 / record_bytes;
        if self.records > fit {
            let records = self.records;
            return Err(format!(
                "{records} records are too many: at most {fit} fit into both servers' memory"
            ));
        }
        Ok(())
    }
}

fn compare(arguments: &PeersArguments) -> Result<(), Failure> {
    arguments.check(memory_budget_bytes()).map_err(Failure::refused)?;
    let options = PeerOptions {
        program: std::env::current_exe().map_err(Failure::refused)?,
        redis: arguments.redis.clone(),
        records: arguments.records,
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        slice: Duration::from_millis(arguments.slice_ms),
        rounds: arguments.rounds,
        depths: arguments.depths.clone(),
        clients: arguments.clients,
        seed: arguments.seed,
    };
    let stop = interrupt::flag()?;
    let report = peers::run(&options, &Terminal::new(false), &stop).map_err(Failure::refused)?;
    let text = serde_json::to_string_pretty(&report).expect("a comparison is plain data") + "\n";
    match &arguments.json {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::refused(format!("{}: {error}", path.display()))),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn page(arguments: &PageArguments) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", arguments.report.display()));
    let text = std::fs::read_to_string(&arguments.report).map_err(|error| failed(&error))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    write_report(&report, None, Some(&arguments.html)).map_err(Failure::refused)
}
