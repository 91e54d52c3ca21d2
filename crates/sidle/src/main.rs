//! The `sidle` program: a node, and the commands that steer and watch a cluster.

// A program at the edge: it reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(test)]
mod absurd;
mod bench;
mod check_history;
mod cli;
#[cfg(test)]
mod documented;
mod elsewhere;
mod forget;
mod hints;
mod migrate;
mod node_connection;
mod node_name;
mod policy_arguments;
mod range;
mod status;

use clap::Parser;
use sidle_cli::{demo, exit, server};
use std::process::ExitCode;

/// Many small allocations on several threads: measured faster than the system's allocator.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = cli::Cli::parse().command;
    exit::run("sidle", || match command {
        cli::Command::Server(arguments) => server::run(*arguments),
        cli::Command::Migrate(arguments) => migrate::run(&arguments),
        cli::Command::Status(arguments) => status::run(&arguments),
        cli::Command::Forget(arguments) => forget::run(&arguments),
        cli::Command::Demo(arguments) => demo::run(&arguments),
        cli::Command::Bench(arguments) => bench::run(&arguments),
        cli::Command::Lab(arguments) => elsewhere::refuse("sidle lab", &[], &arguments),
        cli::Command::CheckHistory(arguments) => check_history::run(&arguments),
    })
}
