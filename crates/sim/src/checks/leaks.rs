//! At rest no trace of any migration, request or wait is left.

use super::Violation;
use crate::host::Host;
use crate::network::{Network, Port};
use crate::process::Process;
use sidle_node::Role;
use sidle_store::Store;
use sidle_types::PositionRange;

/// Checks every process, every store and all connections.
pub(super) fn check(hosts: &[Host], network: &Network) -> Result<(), Violation> {
    for (number, host) in hosts.iter().enumerate() {
        let Some(process) = &host.process else { continue };
        let owned: Vec<PositionRange> = process.workers[0].worker.ranges().owned().collect();
        let found = left_in_threads(process)
            .or_else(|| left_in_tables(process))
            .or_else(|| left_in_store(&process.parts.store, &owned));
        if let Some(what) = found {
            return Err(Violation::new("leaks", format!("node {number}: {what}")));
        }
    }
    left_in_network(hosts, network)
}

fn left_in_threads(process: &Process) -> Option<String> {
    let control = ("the control".to_owned(), process.control.control.in_hand());
    let workers = process.workers.iter().enumerate();
    let workers = workers.map(|(index, worker)| (format!("worker {index}"), worker.worker.in_hand()));
    let movers = process.movers.iter().enumerate();
    let movers = movers.map(|(index, mover)| (format!("mover {index}"), mover.in_hand()));
    let mut all = [control].into_iter().chain(workers).chain(movers);
    all.find_map(|(who, in_hand)| {
        let (what, count) = in_hand.first()?;
        Some(format!("{who} still has {count} {what}"))
    })
}

fn left_in_tables(process: &Process) -> Option<String> {
    let seat = process.control.seat.as_ref();
    if seat.is_some_and(|seat| !seat.coordinator.map().migrations().is_empty()) {
        return Some("the coordinator's map shows a migration".to_owned());
    }
    process.workers.iter().enumerate().find_map(|(index, worker)| {
        let ranges = worker.worker.ranges();
        let is_settled = |role: &Role| matches!(role, Role::Owned | Role::Elsewhere);
        let other = ranges.entries().iter().find(|entry| !is_settled(&entry.role));
        if let Some(entry) = other {
            return Some(format!("worker {index} has {:?} for {}", entry.role, entry.range));
        }
        let shows = !ranges.map().migrations().is_empty();
        shows.then(|| format!("the map of worker {index} shows a migration"))
    })
}

/// `owned`: the ranges whose data belongs here.
fn left_in_store(store: &Store, owned: &[PositionRange]) -> Option<String> {
    let tombstones = store.tombstones_in(PositionRange::ALL);
    if tombstones > 0 {
        return Some(format!("{tombstones} tombstones are left"));
    }
    let in_owned: u64 = owned.iter().map(|&range| store.len_in(range)).sum();
    let foreign = store.len() - in_owned;
    (foreign > 0).then(|| format!("{foreign} values of other nodes' ranges are left"))
}

/// Between nodes there are only the connections to the coordinator, and those over which workers forward or
/// recently did.
fn left_in_network(hosts: &[Host], network: &Network) -> Result<(), Violation> {
    let processes = || hosts.iter().filter_map(|host| host.process.as_ref());
    let conversations = processes().filter_map(|process| process.control.conversation());
    let links = processes().flat_map(|process| process.workers.iter().flat_map(|worker| worker.links()));
    let copies = processes().flat_map(Process::copy_streams);
    let known: Vec<_> = conversations.chain(links).chain(copies).collect();
    let is_left = |id: &crate::network::StreamId| network.port(*id) == Some(Port::Bus) && !known.contains(id);
    match network.streams().into_iter().find(is_left) {
        Some(id) => {
            let what = format!("a connection between nodes is left, number {}", id.0);
            Err(Violation::new("leaks", what))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::{remove, store};
    use crate::plan::Plan;
    use crate::story::Story;
    use crate::world::{Actor, HostId, Thread, World};
    use sidle_node::{ControlInput, ControlRequest};
    use sidle_store::Leave;
    use sidle_testbed::Random;
    use sidle_types::{MonotonicUs, Position};

    #[test]
    fn an_open_request_an_unsettled_table_and_a_connection_are_seen() {
        let Plan { pace, links, hosts, .. } = Plan::of_cluster(1);
        let mut world = World::new(Random::new(1), pace, Network::new(links), Story::silent());
        let mut host = Host::start(HostId(0), hosts[0].clone(), &mut world);
        let process = host.process.as_mut().expect("it was just started");
        let left = left_in_tables(process).expect("it has not joined");
        assert!(left.starts_with("worker 0 has Lost"), "{left}");
        let request = ControlInput::Request { tag: 1, request: ControlRequest::Status };
        process.control.control.handle(MonotonicUs(1 << 41), request);
        let left = left_in_threads(process).expect("a request is open");
        assert_eq!(left, "the control still has 1 open requests");
        let hosts = [host];
        assert_eq!(left_in_network(&hosts, &world.network), Ok(()));
        world.open(Actor::Thread(HostId(0), Thread::Mover(0)), HostId(0), Port::Bus);
        assert!(left_in_network(&hosts, &world.network).is_err());
    }

    #[test]
    fn a_tombstone_and_a_foreign_value_are_seen() {
        let store = store();
        assert_eq!(left_in_store(&store, &[PositionRange::ALL]), None);
        let after = Position::of_key(b"key 1").next().expect("not the last position");
        let part = PositionRange::new(after, Position::LAST).expect("in order");
        let left = left_in_store(&store, &[part]).expect("a key lies outside");
        assert!(left.contains("values of other nodes' ranges"), "{left}");
        remove(&store, b"key 1", Leave::Tombstone);
        let left = left_in_store(&store, &[PositionRange::ALL]).expect("a tombstone is left");
        assert!(left.contains("1 tombstones"), "{left}");
    }
}
