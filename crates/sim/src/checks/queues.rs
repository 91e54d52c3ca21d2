//! Whatever waits stays within its bound.
//!
//! | what | bound | where it comes from |
//! |---|---|---|
//! | commands parked on a worker | its connections | P2 |
//! | requests to the coordinator that a node keeps open | [`MAX_OPEN_REQUESTS`] | `cluster::timing` |
//! | tables that not every worker has passed | [`TABLES_PER_MIGRATION`] for each of [`MAX_UNFINISHED`] migrations | `cluster::timing` |
//! | messages of a mover that found a worker's queue full | as many as the queue takes: [`TO_WORKER_CAPACITY`] | `node::queue` |
//! | bytes between two nodes under way over one connection | [`Network::MOST_UNDER_WAY_BYTES`] | the driver's window |
//!
//! The queues of the coordinator and the agents hold themselves to theirs by dropping and by assertion.

use super::Violation;
use crate::host::Host;
use crate::network::{Network, Port, Side};
use crate::process::Process;
use sidle_cluster::timing::{MAX_OPEN_REQUESTS, MAX_UNFINISHED};
use sidle_node::TO_WORKER_CAPACITY;

/// Tables that one migration makes a node publish at most: its beginning, its end, and the clearing after either.
const TABLES_PER_MIGRATION: usize = 4;

/// Looks at every process and at all connections between nodes.
pub(super) fn check(hosts: &[Host], network: &Network) -> Result<(), Violation> {
    for (number, host) in hosts.iter().enumerate() {
        if let Some(process) = &host.process {
            check_process(number, process)?;
        }
    }
    for id in network.streams().into_iter().filter(|id| network.port(*id) == Some(Port::Bus)) {
        for from in [Side::Opener, Side::Acceptor] {
            let bytes = network.under_way_bytes(id, from);
            bound(format!("bytes under way over connection {}", id.0), bytes, Network::MOST_UNDER_WAY_BYTES)?;
        }
    }
    Ok(())
}

fn check_process(number: usize, process: &Process) -> Result<(), Violation> {
    for (index, worker) in process.workers.iter().enumerate() {
        let what = format!("commands parked on worker {index} of node {number}");
        bound(what, worker.worker.parked(), worker.connections())?;
    }
    let control = &process.control.control;
    bound(format!("open requests of node {number}"), control.open_requests(), MAX_OPEN_REQUESTS)?;
    let tables = TABLES_PER_MIGRATION * MAX_UNFINISHED;
    bound(format!("tables that workers of node {number} have not passed"), control.awaited_tables(), tables)?;
    for (index, mover) in process.movers.iter().enumerate() {
        let what = format!("messages that mover {index} of node {number} could not leave");
        bound(what, mover.unsent(), TO_WORKER_CAPACITY)?;
    }
    Ok(())
}

fn bound(what: String, count: usize, most: usize) -> Result<(), Violation> {
    if count <= most {
        return Ok(());
    }
    Err(Violation::new("queues", format!("there are {count} {what}, and there may be {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_there_may_be_is_seen() {
        assert_eq!(bound("things".to_owned(), 3, 3), Ok(()));
        let violation = bound("things".to_owned(), 4, 3).expect_err("one too many");
        assert_eq!(violation.what, "there are 4 things, and there may be 3");
    }
}
