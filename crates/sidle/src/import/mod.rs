//! `sidle import`: the keys of an RDB file into a running cluster.
//!
//! The file is read twice: a damaged one, or one with something that would be left behind, changes nothing.
//!
//! | file | what |
//! |---|---|
//! | `contents` | the first reading: what the file has |
//! | `sending` | the second: each key as a RESTORE, many at a time |

mod contents;
mod sending;

use crate::via::Reach;
use clap::{Args, ValueEnum};
use sending::{Imported, Sending};
use serde_json::json;
use sidle_bench::terminal::Terminal;
use sidle_bench::words::{bytes, count, counted, duration, rate};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_rdb::{FileError, FileReader};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

pub(crate) const EXAMPLES: &str = "\
Examples:
  redis-cli -p 6380 --rdb dump.rdb
  sidle import dump.rdb --via 127.0.0.1:6379
  sidle import dump.rdb --check
  sidle import dump.rdb --existing replace --database 3

The file is what SAVE, BGSAVE or `redis-cli --rdb` writes, of Redis 2 to 7 and Valkey 7 to 8. It is read twice: first all of \
it is checked. Keys that are served meanwhile stay served. An import that was interrupted is begun again with the \
same line: keys that are there already are kept.

Exit status: 0 all is there; 1 refused, or the file cannot be used; 2 wrong command line; 3 it stopped in the \
middle; 4 the cluster was not reached.";

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The RDB file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    pub(crate) via: Reach,
    /// What happens to a key that the cluster has already
    #[arg(long, value_enum, default_value = "keep")]
    existing: Existing,
    /// The file's database, if it has several: the cluster has one
    #[arg(long, value_name = "NUMBER")]
    database: Option<u64>,
    /// Leave out what Sidle does not have, such as streams
    #[arg(long)]
    skip_unknown: bool,
    /// Only check the file, and show what it has
    #[arg(long)]
    check: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What happens to a key that the cluster has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Existing {
    /// The cluster's value stays
    Keep,
    /// The file's value takes its place
    Replace,
}

/// Runs `sidle import`.
pub(crate) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    let contents = contents::of(arguments)?;
    if arguments.check {
        match arguments.json {
            true => println!("{}", contents.json()),
            false => println!("{} is sound: {contents}.", arguments.file.display()),
        }
        return Ok(());
    }
    let database = contents.database(arguments.database)?;
    contents.ensure_known(database, arguments.skip_unknown)?;
    sidle_cli::runtime()?.block_on(async {
        let mut interrupt = interrupt::interrupts()?;
        let began = Instant::now();
        let mut sending = Sending::begin(arguments, database).await?;
        let ended = tokio::select! {
            ended = sending.all(&contents) => ended,
            _ = interrupt.recv() => Err(Failure::new(Status::Detached, "interrupted")),
        };
        match ended {
            Ok(()) => report(&sending.imported, began.elapsed(), arguments.json),
            Err(failure) => return Err(stopped(failure, &sending.imported, contents.keys_of(database))),
        }
        Ok(())
    })
}

/// A failure in the middle, with how far it went.
fn stopped(failure: Failure, imported: &Imported, all: u64) -> Failure {
    let done = imported.keys + imported.existing + imported.expired;
    if done == 0 {
        return failure;
    }
    let status = if failure.status == Status::Refused { Status::FailedInTheMiddle } else { failure.status };
    let message = format!(
        "{}. {} of {} are done, perhaps some more; begin again with the same line",
        failure.message,
        counted(done, "key"),
        count(all)
    );
    Failure::new(status, message)
}

fn report(imported: &Imported, took: Duration, json: bool) {
    let Imported { keys, payload_bytes, existing, expired, unknown } = *imported;
    let seconds = took.as_secs_f64();
    if json {
        println!(
            "{}",
            json!({
                "keys": keys, "payload_bytes": payload_bytes, "existing": existing, "expired": expired,
                "unknown": unknown, "seconds": seconds,
            })
        );
        return;
    }
    println!(
        "{} imported, {} in {}: {}.",
        counted(keys, "key"),
        bytes(payload_bytes as f64),
        duration(seconds),
        rate(keys as f64 / seconds.max(0.001)),
    );
    for (keys, what) in [
        (existing, "there before and kept (--existing replace would overwrite)"),
        (expired, "expired before the import"),
        (unknown, "of types that Sidle does not have, left out"),
    ] {
        if keys > 0 {
            println!("{}: {what}.", counted(keys, "key"));
        }
    }
}

fn open(arguments: &ImportArguments) -> Result<(FileReader<File>, u64), Failure> {
    let failed = |error: &dyn std::fmt::Display| file_failure(arguments, error);
    let file = File::open(&arguments.file).map_err(|error| failed(&error))?;
    let length = file.metadata().map_err(|error| failed(&error))?.len();
    let reader = FileReader::new(file).map_err(|error| failed(&error))?;
    Ok((reader, length))
}

fn file_failure(arguments: &ImportArguments, error: &dyn std::fmt::Display) -> Failure {
    Failure::refused(format!("{}: {error}", arguments.file.display()))
}

/// The time, in milliseconds since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn display(arguments: &ImportArguments) -> sidle_bench::terminal::Line {
    // Nothing without a terminal, or with JSON output.
    Terminal::new(arguments.json).live()
}

fn unreadable(arguments: &ImportArguments) -> impl Fn(FileError) -> Failure + '_ {
    |error| file_failure(arguments, &error)
}
