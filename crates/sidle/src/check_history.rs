//! `sidle check-history`: whether some order of a recorded run's operations explains every answer.

use clap::Args;
use sidle_cli::exit::{Failure, Status};
use sidle_history::{CheckOptions, check, read};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle bench --records 1000 --seconds 5 --history run.jsonl
  sidle check-history run.jsonl

All files belong to one run and are judged together. Every key starts absent. Keys with a time to live belong into a \
file of their own, which this checker does not judge.

Exit status: 0 every key is linearizable; 1 a file cannot be read; 2 wrong command line; \
5 some key is not linearizable, or was too hard to decide.";

#[derive(Debug, Args)]
pub(crate) struct CheckHistoryArguments {
    /// Histories, one JSON object a line
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many possible orders of one key are looked at before it is given up as undecided
    #[arg(long, value_name = "NUMBER", default_value_t = CheckOptions::default().configurations_per_key)]
    effort: usize,
}

/// Runs `sidle check-history`.
pub(crate) fn run(arguments: &CheckHistoryArguments) -> Result<(), Failure> {
    let mut operations = Vec::new();
    for path in &arguments.files {
        let failed = |error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(|error| failed(&error))?;
        for operation in read(BufReader::new(file)) {
            operations.push(operation.map_err(|error| failed(&error))?);
        }
    }
    let options = CheckOptions { configurations_per_key: arguments.effort, ..CheckOptions::default() };
    let report = check(&operations, options);
    println!("{report}");
    if report.is_linearizable() {
        return Ok(());
    }
    Err(Failure::new(Status::WrongAnswers, "the history is not shown to be linearizable"))
}
