//! Simulates whole clusters, a seed at a time.

// I/O edge: it measures its own speed.
#![allow(clippy::disallowed_methods)]

mod hunt;
mod side_by_side;
mod totals;

use clap::Parser;
use sidle_sim::{Drawn, Failure, Story, Summary, run, run_and_record};
use sidle_types::{About, Fault, World};
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use totals::Totals;

// A tenth of a simulation's time is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulate whole clusters on virtual time: one seed draws the cluster, the load and everything that goes
/// wrong.
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
    /// How many seeds to run [default: 1, or without end when --minutes is given]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Run so many seeds side by side, each on a thread of its own [default: one for each processor]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    threads: Option<NonZeroUsize>,
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
    bug: Option<Fault>,
    /// Simulate this only: cluster, durable-log, copied-logs, takeovers or lonely-sources [default: what the
    /// seed draws]
    #[arg(long, value_name = "WORLD", value_parser = world)]
    world: Option<World>,
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

fn bug(name: &str) -> Result<Fault, String> {
    Fault::named(name).ok_or_else(|| format!("there is no fault '{name}'; --bugs lists them"))
}

fn world(name: &str) -> Result<World, String> {
    match name {
        "cluster" => Ok(World::Cluster),
        "durable-log" => Ok(World::DurableLog),
        "copied-logs" => Ok(World::CopiedLogs),
        "takeovers" => Ok(World::Takeovers),
        "lonely-sources" => Ok(World::LonelySources),
        _ => Err("the worlds are cluster, durable-log, copied-logs, takeovers and lonely-sources".to_owned()),
    }
}

/// The name of a world that was given, for a command line.
fn named(world: World) -> &'static str {
    match world {
        World::Cluster => "cluster",
        World::DurableLog => "durable-log",
        World::CopiedLogs => "copied-logs",
        World::Takeovers => "takeovers",
        World::LonelySources => "lonely-sources",
    }
}

impl Arguments {
    fn drawn(&self) -> Drawn {
        Drawn { fault: self.bug, world: self.world }
    }

    fn first_seed(&self) -> u64 {
        match self.fresh {
            // Seconds: two runs within one begin alike, which does no harm.
            true => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()),
            false => self.seed,
        }
    }

    fn count(&self) -> u64 {
        self.seeds.unwrap_or(if self.minutes.is_some() { u64::MAX } else { 1 })
    }

    fn threads(&self) -> usize {
        match self.threads {
            // Two interleaved stories would be unreadable.
            _ if self.trace => 1,
            Some(threads) => threads.get(),
            None => side_by_side::processors(),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.bugs {
        for About { name, what, seeds, .. } in Fault::ALL.iter().map(|fault| fault.about()) {
            let seen = match seeds {
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
    let threads = arguments.threads();
    if arguments.hunt {
        return hunt::hunt(arguments.seed, threads);
    }
    let (started, first) = (Instant::now(), arguments.first_seed());
    let mut totals = Totals::default();
    let has_time =
        || arguments.minutes.is_none_or(|minutes| started.elapsed().as_secs_f64() < minutes * 60.0);
    let timed = |seed| {
        let before = Instant::now();
        let history = arguments.history.as_deref().filter(|_| seed == first);
        (simulate(&arguments, seed, history), before.elapsed())
    };
    let count = arguments.count();
    if count > 0 {
        let seeds = first..=first.saturating_add(count - 1);
        side_by_side::each(threads, seeds, has_time, timed, |seed, (result, took)| {
            totals.seeds += 1;
            match result {
                Ok(summary) => {
                    totals.add(&summary, took);
                    if arguments.verbose {
                        println!("seed {seed}: {:.0} ms, {summary:?}", took.as_secs_f64() * 1e3);
                    }
                }
                Err(failure) => {
                    totals.failed.push(seed);
                    let at_s = failure.at_us as f64 / 1e6;
                    println!("seed {seed} failed after {at_s:.6} simulated seconds: {}", failure.violation);
                    if arguments.bug.is_some() {
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
    }
    if arguments.met {
        totals.print_met();
    }
    totals.print(started.elapsed(), threads);
    match totals.failed.first() {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            let bug = arguments.bug.map_or(String::new(), |bug| format!(" --bug {}", bug.about().name));
            let world = arguments.world.map_or(String::new(), |world| format!(" --world {}", named(world)));
            println!("the story: cargo xtask sim --seed {seed}{bug}{world} --trace");
            ExitCode::FAILURE
        }
    }
}

fn simulate(arguments: &Arguments, seed: u64, history: Option<&Path>) -> Result<Summary, Failure> {
    let story = match arguments.trace {
        true => Story::told_to(Box::new(|at_us, line| println!("{:>12.6}  {line}", at_us as f64 / 1e6))),
        false => Story::silent(),
    };
    let (result, simulation) = run_and_record(seed, arguments.drawn(), story);
    if let Some(path) = history
        && let Err(error) = write_history(&simulation, path)
    {
        println!("the history could not be written to {}: {error}", path.display());
    }
    let summary = result?;
    if arguments.twice {
        let again = run(seed, arguments.drawn(), Story::silent())?;
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
