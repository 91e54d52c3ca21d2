//! `sidle demo`: two nodes, a load, and half of the data moved under it.

use crate::exit::{Failure, Status};
use crate::interrupt;
use crate::load_arguments::{LoadArguments, write_report};
use crate::modelled::{self, ModelledArguments};
use crate::numbers::from_to;
use crate::policy_arguments::protocol_help;
use clap::Args;
use sidle_bench::cpu_lists::CpuLists;
use sidle_bench::demo::{DemoError, DemoOptions, run as demonstrate};
use sidle_bench::limits::{MAX_RECORDS, MAX_SECONDS, MAX_THREADS, memory_budget_bytes};
use sidle_bench::policy::PolicyWord;
use sidle_bench::quota::CpuShares;
use sidle_bench::report::Report;
use sidle_bench::summary::summary;
use sidle_bench::terminal::Terminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle demo
  sidle demo --workload a --records 500000 --seconds 3
  sidle demo --loop open --rate 40000            latency, not peak throughput
  sidle demo --cpus source=0.4,target=0.4        as root: nodes that cannot borrow each other's processors
  sidle demo --cpu-lists source=0,target=1       nodes that have processors of their own, as on two machines
  sidle demo --client plain                      what an unmodified cluster client sees
  sidle demo --modelled paper --records 300000000  machines that are not there, time that is not yours

Starts two nodes on free ports of this machine, loads them, makes a load, moves half of the slots \
from one to the other, and afterwards reads every acknowledged write back. Nothing is left behind \
but the report; what a demonstration that was killed leaves, the next one removes.";

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    #[arg(long, help = protocol_help(), value_name = "NAME[,OPTION=VALUE..]", default_value = "fulva")]
    protocol: String,
    /// How hard the move may press on the nodes: adaptive, rate=MB/S, deadline=SECONDS or
    /// slo-p99=MICROSECONDS
    #[arg(long, value_name = "WORD", default_value = "adaptive")]
    policy: PolicyWord,
    #[command(flatten)]
    load: LoadArguments,
    /// How many records; fewer if they do not fit into memory
    #[arg(long, value_name = "NUMBER", default_value_t = 3_000_000, value_parser = from_to::<u64>(1000, MAX_RECORDS))]
    records: u64,
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
    /// An ablation: clients make no use of what they know to have moved; every read of a moving key asks both
    /// nodes
    #[arg(long)]
    without_tracking: bool,
    /// An ablation: the nodes move data on the threads that serve clients, which wait for it meanwhile
    #[arg(long)]
    without_offloading: bool,
    /// Write the JSON report and nothing else: no display, no summary, and no page that was not asked for
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Stop as after Ctrl-C when the standard input ends, as it does with the program that started the
    /// demonstration
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
    #[command(flatten)]
    pub(crate) modelled: ModelledArguments,
}

/// Where the page goes when nothing else is said.
const PAGE: &str = "sidle-demo.html";

/// The options, checked against what fits into `budget_bytes` of memory.
pub(crate) fn options(arguments: &DemoArguments, budget_bytes: u64) -> Result<DemoOptions, Failure> {
    let load = &arguments.load;
    let options = DemoOptions {
        program: std::env::current_exe().map_err(Failure::refused)?,
        protocol: arguments.protocol.clone(),
        policy: arguments.policy,
        workload: load.workload(),
        distribution: load.distribution,
        records: arguments.records,
        key_bytes: load.key_bytes,
        value_bytes: load.value_bytes,
        margin: Duration::from_secs(arguments.seconds),
        pacing: load.pacing(),
        client: load.client(),
        clients: load.clients,
        outstanding: load.outstanding,
        separate_clients: load.separate_clients,
        tracking: !arguments.without_tracking,
        offloading: !arguments.without_offloading,
        threads: load.threads(),
        workers: arguments.workers.unwrap_or_else(|| (sidle_bench::machine::cores() / 2).max(1)),
        cpus: arguments.cpus.clone(),
        cpu_lists: arguments.cpu_lists.clone(),
        seed: load.seed,
    };
    let checked = match &arguments.modelled.modelled {
        Some(_) => options.check_modelled(arguments.modelled.sample, budget_bytes),
        None => options.records_that_fit(budget_bytes).map(|_| ()),
    };
    checked.map_err(Failure::refused)?;
    Ok(options)
}

/// Runs `sidle demo`.
pub(crate) fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let options = options(arguments, memory_budget_bytes())?;
    let report = match &arguments.modelled.modelled {
        Some(machines) => modelled::run(machines, arguments, &options)?,
        None => measured(arguments, &options)?,
    };
    let default_page = (!arguments.quiet).then(|| Path::new(PAGE));
    let html = arguments.html.as_deref().or(default_page);
    write_report(&report, Some(&arguments.json), html).map_err(Failure::refused)?;
    if !arguments.quiet {
        print!("{}", summary(&report));
        let page = html.map_or_else(String::new, |html| format!(" and {}", html.display()));
        println!("{:<18} {}{page}", "report", arguments.json.display());
    }
    crate::bench::verdict(&report)?;
    match report.unmeasured.get("lost_writes").filter(|_| report.modelled.is_none()) {
        Some(why) => {
            Err(Failure::new(Status::WrongAnswers, format!("lost writes cannot be excluded: {why}")))
        }
        None => Ok(()),
    }
}

/// A demonstration with processes on this machine.
fn measured(arguments: &DemoArguments, options: &DemoOptions) -> Result<Report, Failure> {
    let stop = interrupt::flag()?;
    if arguments.stop_with_stdin {
        interrupt::raise_when_stdin_ends(&stop);
    }
    demonstrate(options, &Terminal::new(arguments.quiet), &stop).map_err(|error| match error {
        DemoError::Interrupted => {
            Failure::new(Status::Detached, "interrupted; the nodes are stopped and their files are gone")
        }
        DemoError::Migration(_) => Failure::new(Status::FailedInTheMiddle, error),
        DemoError::Control(_) => Failure::new(Status::Unreachable, error),
        DemoError::Options(_) | DemoError::Node(_) | DemoError::Io(_) => Failure::refused(error),
    })
}
