//! Every queue stays within its bound.
//!
//! | what | bound | source |
//! |---|---|---|
//! | commands parked on a worker, woken, refused or flushed | its connections, and what has stepped aside | P2 |
//! | messages to a mover that found its queue full | the answers that parked commands wait for | `node::parking` |
//! | messages of a mover that found a worker's queue full | as many as the queue takes: [`TO_WORKER_CAPACITY`] | `node::queue` |
//! | commands that wait for keys of one import, and those keys | `PRIORITY_WAITERS_MAX` | `migration::tuning` |
//! | sampled positions, waiting and under way | `SAMPLED_WAITING_MAX`, and one batch | `migration::tuning` |
//! | hot positions to be named, and to be taken | `HINTS_WAITING_MAX` | `migration::tuning` |
//! | priority pulls under way | the protocol's choice | `migration::choices` |
//! | pulls to be answered by a source | one for each partition; `PRIORITY_PULLS_QUEUED_MAX` out of turn | `migration::tuning` |
//! | refusals and pongs for a lane | `NOTICES_QUEUED_MAX` | `migration::tuning` |
//! | requests, waits, migrations, messages, events and remembered ends of an agent | `MAX_OPEN_REQUESTS`, `MAX_OPEN_WAITS`, `MAX_HELD`, `MAX_TRANSMIT`, `MAX_EVENTS`, `HISTORY` | `cluster::limits` |
//! | members, migrations, messages, events and kept answers of the coordinator | `MAX_NODES`, `MAX_UNFINISHED`, `MAX_TRANSMIT`, `MAX_EVENTS`, `REQUEST_WINDOW` | `cluster::limits` |
//! | requests to the coordinator that a node keeps open | [`MAX_OPEN_REQUESTS`] and [`MAX_OPEN_WAITS`] | `cluster::limits` |
//! | tables that not every worker has passed | [`TABLES_PER_MIGRATION`] for each of [`MAX_UNFINISHED`] migrations | `cluster::limits` |
//! | bytes between two nodes under way over one connection | [`Network::MOST_UNDER_WAY_BYTES`] | the driver's window |
//!
//! Queues between workers and movers are rings of a fixed size.

use super::Violation;
use crate::host::Host;
use crate::network::{Network, Port, Side};
use crate::process::Process;
use sidle_cluster::limits::{MAX_OPEN_REQUESTS, MAX_OPEN_WAITS, MAX_UNFINISHED};
use sidle_node::TO_WORKER_CAPACITY;
use sidle_types::Fill;

/// The most tables that one migration makes a node publish: its beginning, its end, and the cleanup after
/// either.
const TABLES_PER_MIGRATION: usize = 4;

/// Checks every process and all connections between nodes.
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
        check_fills(&format!("worker {index} of node {number}"), worker.worker.queues(worker.may_wait()))?;
    }
    let control = &process.control.control;
    let requests = MAX_OPEN_REQUESTS + MAX_OPEN_WAITS;
    bound(format!("open requests of node {number}"), control.open_requests(), requests)?;
    let tables = TABLES_PER_MIGRATION * MAX_UNFINISHED;
    bound(format!("tables that workers of node {number} have not passed"), control.awaited_tables(), tables)?;
    for (index, mover) in process.movers.iter().enumerate() {
        let what = format!("messages that mover {index} of node {number} could not leave");
        bound(what, mover.unsent(), TO_WORKER_CAPACITY)?;
        check_fills(&format!("mover {index} of node {number}"), mover.mover.queues())?;
    }
    check_fills(&format!("node {number}"), control.agent().queues().into_iter())?;
    if let Some(seat) = &process.control.seat {
        check_fills("the coordinator", seat.coordinator.queues())?;
    }
    Ok(())
}

fn check_fills(who: &str, mut fills: impl Iterator<Item = Fill>) -> Result<(), Violation> {
    fills.try_for_each(|Fill { what, count, most }| bound(format!("{what} at {who}"), count, most))
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
