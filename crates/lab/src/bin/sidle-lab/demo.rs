//! `sidle-lab demo`: one run, of processes on this machine or on modelled machines.

use crate::modelled::{self, ModelledArguments};
use clap::Args;
use sidle_bench::demo::DemoOptions;
use sidle_bench::limits::memory_budget_bytes;
use sidle_cli::conclusion::conclude;
use sidle_cli::demo::{self, DemoArguments};
use sidle_cli::exit::Failure;
use sidle_cli::load::Business;
use sidle_cli::tpcc;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # machines that are not there, time that is not yours
  sidle-lab demo --modelled paper --records 300000000
  sidle-lab demo --modelled two-cores --cpus source=0.3,target=0.5
  # what work costs is measured once and kept
  sidle-lab demo --modelled two-cores --costs costs.json
  # what clients gain from what they know to have moved
  sidle-lab demo --without-tracking

Exit status: 0 done; 1 a node did not start, or a file could not be written; 2 wrong command line; 3 the \
move failed; 4 a node was not reached; 5 a wrong value was read, or an acknowledged write was lost or not \
read back; 130 interrupted.";

/// Flags of `sidle-lab demo`.
#[derive(Debug, Args)]
pub(crate) struct LabDemoArguments {
    #[command(flatten)]
    pub(crate) demo: DemoArguments,
    /// An ablation: clients make no use of what they know to have moved; every read of a moving key asks both
    /// nodes
    #[arg(long)]
    without_tracking: bool,
    /// An ablation: the nodes move data on the threads that serve clients, which wait for it meanwhile
    #[arg(long)]
    without_offloading: bool,
    #[command(flatten)]
    pub(crate) modelled: ModelledArguments,
}

/// The options, checked against what fits into `budget_bytes` of memory.
///
/// # Errors
/// What does not fit, and the largest that does.
pub(crate) fn checked(arguments: &LabDemoArguments, budget_bytes: u64) -> Result<DemoOptions, Failure> {
    let is_modelled = arguments.modelled.modelled.is_some();
    let is_tpcc = match arguments.demo.business() {
        Business::Bank => {
            return Err(Failure::wrong_line("the bank is no experiment: `sidle demo --workload bank`"));
        }
        business => *business == Business::Tpcc,
    };
    if is_tpcc && (is_modelled || arguments.without_tracking) {
        let flag = if is_modelled { "--modelled" } else { "--without-tracking" };
        return Err(Failure::wrong_line(format!("with --workload tpcc leave out {flag}")));
    }
    if is_modelled && arguments.demo.kill.is_some() {
        return Err(Failure::wrong_line("--kill needs processes: modelled machines do not die"));
    }
    let options = DemoOptions {
        tracking: !arguments.without_tracking,
        offloading: !arguments.without_offloading,
        ..arguments.demo.options(if is_modelled { u64::MAX } else { budget_bytes })?
    };
    let checked = if is_modelled {
        modelled::check(&options)?;
        options.size().check_modelled(arguments.modelled.sample, budget_bytes)
    } else {
        options.size().check_with_nodes(budget_bytes)
    };
    checked.map_err(Failure::wrong_line)?;
    Ok(options)
}

/// Runs `sidle-lab demo`.
pub(crate) fn run(arguments: &LabDemoArguments) -> Result<(), Failure> {
    let options = checked(arguments, memory_budget_bytes())?;
    match &arguments.modelled.modelled {
        Some(machines) => {
            let files = arguments.demo.files()?;
            let report = modelled::run(machines, &arguments.modelled, &arguments.demo, &options)?;
            conclude(&report, files, arguments.demo.quiet)
        }
        None if *arguments.demo.business() == Business::Tpcc => tpcc::run_measured(&arguments.demo, &options),
        None => demo::run_measured(&arguments.demo, &options),
    }
}
