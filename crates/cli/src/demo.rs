//! `sidle demo`: two nodes, a load, and half of the data moved under it.

use crate::conclusion::{ReportFiles, conclude, ensure_distinct, first_of};
use crate::exit::{Failure, Status};
use crate::interrupt;
use crate::load::{Business, LoadArguments};
use crate::numbers::from_to;
use crate::own_program;
use crate::transactions::TransactionsArguments;
use clap::Args;
use sidle_bench::cpu_lists::CpuLists;
use sidle_bench::demo::{DemoError, DemoOptions, run as demonstrate};
use sidle_bench::kill::{self, Victim};
use sidle_bench::limits::{LEAST_MOVED, MAX_RECORDS, MAX_SECONDS, MAX_THREADS, memory_budget_bytes};
use sidle_bench::load::{ClientKind, Pacing};
use sidle_bench::policy::PolicyWord;
use sidle_bench::quota::CpuShares;
use sidle_bench::report::Report;
use sidle_bench::terminal::Terminal;
use sidle_bench::words::counted;
use sidle_migration::{PROTOCOLS, protocol};
use sidle_server::check_cpus;
use sidle_server::config::CpuList;
use sidle_workload::Workload;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The end of `sidle demo --help`.
pub const EXAMPLES: &str = "\
Examples:
  sidle demo
  sidle demo --workload a --records 500000 --seconds 3
  # latency, not peak throughput
  sidle demo --loop open --rate 40000
  # as root: nodes that cannot borrow each other's processors
  sidle demo --cpus source=0.4,target=0.4
  # nodes that have processors of their own, as on two machines
  sidle demo --cpu-lists source=0,target=1
  # what an unmodified cluster client sees
  sidle demo --client plain
  # a node dies, and others take over what it had
  sidle demo --kill node
  # transfers between accounts on both nodes, whose sum never changes
  sidle demo --workload bank
  # TPC-C, whose conditions hold at the end
  sidle demo --workload tpcc --warehouses 8

Starts two nodes on free ports of this machine, loads them, makes a load, moves half of the slots \
from one to the other, and afterwards reads every acknowledged write back. Nothing is left behind \
but the report; what a demonstration that was killed leaves, the next one removes.

With --kill there are three nodes with logs in TMPDIR or /tmp, and copies of these. One is killed under the \
load, and what it had is recovered from copies: a node with half of the data, or the source or the target of \
the move.

With --workload bank each operation is a transfer: a transaction over two accounts, most often on different \
nodes. Another transaction sums all accounts up, again and again. The records are there only to move.

With --workload tpcc each operation is a transaction of TPC-C, in the standard mix. What TPC-C says of the rows \
is checked at the end, of every warehouse.

Exit status: 0 done; 1 a node did not start, or a file could not be written; 2 wrong command line; 3 the \
move failed; 4 a node was not reached; 5 a wrong value was read, or an acknowledged write was lost or not \
read back, or a sum was another one, or a condition of TPC-C's did not hold; 130 interrupted.";

/// Flags of `sidle demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    #[arg(long, help = protocol_help(), value_name = "NAME[,OPTION=VALUE..]", default_value = "fulva")]
    #[arg(value_parser = protocol_word)]
    protocol: String,
    /// How hard the move may press on the nodes: adaptive, rate=MB/S, deadline=SECONDS or
    /// slo-p99=MICROSECONDS
    #[arg(long, value_name = "WORD", default_value = "adaptive")]
    policy: PolicyWord,
    /// Kill one of three nodes under the load, which has half of the data, or is an end of the move: node,
    /// source or target
    #[arg(long, value_name = "WHO", conflicts_with_all = ["cpus", "cpu_lists"])]
    pub kill: Option<Victim>,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    pub(crate) transactions: TransactionsArguments,
    /// How many records [default: 3000000, with --kill 1000000, or as many as fit into memory]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u64>(LEAST_MOVED, MAX_RECORDS))]
    records: Option<u64>,
    /// How long the load lasts before the move, and again after it
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = from_to::<u64>(1, MAX_SECONDS))]
    seconds: u64,
    /// Threads of each node that serve clients [default: one for every two cores, as there are two nodes]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(1, u64::from(MAX_THREADS)))]
    workers: Option<u32>,
    /// Shares of one processor, with root: source=0.4,target=0.4,clients=1
    #[arg(long, value_name = "NAME=SHARE,..")]
    cpus: Option<CpuShares>,
    /// The processors that each node runs on, by number: source=0,target=1. Clients run on all
    #[arg(long, value_name = "NODE=LIST,..")]
    cpu_lists: Option<CpuLists>,
    /// Write the report here
    #[arg(long, value_name = "FILE", default_value = "sidle-demo.json")]
    json: PathBuf,
    /// Draw the report's page here [default: sidle-demo.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the JSON report and nothing else: no display, no summary, and no page that was not asked for
    #[arg(long)]
    pub quiet: bool,
    /// Stop as after Ctrl-C when the standard input ends, as it does with the program that started the
    /// demonstration
    #[arg(long)]
    pub stop_with_stdin: bool,
}

