//! The common parts of the instruction counts: their keys, and their requirements beside cargo.

use std::path::Path;
use std::process::{Command, Stdio};

const INSTALL: &str = "cargo install gungraun-runner --version =0.20.0 --locked --root target/gungraun";

/// Operations, or keys, of each case.
pub(crate) const OPERATIONS: u64 = 2000;
/// The initial keys.
pub(crate) const KEYS: u64 = 30_000;
/// Every value.
pub(crate) const VALUE: [u8; 100] = [b'v'; 100];

/// A key, of 30 bytes.
pub(crate) fn key(number: u64) -> String {
    format!("key:{number:026}")
}

/// The numbers of a case's keys, the first ones of [`KEYS`] from `first` on: in no order, none twice, since
/// the step is a prime.
pub(crate) fn numbers(first: u64) -> impl Iterator<Item = u64> {
    (0..OPERATIONS).map(move |number| first + number * 7919 % KEYS)
}

/// Counts, or reports what is missing.
pub(crate) fn run(cases: fn()) {
    match missing() {
        Some(missing) => println!("instructions are not counted: {missing}"),
        None => cases(),
    }
}

/// What is missing for counting instructions, and how to install it; nothing if complete.
fn missing() -> Option<String> {
    // The runner starts this program again for each case, without an environment.
    if std::env::args().any(|argument| argument == "--gungraun-run") {
        return None;
    }
    let has_valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_valgrind {
        return Some("valgrind is missing (Debian: apt-get install valgrind)".into());
    }
    let runner = option_env!("GUNGRAUN_RUNNER").unwrap_or_default();
    (!Path::new(runner).exists()).then(|| format!("{runner} is missing: {INSTALL}"))
}
