//! `sidle status`: nodes, tablets and migrations as tables.

use crate::cli::StatusArguments;
use crate::node_connection::NodeConnection;
use crate::units::{bytes, count, duration, percent};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::table::{Align, Table};
use sidle_cluster::{MigrationStatus, NodeState, NodeStatus, StatusReport, Tablet};
use sidle_types::{MigrationPolicy, NodeId};
use std::time::Duration;

/// How often `--watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How many ended migrations are shown.
const ENDED_SHOWN: usize = 5;
/// Clears the screen and goes to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs `sidle status`.
pub(crate) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        if arguments.watch {
            tokio::select! {
                shown = watch(arguments) => shown,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        } else {
            let mut node = NodeConnection::open(&arguments.via).await?;
            print!("{}", shown(&mut node, arguments.json).await?);
            Ok(())
        }
    })
}

/// Shows the status every second. A node that cannot be reached for a while does not end it.
async fn watch(arguments: &StatusArguments) -> Result<(), Failure> {
    let mut node = NodeConnection::open(&arguments.via).await?;
    loop {
        let text = match shown(&mut node, arguments.json).await {
            Err(failure) if failure.status == Status::Unreachable => {
                if let Ok(again) = NodeConnection::open(&arguments.via).await {
                    node = again;
                }
                format!("{}\n", failure.message)
            }
            other => other?,
        };
        if arguments.json {
            print!("{text}");
        } else {
            print!("{CLEAR}{text}\nEvery second; Ctrl-C ends it.\n");
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

async fn shown(node: &mut NodeConnection, json: bool) -> Result<String, Failure> {
    if json { Ok(format!("{}\n", node.status_text().await?)) } else { Ok(render(&node.status().await?)) }
}

/// The whole status as text.
pub(crate) fn render(report: &StatusReport) -> String {
    let mut text = format!("Cluster {}, map epoch {}\n\n", report.cluster, report.map_epoch.0);
    text += &troubles(report);
    text += &nodes(report);
    text += "\n";
    text += &tablets(report);
    if !report.migrations.is_empty() {
        text += "\n";
        text += &migrations(report);
    }
    text
}

/// What needs somebody's attention.
fn troubles(report: &StatusReport) -> String {
    let mut text = String::new();
    if let Some(trouble) = &report.record_trouble {
        text += &format!("WARNING: the cluster's record is in danger: {trouble}\n");
    }
    for node in &report.nodes {
        if let Some(trouble) = &node.trouble {
            text += &format!("WARNING: node {}: {trouble}\n", name(report, node.id));
        }
    }
    if !text.is_empty() {
        text += "\n";
    }
    text
}

fn nodes(report: &StatusReport) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("CLIENTS AT", Align::Left),
        ("STATE", Align::Left),
        ("INCARNATION", Align::Right),
        ("SLOTS", Align::Right),
        ("KEYS", Align::Right),
        ("MEMORY", Align::Right),
        ("OF", Align::Right),
    ]);
    for node in &report.nodes {
        table.row([
            short(node.id),
            node.client_addr.to_string(),
            state(report, node),
            node.incarnation.0.to_string(),
            node.slots.to_string(),
            count(node.keys),
            bytes(node.memory_used_bytes),
            bytes(node.memory_limit_bytes),
        ]);
    }
    table.to_string()
}

/// Whether the node is up; if not, for how long nothing has been heard of it; and whether it runs the
/// coordinator.
fn state(report: &StatusReport, node: &NodeStatus) -> String {
    let mut text = node.state.to_string();
    if node.state == NodeState::Suspected {
        text += &node
            .silent_us
            .map_or(", not heard of".to_owned(), |us| format!(", silent for {}", duration(us)));
    }
    if node.id == report.coordinator {
        text += ", coordinator";
    }
    text
}

fn tablets(report: &StatusReport) -> String {
    let mut table = Table::new(&[("TABLET", Align::Left), ("OWNER", Align::Left), ("EPOCH", Align::Right)]);
    for Tablet { range, owner, epoch } in &report.tablets {
        table.row([range.to_string(), name(report, *owner), epoch.0.to_string()]);
    }
    table.to_string()
}

