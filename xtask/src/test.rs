//! `cargo xtask test`: every check before a change lands, cheapest first.

use crate::clients::{self, Clients};
use crate::fuzz;
use crate::sim;
use crate::step::{Step, Steps, cargo, skipped, step, succeeds, target_folder};
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
    let mut plan = quick();
    if !arguments.quick {
        plan.extend(MODELS.map(model_check));
        plan.extend([address_sanitizer(), licences()]);
        plan.extend(sim::steps());
        plan.extend(fuzz::TARGETS.map(|target| fuzz::step(target, FUZZ_SECONDS)));
        plan.extend(processes());
    }
    Steps::take_all(plan)
}

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 10;

const OF_LAB: [&str; 3] = ["test", "--package", "sidle-lab"];

/// Tests that start an etcd, or several.
const WITH_ETCD: [&[&str]; 2] = [
    &["test", "--package", "sidle-meta-etcd", "--test", "contract"],
    &["test", "--package", "sidle", "--features", "etcd", "--test", "etcd"],
];

/// Cargo with these arguments, of which each list is a part.
fn cargo_with(parts: &[&[&str]]) -> Command {
    let mut command = cargo();
    command.args(parts.concat());
    command
}

/// What one runs while editing.
fn quick() -> Vec<Step> {
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"];
    let libraries = ["test", "--workspace", "--all-features"];
    let elsewhere = ["--exclude", "xtask", "--exclude", "sidle", "--exclude", "sidle-lab"];
    let in_process = ["--lib", "--bins", "--test", "compare", "--test", "page*", "--test", "runs"];
    vec![
        step("format", cargo_with(&[&["fmt", "--all", "--check"]])),
        step("lints", cargo_with(&[&lints])),
        step("layers and purity", cargo_with(&[&["test", "--package", "xtask"]])),
        step("unit, property and pair tests", cargo_with(&[&libraries, &elsewhere])),
        step("the laboratory", cargo_with(&[&OF_LAB, &in_process])),
    ]
}

/// Tests of the programs, and with clients from outside.
fn processes() -> [Step; 3] {
    let with_clients: Step = Box::new(|steps| {
        let clients = Clients::set_up(steps);
        steps.run(
            "processes and clients",
            clients.pass_to(&mut cargo_with(&[&["test", "--package", "sidle"]])),
        )
    });
    let with_etcd: Step = Box::new(|steps| {
        let Some(etcd) = clients::etcd() else {
            steps.skip("metadata in etcd", "etcd is not installed (Debian: apt-get install etcd-server)");
            return Ok(());
        };
        WITH_ETCD.iter().try_for_each(|tests| {
            steps.run("metadata in etcd", cargo_with(&[tests]).env("SIDLE_TEST_ETCD", &etcd))
        })
    });
    let of_lab = cargo_with(&[&OF_LAB, &["--test", "program", "--test", "modelled"]]);
    [with_clients, with_etcd, step("processes of the laboratory", of_lab)]
}

/// A module with loom's tests. A filter without a match passes silently.
struct Model {
    package: &'static str,
    module: &'static str,
    what: &'static str,
}

const MODELS: [Model; 2] = [
    Model { package: "store", module: "kernel_model", what: "loom: read, publish, reclaim" },
    Model { package: "migration", module: "barrier_model", what: "loom: the barrier and workers that sleep" },
];

/// Explores the interleavings of a lock-free piece.
fn model_check(model: Model) -> Step {
    let package = format!("sidle-{}", model.package);
    let mut command = cargo_with(&[&["test", "--release", "--package", &package, "--lib", model.module]]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_folder().join("loom"));
    step(model.what, command)
}

/// The store's tests under AddressSanitizer, if a nightly toolchain is installed.
fn address_sanitizer() -> Step {
    let name = "address sanitizer: store";
    if !succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        return skipped(name, "it needs a nightly toolchain: rustup toolchain install nightly");
    }
    let mut command = Command::new("cargo");
    command
        .args(["+nightly", "test", "--package", "sidle-store", "--lib", "--tests"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", target_folder().join("address-sanitizer"));
    step(name, command)
}

/// Licences, bans and sources of the dependencies, if cargo-deny is installed.
fn licences() -> Step {
    let name = "licences, bans, sources";
    if !succeeds(cargo().args(["deny", "--version"])) {
        return skipped(name, "it needs cargo-deny: cargo install cargo-deny");
    }
    step(name, cargo_with(&[&["deny", "check", "licenses", "bans", "sources"]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_modules_with_tests_for_loom() {
        for Model { package, module, .. } in MODELS {
            let folder = format!("{}/../crates/{package}/src", env!("CARGO_MANIFEST_DIR"));
            let library = std::fs::read_to_string(format!("{folder}/lib.rs")).expect("the library");
            assert!(library.contains(&format!("#[cfg(all(test, loom))]\nmod {module};")), "{module}");
            let model = std::fs::read_to_string(format!("{folder}/{module}.rs")).expect("the model's file");
            assert!(model.contains("#[test]"), "{module}");
        }
    }
}
