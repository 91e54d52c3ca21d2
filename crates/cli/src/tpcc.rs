//! `sidle demo --workload tpcc`: what it prints, writes and judges.

use crate::demo::{DemoArguments, checked, failure, stop_flag, terminal};
use crate::exit::{Failure, Status};
use crate::output::OutputFile;
use crate::transactions::conclude;
use sidle_bench::demo::DemoOptions;
use sidle_bench::limits::memory_budget_bytes;
use sidle_bench::tpcc::{self, TpccReport, tpcc_summary};
use sidle_bench::words::counted;

/// Runs TPC-C during a move, and prints, writes and judges its report.
///
/// # Errors
/// What was refused, what failed in the middle, or conditions that do not hold.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let options = checked(arguments, memory_budget_bytes())?;
    run_measured(arguments, &options)
}

/// The same with these options.
///
/// # Errors
/// What failed in the middle, or conditions that do not hold.
pub fn run_measured(arguments: &DemoArguments, options: &DemoOptions) -> Result<(), Failure> {
    let file = OutputFile::to_write(arguments.json())?;
    let (stop, terminal) = (stop_flag(arguments)?, terminal(arguments, options));
    let tpcc = arguments.transactions.tpcc();
    let report = tpcc::run(options, tpcc, &terminal, &stop).map_err(failure)?;
    conclude(arguments.quiet, file, &report, (tpcc_summary(&report), verdict(&report)))
}

/// Fails if anything did not hold.
fn verdict(report: &TpccReport) -> Result<(), Failure> {
    if report.is_correct() {
        return Ok(());
    }
    let (sums, violations) = (counted(report.wrong_audits, "wrong sum"), report.violations.join("; "));
    let errors = counted(report.errors.values().sum::<u64>(), "failed transaction");
    Err(Failure::new(Status::WrongAnswers, format!("{sums}, {errors}; {violations}")))
}
