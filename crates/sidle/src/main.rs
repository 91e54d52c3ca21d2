//! The `sidle` program: a node, and the commands that steer and watch a cluster.

// A program at the edge reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod bench;
mod check_history;
mod cli;
#[cfg(test)]
mod documented;
mod elsewhere;
mod forget;
mod hints;
mod import;
mod migrate;
mod node_connection;
mod node_name;
mod policy_arguments;
mod range;
mod status;
mod takeover;
mod top;
mod tx;
mod upgrade;
mod via;
mod watch;
#[cfg(test)]
mod wrong_lines;

use sidle_cli::exit::Failure;
use sidle_cli::load::Business;
use sidle_cli::{bank, demo, exit, line, server, tpcc};
use std::process::ExitCode;

/// For many small allocations on several threads: measured faster than the system's allocator.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = line::of_process::<cli::Cli>().command;
    exit::run("sidle", || match command {
        cli::Command::Server(arguments) => server::run(*arguments),
        cli::Command::Migrate(arguments) => reached(&arguments.via.via, migrate::run(&arguments)),
        cli::Command::Status(arguments) => reached(&arguments.via.via, status::run(&arguments)),
        cli::Command::Top(arguments) => reached(&arguments.via.via, top::run(&arguments)),
        cli::Command::Forget(arguments) => reached(&arguments.via.via, forget::run(&arguments)),
        cli::Command::Takeover(arguments) => reached(&arguments.via.via, takeover::run(&arguments)),
        cli::Command::Tx(cli::TxCommand::List(arguments)) => {
            reached(&arguments.via.via, tx::list(&arguments))
        }
        cli::Command::Tx(cli::TxCommand::Resolve(arguments)) => {
            reached(&arguments.via.via, tx::resolve(&arguments))
        }
        cli::Command::Upgrade(arguments) => reached(&arguments.via.via, upgrade::run(&arguments)),
        cli::Command::Import(arguments) => reached(&arguments.via.via, import::run(&arguments)),
        cli::Command::Demo(arguments) if *arguments.business() == Business::Bank => bank::run(&arguments),
        cli::Command::Demo(arguments) if *arguments.business() == Business::Tpcc => tpcc::run(&arguments),
        cli::Command::Demo(arguments) => demo::run(&arguments),
        cli::Command::Bench(arguments) => reached(arguments.via(), bench::run(&arguments)),
        cli::Command::Cancel(arguments) => elsewhere::refuse_cancel("cancel", &arguments),
        cli::Command::Lab(arguments) => elsewhere::refuse("sidle lab", &[], &arguments),
        cli::Command::CheckHistory(arguments) => check_history::run(&arguments),
    })
}

/// The outcome of a command that went to a node: its message names lines that go there as well.
fn reached(via: &via::Via, outcome: Result<(), Failure>) -> Result<(), Failure> {
    outcome.map_err(|failure| hints::reaching_failure(failure, via))
}
