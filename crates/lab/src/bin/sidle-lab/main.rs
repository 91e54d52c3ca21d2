//! The `sidle-lab` program: every protocol under many loads, on this machine or on modelled ones. It measures
//! nodes and demonstrations that it starts from its own file, so it needs no other program.

// A program at the edge reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod cli;
mod compare;
mod demo;
mod modelled;
mod peers;
mod runs;
mod table;
#[cfg(test)]
mod wrong_lines;

use cli::{Cli, Command};
use sidle_cli::{exit, line, server};
use std::process::ExitCode;

/// Nodes are measured as `sidle` runs them.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = line::of_process::<Cli>().command;
    exit::run("sidle-lab", || match command {
        Command::Run(arguments) => runs::run(&arguments),
        Command::Figures(arguments) => runs::figures(&arguments),
        Command::Report(arguments) => runs::report(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Table(arguments) => table::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Peers(arguments) => peers::run(&arguments),
        Command::Server(arguments) => server::run(*arguments),
    })
}
