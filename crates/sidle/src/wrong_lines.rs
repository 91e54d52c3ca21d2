//! Wrong command lines.

use crate::cli::{Cli, Command, MigrateCommand};
use crate::{bench, elsewhere};
use clap::CommandFactory;
use sidle_cli::exit::Failure;
use sidle_cli::flag_checks::{BUDGET_BYTES, Flags, NumberFlag, unparsed};
use sidle_cli::{demo, line, server};

const NUMBERS: &[NumberFlag] = &[
    ("migrate --to a:1 --slots 1", "timeout", Some("3600")),
    ("migrate set 1 --rate 1", "timeout", Some("3600")),
    ("status", "timeout", Some("3600")),
    ("top", "timeout", Some("3600")),
    ("tx list", "timeout", Some("3600")),
    ("tx resolve 5d41", "timeout", Some("3600")),
    ("top", "seconds", Some("60")),
    ("top", "count", Some("64")),
    ("forget a:1", "timeout", Some("3600")),
    ("takeover a:1", "timeout", Some("3600")),
    ("upgrade", "timeout", Some("3600")),
    ("import f", "timeout", Some("3600")),
    ("import f", "database", None),
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

const NO_NUMBERS: &[&str] = &["existing", "history", "to", "via"];

const TOO_LARGE: &[(&str, &str)] = &[
    ("bench --records 281474976710656", "at most 536870912 fit"),
    ("bench --value-bytes 536870912", "or values of 33"),
    ("bench --clients 10000 --outstanding 10000", "at most 11"),
    ("demo --value-bytes 536870912", "at most 2"),
    ("demo --records 281474976710656", "at most 13836879 fit"),
    ("demo --records 3000000 --value-bytes 1000000", "at most 2684 fit"),
    ("bench --key-bytes 1", "at least 3 are needed"),
    ("bench --value-bytes 31", "at least 32 are needed"),
];

const WRONG: &[(&str, &str)] = &[
    ("server --workers 0", "workers"),
    ("server --movers 0", "movers"),
    ("server --bind nowhere", "bind"),
    ("server --port 60000", "bus_port"),
    ("server --port 7 --bus-port 7", "port 7 is for clients"),
    ("server --max-memory 1x", "with kb, mb, gb or tb"),
    ("server --max-memory 99999999tb", "is too large"),
    ("server --max-clients 0", "max_clients"),
    ("server --config /nowhere/sidle.toml", "/nowhere/sidle.toml"),
    ("server --print-config now", "unexpected argument"),
    ("demo --loop closed --rate 5", "leave out --rate"),
    ("demo --loop open", "--rate"),
    ("demo --cpu-lists source=1023", "processors 1023"),
    ("demo --kill nobody", "node, source or target"),
    ("demo --kill node --cpus source=0.4", "cannot be used with"),
    ("demo --json one --html one", "both name one"),
    ("demo --workload loan", "give a (50 % writes), b (5 %), c (none), bank or tpcc"),
    ("demo --warehouses 2", "--workload tpcc"),
    ("demo --scale 5", "--workload tpcc"),
    ("demo --workload bank --scattered", "--workload tpcc"),
    ("demo --workload bank --new-orders", "--workload tpcc"),
    ("demo --workload tpcc --accounts 5", "--workload bank"),
    ("demo --workload tpcc --records 5000", "leave out --records"),
    ("demo --workload tpcc --distribution uniform", "leave out --distribution"),
    ("demo --workload tpcc --kill node", "leave out --kill"),
    ("demo --workload tpcc --html h", "leave out --html"),
    ("demo --accounts 5", "--workload bank"),
    ("demo --workload bank --accounts 1", "2 to 10000"),
    ("demo --workload bank --kill node", "leave out --kill"),
    ("demo --workload bank --cpus source=0.4", "leave out --cpus"),
    ("demo --workload bank --html h", "leave out --html"),
    ("demo --workload bank --client plain", "leave out --client plain"),
    ("demo --workload bank --rate 5", "leave out --rate"),
    ("demo --workload bank --write-ratio 5", "cannot be used with"),
    ("bench --workload bank", "`sidle demo --workload bank`"),
    ("bench --loop closed --rate 5", "leave out --rate"),
    ("bench --json one --html one", "both name one"),
    ("bench --history one --json one", "both name one"),
    ("bench --history one --no-load", "cannot be used with"),
    ("bench --history one --key-bytes 3", "give longer keys"),
    ("bench --load-only --seconds 5", "cannot be used with"),
    ("bench --via nowhere", "HOST:PORT"),
    ("bench peers", "sidle-lab peers"),
    ("bench page report.json", "--html"),
    ("bench page r.json --html h --via a:1", "unexpected"),
    ("lab run", "sidle-lab run"),
    ("cancel", "`sidle migrate --cancel ID`"),
    ("cancel 3 --via a:1", "`sidle migrate --cancel 3 --via a:1`"),
    ("migrate cancel 3", "`sidle migrate --cancel 3`"),
    ("migrate --to a:1", "--slots"),
    ("migrate --to a:1 --slots 1,5", "or a range A-B"),
    ("migrate --to a:1 --slots 1 --rate 1e30", "to 1e12"),
    ("top --seconds 61", "from 1 to 60"),
    ("top --count 1000", "from 1 to 64"),
    ("status --timeout 0", "from 1 to 3600"),
    ("migrate --cancel 3 --detach", "cannot be used with"),
    ("migrate --to a:1 --slots 1 --rate 5 --deadline 5", "cannot be used with"),
    ("migrate set 3", "--adaptive"),
    ("migrate --rate 5 set 3 --adaptive", "`sidle migrate set 3 --rate 50`"),
    ("migrate --to a:1 --slots 1 set 3 --adaptive", "`sidle migrate set 3 --rate 50`"),
    ("migrate --to a:1 --slots 1 --protocol teleport", "the protocols are fulva"),
    ("migrate --to a:1 --slots 1 --protocol fulva,missing=luck", "missing"),
    ("migrate --to a:1 --slots 1 --protocol handoff,missing=wait", "handoff has no option 'missing'"),
    ("migrate --to a:1 --slots 1 --protocol handoff,uncovered=never", "uncovered is who serves"),
    ("migrate --to nowhere --slots 1", "HOST:PORT"),
    ("migrate --to 1f3 --slots 1", "at least 4 digits"),
    ("status --via nowhere", "HOST:PORT"),
    ("status --via a:0", "HOST:PORT"),
    ("server --join a:0", "HOST:PORT"),
    ("tx", "list"),
    ("tx list 5", "unexpected argument"),
    ("tx resolve", "<ID>"),
    ("tx resolve 5d4", "4 to 32 hex digits"),
    ("tx resolve loan", "4 to 32 hex digits"),
    ("forget", "<NODE>"),
    ("forget nowhere", "HOST:PORT"),
    ("takeover", "<NODE>"),
    ("takeover nowhere", "HOST:PORT"),
    ("check-history", "<FILE>"),
];

const FITTING: &[&str] = &[
    "server",
    "demo",
    "demo --kill node",
    "demo --workload bank",
    "demo --workload tpcc",
    "bench",
    "demo --value-bytes 1000000",
];

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
    let parsed = line::read::<Cli>(["sidle"].iter().chain(line)).map_err(|error| unparsed(&error))?;
    match parsed.command {
        Command::Server(arguments) => server::settings(*arguments).map(|_| ()),
        Command::Demo(arguments) => demo::checked(&arguments, BUDGET_BYTES).map(|_| ()),
        Command::Bench(arguments) => bench::check(&arguments, BUDGET_BYTES),
        Command::Lab(arguments) => elsewhere::refuse("sidle lab", &[], &arguments),
        Command::Cancel(arguments) => elsewhere::refuse_cancel("cancel", &arguments),
        Command::Migrate(arguments) => match &arguments.command {
            None => Ok(()),
            Some(MigrateCommand::Set(_)) => arguments.ensure_no_range(),
            Some(MigrateCommand::Cancel(words)) => elsewhere::refuse_cancel("migrate cancel", words),
        },
        Command::Forget(_)
        | Command::Takeover(_)
        | Command::Import(_)
        | Command::Upgrade(_)
        | Command::Status(_)
        | Command::Top(_)
        | Command::Tx(_)
        | Command::CheckHistory(_) => Ok(()),
    }
}
