//! A core in the middle of a migration, without a network.

use sidle_client_core::{Config, ConnectionId, Core, Event, Input, Outcome};
use sidle_cluster::{MigrationRecord, TabletMap};
pub(crate) use sidle_testbed::fixtures::address;
use sidle_testbed::fixtures::{self, range, running};
use sidle_types::MonotonicUs;

pub(crate) const NOW: MonotonicUs = MonotonicUs(1_000_000);

/// How many partitions the migration has.
pub(crate) const PARTITIONS: u64 = 8;

/// The seed owns everything and nothing moves, or all of it moves to the second node.
pub(crate) fn map(is_moving: bool) -> TabletMap {
    let partition = |index: u64| range(index << 61, index << 61 | ((1 << 61) - 1));
    let everything = running(1, range(0, u64::MAX), 1, 2, 2);
    let record = MigrationRecord { partitions: (0..PARTITIONS).map(partition).collect(), ..everything };
    let (owner, migrations) = if is_moving { (2, vec![record]) } else { (1, vec![]) };
    fixtures::map(2, 2, &[(0, owner, owner.into())], migrations)
}

/// A core with this map, connected to the owner of everything.
pub(crate) fn core(is_moving: bool) -> (Core, ConnectionId) {
    let owner = if is_moving { 2 } else { 1 };
    let mut core = Core::new(Config::new(vec![address(owner)]));
    let mut ignore = |_, _: Outcome<'_>| {};
    core.install_map(NOW, map(is_moving));
    core.handle(NOW, Input::Tick, &mut ignore);
    let connection = loop {
        match core.poll_event().expect("the core wants a connection") {
            Event::Connect { connection, address: to } if to == address(owner) => break connection,
            _ => {}
        }
    };
    core.handle(NOW, Input::Connected(connection), &mut ignore);
    drain(&mut core);
    let greeting = b"%1\r\n+proto\r\n:3\r\n+OK\r\n";
    assert_eq!(core.received(NOW, connection, greeting, &mut ignore), greeting.len());
    drain(&mut core);
    // The map that a connected core requests; it has it already.
    let answer = b"_\r\n";
    assert_eq!(core.received(NOW, connection, answer, &mut ignore), answer.len());
    drain(&mut core);
    (core, connection)
}

/// Takes the output of all connections.
pub(crate) fn drain(core: &mut Core) -> usize {
    let mut buffer = Vec::new();
    while let Some(connection) = core.poll_transmit() {
        core.take_output(connection, &mut buffer);
    }
    buffer.len()
}