/// The help of `--protocol`, with the protocols' list.
pub fn protocol_help() -> String {
    let names: Vec<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
    format!("How to move: {}. Options that change single choices may follow", names.join(", "))
}

/// A protocol with its options, known to this program.
///
/// # Errors
/// The protocols that there are, or what is wrong with an option.
pub fn protocol_word(text: &str) -> Result<String, String> {
    protocol(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// The records unless their number is given, where as many fit.
const RECORDS: u64 = 3_000_000;
/// The same where a node is killed: three nodes have them, each with all logs.
const RECORDS_WITH_KILL: u64 = 1_000_000;
/// The page's path unless one is given.
const PAGE: &str = "sidle-demo.html";

impl DemoArguments {
    /// The report's files, checked to be writable.
    ///
    /// # Errors
    /// The file that is not writable, and why.
    pub fn files(&self) -> Result<ReportFiles, Failure> {
        ReportFiles::to_write(Some(&self.json), self.page())
    }

    /// The JSON report's path.
    pub(crate) fn json(&self) -> &Path {
        &self.json
    }

    /// What clients do.
    pub fn business(&self) -> &Business {
        self.load.business()
    }

    /// Refuses what the workload has not, and what only another one has.
    fn ensure_of_the_workload(&self) -> Result<(), Failure> {
        let business = self.business();
        self.transactions.ensure_of(business)?;
        let name = match business {
            Business::Records(_) => return Ok(()),
            Business::Bank => "bank",
            Business::Tpcc => "tpcc",
        };
        let is_tpcc = *business == Business::Tpcc;
        let is_plain = self.load.client() == ClientKind::Plain;
        let only_without = [
            ("--kill", self.kill.is_some()),
            ("--cpus", !is_tpcc && self.cpus.is_some()),
            ("--html", self.html.is_some()),
            ("--client plain", is_plain),
            ("--rate", self.load.pacing()? != Pacing::Closed),
            ("--records", is_tpcc && self.records.is_some()),
            ("--distribution", is_tpcc && self.load.has_distribution()),
        ];
        match only_without.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::wrong_line(format!("with --workload {name} leave out {flag}"))),
            None => Ok(()),
        }
    }

    /// The page's path, if there is one.
    fn page(&self) -> Option<&Path> {
        let default = (!self.quiet && !self.business().is_of_transactions()).then(|| Path::new(PAGE));
        self.html.as_deref().or(default)
    }

    const fn usual_records(&self) -> u64 {
        if self.kill.is_some() { RECORDS_WITH_KILL } else { RECORDS }
    }

    /// What two of the nodes may take of the memory.
    const fn budget_of_two(&self, budget_bytes: u64) -> u64 {
        if self.kill.is_some() { budget_bytes / 3 * 2 } else { budget_bytes }
    }

    /// The options of these arguments, with nodes started from this program. Unless their number is given,
    /// there are no more records than fit into `budget_bytes`; what else fits is not checked yet.
    ///
    /// # Errors
    /// This program's file has gone; flags that do not go together; missing processors.
    pub fn options(&self, budget_bytes: u64) -> Result<DemoOptions, Failure> {
        let load = &self.load;
        self.ensure_of_the_workload()?;
        ensure_distinct(Some(&self.json), self.page())?;
        for (node, list) in self.cpu_lists.iter().flat_map(|lists| &lists.0) {
            let refused = |error: &dyn Display| Failure::wrong_line(format!("--cpu-lists, {node}: {error}"));
            let list: CpuList = list.parse().map_err(|error| refused(&error))?;
            check_cpus(&list).map_err(|error| refused(&error))?;
        }
        let mut options = DemoOptions {
            program: own_program()?,
            protocol: self.protocol.clone(),
            policy: self.policy,
            workload: match self.business().is_of_transactions() {
                true => Workload::with_write_ratio(0.0),
                false => load.workload()?,
            },
            distribution: load.distribution(),
            records: self.records.unwrap_or(self.usual_records()),
            key_bytes: load.key_bytes,
            value_bytes: load.value_bytes,
            margin: Duration::from_secs(self.seconds),
            pacing: load.pacing()?,
            client: load.client(),
            clients: load.clients,
            outstanding: load.outstanding,
            separate_clients: load.separate_clients,
            tracking: true,
            offloading: true,
            threads: load.threads(),
            workers: self.workers.unwrap_or_else(|| (sidle_bench::machine::cores() / 2).max(1)),
            cpus: self.cpus.clone(),
            cpu_lists: self.cpu_lists.clone(),
            seed: load.seed,
        };
        if *self.business() == Business::Tpcc {
            self.transactions.size_for_tpcc(&mut options);
        } else if self.records.is_none() {
            let fit = options.size().most_records(self.budget_of_two(budget_bytes));
            options.records = self.usual_records().min(fit).max(LEAST_MOVED);
        }
        Ok(options)
    }
}

