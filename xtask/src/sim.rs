//! `cargo xtask sim`: the simulator, built with every assertion.

use crate::step::{Step, cargo, step};
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
pub(crate) fn steps() -> [Step; 4] {
    let with = |arguments: &[&str]| {
        let mut command = simulator();
        command.args(arguments);
        command
    };
    let [twice, fixed] = [SEEDS_RUN_TWICE, FIXED_SEEDS].map(|count| count.to_string());
    let minutes = FRESH_MINUTES.to_string();
    [
        step("simulator: the same seed, the same run", with(&["--seeds", &twice, "--twice"])),
        step("simulator: fixed seeds", with(&["--seeds", &fixed])),
        step("simulator: every known fault is found", with(&["--hunt"])),
        step("simulator: fresh seeds", with(&["--fresh", "--minutes", &minutes])),
    ]
}

/// To build it takes minutes, which cargo shows.
fn simulator() -> Command {
    let mut command = cargo();
    command.args(["run", "--profile", "sim", "--package", "sidle-sim", "--"]);
    command
}
