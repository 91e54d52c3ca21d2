//! The `sidle` program: a node, and the commands that steer and watch a cluster.

// A program at the edge: it reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(test)]
mod absurd;
mod bench;
mod check_history;
mod cli;
mod demo;
mod exit;
mod forget;
mod interrupt;
mod lab;
mod load_arguments;
mod migrate;
mod modelled;
mod node_connection;
mod numbers;
mod policy_arguments;
mod range;
mod server;
mod status;
mod table;
mod units;

use clap::Parser;
use std::process::ExitCode;

/// Many small allocations on several threads: measured faster than the system's allocator.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = cli::Cli::parse().command;
    exit::run(|| match command {
        cli::Command::Server(arguments) => server::run(*arguments),
        cli::Command::Migrate(arguments) => migrate::run(&arguments),
        cli::Command::Status(arguments) => status::run(&arguments),
        cli::Command::Forget(arguments) => forget::run(&arguments),
        cli::Command::Demo(arguments) => demo::run(&arguments),
        cli::Command::Bench(arguments) => bench::run(&arguments),
        cli::Command::Lab(arguments) => lab::run(&arguments),
        cli::Command::CheckHistory(arguments) => check_history::run(&arguments),
    })
}

/// A runtime for the commands that talk to a node.
fn runtime() -> Result<tokio::runtime::Runtime, exit::Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| exit::Failure::refused(format!("cannot start: {error}")))
}
