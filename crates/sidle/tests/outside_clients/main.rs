//! Unmodified clients on real nodes, working while data moves: `redis-cli -c`, `redis-benchmark
//! --cluster` and redis-py, with its cluster client and its plain one. And redis_exporter, which
//! watches.
//!
//! Each client runs through migrations and must see neither an error nor a wrong value. For a missing
//! program, a line that starts with "skipped:" names it, and its tests pass; `cargo xtask test` looks for
//! the programs, installs what it can and lists the missing ones.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod redis_benchmark;
mod redis_cli;
mod redis_exporter;
mod redis_py;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::process::{Child, Command, Output, Stdio};
use support::{Client, Node, TestCluster};

/// An outside program: the one that a variable names, or else the one on the PATH.
struct Program {
    path: OsString,
}

impl Program {
    /// `None`, and a printed line, if it is missing or does not start with these arguments.
    fn find(variable: &str, name: &str, trial: &[&str]) -> Option<Program> {
        let path = std::env::var_os(variable).unwrap_or_else(|| name.into());
        let tried = Command::new(&path).args(trial).stdin(Stdio::null()).output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(Program { path });
        }
        eprintln!("skipped: there is no {name} to test with ({variable} can name one)");
        None
    }

    /// The program with the arguments for reaching a node.
    fn command(&self, node: &Node) -> Command {
        let address = node.address();
        let (host, port) = address.rsplit_once(':').expect("host:port");
        let mut command = Command::new(&self.path);
        command.args(["-h", host, "-p", port]).stdin(Stdio::null());
        command
    }

    /// Runs it to its end against a node.
    fn run(&self, node: &Node, arguments: &[&str]) -> Output {
        self.command(node).args(arguments).output().expect("it started before")
    }
}

/// A process that ends with its test, in every case.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A program's output, as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Gives a node enough data that a migration takes a while.
fn fill(client: &mut Client) {
    const RECORDS: usize = 60_000;
    const RECORDS_AT_ONCE: usize = 1_000;
    let value = "x".repeat(1_000);
    for first in (0..RECORDS).step_by(RECORDS_AT_ONCE) {
        let requests: Vec<Vec<String>> = (first..first + RECORDS_AT_ONCE)
            .map(|n| vec!["SET".into(), format!("filler:{n}"), value.clone()])
            .collect();
        let replies = client.pipeline(&requests);
        assert!(replies.iter().all(|reply| *reply == sidle_resp::Value::Simple("OK".into())));
    }
}

/// Moves a range while a client works, and checks that the client made progress meanwhile. `count` returns
/// how many answers the client has received so far.
fn move_under_load(
    cluster: &TestCluster,
    unit: &str,
    range: &str,
    target: usize,
    mut count: impl FnMut() -> u64,
) {
    let before = count();
    let id = cluster.start_migration_of(unit, range, target);
    let ended = cluster.wait_for_migration(id);
    assert_eq!(ended["state"], "done", "{ended}");
    let after = count();
    assert!(after > before, "the client stood still at {before} answers while {range} moved");
}

/// How many replies with this kind of error a node has sent.
fn errors_sent(node: &Node, code: &str) -> u64 {
    let reply = node.client().request(&["INFO", "errorstats"]);
    let text = text(reply.as_bytes().expect("INFO is a text"));
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")));
    line.map_or(0, |count| count.trim().parse().expect("a count"))
}

/// The positions of one slot's upper half.
fn upper_half(slot: u64) -> String {
    const SLOT_BITS: u32 = 50;
    let first = (slot << SLOT_BITS) + (1 << (SLOT_BITS - 1));
    let last = ((slot + 1) << SLOT_BITS) - 1;
    format!("{first:#018x}-{last:#018x}")
}
