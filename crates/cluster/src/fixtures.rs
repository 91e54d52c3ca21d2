//! Small clusters for tests, whose nodes are numbered from 1.

use crate::{
    HostPort, Incarnation, MigrationCounters, MigrationRecord, MigrationState, NodeInfo, RequestKey, Tablet,
    TabletMap,
};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, ProtocolVersion, TabletEpoch,
};

/// The name of a node.
pub const fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 20])
}

/// Where clients reach a node.
pub fn address(number: u8) -> HostPort {
    HostPort::new(&format!("10.0.0.{number}"), 7000).expect("a good address")
}

/// A node in its first incarnation.
pub fn node_info(number: u8) -> NodeInfo {
    node_info_at(number, address(number))
}

/// A node in its first incarnation that clients reach at this address. Its port for nodes is 10,000 higher.
pub fn node_info_at(number: u8, client_addr: HostPort) -> NodeInfo {
    let bus_addr = HostPort::new(client_addr.host(), client_addr.port() + 10_000).expect("a good address");
    NodeInfo { id: node_id(number), incarnation: Incarnation(1), client_addr, bus_addr }
}

/// The positions from `first` to `last`, which is not before it.
pub fn range(first: u64, last: u64) -> PositionRange {
    PositionRange::new(Position(first), Position(last)).expect("in order")
}

/// A migration that runs since this epoch, in one partition, by a protocol with frozen reads.
pub fn running(id: u64, range: PositionRange, source: u8, target: u8, epoch: u64) -> MigrationRecord {
    MigrationRecord {
        id: MigrationId(id),
        protocol: "fulva".to_owned(),
        frozen_reads: true,
        kept_by_source: false,
        policy: MigrationPolicy::default(),
        range,
        source: node_id(source),
        source_incarnation: Incarnation(1),
        target: node_id(target),
        target_incarnation: Incarnation(1),
        epoch: TabletEpoch(epoch),
        map_epoch: MapEpoch(epoch),
        partitions: vec![range],
        state: MigrationState::Running,
        counters: MigrationCounters::default(),
        requested_by: RequestKey { node: node_id(source), incarnation: Incarnation(1), number: id },
        version: ProtocolVersion::CURRENT,
        turn: None,
        continues: None,
        kept_is_noted: false,
        source_log: None,
        succession: 0,
    }
}

/// A map of the nodes 1 to `nodes` with these tablets, given as first position, owner and epoch.
pub fn map(epoch: u64, nodes: u8, tablets: &[(u64, u8, u64)], migrations: Vec<MigrationRecord>) -> TabletMap {
    let ends = tablets.iter().skip(1).map(|tablet| tablet.0 - 1).chain([u64::MAX]);
    let tablets = tablets.iter().zip(ends).map(|(&(first, owner, epoch), last)| Tablet {
        range: range(first, last),
        owner: node_id(owner),
        epoch: TabletEpoch(epoch),
    });
    let nodes = (1..=nodes).map(node_info).collect();
    TabletMap::new(MapEpoch(epoch), nodes, tablets.collect(), migrations).expect("a sound map")
}
