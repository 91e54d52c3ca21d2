//! `cargo xtask test`: every check before a change lands, cheapest first.

use crate::clients::Clients;
use crate::fuzz;
use crate::sim;
use crate::step::{Steps, cargo, succeeds, target_folder};
use std::process::Command;

/// Which checks to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the models, sanitizers and processes: what one runs while editing
    #[arg(long)]
    quick: bool,
}

/// Runs the checks in order and stops at the first failure.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.run("format", cargo().args(["fmt", "--all", "--check"]))?;
    steps.run(
        "lints",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    steps.run("layers and purity", cargo().args(["test", "--package", "xtask"]))?;
    let library_tests = ["test", "--workspace", "--all-features"];
    let elsewhere = ["--exclude", "xtask", "--exclude", "sidle", "--exclude", "sidle-lab"];
    steps.run("unit, property and pair tests", cargo().args(library_tests).args(elsewhere))?;
    let of_lab = ["test", "--package", "sidle-lab"];
    let in_process = ["--lib", "--bins", "--test", "compare", "--test", "page*", "--test", "runs"];
    steps.run("the laboratory", cargo().args(of_lab).args(in_process))?;
    if arguments.quick {
        steps.print_summary();
        return Ok(());
    }
    model_check(&mut steps)?;
    address_sanitizer(&mut steps)?;
    licences(&mut steps)?;
    sim::steps(&mut steps)?;
    for target in fuzz::TARGETS {
        match fuzz::missing() {
            Some(reason) => steps.skip(&format!("fuzz {target}"), reason),
            None => steps.run(&format!("fuzz {target}"), &mut fuzz::command(target, 10))?,
        }
    }
    let clients = Clients::set_up(&mut steps);
    steps.run("processes and clients", clients.pass_to(cargo().args(["test", "--package", "sidle"])))?;
    steps.run(
        "processes of the laboratory",
        cargo().args(of_lab).args(["--test", "program", "--test", "modelled"]),
    )?;
    steps.print_summary();
    Ok(())
}

/// The store's module with loom's tests. A filter without a match passes silently.
const KERNEL_MODEL: &str = "kernel_model";

/// Explores the interleavings of the store's lock-free kernel.
fn model_check(steps: &mut Steps) -> anyhow::Result<()> {
    steps.run(
        "loom: read, publish, reclaim",
        cargo()
            .args(["test", "--release", "--package", "sidle-store", "--lib", KERNEL_MODEL])
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target_folder().join("loom")),
    )
}

/// The store's tests under AddressSanitizer, if a nightly toolchain is installed.
fn address_sanitizer(steps: &mut Steps) -> anyhow::Result<()> {
    let name = "address sanitizer: store";
    if !succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        steps.skip(name, "it needs a nightly toolchain: rustup toolchain install nightly");
        return Ok(());
    }
    steps.run(
        name,
        Command::new("cargo")
            .args(["+nightly", "test", "--package", "sidle-store", "--lib", "--tests"])
            .args(["--target", "x86_64-unknown-linux-gnu"])
            .env_remove("RUSTUP_TOOLCHAIN")
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", target_folder().join("address-sanitizer")),
    )
}

/// Licences, bans and sources of the dependencies, if cargo-deny is installed.
fn licences(steps: &mut Steps) -> anyhow::Result<()> {
    if succeeds(cargo().args(["deny", "--version"])) {
        steps.run("licences, bans, sources", cargo().args(["deny", "check", "licenses", "bans", "sources"]))
    } else {
        steps.skip("licences, bans, sources", "it needs cargo-deny: cargo install cargo-deny");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_model_is_a_module_of_the_store_with_tests_for_loom() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/store/src");
        let library = std::fs::read_to_string(format!("{folder}/lib.rs")).expect("the store's library");
        assert!(library.contains(&format!("#[cfg(all(test, loom))]\nmod {KERNEL_MODEL};")));
        let model = std::fs::read_to_string(format!("{folder}/{KERNEL_MODEL}.rs")).expect("the model's file");
        assert!(model.contains("#[test]"));
    }
}
