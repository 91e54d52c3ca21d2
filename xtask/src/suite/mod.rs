//! `cargo xtask suite`: Redis's own tests, written in Tcl, against a Sidle node and against redis-server.
//!
//! What redis-server passes, Sidle passes too, or `suite/exceptions.txt` says why not.

mod compare;
mod exceptions;
mod outcome;
mod report;
mod source;

use crate::servers::group::{Ended, Group};
use crate::servers::{Build, Server, build_sidle};
use crate::step::project_root;
use anyhow::{Context, bail, ensure};
use compare::Comparison;
use exceptions::Exceptions;
use outcome::Outcome;
use source::Source;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The units that are run unless some are named.
const UNITS: [&str; 18] = [
    "unit/type/incr",
    "unit/type/string",
    "unit/type/hash",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/expire",
    "unit/scan",
    "unit/keyspace",
    "unit/sort",
    "unit/dump",
    "unit/multi",
    "unit/protocol",
    "unit/other",
    "unit/introspection",
    "unit/pause",
];

/// Tests that need what a server under test of another maker has not, or that take very long.
const TAGS: &str = "-slow -needs:repl -needs:save -needs:latency -needs:pfdebug -needs:config-maxmemory";

#[derive(clap::Args)]
#[command(after_help = "\
The suite comes from Debian's source package of Redis, which apt fetches and verifies, and stays in the folder for
further runs. The logs of the tests and results.json are written to the folder's runs. What redis-server passes and
Sidle does not is a failure, unless xtask/suite/exceptions.txt says why. An exception whose test passes is one too.

Exit status: 0 no differences, 1 differences or trouble.

Example: cargo xtask suite --unit unit/type/hash --unit unit/scan")]
pub(crate) struct Arguments {
    /// Run this unit instead of all; may be given several times, --list names them
    #[arg(long = "unit", value_name = "NAME")]
    units: Vec<String>,
    /// Name the units that are run, and those that are left out, and end
    #[arg(long)]
    list: bool,
    /// Show what each failing test said, and what redis-server fails itself
    #[arg(long, short)]
    verbose: bool,
    /// Where the suite and the logs are kept [default: sidle-suite in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this unpacked source tree of Redis instead of fetching one
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// How long one unit may take, in seconds; then it is stopped, and what it had left counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    deadline: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let exceptions = Exceptions::parse(include_str!("../../suite/exceptions.txt"))?;
    if arguments.list {
        UNITS.iter().for_each(|unit| println!("{unit}{}", left_out(&exceptions, unit)));
        return Ok(());
    }
    let folder = arguments.dir.clone().map_or_else(default_folder, Ok)?;
    ensure!(!folder.starts_with(project_root()), "--dir lies in the source tree");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let source = Source::get(arguments.suite.as_deref(), &folder)?;
    println!("Redis {}'s tests, in {}", source.version, source.tree.display());
    let runner = Runner {
        program: build_sidle(Build::Dev)?,
        source,
        logs: folder.join("runs"),
        limit: Duration::from_secs(arguments.deadline),
    };
    let units = chosen(&arguments.units, &exceptions)?;
    let mut comparisons = Vec::new();
    for (number, unit) in units.iter().enumerate() {
        println!("[{}/{}] {unit}", number + 1, units.len());
        let comparison = runner.compare(unit, &exceptions)?;
        report::print_unit(&comparison, arguments.verbose);
        comparisons.push(comparison);
        // After each, so that an interrupted run leaves what it found.
        report::write_json(&runner.logs.join("results.json"), &comparisons)?;
    }
    report::print_table(&comparisons);
    println!("\nlogs: {}", runner.logs.display());
    let failing: usize = comparisons.iter().map(Comparison::failing).sum();
    if failing > 0 {
        println!("{failing} differences");
        std::process::exit(1);
    }
    Ok(())
}

fn left_out(exceptions: &Exceptions, unit: &str) -> String {
    exceptions.left_out(unit).map_or_else(String::new, |reason| format!("  (left out: {reason})"))
}

/// The named units, or all but those that are left out.
fn chosen(named: &[String], exceptions: &Exceptions) -> anyhow::Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|unit| !UNITS.contains(&unit.as_str())) {
        bail!("no unit is called {unknown}; cargo xtask suite --list names them");
    }
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let (left, units): (Vec<&str>, Vec<&str>) =
        UNITS.iter().partition(|unit| exceptions.left_out(unit).is_some());
    for unit in left {
        println!("{unit}{}", left_out(exceptions, unit));
    }
    Ok(units.into_iter().map(str::to_owned).collect())
}

/// `sidle-suite` in the user's cache folder.
fn default_folder() -> anyhow::Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    Ok(caches.context("there is no cache folder: name one with --dir")?.join("sidle-suite"))
}

/// What Sidle may keep: some tests write values of hundreds of megabytes.
const MEMORY: &str = "1gb";

/// Runs units on both servers.
struct Runner {
    program: PathBuf,
    source: Source,
    logs: PathBuf,
    limit: Duration,
}

impl Runner {
    fn compare(&self, unit: &str, exceptions: &Exceptions) -> anyhow::Result<Comparison> {
        let folder = self.logs.join(unit.replace('/', "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let redis = self.run("redis", unit, &folder, Server::start_redis)?;
        let sidle =
            self.run("sidle", unit, &folder, |data| Server::start_sidle(&self.program, data, MEMORY))?;
        Ok(Comparison::new(unit, &redis, &sidle, exceptions))
    }

    /// Runs a unit on one server, started for it.
    fn run(
        &self,
        name: &str,
        unit: &str,
        logs: &Path,
        start: impl FnOnce(&Path) -> anyhow::Result<Server>,
    ) -> anyhow::Result<Outcome> {
        let data = logs.join(name);
        fs::create_dir_all(&data)?;
        let mut server = start(&data)?;
        let log = logs.join(format!("{name}.txt"));
        let port = server.port.to_string();
        let mut command = Command::new("./runtest");
        command.current_dir(&self.source.tree);
        command.args(["--host", "127.0.0.1", "--port", &port, "--singledb", "--durable", "--verbose"]);
        command.args(["--tags", TAGS, "--single", unit]);
        let started = Instant::now();
        let mut tests = Group::start(&command, &log)?;
        let ended = tests.wait(self.limit)?;
        drop(tests);
        let has_ended = server.has_ended()?;
        drop(server);
        let mut outcome = Outcome::parse(&String::from_utf8_lossy(&fs::read(&log)?));
        if ended == Ended::Stopped {
            outcome.broke(format!("the unit did not end within {} s", self.limit.as_secs()));
        }
        if has_ended {
            outcome.broke("the server ended".to_owned());
        }
        println!("   {name}: {} in {:.1} s", outcome.summary(), started.elapsed().as_secs_f64());
        Ok(outcome)
    }
}
