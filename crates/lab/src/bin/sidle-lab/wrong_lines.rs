//! Wrong command lines.

use crate::cli::{Cli, Command};
use crate::demo;
use clap::CommandFactory;
use sidle_cli::exit::Failure;
use sidle_cli::flag_checks::{BUDGET_BYTES, Flags, NumberFlag, unparsed};
use sidle_cli::{line, server};

const NUMBERS: &[NumberFlag] = &[
    ("demo --modelled paper --records 1000000000000", "sample", Some("to 281474976710656")),
    ("peers", "records", Some("to 281474976710656")),
    ("peers", "key-bytes", Some("to 65536")),
    ("peers", "value-bytes", Some("to 536870912")),
    ("peers", "slice-ms", Some("3600000")),
    ("peers", "rounds", Some("1000")),
    ("peers", "depths", Some("10000")),
    ("peers", "clients", Some("10000")),
    ("peers", "seed", None),
    ("run --out o", "value-bytes", Some("to 536870912")),
    ("run --out o", "source-cpus", Some("")),
    ("run --out o", "repeat", Some("99")),
    ("run --out o", "records", Some("to 281474976710656")),
    ("run --out o", "seconds", Some("2592000")),
    ("run --out o", "clients", Some("10000")),
    ("run --out o", "key-bytes", Some("to 65536")),
    ("run --out o --loop open", "rate", Some("1000000000")),
    ("run --out o", "node-cpu", Some("0.1")),
    ("run --out o", "seed", None),
    ("run --out o --modelled paper --records 1000000000000", "sample", Some("to 281474976710656")),
    ("run --out o --workloads tpcc", "warehouses", Some("1 to 1000")),
    ("run --out o --workloads tpcc", "scale", Some("1 to 100")),
    ("figures --out o --tpcc", "warehouses", Some("1 to 1000")),
    ("figures --out o --tpcc", "scale", Some("1 to 100")),
    ("figures --out o", "repeat", Some("99")),
    ("figures --out o", "seed", None),
    ("figures --out o --modelled paper", "sample", Some("to 281474976710656")),
    ("compare a --with b", "within", Some("0 to 1000")),
    ("table", "jobs", Some("1024")),
    ("table", "repeat", Some("99")),
    ("table", "seed", None),
    ("table", "records", Some("to 281474976710656")),
    ("table", "sample", Some("10000000")),
    ("table", "clients", Some("10000")),
];

const NO_NUMBERS: &[&str] = &[
    "costs",
    "csv",
    "distributions",
    "loads",
    "measures",
    "modelled",
    "out",
    "policies",
    "protocols",
    "redis",
    "variants",
    "with",
    "workloads",
];

const TOO_LARGE: &[(&str, &str)] = &[
    ("peers --records 281474976710656", "at most"),
    ("demo --modelled paper --records 1000000000000 --sample 1000000000000", "at most 22"),
    ("run --out o --value-bytes 100 536870912", "at most 2"),
    ("run --out o --records 281474976710656", "at most 13836879 fit"),
    ("run --out o --modelled paper --records 1000000000000 --sample 1000000000000", "at most 22"),
];

const WRONG: &[(&str, &str)] = &[
    ("demo --modelled paper --client plain", "clients of Sidle's own"),
    ("demo --modelled paper --without-offloading", "movers with threads of their own only"),
    ("demo --modelled paper --cpu-lists source=0", "leave --cpu-lists out"),
    ("demo --costs costs.json", "--modelled"),
    ("demo --loop closed --rate 5", "leave out --rate"),
    ("demo --workload bank", "`sidle demo --workload bank`"),
    ("demo --workload tpcc --modelled paper", "leave out --modelled"),
    ("demo --workload tpcc --without-tracking", "leave out --without-tracking"),
    ("run --out o --workloads tpcc --rate 5", "leave out --rate"),
    ("run --out o --workloads loan", "or tpcc"),
    ("run --out o --loop closed --rate 5", "leave out --rate"),
    ("run --out o --modelled moon", "'moon'"),
    ("run", "--out"),
    ("compare a", "--with"),
    ("compare a --with b --measures beauty", "'beauty'"),
    ("server --workers 0", "workers"),
];

const FITTING: &[&str] = &["server", "demo", "peers", "run --out o", "figures --out o --quick"];

#[test]
fn wrong_lines_are_refused_with_what_would_do() {
    let flags = Flags {
        command: Cli::command(),
        numbers: NUMBERS,
        no_numbers: NO_NUMBERS,
        too_large: TOO_LARGE,
        fitting: FITTING,
        wrong: WRONG,
        check,
    };
    flags.assert_wrong_lines_are_refused();
}

/// Parses a command line and checks it as before a run.
fn check(line: &[&str]) -> Result<(), Failure> {
    let parsed = line::read::<Cli>(["sidle-lab"].iter().chain(line)).map_err(|error| unparsed(&error))?;
    match parsed.command {
        Command::Run(arguments) => arguments.check(BUDGET_BYTES),
        Command::Figures(arguments) => arguments.check(BUDGET_BYTES),
        Command::Demo(arguments) => demo::checked(&arguments, BUDGET_BYTES).map(|_| ()),
        Command::Peers(arguments) => arguments.check(BUDGET_BYTES),
        Command::Server(arguments) => server::settings(*arguments).map(|_| ()),
        Command::Report(_) | Command::Compare(_) | Command::Table(_) => Ok(()),
    }
}
