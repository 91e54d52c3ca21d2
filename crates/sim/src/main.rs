//! Simulates whole clusters, a seed at a time.

// A program at the edge: it measures how fast it is.
#![allow(clippy::disallowed_methods)]

use clap::Parser;
use sidle_sim::{Bugs, Failure, Story, Summary, run, run_and_record};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

// A tenth of a simulation is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulate whole clusters on virtual time: one seed draws the cluster, the load and everything that goes wrong.
///
/// A seed that fails fails again: the last line says how to see its story.
#[derive(Parser)]
#[command(name = "cargo xtask sim", bin_name = "cargo xtask sim")]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Begin with a seed that nobody has tried: the time of day
    #[arg(long, conflicts_with = "seed")]
    fresh: bool,
    /// How many seeds to run, one after the other [default: 1, or without end when --minutes is given]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Stop after so many minutes, however many seeds are left
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Tell the story of each run
    #[arg(long)]
    trace: bool,
    /// Run every seed twice, and fail if the two runs differ
    #[arg(long)]
    twice: bool,
    /// Put a known fault back (see --bugs), and stop when a checker sees it
    #[arg(long, value_name = "NAME", value_parser = bug)]
    bug: Option<Bugs>,
    /// List the known faults, and within how many seeds each is found
    #[arg(long)]
    bugs: bool,
    /// Put each known fault back in turn, and fail unless each is found within its number of seeds
    #[arg(long, conflicts_with_all = ["bug", "trace", "twice"])]
    hunt: bool,
    /// Write the history of the first seed there, and that of keys with a time to live beside it
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Print how often each thing was met that simulations are there to meet
    #[arg(long)]
    met: bool,
    /// Print a line for each seed
    #[arg(long, short)]
    verbose: bool,
}

fn bug(name: &str) -> Result<Bugs, String> {
    Bugs::with(name).ok_or_else(|| format!("there is no fault '{name}'; --bugs lists them"))
}

impl Arguments {
    fn first_seed(&self) -> u64 {
        match self.fresh {
            // Seconds: two runs within one begin alike, and nobody minds.
            true => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()),
            false => self.seed,
        }
    }

    fn count(&self) -> u64 {
        self.seeds.unwrap_or(if self.minutes.is_some() { u64::MAX } else { 1 })
    }
}

/// What all seeds came to.
#[derive(Default)]
struct Totals {
    seeds: u64,
    failed: Vec<u64>,
    simulated_us: u64,
    operations: u64,
    migrations: u64,
    troubles: u64,
    deaths: u64,
    undecided: usize,
    /// How long simulations of so many nodes took, and how long they lasted on their own clocks.
    by_nodes: BTreeMap<usize, (Duration, u64)>,
    /// How often each thing was met, and in how many seeds.
    met: BTreeMap<&'static str, (u64, u64)>,
}

impl Totals {
    fn add(&mut self, summary: &Summary, took: Duration) {
        let (all, simulated_us) = self.by_nodes.entry(summary.nodes).or_default();
        *all += took;
        *simulated_us += summary.simulated_us;
        self.simulated_us += summary.simulated_us;
        self.operations += summary.answered;
        self.migrations += summary.migrations;
        self.troubles += summary.troubles;
        self.deaths += summary.deaths;
        self.undecided += summary.undecided;
        for (&what, &times) in summary.met.iter().filter(|(_, times)| **times > 0) {
            let (sum, seeds) = self.met.entry(what).or_default();
            *sum += times;
            *seeds += 1;
        }
    }