fn migrations(report: &StatusReport) -> String {
    let mut table = Table::new(&[
        ("MIGRATION", Align::Right),
        ("RANGE", Align::Left),
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("HOW", Align::Left),
        ("STATE", Align::Left),
        ("DONE", Align::Right),
        ("MOVED", Align::Right),
        ("RATE", Align::Right),
        ("LEFT", Align::Right),
    ]);
    let is_over = |migration: &&MigrationStatus| crate::migrate::is_over(&migration.state);
    let ended = report.migrations.iter().filter(is_over).count();
    let hidden = ended.saturating_sub(ENDED_SHOWN);
    let mut skipped = 0;
    for migration in &report.migrations {
        if is_over(&migration) && skipped < hidden {
            skipped += 1;
            continue;
        }
        let runs = migration.state == "running" || crate::migrate::is_copied(migration);
        table.row([
            migration.id.to_string(),
            migration.range_text.clone(),
            name(report, migration.source),
            name(report, migration.target),
            manner(migration),
            migration.stalled.as_ref().map_or(migration.state.clone(), |why| format!("stalled: {why}")),
            percent(migration.fraction),
            bytes(migration.bytes_moved),
            if runs { format!("{}/s", bytes(migration.bytes_per_second)) } else { "-".to_owned() },
            migration.remaining_us.filter(|_| runs).map_or("-".to_owned(), duration),
        ]);
    }
    let mut text = table.to_string();
    for migration in &report.migrations {
        if let Some(why) = &migration.why {
            text += &format!("Migration {} failed: {why}\n", migration.id);
        }
    }
    text
}

/// The protocol, and how hard it may press where that was set.
fn manner(migration: &MigrationStatus) -> String {
    match migration.policy {
        MigrationPolicy::Adaptive => migration.protocol.clone(),
        policy => format!("{}, {policy}", migration.protocol),
    }
}

/// A node by its client address, and by its id where that says more: several members have been at the
/// address, or it is no member any more.
fn name(report: &StatusReport, id: NodeId) -> String {
    let Some(node) = report.nodes.iter().find(|node| node.id == id) else { return short(id) };
    let is_shared = report.nodes.iter().any(|other| other.id != id && other.client_addr == node.client_addr);
    match is_shared {
        true => format!("{} ({})", node.client_addr, short(id)),
        false => node.client_addr.to_string(),
    }
}

fn short(id: NodeId) -> String {
    id.to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_told_apart_and_their_standing_is_shown() {
        let node = |digit: &str, address: &str, state: &str, silent_us: Option<u64>| {
            json!({
                "id": digit.repeat(40), "incarnation": 7, "client_addr": address, "bus_addr": "127.0.0.1:9",
                "state": state, "silent_us": silent_us, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0,
                "memory_limit_bytes": 0, "slots": 0
            })
        };
        let report: StatusReport = serde_json::from_value(json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1,
            "nodes": [
                node("a", "127.0.0.1:1", "up", Some(0)),
                node("b", "127.0.0.1:2", "fail?", Some(12_300_000)),
                node("c", "127.0.0.1:2", "up", Some(0)),
                node("d", "127.0.0.1:3", "fail?", None),
            ],
            "tablets": [], "migrations": []
        }))
        .expect("a report");
        let shown = nodes(&report);
        let states: Vec<String> = report.nodes.iter().map(|node| state(&report, node)).collect();
        assert_eq!(states, ["up, coordinator", "fail?, silent for 12.3 s", "up", "fail?, not heard of"]);
        assert!(shown.contains("INCARNATION") && shown.lines().count() == 5, "{shown}");
        let names: Vec<String> = report.nodes.iter().map(|node| name(&report, node.id)).collect();
        let expected = ["127.0.0.1:1", "127.0.0.1:2 (bbbbbbbb)", "127.0.0.1:2 (cccccccc)", "127.0.0.1:3"];
        assert_eq!(names, expected);
    }
}
