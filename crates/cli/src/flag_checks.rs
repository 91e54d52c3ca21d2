//! Senseless command lines, for the tests of both programs: absurd numbers on every flag, and flags that
//! do not go together. Each is refused with [`Status::WrongLine`] and a message with values that work,
//! before any of the machine's resources are taken. Nothing is run; a parsed line is checked as before a
//! run.

use crate::exit::{Failure, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The memory that the checks assume to be available.
pub const BUDGET_BYTES: u64 = 8 << 30;

/// The values tried on every flag.
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

/// A flag that takes a number: the command to try it with, the flag, and the text in the refusal of 2^64 - 1;
/// none if any number of 64 bits works.
pub type NumberFlag = (&'static str, &'static str, Option<&'static str>);

/// The number flags of the commands that both programs have.
pub const SHARED_NUMBERS: &[NumberFlag] = &[
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
    ("demo --workload bank", "accounts", Some("2 to 10000")),
    ("demo --workload tpcc", "warehouses", Some("1 to 1000")),
    ("demo --workload tpcc", "scale", Some("1 to 100")),
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
];

/// Their flags without a number, or with lists of names and numbers that their own parsers' tests cover.
pub const SHARED_NO_NUMBERS: &[&str] = &[
    "advertise",
    "bind",
    "client",
    "cluster-secret-file",
    "config",
    "cpu-list",
    "cpu-lists",
    "cpus",
    "create-cluster-secret",
    "dir",
    "distribution",
    "durability",
    "fsync",
    "html",
    "join",
    "json",
    "kill",
    "log-level",
    "loop",
    "metadata",
    "password",
    "policy",
    "protected-mode",
    "protocol",
    "takeover-after",
    "users-file",
    "workload",
];

/// A program's flags.
pub struct Flags<'a> {
    /// Its command line.
    pub command: clap::Command,
    /// Every flag that takes a number, beside [`SHARED_NUMBERS`].
    pub numbers: &'a [NumberFlag],
    /// Every other flag with a value, beside [`SHARED_NO_NUMBERS`].
    pub no_numbers: &'a [&'a str],
    /// Command lines that parse and do not fit into [`BUDGET_BYTES`], each with the size that the
    /// refusal offers.
    pub too_large: &'a [(&'a str, &'a str)],
    /// Command lines that are wrong for another reason, each with a part of the refusal.
    pub wrong: &'a [(&'a str, &'a str)],
    /// Command lines whose defaults fit.
    pub fitting: &'a [&'a str],
    /// Parses a command line and checks it as before a run.
    pub check: fn(&[&str]) -> Result<(), Failure>,
}

/// The parser's refusal of a command line, as the program's failure.
pub fn unparsed(error: &clap::Error) -> Failure {
    assert_eq!(error.exit_code(), Status::WrongLine as i32, "{error}");
    Failure::wrong_line(error)
}

impl Flags<'_> {
    fn numbers(&self) -> impl Iterator<Item = &NumberFlag> {
        SHARED_NUMBERS.iter().chain(self.numbers)
    }

    /// Why a command line is refused, if it is.
    ///
    /// # Panics
    /// The program would not exit with the status of a wrong command line.
    fn refusal(&self, line: &[&str]) -> Option<String> {
        let failure = (self.check)(line).err()?;
        assert_eq!(failure.status, Status::WrongLine, "{line:?}: {}", failure.message);
        Some(failure.message)
    }

    /// Tries absurd numbers on every flag that takes one, lines that do not fit into memory, and other wrong
    /// lines.
    ///
    /// # Panics
    /// A senseless line is accepted, or its refusal names no value that works, or has another
    /// status; a line that fits is refused; a flag is in no list.
    pub fn assert_wrong_lines_are_refused(&self) {
        self.assert_every_flag_is_listed();
        for (line, part) in self.too_large.iter().chain(self.wrong) {
            let told = self.refusal(&words(line)).unwrap_or_default();
            assert!(told.contains(part), "{line}: {told}");
        }
        for line in self.fitting {
            assert_eq!(self.refusal(&words(line)), None, "{line}");
        }
        self.assert_numbers_are_judged();
    }

    fn assert_numbers_are_judged(&self) {
        let mut faults = Vec::new();
        for (base, name, expected) in self.numbers() {
            let apart = format!("{base} --{name} -1");
            if let Some(told) = self.refusal(&words(&apart)).filter(|told| told.contains("unexpected")) {
                faults.push(format!("{apart}: {told}"));
            }
            for number in ABSURD {
                let flag = format!("--{name}={number}");
                let line: Vec<&str> = base.split(' ').chain([flag.as_str()]).collect();
                let refusal = catch_unwind(AssertUnwindSafe(|| self.refusal(&line)));
                let refusal =
                    refusal.unwrap_or_else(|_| panic!("{base} {flag} panics, or ends with another status"));
                if !is_right(number, *expected, refusal.as_deref()) {
                    let refusal = refusal.as_deref().unwrap_or("it is taken");
                    faults.push(format!("{base} {flag}: {refusal}"));
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// Every flag that takes a value is in one of the lists, and the lists hold no others.
    fn assert_every_flag_is_listed(&self) {
        let mut found = Vec::new();
        self.command.get_subcommands().for_each(|child| names(child, &mut found, ""));
        let no_numbers = || SHARED_NO_NUMBERS.iter().chain(self.no_numbers);
        for (path, name) in &found {
            let is_tried = self.numbers().any(|(base, flag, _)| {
                let words = base.split(' ').filter(|word| path.split(' ').any(|part| part == *word)).count();
                flag == name && words == path.split(' ').count()
            });
            assert!(is_tried || no_numbers().any(|known| known == name), "{path} --{name}");
        }
        for (base, name, _) in self.numbers() {
            assert!(found.iter().any(|(_, known)| known == name), "{base} has no --{name}");
        }
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Whether this number gets the right refusal, or rightly none.
fn is_right(number: &str, expected: Option<&str>, refusal: Option<&str>) -> bool {
    match (number, expected) {
        ("18446744073709551615", Some(expected)) => refusal.is_some_and(|refusal| refusal.contains(expected)),
        ("18446744073709551615", None) => refusal.is_none(),
        ("" | "-1" | "NaN" | "inf" | "18446744073709551616", _) => refusal.is_some(),
        _ => true,
    }
}

/// The flags with a value of a command and its subcommands, each with the words that lead to it.
fn names(command: &clap::Command, found: &mut Vec<(String, String)>, path: &str) {
    let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
    for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
        if let Some(name) = argument.get_long() {
            found.push((path.clone(), name.to_owned()));
        }
    }
    command.get_subcommands().for_each(|child| names(child, found, &path));
}
