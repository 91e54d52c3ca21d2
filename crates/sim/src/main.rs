//! Simulates whole clusters, a seed at a time.

// A program at the edge: it measures how fast it is.
#![allow(clippy::disallowed_methods)]

use clap::Parser;
use sidle_sim::{Bugs, Failure, Story, Summary, run};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Simulate whole clusters on virtual time: one seed draws the cluster, the load and everything that goes wrong.
///
/// A seed that fails fails again: the last line says how to see its story.
#[derive(Parser)]
#[command(name = "sidle-sim")]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run, one after the other
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Stop after so many minutes, however many seeds are left
    #[arg(long)]
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
    /// List the known faults
    #[arg(long)]
    bugs: bool,
    /// Print a line for each seed
    #[arg(long, short)]
    verbose: bool,
}

fn bug(name: &str) -> Result<Bugs, String> {
    Bugs::with(name).ok_or_else(|| format!("there is no fault '{name}'; --bugs lists them"))
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
}

impl Totals {
    fn add(&mut self, summary: &Summary) {
        self.simulated_us += summary.simulated_us;
        self.operations += summary.answered;
        self.migrations += summary.migrations;
        self.troubles += summary.troubles;
        self.deaths += summary.deaths;
        self.undecided += summary.undecided;
    }

    fn print(&self, took: Duration) {
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
            println!("{name}\n    {what}");
        }
        return ExitCode::SUCCESS;
    }
    // An assertion of a machine is reported with the seed that it failed in.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            println!("an assertion failed at {}:{}", place.file(), place.line());
        }
    }));
    let started = Instant::now();
    let mut totals = Totals::default();
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        if arguments.minutes.is_some_and(|minutes| started.elapsed().as_secs_f64() >= minutes * 60.0) {
            break;
        }
        totals.seeds += 1;
        let before = Instant::now();
        match simulate(&arguments, seed) {
            Ok(summary) => {
                totals.add(&summary);
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
    totals.print(started.elapsed());
    match totals.failed.first() {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            println!("the story: cargo xtask sim --seed {seed} --trace");
            ExitCode::FAILURE
        }
    }
}

fn simulate(arguments: &Arguments, seed: u64) -> Result<Summary, Failure> {
    let bugs = arguments.bug.unwrap_or_default();
    let story = match arguments.trace {
        true => Story::told_to(Box::new(|at_us, line| println!("{:>12.6}  {line}", at_us as f64 / 1e6))),
        false => Story::silent(),
    };
    let summary = run(seed, bugs, story)?;
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
