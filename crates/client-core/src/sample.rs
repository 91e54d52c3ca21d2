//! Small values for tests.

use sidle_cluster::{
    HostPort, Incarnation, MigrationCounters, MigrationRecord, MigrationState, NodeInfo, RequestKey, Tablet,
    TabletMap,
};
use sidle_resp::{Args, Limits, Parsed, RequestParser};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, TabletEpoch};

pub(crate) fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 20])
}

pub(crate) fn address(number: u8) -> HostPort {
    HostPort::new(&format!("10.0.0.{number}"), 7000).unwrap()
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
        map_epoch: MapEpoch(epoch),
        partitions: vec![range],
        state: MigrationState::Running,
        counters: MigrationCounters::default(),
        requested_by: RequestKey { node: node_id(source), incarnation: Incarnation(1), number: id },
    }
}

/// A map of the nodes 1 to `nodes` with these tablets, given as first position, owner and epoch.
pub(crate) fn map(
    epoch: u64,
    nodes: u8,
    tablets: &[(u64, u8, u64)],
    migrations: Vec<MigrationRecord>,
) -> TabletMap {
    let nodes = (1..=nodes).map(|number| NodeInfo {
        id: node_id(number),
        incarnation: Incarnation(1),
        client_addr: address(number),
        bus_addr: HostPort::new(&format!("10.0.0.{number}"), 17000).unwrap(),
    });
    let ends = tablets.iter().skip(1).map(|tablet| tablet.0 - 1).chain([u64::MAX]);
    let tablets = tablets.iter().zip(ends).map(|(&(first, owner, epoch), last)| Tablet {
        range: range(first, last),
        owner: node_id(owner),
        epoch: TabletEpoch(epoch),
    });
    TabletMap::new(MapEpoch(epoch), nodes.collect(), tablets.collect(), migrations).unwrap()
}

/// The requests in what a client sends, words joined by blanks.
pub(crate) fn requests(bytes: &[u8]) -> Vec<String> {
    let mut parser = RequestParser::new(Limits::default());
    let (mut args, mut at, mut found) = (Args::new(), 0, Vec::new());
    while let Ok(Parsed::Complete { consumed }) = parser.parse(&bytes[at..], &mut args) {
        let words: Vec<_> = args.iter(&bytes[at..]).map(String::from_utf8_lossy).collect();
        found.push(words.join(" "));
        at += consumed;
    }
    assert_eq!(at, bytes.len(), "only whole requests are sent");
    found
}
