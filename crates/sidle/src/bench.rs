//! `sidle bench`: a load on running servers, and the page of an earlier report.

use crate::elsewhere::{self, ElsewhereArguments};
use crate::hints;
use crate::via::Via;
use clap::{Args, Subcommand};
use sidle_bench::control::ControlError;
use sidle_bench::failures;
use sidle_bench::limits::{MAX_RECORDS, MAX_SECONDS, memory_budget_bytes};
use sidle_bench::load::Plan;
use sidle_bench::report::Report;
use sidle_bench::steady::{self, Steady, SteadyError, SteadyOptions};
use sidle_bench::terminal::Terminal;
use sidle_bench::words::counted;
use sidle_cli::conclusion::{ReportFiles, conclude, first_of};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cli::load::LoadArguments;
use sidle_cli::numbers::from_to;
use sidle_cli::output::ensure_distinct;
use sidle_workload::{KeyFormat, ValueFormat};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle bench --records 1000000 --seconds 20
  # an open loop: latency, not peak throughput
  sidle bench --via 10.0.0.1:6379 --no-load --workload c --rate 50000
  # any Redis server, its data overwritten
  sidle bench --client plain --via 127.0.0.1:6379 --records 100000
  # every operation, to be judged afterwards
  sidle bench --records 1000 --seconds 5 --history run.jsonl
  sidle check-history run.jsonl
  # the page of an earlier report
  sidle bench page run.json --html run.html

Every value that is read is checked: a wrong, torn, stale or missing one is counted and makes the command fail. \
The throughput is that of the median window of 100 ms.

Exit status: 0 done; 1 refused, or a file could not be written; 2 wrong command line; 4 no server was reached, or \
hardly a request answered; 5 a wrong value was read, or reads found no record; 130 interrupted.";

const PAGE_EXAMPLES: &str = "\
Exit status: 0 drawn; 1 the report cannot be read, or the page not be written; 2 wrong command line.";

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
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = from_to::<u64>(1, MAX_SECONDS))]
    seconds: u64,
    /// Write the records and leave
    #[arg(long, conflicts_with_all = ["no_load", "seconds", "json", "html"])]
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
    #[command(after_help = PAGE_EXAMPLES)]
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

impl BenchArguments {
    /// How to reach the servers.
    pub(crate) fn via(&self) -> &Via {
        &self.via
    }
}

/// Runs `sidle bench`.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(BenchCommand::Peers(arguments)) => peers(arguments),
        Some(BenchCommand::Page(arguments)) => page(arguments),
        None => steady(arguments),
    }
}

/// Checks the run against `budget_bytes` of memory.
///
/// # Errors
/// What does not fit, and the largest that does.
#[cfg(test)]
pub(crate) fn check(arguments: &BenchArguments, budget_bytes: u64) -> Result<(), Failure> {
    match &arguments.command {
        Some(BenchCommand::Peers(arguments)) => peers(arguments),
        Some(BenchCommand::Page(_)) => Ok(()),
        None => plan(arguments, budget_bytes).map(|_| ()),
    }
}

fn peers(arguments: &ElsewhereArguments) -> Result<(), Failure> {
    elsewhere::refuse("sidle bench peers", &["peers"], arguments)
}

fn steady(arguments: &BenchArguments) -> Result<(), Failure> {
    let options = SteadyOptions {
        plan: plan(arguments, memory_budget_bytes())?,
        load: !arguments.no_load,
        duration: Duration::from_secs(if arguments.load_only { 0 } else { arguments.seconds }),
        history: arguments.history.clone(),
    };
    let files = ReportFiles::to_write(arguments.json.as_deref(), arguments.html.as_deref())?;
    let stop = interrupt::flag()?;
    let Steady { report, is_interrupted, history } =
        steady::run(&options, &Terminal::new(false), &stop).map_err(explained)?;
    let concluded = match arguments.load_only {
        true => {
            eprintln!("{} loaded", counted(arguments.records, "record"));
            Ok(())
        }
        false => conclude(&report, files, false),
    };
    let whole = match is_interrupted {
        true => Err(Failure::new(Status::Detached, "interrupted: the figures are of what ran until then")),
        false => Ok(()),
    };
    first_of([concluded, history.map_err(Failure::refused), whole, answered(arguments.load_only, &report)])
}

/// A load that was hardly answered is no measurement, nor is one whose reads find no record.
fn answered(is_load_only: bool, report: &Report) -> Result<(), Failure> {
    if let Some(&absent) = report.errors.get(failures::ABSENT) {
        let what =
            format!("{} found no record: {}", counted(absent, "read"), failures::advice(&report.errors));
        return Err(Failure::new(Status::WrongAnswers, what));
    }
    let latency = &report.latency_us.before;
    let has_none = latency.reads.is_none() && latency.writes.is_none();
    // The median window: in most of the time there was no answer.
    let is_silent = has_none || report.throughput.before == Some(0.0);
    if is_load_only || report.errors.is_empty() || !is_silent {
        return Ok(());
    }
    let how_many = if has_none { "no request was" } else { "hardly a request was" };
    let what = format!("{how_many} answered: `sidle status` shows which nodes are down");
    Err(Failure::new(Status::Unreachable, what))
}

