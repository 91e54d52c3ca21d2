//! Absurd numbers on the command line.

use crate::bench;
use crate::cli::{Cli, Command};
use clap::{CommandFactory, Parser};
use sidle_cli::absurd::{BUDGET_BYTES, Flags, NumberFlag};
use sidle_cli::{demo, server};

const NUMBERS: &[NumberFlag] = &[
    ("migrate --to a:1 --slots 1", "timeout", Some("3600")),
    ("migrate set 1 --rate 1", "timeout", Some("3600")),
    ("status", "timeout", Some("3600")),
    ("forget a:1", "timeout", Some("3600")),
    ("migrate --to a:1 --slots 1", "rate", Some("megabytes")),
    ("migrate --to a:1 --slots 1", "deadline", Some("seconds")),
    ("migrate --to a:1 --slots 1", "slo-p99", Some("microseconds")),
    ("migrate", "cancel", None),
    ("migrate --to a:1", "slots", Some("0 to 16383")),
    ("migrate --to a:1", "positions", Some("0xFIRST-0xLAST")),
    ("migrate set 1", "rate", Some("megabytes")),
    ("migrate set 1", "deadline", Some("seconds")),
    ("migrate set 1", "slo-p99", Some("microseconds")),
    ("bench", "records", Some("to 281474976710656")),
    ("bench", "seconds", Some("2592000")),
    ("bench", "threads", Some("512")),
    ("bench", "clients", Some("10000")),
    ("bench", "outstanding", Some("10000")),
    ("bench", "value-bytes", Some("to 536870912")),
    ("bench", "key-bytes", Some("to 65536")),
    ("bench --loop open", "rate", Some("1 to 1000000000")),
    ("bench", "write-ratio", Some("0 to 100")),
    ("bench", "seed", None),
    ("check-history f", "effort", None),
];

const NO_NUMBERS: &[&str] = &["history", "to", "via"];

const TOO_LARGE: &[(&str, &str)] = &[
    ("bench --records 281474976710656", "at most 536870912 fit"),
    ("bench --value-bytes 536870912", "or values of 33"),
    ("bench --clients 10000 --outstanding 10000", "at most 11"),
    ("demo --value-bytes 536870912", "at most 2"),
    ("bench --key-bytes 1", "at least 3 are needed"),
    ("bench --value-bytes 31", "at least 32 are needed"),
];

/// A demonstration makes do with fewer records.
const FITTING: &[&str] = &["server", "demo", "bench", "demo --records 281474976710656"];

#[test]
fn absurd_numbers_are_refused_with_what_would_do() {
    let flags = Flags {
        command: Cli::command(),
        numbers: NUMBERS,
        no_numbers: NO_NUMBERS,
        too_large: TOO_LARGE,
        fitting: FITTING,
        refusal,
    };
    flags.assert_absurd_numbers_are_refused();
}

/// Parses a command line and checks it as far as is done before anything runs.
fn refusal(line: &[&str]) -> Option<String> {
    let parsed = match Cli::try_parse_from(["sidle"].iter().chain(line)) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.to_string()),
    };
    let checked = match parsed.command {
        Command::Server(arguments) => {
            server::settings(*arguments).map(|_| ()).map_err(|error| error.to_string())
        }
        Command::Demo(arguments) => {
            demo::options(&arguments, BUDGET_BYTES).map(|_| ()).map_err(|failure| failure.message)
        }
        Command::Bench(arguments) => bench::check(&arguments, BUDGET_BYTES),
        Command::Migrate(_)
        | Command::Forget(_)
        | Command::Status(_)
        | Command::CheckHistory(_)
        | Command::Lab(_) => Ok(()),
    };
    checked.err()
}
