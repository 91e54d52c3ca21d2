//! The project's own tasks. `cargo xtask help` lists them.

// I/O edge: it runs other programs and measures their time.
#![allow(clippy::disallowed_methods)]

mod beside_redis;
mod clients;
mod fuzz;
mod servers;
mod sim;
mod step;
mod suite;
mod test;

use clap::{Parser, Subcommand};

/// Sidle's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check before a change lands: format, lints, layering, all tests, models, clients
    Test(test::Arguments),
    /// Run the fuzz targets (needs a nightly toolchain and cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Simulate whole clusters on virtual time: --seeds N --minutes M, or see --help
    #[command(disable_help_flag = true)]
    Sim(sim::Arguments),
    /// Measure large collections at Sidle and at redis-server, in turns
    BesideRedis(beside_redis::Arguments),
    /// Run Redis's own test suite against Sidle and redis-server, and compare
    Suite(suite::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Sim(arguments) => sim::run(&arguments),
        Task::BesideRedis(arguments) => beside_redis::run(&arguments),
        Task::Suite(arguments) => suite::run(&arguments),
    }
}
