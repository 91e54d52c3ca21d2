//! `sidle tx list`: what transactions have locked, on all nodes.

use crate::cli::TxListArguments;
use crate::node_connection::NodeConnection;
use crate::via::{Reach, Via};
use serde::{Deserialize, Serialize};
use sidle_bench::words::{clock, counted};
use sidle_cli::exit::Failure;
use sidle_cli::table::{Align, Table};
use sidle_cluster::NodeState;
use std::fmt::Write;

/// A locked key, as its node lists it, and the node.
#[derive(Debug, Serialize, Deserialize)]
struct Locked {
    #[serde(default)]
    node: String,
    id: String,
    key: String,
    writes: bool,
    locked_ms: u64,
    first: String,
    keys: Vec<String>,
}

/// Runs `sidle tx list`.
pub(crate) fn list(arguments: &TxListArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let status = NodeConnection::open(&arguments.via).await?.status().await?;
        let (mut all, mut missing) = (Vec::new(), String::new());
        for node in &status.nodes {
            let address = node.client_addr.to_string();
            if node.state != NodeState::Up {
                writeln!(missing, "not asked: {address} is not up ({})", node.state)
                    .expect("a text takes all");
                continue;
            }
            let via = Via { via: address.clone(), ..arguments.via.via.clone() };
            let reach = Reach { via, ..arguments.via };
            let listed: Vec<Locked> = NodeConnection::open(&reach).await?.transactions().await?;
            all.extend(listed.into_iter().map(|locked| Locked { node: address.clone(), ..locked }));
        }
        all.sort_by(|a, b| (&a.id, &a.node, &a.key).cmp(&(&b.id, &b.node, &b.key)));
        match arguments.json {
            true => println!("{}", serde_json::to_string(&all).expect("plain data")),
            false => print!("{}{missing}", shown(&all)),
        }
        Ok(())
    })
}

fn shown(all: &[Locked]) -> String {
    if all.is_empty() {
        return "No key is locked by a transaction.\n".to_owned();
    }
    let columns = [("TRANSACTION", Align::Left), ("NODE", Align::Left), ("FOR", Align::Right)];
    let mut table = Table::new(&[&columns[..], &[("TO", Align::Left), ("KEY", Align::Left)]].concat());
    for locked in all {
        let to = if locked.writes { "write" } else { "read" };
        let age = clock(locked.locked_ms * 1_000);
        table.row([locked.id.clone(), locked.node.clone(), age, to.to_owned(), locked.key.clone()]);
    }
    let mut ids: Vec<&str> = all.iter().map(|locked| &*locked.id).collect();
    ids.dedup();
    format!(
        "{table}{} of {}\n",
        counted(all.len() as u64, "locked key"),
        counted(ids.len() as u64, "transaction")
    )
}
