//! `sidle takeover`: has nodes with copies of its durable log take over what a node had that died.

use crate::cli::TakeoverArguments;
use crate::node_connection::NodeConnection;
use crate::node_name;
use sidle_bench::words::{clock, counted};
use sidle_cli::exit::Failure;
use sidle_cluster::{StatusReport, Takeover};
use std::time::{Duration, Instant};

/// How often it looks how far that has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs `sidle takeover`.
pub(crate) fn run(arguments: &TakeoverArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut node = NodeConnection::open(&arguments.via).await?;
        let before = node.status().await?;
        let name = node_name::resolve(&before, &arguments.node)?;
        let began = Instant::now();
        node.request(&["SIDLE.TAKEOVER", &name]).await?;
        println!("Taking over what node {} had, from copies of its durable log.", arguments.node);
        let mut last = None;
        loop {
            node.begin_anew();
            let report = node.status().await?;
            let left = left_of(&report, &before, &name);
            if left == 0 {
                let took = clock(began.elapsed().as_micros() as u64);
                println!("Node {} is taken over, in {took}.", arguments.node);
                return Ok(());
            }
            if last.replace(left) != Some(left) {
                println!("{} left.", counted(left, "range"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

/// How many ranges of a node are still being read. `before`: the members when its name was resolved.
fn left_of(report: &StatusReport, before: &StatusReport, name: &str) -> usize {
    let is_it = |takeover: &&Takeover| {
        let node = before.nodes.iter().find(|node| node.id == takeover.dead.from);
        takeover.dead.from.to_string() == name
            || node.is_some_and(|node| {
                [&node.client_addr, &node.bus_addr].iter().any(|address| address.to_string() == name)
            })
    };
    report.takeovers.iter().filter(is_it).count()
}
