//! `sidle demo --workload bank`: what it prints, writes and judges.

use crate::demo::{DemoArguments, checked, failure, stop_flag, terminal};
use crate::exit::{Failure, Status};
use crate::output::OutputFile;
use crate::transactions::conclude;
use sidle_bench::bank::{self, BankReport, bank_summary};
use sidle_bench::limits::memory_budget_bytes;
use sidle_bench::words::counted;

/// Runs the bank's day, and prints, writes and judges its report.
///
/// # Errors
/// What was refused, what failed in the middle, or wrong sums.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let options = checked(arguments, memory_budget_bytes())?;
    let file = OutputFile::to_write(arguments.json())?;
    let (stop, terminal) = (stop_flag(arguments)?, terminal(arguments, &options));
    let report = bank::run(&options, arguments.transactions.accounts(), &terminal, &stop).map_err(failure)?;
    conclude(arguments.quiet, file, &report, (bank_summary(&report), verdict(&report)))
}

/// Fails if money was made or lost, or anything else.
fn verdict(report: &BankReport) -> Result<(), Failure> {
    if report.is_correct() {
        return Ok(());
    }
    let (sums, writes) = (counted(report.wrong_sums, "wrong sum"), counted(report.lost_writes, "lost write"));
    let transfers = counted(report.lost_transfers, "lost transfer");
    let (first, last) = (report.sum, report.sum_at_the_end);
    let text = format!("{sums}, {transfers}, {writes}; {first} at first, {last} at the end");
    Err(Failure::new(Status::WrongAnswers, text))
}
