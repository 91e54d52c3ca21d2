//! What a node with a durable log has after it was killed.

#![allow(clippy::disallowed_methods)] // a test reads the clock

#[path = "../support/mod.rs"]
mod support;

mod copies;
mod damage;
mod dead_sources;
mod dead_targets;
mod fetched_copies;
mod in_the_middle;
mod kills;
mod little_memory;
mod loading;
mod once;
mod rdb_files;
mod saving;
mod takeovers;

use sidle_resp::Value;
use std::path::PathBuf;
use support::{Client, Node, NodeOptions};

/// A node with a durable log.
fn durable(fsync: &str) -> NodeOptions {
    NodeOptions::default().flag("--durability", "disk").flag("--fsync", fsync)
}

/// Its log's files, oldest first.
fn files(node: &Node) -> Vec<PathBuf> {
    let folder = node.file("durable-log");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the log is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    files.sort();
    files
}

/// A text, or nothing.
fn text(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn number(client: &mut Client, words: &[&str]) -> i64 {
    match client.request(words) {
        Value::Integer(number) => number,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// A field of INFO.
fn info(client: &mut Client, field: &str) -> String {
    let all = text(&client.request(&["INFO", "persistence"])).expect("a text");
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {field} in {all}"))
}