/// The options, checked against what fits into `budget_bytes` of memory.
///
/// # Errors
/// What does not fit, and the largest that does.
pub fn checked(arguments: &DemoArguments, budget_bytes: u64) -> Result<DemoOptions, Failure> {
    let options = arguments.options(budget_bytes)?;
    let budget_bytes = arguments.budget_of_two(budget_bytes);
    options.size().check_with_nodes(budget_bytes).map_err(Failure::wrong_line)?;
    Ok(options)
}

/// Runs `sidle demo`, but for transactions.
///
/// # Errors
/// What was refused, what failed in the middle, or wrong answers.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let options = checked(arguments, memory_budget_bytes())?;
    run_measured(arguments, &options)
}

/// Runs a demonstration with processes on this machine, and prints, writes and judges its report.
///
/// # Errors
/// What was refused, what failed in the middle, or wrong answers.
pub fn run_measured(arguments: &DemoArguments, options: &DemoOptions) -> Result<(), Failure> {
    let files = arguments.files()?;
    let report = measured(arguments, options)?;
    let read_back = report.unmeasured.get("lost_writes").map_or(Ok(()), |why| {
        Err(Failure::new(Status::WrongAnswers, format!("lost writes cannot be excluded: {why}")))
    });
    first_of([read_back, conclude(&report, files, arguments.quiet)])
}

/// A flag that is raised when a demonstration must stop.
///
/// # Errors
/// The system provides no signals.
pub fn stop_flag(arguments: &DemoArguments) -> Result<Arc<AtomicBool>, Failure> {
    let stop = interrupt::flag()?;
    if arguments.stop_with_stdin {
        interrupt::raise_when_stdin_ends(&stop);
    }
    Ok(stop)
}

/// A demonstration with processes on this machine.
fn measured(arguments: &DemoArguments, options: &DemoOptions) -> Result<Report, Failure> {
    let (stop, terminal) = (stop_flag(arguments)?, terminal(arguments, options));
    let report = match arguments.kill {
        Some(victim) => kill::run(options, victim, &terminal, &stop),
        None => demonstrate(options, &terminal, &stop),
    };
    report.map_err(failure)
}

/// The display, which says first if there are fewer records than usual.
pub(crate) fn terminal(arguments: &DemoArguments, options: &DemoOptions) -> Terminal {
    let terminal = Terminal::new(arguments.quiet);
    let is_chosen = arguments.records.is_none() && *arguments.business() != Business::Tpcc;
    if is_chosen && options.records < arguments.usual_records() {
        terminal.say(&format!("{}: more do not fit into memory", counted(options.records, "record")));
    }
    terminal
}

/// A demonstration that ended early, as the program's failure.
pub(crate) fn failure(error: DemoError) -> Failure {
    match error {
        DemoError::Interrupted => {
            Failure::new(Status::Detached, "interrupted; the nodes are stopped and their files are gone")
        }
        DemoError::Migration(_) => Failure::new(Status::FailedInTheMiddle, error),
        DemoError::Control(_) => Failure::new(Status::Unreachable, error),
        DemoError::Options(_) | DemoError::Node(_) | DemoError::Io(_) => Failure::refused(error),
    }
}
