//! `sidle status`: nodes, tablets and migrations as tables.

use crate::cli::StatusArguments;
use crate::node_connection::NodeConnection;
use crate::units::{bytes, count, duration, percent};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::table::{Align, Table};
use sidle_cluster::{MigrationStatus, StatusReport, Tablet};
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
            text += &format!("WARNING: node {}: {trouble}\n", node.client_addr);
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
        ("SLOTS", Align::Right),
        ("KEYS", Align::Right),
        ("MEMORY", Align::Right),
        ("OF", Align::Right),
    ]);
    for node in &report.nodes {
        table.row([
            short(node.id),
            node.client_addr.to_string(),
            node.state.to_string(),
            node.slots.to_string(),
            count(node.keys),
            bytes(node.memory_used_bytes),
            bytes(node.memory_limit_bytes),
        ]);
    }
    table.to_string()
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

/// A node by its client address, or by its id where it is no member any more.
fn name(report: &StatusReport, id: NodeId) -> String {
    let node = report.nodes.iter().find(|node| node.id == id);
    node.map_or_else(|| short(id), |node| node.client_addr.to_string())
}

fn short(id: NodeId) -> String {
    id.to_string()[..8].to_owned()
}
