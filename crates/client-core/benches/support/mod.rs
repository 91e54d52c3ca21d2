//! A core in the middle of a migration, without a network.

use sidle_client_core::{Config, ConnectionId, Core, Event, Input, Outcome};
use sidle_cluster::{
    HostPort, Incarnation, MigrationCounters, MigrationRecord, MigrationState, NodeInfo, RequestKey, Tablet,
    TabletMap,
};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, NodeId, Position, PositionRange, TabletEpoch,
};

pub(crate) const NOW: MonotonicUs = MonotonicUs(1_000_000);

/// How many partitions the migration has.
pub(crate) const PARTITIONS: u64 = 8;

pub(crate) fn address(number: u8) -> HostPort {
    HostPort::new(&format!("10.0.0.{number}"), 7000).expect("an address")
}

/// The seed owns everything and nothing moves, or all of it moves to the second node.
pub(crate) fn map(is_moving: bool) -> TabletMap {
    let id = |number| NodeId::from_bytes([number; 20]);
    let node = |number| NodeInfo {
        id: id(number),
        incarnation: Incarnation(1),
        client_addr: address(number),
        bus_addr: address(number),
    };
    let partition = |index: u64| {
        let first = index << 61;
        PositionRange::new(Position(first), Position(first | ((1 << 61) - 1))).expect("in order")
    };
    let record = MigrationRecord {
        id: MigrationId(1),
        protocol: "fulva".to_owned(),
        frozen_reads: true,
        policy: MigrationPolicy::default(),
        range: PositionRange::ALL,
        source: id(1),
        source_incarnation: Incarnation(1),
        target: id(2),
        target_incarnation: Incarnation(1),
        epoch: TabletEpoch(2),
        map_epoch: MapEpoch(2),
        partitions: (0..PARTITIONS).map(partition).collect(),
        state: MigrationState::Running,
        counters: MigrationCounters::default(),
        requested_by: RequestKey { node: id(1), incarnation: Incarnation(1), number: 1 },
    };
    let owner = if is_moving { 2 } else { 1 };
    let everything = Tablet { range: PositionRange::ALL, owner: id(owner), epoch: TabletEpoch(owner.into()) };
    let migrations = if is_moving { vec![record] } else { vec![] };
    TabletMap::new(MapEpoch(2), vec![node(1), node(2)], vec![everything], migrations).expect("a sound map")
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
    // The map that a connected core asks for; it has it already.
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
