//! Small values for tests.

use crate::{Incarnation, MigrationCounters, MigrationRecord, MigrationState, NodeInfo, RequestKey};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, TabletEpoch};

pub(crate) fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 20])
}

pub(crate) fn node_info(number: u8) -> NodeInfo {
    NodeInfo {
        id: node_id(number),
        incarnation: Incarnation(1),
        client_addr: format!("10.0.0.{number}:7000").parse().unwrap(),
        bus_addr: format!("10.0.0.{number}:17000").parse().unwrap(),
    }
}

pub(crate) fn range(first: u64, last: u64) -> PositionRange {
    PositionRange::new(Position(first), Position(last)).unwrap()
}

pub(crate) fn running(id: u64, range: PositionRange, source: u8, target: u8, epoch: u64) -> MigrationRecord {
    MigrationRecord {
        id: MigrationId(id),
        protocol: "fulva".to_owned(),
        frozen_reads: true,
        policy: MigrationPolicy::default(),
        range,
        source: node_id(source),
        source_incarnation: Incarnation(1),
        target: node_id(target),
        target_incarnation: Incarnation(1),
        epoch: TabletEpoch(epoch),
        map_epoch: MapEpoch(1),
        partitions: vec![range],
        state: MigrationState::Running,
        counters: MigrationCounters::default(),
        requested_by: RequestKey { node: node_id(source), incarnation: Incarnation(1), number: id },
    }
}
