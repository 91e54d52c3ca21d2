//! `sidle tx list`: what transactions have locked, on all nodes. `sidle tx resolve`: one of them is decided.

use crate::cli::{TxListArguments, TxResolveArguments};
use crate::node_connection::NodeConnection;
use crate::via::{Reach, Via};
use serde::Serialize;
use sidle_bench::words::{clock, counted};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::table::{Align, Table};
use sidle_client::{Client, Config, Resolution, UnansweredKey};
use sidle_cluster::{HostPort, LockedKey, NodeState};
use std::fmt::Write;
use std::time::Duration;

/// So much of a key is shown.
const KEY_CHARACTERS: usize = 60;

/// A locked key, and its node.
#[derive(Debug, Serialize)]
struct Locked {
    node: String,
    #[serde(flatten)]
    key: LockedKey,
}

/// Runs `sidle tx list`.
pub(crate) fn list(arguments: &TxListArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let (all, missing) = locked(&arguments.via).await?;
        match arguments.json {
            true => println!("{}", serde_json::to_string(&all).expect("plain data")),
            false => print!("{}{missing}", shown(&all)),
        }
        Ok(())
    })
}

/// What is locked on all nodes that are up, and a line for each of the others.
async fn locked(reach: &Reach) -> Result<(Vec<Locked>, String), Failure> {
    let status = NodeConnection::open(reach).await?.status().await?;
    let (mut all, mut missing) = (Vec::new(), String::new());
    for node in &status.nodes {
        let address = node.client_addr.to_string();
        if node.state != NodeState::Up {
            writeln!(missing, "not asked: {address} is not up ({})", node.state).expect("a text takes all");
            continue;
        }
        let via = Via { via: address.clone(), ..reach.via.clone() };
        let reach = Reach { via, ..*reach };
        let listed = match list_of(&reach).await {
            Ok(listed) => listed,
            // It may have died a moment ago, which the status does not show yet.
            Err(failure) if failure.status == Status::Unreachable => {
                writeln!(missing, "not asked: {}", failure.message).expect("a text takes all");
                continue;
            }
            Err(failure) => return Err(failure),
        };
        all.extend(listed.into_iter().map(|key| Locked { node: address.clone(), key }));
    }
    all.sort_by(|a, b| (&a.key.id, &a.node, &a.key.key).cmp(&(&b.key.id, &b.node, &b.key.key)));
    Ok((all, missing))
}

async fn list_of(node: &Reach) -> Result<Vec<LockedKey>, Failure> {
    NodeConnection::open(node).await?.transactions().await
}

/// Runs `sidle tx resolve`.
pub(crate) fn resolve(arguments: &TxResolveArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let reach = &arguments.via;
        let (all, missing) = locked(reach).await?;
        let LockedKey { id, key, first, .. } = named(&all, &arguments.id, &missing)?;
        let client = connect(reach, &all).await?;
        let number = u128::from_str_radix(id, 16).map_err(|_| Failure::refused(format!("{id} is no id")))?;
        let patience = Duration::from_secs(reach.timeout);
        let Resolution { committed, unanswered } =
            sidle_client::resolve(&client, number, key.as_bytes(), first.as_bytes(), patience).await;
        let what = match committed {
            Some(true) => "is committed",
            Some(false) => "is aborted",
            None => "is not decided",
        };
        if unanswered.is_empty() && committed.is_some() {
            println!("{id} {what}, and all of its keys know it");
            return Ok(());
        }
        let mut text = format!("{id} {what}; these keys have not answered:");
        for UnansweredKey { key, owner, why } in unanswered {
            let owner = owner.map_or_else(|| "an unknown node".to_owned(), |owner| owner.to_string());
            write!(text, "\n  {} at {owner}: {why}", String::from_utf8_lossy(&key))
                .expect("a text takes all");
        }
        Err(Failure::new(Status::Unreachable, text))
    })
}

/// A key that the transaction has locked whose name begins so.
fn named<'a>(all: &'a [Locked], name: &str, missing: &str) -> Result<&'a LockedKey, Failure> {
    let keys = all.iter().map(|locked| &locked.key);
    let mut here: Vec<&LockedKey> = keys.filter(|locked| locked.id.starts_with(name)).collect();
    let Some(&one) = here.first() else {
        let refused = format!("no key is locked by a transaction {name}: it is decided, or never was");
        let hint = if missing.is_empty() { String::new() } else { format!("; {}", missing.trim_end()) };
        return Err(Failure::refused(refused + &hint));
    };
    if here.iter().any(|locked| locked.id != one.id) {
        return Err(Failure::refused(format!("several transactions begin with {name}: give more digits")));
    }
    // What is no text was replaced in the list.
    here.retain(|locked| ![&locked.key, &locked.first].iter().any(|key| key.contains('\u{fffd}')));
    let refused =
        || Failure::refused(format!("the keys of {} are no texts: only the nodes decide it", one.id));
    here.first().copied().ok_or_else(refused)
}

async fn connect(reach: &Reach, all: &[Locked]) -> Result<Client, Failure> {
    let seeds = std::iter::once(&reach.via.via).chain(all.iter().map(|locked| &locked.node));
    let seeds: Result<Vec<HostPort>, _> = seeds.map(|seed| seed.parse()).collect();
    let mut config = Config::new(seeds.map_err(Failure::refused)?);
    config.credentials = reach.via.password.clone().map(|password| ("default".to_owned(), password));
    config.operation_timeout_us = reach.timeout * 1_000_000 / 2;
    Client::connect_with(config).await.map_err(|error| Failure::new(Status::Unreachable, error))
}

/// A key on one line, and its begin only if it is long.
fn printable(key: &str) -> String {
    let mut shown: String = key.chars().take(KEY_CHARACTERS).flat_map(char::escape_debug).collect();
    if key.chars().nth(KEY_CHARACTERS).is_some() {
        shown.push_str("..");
    }
    shown
}

fn shown(all: &[Locked]) -> String {
    if all.is_empty() {
        return "No key is locked by a transaction.\n".to_owned();
    }
    let columns = [("TRANSACTION", Align::Left), ("NODE", Align::Left), ("FOR", Align::Right)];
    let mut table = Table::new(&[&columns[..], &[("TO", Align::Left), ("KEY", Align::Left)]].concat());
    for Locked { node, key } in all {
        let to = if key.writes { "write" } else { "read" };
        let age = clock(key.locked_ms * 1_000);
        table.row([key.id.clone(), node.clone(), age, to.to_owned(), printable(&key.key)]);
    }
    let mut ids: Vec<&str> = all.iter().map(|locked| &*locked.key.id).collect();
    ids.dedup();
    format!(
        "{table}{} of {}\n",
        counted(all.len() as u64, "locked key"),
        counted(ids.len() as u64, "transaction")
    )
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_key_is_shown_on_one_line() {
        assert_eq!(printable("{b}plain"), "{b}plain");
        assert_eq!(printable("new\nline \u{1b}[31m"), "new\\nline \\u{1b}[31m");
        assert_eq!(printable(&"x".repeat(61)), "x".repeat(60) + "..");
    }
}
