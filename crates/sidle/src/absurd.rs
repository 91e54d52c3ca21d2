//! Absurd numbers on the command line: each is refused with a message that says what would do, before
//! anything is taken from the machine. Nothing here is run; what is parsed is checked as it is before a run.

use crate::cli::{Cli, Command};
use crate::{bench, demo, lab, server};
use clap::{CommandFactory, Parser};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Memory that the checks take for available.
const BUDGET_BYTES: u64 = 8 << 30;

/// What is tried of every flag.
const ABSURD: [&str; 14] = [
    "",
    "0",
    "1",
    "-1",
    "65",
    "NaN",
    "inf",
    "1e308",
    "1,1",
    "4294967295",
    "4294967296",
    "999999999999",
    "18446744073709551615",
    "18446744073709551616",
];

/// Every flag that takes a number: the command that it is tried with, the flag, and what the refusal of 2^64
/// - 1 says; none where any number of 64 bits will do.
const NUMBERS: &[(&str, &str, Option<&str>)] = &[
    ("server", "port", Some("0 to 65535")),
    ("server", "bus-port", Some("0 to 65535")),
    ("server", "workers", Some("at most 512")),
    ("server", "movers", Some("1 to 64")),
    ("server", "max-memory", None),
    ("server", "max-clients", None),
    ("server", "max-query-buffer", None),
    ("server", "max-arguments", Some("4294967295")),
    ("server", "max-value", Some("512mb")),
    ("server", "max-output-buffer", None),
    ("server", "max-client-memory", None),
    ("server", "idle-timeout", Some("0 to 2147483647")),
    ("server", "password-timeout", Some("0 to 2147483647")),
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
    ("demo", "records", Some("1000 to 281474976710656")),
    ("demo", "seconds", Some("2592000")),
    ("demo", "workers", Some("512")),
    ("demo", "threads", Some("512")),
    ("demo", "clients", Some("10000")),
    ("demo", "outstanding", Some("10000")),
    ("demo", "value-bytes", Some("to 536870912")),
    ("demo", "key-bytes", Some("to 65536")),
    ("demo --loop open", "rate", Some("1 to 1000000000")),
    ("demo", "write-ratio", Some("0 to 100")),
    ("demo", "seed", None),
    ("demo --modelled paper --records 1000000000000", "sample", Some("to 281474976710656")),
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
    ("bench peers", "records", Some("to 281474976710656")),
    ("bench peers", "key-bytes", Some("to 65536")),
    ("bench peers", "value-bytes", Some("to 536870912")),
    ("bench peers", "slice-ms", Some("3600000")),
    ("bench peers", "rounds", Some("1000")),
    ("bench peers", "depths", Some("10000")),
    ("bench peers", "clients", Some("10000")),
    ("bench peers", "seed", None),
    ("lab run --out o", "value-bytes", Some("to 536870912")),
    ("lab run --out o", "source-cpus", Some("")),
    ("lab run --out o", "repeat", Some("99")),
    ("lab run --out o", "records", Some("to 281474976710656")),
    ("lab run --out o", "seconds", Some("2592000")),
    ("lab run --out o", "clients", Some("10000")),
    ("lab run --out o", "key-bytes", Some("to 65536")),
    ("lab run --out o --loop open", "rate", Some("1000000000")),
    ("lab run --out o", "node-cpu", Some("0.1")),
    ("lab run --out o", "seed", None),
    ("lab run --out o --modelled paper --records 1000000000000", "sample", Some("to 281474976710656")),
    ("lab figures --out o", "repeat", Some("99")),
    ("lab figures --out o", "seed", None),
    ("lab figures --out o --modelled paper", "sample", Some("to 281474976710656")),
    ("lab compare a --with b", "within", Some("0 to 1000")),
    ("check-history f", "effort", None),
];