    fn print(&self, took: Duration) {
        for (nodes, (took, simulated_us)) in &self.by_nodes {
            let speed = *simulated_us as f64 / 1e6 / took.as_secs_f64();
            println!("{nodes} nodes: {speed:.0} simulated seconds a second");
        }
        let seconds = took.as_secs_f64();
        println!(
            "{} seeds in {seconds:.1} s ({:.1} a second, {:.0} simulated seconds a second): {} operations answered, {} migrations \
             begun, {} troubles, {} deaths, {} keys undecided, {} seeds failed",
            self.seeds,
            self.seeds as f64 / seconds,
            self.simulated_us as f64 / 1e6 / seconds,
            self.operations,
            self.migrations,
            self.troubles,
            self.deaths,
            self.undecided,
            self.failed.len(),
        );
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.bugs {
        for (name, what) in Bugs::names() {
            let seen = match Bugs::seeds(name) {
                Some(seeds) => format!("within {seeds} seeds"),
                None => "too rare for random seeds: by a script in its crate's tests".to_owned(),
            };
            println!("{name} ({seen})\n    {what}");
        }
        return ExitCode::SUCCESS;
    }
    // An assertion of a machine is reported with the seed that it failed in.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            eprintln!("an assertion failed at {}:{}", place.file(), place.line());
        }
    }));
    if arguments.hunt {
        return hunt(&arguments);
    }
    let started = Instant::now();
    let mut totals = Totals::default();
    let first = arguments.first_seed();
    for seed in first..first.saturating_add(arguments.count()) {
        if arguments.minutes.is_some_and(|minutes| started.elapsed().as_secs_f64() >= minutes * 60.0) {
            break;
        }
        totals.seeds += 1;
        let before = Instant::now();
        let history = arguments.history.as_deref().filter(|_| seed == first);
        match simulate(&arguments, seed, history) {
            Ok(summary) => {
                totals.add(&summary, before.elapsed());
                if arguments.verbose {
                    println!("seed {seed}: {:.0} ms, {summary:?}", before.elapsed().as_secs_f64() * 1e3);
                }
            }
            Err(failure) => {
                totals.failed.push(seed);
                let at_s = failure.at_us as f64 / 1e6;
                println!("seed {seed} failed after {at_s:.6} simulated seconds: {}", failure.violation);
                if arguments.bug.is_some() {
                    break;
                }
            }
        }
    }
    if arguments.met {
        totals.met.iter().for_each(|(what, (sum, seeds))| println!("{what}: {sum} in {seeds} seeds"));
    }
    totals.print(started.elapsed());
    match totals.failed.first() {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            let bug =
                arguments.bug.and_then(|bug| Bugs::names().find(|(name, _)| Bugs::with(name) == Some(bug)));
            let bug = bug.map_or(String::new(), |(name, _)| format!(" --bug {name}"));
            println!("the story: cargo xtask sim --seed {seed}{bug} --trace");
            ExitCode::FAILURE
        }
    }
}

fn simulate(arguments: &Arguments, seed: u64, history: Option<&Path>) -> Result<Summary, Failure> {
    let bugs = arguments.bug.unwrap_or_default();
    let story = match arguments.trace {
        true => Story::told_to(Box::new(|at_us, line| println!("{:>12.6}  {line}", at_us as f64 / 1e6))),
        false => Story::silent(),
    };
    let (result, simulation) = run_and_record(seed, bugs, story);
    if let Some(path) = history
        && let Err(error) = write_history(&simulation, path)
    {
        println!("the history could not be written to {}: {error}", path.display());
    }
    let summary = result?;
    if arguments.twice {
        let again = run(seed, bugs, Story::silent())?;
        if again != summary {
            let what = format!("two runs of a seed differ: {summary:?} and {again:?}");
            let violation = sidle_sim::checks::Violation::new("determinism", what);
            return Err(Failure { at_us: summary.simulated_us, violation });
        }
    }
    Ok(summary)
}

fn write_history(simulation: &sidle_sim::Simulation, path: &Path) -> std::io::Result<()> {
    let mut registers = BufWriter::new(File::create(path)?);
    let mut timed = BufWriter::new(File::create(path.with_added_extension("ttl"))?);
    simulation.write_history(&mut registers, &mut timed)
}

/// Puts each known fault back, one at a time.
fn hunt(arguments: &Arguments) -> ExitCode {
    // Assertions that fail are what is hoped for here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    for (name, _) in Bugs::names() {
        let bugs = Bugs::with(name).unwrap_or_default();
        let started = Instant::now();
        let Some(limit) = Bugs::seeds(name) else { continue };
        let found = (arguments.seed..arguments.seed + limit)
            .find_map(|seed| run(seed, bugs, Story::silent()).err().map(|failure| (seed, failure)));
        let seconds = started.elapsed().as_secs_f64();
        match found {
            Some((seed, failure)) => {
                let check = failure.violation.check;
                println!("{name:36} seed {seed:4} of {limit:4}, {seconds:5.1} s: {check}");
            }
            None => {
                missed += 1;
                println!("{name:36} NOT FOUND within {limit} seeds, {seconds:.1} s");
            }
        }
    }
    match missed {
        0 => ExitCode::SUCCESS,
        _ => {
            println!("{missed} known faults were not seen by any checker");
            ExitCode::FAILURE
        }
    }
}
