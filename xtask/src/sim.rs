//! `cargo xtask sim`: the simulator, built with every assertion.

use crate::step::{Steps, cargo};
use std::process::Command;

/// Seeds that every change is tested with. Every tenth runs twice, and both runs must be the same.
const FIXED_SEEDS: u64 = 300;
const SEEDS_RUN_TWICE: u64 = 30;
/// How long to run fresh seeds, in minutes.
const FRESH_MINUTES: f64 = 2.0;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of the simulator, such as --seeds N --minutes M, --seed N --trace, --bug NAME, --hunt;
    /// --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = simulator();
    command.args(&arguments.arguments);
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(1));
}

/// The checks before a change lands: fixed seeds, the same result twice, every known fault, fresh seeds.
pub(crate) fn steps(steps: &mut Steps) -> anyhow::Result<()> {
    let seeds = |count: u64| ["--seeds".to_owned(), count.to_string()];
    steps.run(
        "simulator: the same seed, the same run",
        simulator().args(seeds(SEEDS_RUN_TWICE)).arg("--twice"),
    )?;
    steps.run("simulator: fixed seeds", simulator().args(seeds(FIXED_SEEDS)))?;
    steps.run("simulator: every known fault is found", simulator().arg("--hunt"))?;
    let minutes = FRESH_MINUTES.to_string();
    steps.run("simulator: fresh seeds", simulator().args(["--fresh", "--minutes", &minutes]))
}

fn simulator() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--profile", "sim", "--package", "sidle-sim", "--"]);
    command
}