/// Flags that take no number, or lists of names with numbers that their own parsers' tests are about.
const NO_NUMBERS: &[&str] = &[
    "advertise",
    "bind",
    "client",
    "cluster-secret-file",
    "config",
    "costs",
    "create-cluster-secret",
    "cpu-list",
    "cpu-lists",
    "cpus",
    "dir",
    "distribution",
    "distributions",
    "history",
    "html",
    "join",
    "json",
    "log-level",
    "loop",
    "measures",
    "modelled",
    "out",
    "password",
    "policies",
    "policy",
    "protocol",
    "protocols",
    "redis",
    "to",
    "via",
    "with",
    "workload",
    "workloads",
];

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
        Command::Lab(arguments) => lab::check(&arguments, BUDGET_BYTES),
        Command::Migrate(_) | Command::Forget(_) | Command::Status(_) | Command::CheckHistory(_) => Ok(()),
    };
    checked.err()
}

fn with_flag<'l>(base: &'l str, flag: &'l str) -> Vec<&'l str> {
    base.split(' ').chain([flag]).collect()
}

#[test]
fn absurd_numbers_are_refused_with_what_would_do() {
    let mut faults = Vec::new();
    for (base, name, expected) in NUMBERS {
        for number in ABSURD {
            let flag = format!("--{name}={number}");
            let line = with_flag(base, &flag);
            let told = catch_unwind(AssertUnwindSafe(|| refusal(&line)));
            let told = told.unwrap_or_else(|_| panic!("sidle {base} {flag} panics"));
            let is_taken = told.is_none();
            let is_right = match (number, expected) {
                ("18446744073709551615", Some(expected)) => {
                    told.as_ref().is_some_and(|told| told.contains(expected))
                }
                ("18446744073709551615", None) => is_taken,
                ("" | "-1" | "NaN" | "inf" | "18446744073709551616", _) => !is_taken,
                _ => true,
            };
            if !is_right {
                faults.push(format!("sidle {base} {flag}: {}", told.as_deref().unwrap_or("it is taken")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What passes the parser is checked for what fits into memory.
#[test]
fn what_does_not_fit_into_memory_is_refused_with_the_largest_that_does() {
    for (line, largest) in [
        ("bench --records 281474976710656", "at most 536870912 fit"),
        ("bench --value-bytes 536870912", "or values of 33"),
        ("bench --clients 10000 --outstanding 10000", "at most 11"),
        ("bench peers --records 281474976710656", "at most"),
        ("demo --value-bytes 536870912", "at most 2"),
        ("demo --modelled paper --records 1000000000000 --sample 1000000000000", "at most 22"),
        ("lab run --out o --value-bytes 100 536870912", "or values of 33"),
        ("lab run --out o --records 281474976710656", "at most 536870912 fit"),
        ("lab run --out o --modelled paper --records 1000000000000 --sample 1000000000000", "at most 22"),
        ("bench --key-bytes 1", "at least 3 are needed"),
        ("bench --value-bytes 31", "at least 32 are needed"),
    ] {
        let told = refusal(&line.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        assert!(told.contains(largest), "sidle {line}: {told}");
    }
    // A demonstration makes do with fewer records.
    assert_eq!(refusal(&["demo", "--records", "281474976710656"]), None);
}

#[test]
fn every_flag_that_takes_a_value_is_in_one_of_the_lists() {
    fn names(command: &clap::Command, found: &mut Vec<(String, String)>, path: &str) {
        let path = format!("{path} {}", command.get_name());
        for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
            if let Some(name) = argument.get_long() {
                found.push((path.clone(), name.to_owned()));
            }
        }
        command.get_subcommands().for_each(|child| names(child, found, &path));
    }
    let mut found = Vec::new();
    names(&Cli::command(), &mut found, "");
    for (path, name) in &found {
        let path = path.trim_start().strip_prefix("sidle ").unwrap_or(path);
        let is_tried = NUMBERS.iter().any(|(base, flag, _)| {
            let words = base.split(' ').filter(|word| path.split(' ').any(|part| part == *word)).count();
            flag == name && words == path.split(' ').count()
        });
        assert!(is_tried || NO_NUMBERS.contains(&name.as_str()), "sidle {path} --{name}");
    }
    for (base, name, _) in NUMBERS {
        assert!(found.iter().any(|(_, known)| known == name), "sidle {base} has no --{name}");
    }
}

#[test]
fn what_is_used_by_default_fits() {
    for line in ["server", "demo", "bench", "bench peers", "lab run --out o", "lab figures --out o --quick"] {
        assert_eq!(refusal(&line.split(' ').collect::<Vec<_>>()), None, "{line}");
    }
}
