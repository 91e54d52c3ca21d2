//! `cargo xtask fuzz`: the coverage-guided fuzz targets of `fuzz/`.

use crate::step::{self, Step, Steps, cargo, project_root, succeeds};
use std::process::Command;

/// The fuzz targets: the RESP parser, the frames between nodes, the payloads of DUMP, and sequences of store
/// operations.
pub(crate) const TARGETS: [&str; 4] = ["resp", "frames", "payloads", "store_ops"];

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Targets to run; all when none is named
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Runs each target for its time, and fails on the first finding.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(missing) = missing() {
        anyhow::bail!("{missing}");
    }
    let named: Vec<&str> = match arguments.targets.as_slice() {
        [] => TARGETS.to_vec(),
        targets => targets.iter().map(String::as_str).collect(),
    };
    Steps::take_all(named.into_iter().map(|target| step(target, arguments.seconds)).collect())
}

/// Fuzzes one target, where this machine can.
pub(crate) fn step(target: &str, seconds: u32) -> Step {
    let name = format!("fuzz {target}");
    match missing() {
        Some(reason) => step::skipped(name, reason),
        None => step::step(name, command(target, seconds)),
    }
}

/// What this machine lacks for fuzzing, and how to install it.
fn missing() -> Option<&'static str> {
    if !succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        return Some("fuzzing needs a nightly toolchain: rustup toolchain install nightly");
    }
    if !succeeds(cargo().args(["fuzz", "--version"])) {
        return Some("fuzzing needs cargo-fuzz: cargo install cargo-fuzz");
    }
    None
}

/// The command that fuzzes one target.
fn command(target: &str, seconds: u32) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .args(["fuzz", "run", "--fuzz-dir"])
        .arg(project_root().join("fuzz"))
        .arg(target)
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}
