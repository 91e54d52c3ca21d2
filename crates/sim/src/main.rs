//! Runs simulations: one seed, or many.

// A program at the edge: it measures how fast it is.
#![allow(clippy::disallowed_methods)]

use clap::Parser;
use sidle_sim::{Bugs, Story, run};
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
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let mut simulated_us = 0;
    let mut failed = 0;
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let story = match arguments.trace {
            true => Story::told_to(Box::new(|at_us, line| println!("{:>12.6} {line}", at_us as f64 / 1e6))),
            false => Story::silent(),
        };
        let before = Instant::now();
        match run(seed, Bugs::default(), story) {
            Ok(summary) => {
                simulated_us += summary.simulated_us;
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
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s, {:.0} simulated seconds a second, {failed} failed",
        arguments.seeds,
        simulated_us as f64 / 1e6 / seconds
    );
    Ok(())
}
