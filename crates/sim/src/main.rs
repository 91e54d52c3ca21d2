//! Runs simulations: one seed, or many.

// A program at the edge: it measures how fast it is.
#![allow(clippy::disallowed_methods)]

use clap::Parser;
use sidle_sim::{Bugs, Story, run_and_record};
use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

/// Simulates whole clusters, a seed at a time.
#[derive(Parser)]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Tell the story of the run
    #[arg(long)]
    trace: bool,
    /// Write the history of a single seed there, and that of keys with a time to live beside it
    #[arg(long)]
    history: Option<std::path::PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let mut simulated_us = 0;
    let mut failed = 0;
    let mut met = std::collections::BTreeMap::<&str, (u64, u64)>::new();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let story = match arguments.trace {
            true => Story::told_to(Box::new(|at_us, line| println!("{:>12.6} {line}", at_us as f64 / 1e6))),
            false => Story::silent(),
        };
        let before = Instant::now();
        let (result, simulation) = run_and_record(seed, Bugs::default(), story);
        if let Some(path) = &arguments.history {
            let mut registers = BufWriter::new(File::create(path)?);
            let mut timed = BufWriter::new(File::create(path.with_added_extension("ttl"))?);
            simulation.write_history(&mut registers, &mut timed)?;
        }
        match result {
            Ok(summary) => {
                simulated_us += summary.simulated_us;
                for (&what, &times) in &summary.met {
                    let (seeds, sum) = met.entry(what).or_default();
                    *seeds += u64::from(times > 0);
                    *sum += times;
                }
                println!(
                    "{seed}: {:.1} ms, {:.1} s, {} events, {} operations, {} answered, {} migrations, {} troubles, {} deaths, {} undecided",
                    before.elapsed().as_secs_f64() * 1e3,
                    summary.simulated_us as f64 / 1e6,
                    summary.events,
                    summary.operations,
                    summary.answered,
                    summary.migrations,
                    summary.troubles,
                    summary.deaths,
                    summary.undecided
                );
            }
            Err(failure) => {
                failed += 1;
                println!("seed {seed} fails at {} us: {}", failure.at_us, failure.violation);
            }
        }
    }
    for (what, (seeds, sum)) in met {
        println!("{what}: {sum} in {seeds} seeds");
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s, {:.0} simulated seconds a second, {failed} failed",
        arguments.seeds,
        simulated_us as f64 / 1e6 / seconds
    );
    Ok(())
}
