//! `sidle forget`: removes a node from the cluster that is down and owns nothing.

use crate::cli::ForgetArguments;
use crate::node_connection::NodeConnection;
use sidle_cli::exit::Failure;
use sidle_cluster::{NodeStatus, StatusReport};

/// So many digits of an id at least name a node.
const DIGITS_MIN: usize = 4;

/// Runs `sidle forget`.
pub(crate) fn run(arguments: &ForgetArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut node = NodeConnection::open(&arguments.via).await?;
        let name = match named(&node.status().await?, &arguments.node) {
            Named::One(id) => id,
            // The coordinator has the words for it.
            Named::None => arguments.node.clone(),
            Named::Several(count) => {
                let digits = &arguments.node;
                return Err(Failure::refused(format!(
                    "{count} nodes have ids that begin with {digits}: give more digits"
                )));
            }
        };
        node.request(&["SIDLE.FORGET", &name]).await?;
        println!("Node {} is forgotten.", arguments.node);
        Ok(())
    })
}

/// Whom the first digits of an id name.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    None,
    One(String),
    Several(usize),
}

fn named(report: &StatusReport, name: &str) -> Named {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if name.len() < DIGITS_MIN || !name.bytes().all(is_digit) {
        return Named::None;
    }
    let id = |node: &NodeStatus| node.id.to_string();
    let found: Vec<String> = report.nodes.iter().map(id).filter(|id| id.starts_with(name)).collect();
    match &found[..] {
        [] => Named::None,
        [id] => Named::One(id.clone()),
        several => Named::Several(several.len()),
    }
}
