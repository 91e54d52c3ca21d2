//! The texts on the command line and the status, checked against the code.

use crate::cli::Cli;
use clap::CommandFactory;
use serde_json::{Value as Json, json};
use sidle_cluster::StatusReport;
use sidle_heat::HeatReport;
use std::collections::BTreeSet;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

#[test]
fn every_command_that_is_named_exists() {
    sidle_cli::named::assert_named_commands_exist(&Cli::command());
}

#[test]
fn help_is_readable() {
    sidle_cli::named::assert_help_is_readable(&Cli::command());
}

#[test]
fn documented_commands_can_be_pasted() {
    sidle_cli::named::assert_documented_commands_can_be_pasted();
}

/// A status with every field filled.
fn report() -> StatusReport {
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    let range = ["0x0000000000000000", "0x0003ffffffffffff"];
    serde_json::from_value(json!({
        "cluster": "7".repeat(32), "coordinator": a, "map_epoch": 1,
        "nodes": [{
            "id": a, "incarnation": 1, "client_addr": "127.0.0.1:1", "bus_addr": "127.0.0.1:9", "state": "up",
            "speaks": { "lowest": 3, "highest": 4 }, "silent_us": 0, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0, "memory_limit_bytes": 0, "slots": 1,
            "log_copies": [b],
            "taking_over": {
                "log": "7".repeat(32), "fetched_from": b, "fetched_bytes": 1, "fetch_bytes": 1, "read_bytes": 1,
                "copy_bytes": 1, "put_bytes": 1, "found_bytes": 1, "is_past_failure": true
            },
            "not_taken_over": null, "takeover_refused": null
        }],
        "tablets": [{ "range": range, "owner": a, "epoch": 1 }],
        "takeovers": [{ "range": range, "owner": a, "epoch": 1, "from": b, "log": "7".repeat(32), "log_epoch": 2,
            "backups": [{ "node": a, "incarnation": 1 }], "import": 1, "unread_by": [b],
            "trouble": null }],
        "migrations": [{
            "id": 1, "protocol": "fulva", "policy": "adaptive", "range": range, "range_text": "slot 0",
            "source": a, "target": b, "epoch": 1, "state": "running", "why": null, "activated": true,
            "fraction": 0.5, "records": 1, "bytes": 1, "records_moved": 1, "bytes_moved": 1, "elapsed_us": 1,
            "collections": { "arrived": 1, "ahead": 1, "patch_bytes": 1 },
            "bytes_per_second": 0, "remaining_us": null, "changes_left": 0, "stalled": null,
            "source_log": "7".repeat(32), "gave_all": "load", "turn": null,
            "partitions": [{ "range": range, "next": null }]
        }]
    }))
    .expect("a report")
}

/// The fields of a value, those of lists' elements behind `[]`.
fn fields(value: &Json, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Json::Object(members) => members.iter().for_each(|(name, member)| {
            let dot = if path.is_empty() { "" } else { "." };
            fields(member, &format!("{path}{dot}{name}"), found);
        }),
        Json::Array(members) if members.iter().all(Json::is_object) => {
            members.iter().for_each(|member| fields(member, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// The heat of the status's node, with every field filled.
fn heat() -> HeatReport {
    serde_json::from_value(json!({
        "node": "a".repeat(40), "window_us": 1, "operations": 1, "writes": 1, "bytes_in": 1, "bytes_out": 1,
        "cpu_us": 1, "unlisted_at_most": 1,
        "keys": [{
            "key": "k", "is_cut": false, "position": "0x0000000000000000", "slot": 1, "operations": 1,
            "operations_at_most": 1, "writes": 1, "bytes_in": 1, "bytes_out": 1, "cpu_us": 1
        }],
        "slots": [{ "slot": 1, "operations": 1 }]
    }))
    .expect("a report")
}

#[test]
fn the_fields_of_json_are_those_that_are_documented() {
    for (heading, value) in [
        ("### The status as JSON", serde_json::to_value(report()).expect("plain data")),
        ("### Hot keys and slots as JSON", crate::top::documented(&report(), heat())),
        ("### A node's heat as JSON", serde_json::to_value(heat()).expect("plain data")),
    ] {
        let mut there = BTreeSet::new();
        fields(&value, "", &mut there);
        let (_, section) = OPERATIONS.split_once(&format!("{heading}\n")).expect(heading);
        let section = section.split("\n#").next().expect("its text");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let documented: BTreeSet<String> = rows.map(|(field, _)| field.to_owned()).collect();
        assert_eq!(documented, there, "{heading}");
    }
}