/// Why there was no load, and the remedy.
fn explained(error: SteadyError) -> Failure {
    match error {
        SteadyError::Interrupted { .. } => Failure::new(Status::Detached, error),
        SteadyError::Control(ControlError::Io { address, error }) => {
            Failure::new(Status::Unreachable, hints::unreachable(&address, error))
        }
        SteadyError::Control(ControlError::Silent { address, seconds }) => {
            Failure::new(Status::Unreachable, hints::silent(&address, &format!("{seconds} seconds")))
        }
        SteadyError::Control(ControlError::Refused { address, text }) => {
            Failure::refused(hints::refused(&address, &text))
        }
        SteadyError::Control(ControlError::Unexpected { address, what }) => {
            Failure::new(Status::Unreachable, hints::no_redis(&address, what))
        }
        SteadyError::History(_) | SteadyError::Foreign(_) | SteadyError::Load(_) | SteadyError::Io(_) => {
            Failure::refused(error)
        }
    }
}

/// The load, checked without asking a server.
fn plan(arguments: &BenchArguments, budget_bytes: u64) -> Result<Plan, Failure> {
    let BenchArguments { load, json, html, history, .. } = arguments;
    let [json, html, history] = [json, html, history].map(Option::as_deref);
    ensure_distinct(&[("--json", json), ("--html", html), ("--history", history)])?;
    load.size(arguments.records).check(budget_bytes).map_err(Failure::wrong_line)?;
    let keys = KeyFormat::new(load.key_bytes, arguments.records).map_err(Failure::wrong_line)?;
    if history.is_some() && !keys.is_text() {
        return Err(Failure::wrong_line(
            "a history needs keys that are text: give longer keys (--key-bytes)",
        ));
    }
    Ok(Plan {
        seeds: vec![arguments.via.via.parse().map_err(Failure::wrong_line)?],
        password: arguments.via.password.clone(),
        client: load.client(),
        records: arguments.records,
        keys,
        values: ValueFormat::new(load.value_bytes).map_err(Failure::wrong_line)?,
        workload: load.workload()?,
        distribution: load.distribution(),
        clients: load.clients,
        outstanding: load.outstanding,
        separate_clients: load.separate_clients,
        tracking: true,
        threads: load.threads(),
        pacing: load.pacing()?,
        seed: load.seed,
        moving: None,
    })
}

fn page(arguments: &PageArguments) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", arguments.report.display()));
    let page = ReportFiles::to_write(None, Some(&arguments.html))?;
    let text = std::fs::read_to_string(&arguments.report).map_err(|error| failed(&error))?;
    let report = report_in(&text).map_err(|why| failed(&why))?;
    page.write(&report)
}

/// The report in a file.
///
/// # Errors
/// What the file holds instead.
fn report_in(text: &str) -> Result<Report, String> {
    const EXPECTED: &str = "give a report as `sidle bench --json` or `sidle demo` writes it";
    let is_json = |error| format!("it is not JSON ({error}): {EXPECTED}");
    let json: serde_json::Value = serde_json::from_str(text).map_err(is_json)?;
    if json.get("cells").is_some() && json.get("settings").is_some() {
        return Err(
            "it is a lab's list of runs: `sidle-lab report FOLDER` draws the page of its folder".to_owned()
        );
    }
    let missing =
        ["workload", "records", "throughput", "timeline"].into_iter().find(|name| json.get(name).is_none());
    if let Some(missing) = missing {
        return Err(format!("it is no report, for it has no \"{missing}\": {EXPECTED}"));
    }
    let of_another =
        |error| format!("it is no report of this version ({error}): draw it with the one that wrote it");
    serde_json::from_value(json).map_err(of_another)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_hardly_answered_is_no_measurement() {
        let mut report = Report::default();
        assert!(answered(false, &report).is_ok());
        report.errors.insert(failures::UNFINISHED.to_owned(), 64);
        for (rate, is_fine) in [(None, false), (Some(0.0), false), (Some(10.0), true)] {
            report.throughput.before = rate;
            report.latency_us.before.reads = rate.map(|_| Default::default());
            assert_eq!(answered(false, &report).is_ok(), is_fine, "{rate:?}");
            assert!(answered(true, &report).is_ok());
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_refused_with_what_it_is() {
        let whole = serde_json::to_string(&Report::default()).expect("plain data");
        assert!(report_in(&whole).is_ok());
        let newer = whole.replace("\"seed\":0", "\"seed\":0,\"mood\":1");
        for (text, told) in [
            ("# A page", "it is not JSON"),
            ("{}", "it is no report, for it has no \"workload\": give a report as `sidle bench --json`"),
            ("[1]", "it is no report"),
            ("{\"cells\":[],\"settings\":{}}", "`sidle-lab report FOLDER`"),
            (&newer, "it is no report of this version (unknown field `mood`"),
        ] {
            let refused = report_in(text).expect_err(text);
            assert!(refused.starts_with(told) || refused.contains(told), "{refused}");
        }
    }
}
