//! The disturbances: ranges move there and back, links between nodes break and are slow.

use super::draw::{Draw, TAG};
use sidle_cluster::TabletMap;
use sidle_node::testing::{ClientKey, TestCluster};
use sidle_resp::Value;
use sidle_types::{NodeId, Position, PositionRange, Slot};

/// Moves everything, halves, and a slot's upper or lower part there and back while there are sessions; makes
/// the network bad at times.
pub(super) struct Nemesis {
    operator: ClientKey,
    protocol: &'static str,
    /// Whether only parts of the slot of [`TAG`] move.
    is_of_the_slot: bool,
    pub(super) next_us: u64,
}

impl Nemesis {
    pub(super) fn new(cluster: &mut TestCluster, protocol: &'static str) -> Nemesis {
        Nemesis { operator: cluster.connect(0, 0), protocol, is_of_the_slot: false, next_us: 0 }
    }

    /// Moves only the slot's upper and lower part.
    pub(super) fn of_the_slot(cluster: &mut TestCluster, protocol: &'static str) -> Nemesis {
        Nemesis { is_of_the_slot: true, ..Nemesis::new(cluster, protocol) }
    }

    pub(super) fn step(&mut self, cluster: &mut TestCluster, draw: &mut Draw) {
        if let Some(reply) = cluster.client(self.operator).receive() {
            // Refused while links were cut, or the last migration was running: there will be another attempt.
            assert!(matches!(reply, Value::Integer(_) | Value::Error(_)), "{reply:?}");
        }
        let now_us = cluster.now().mono.0;
        if now_us < self.next_us {
            return;
        }
        self.next_us = now_us + 200 + draw.span_us(2_500);
        cluster.network.release();
        cluster.network.is_cut = false;
        match draw.below(6) {
            0 => cluster.network.hold_bulk = true,
            1 => cluster.network.hold_priority = true,
            2 => cluster.network.cut(),
            _ => {}
        }
        let map = cluster.nodes[0].workers[0].ranges().map();
        if !map.migrations().is_empty() {
            return;
        }
        let range = drawn_range(draw, self.is_of_the_slot);
        let Some(owner) = only_owner(map, range) else { return };
        let to = if cluster.nodes[0].info.id == owner { 1 } else { 0 };
        let request = format!(
            "SIDLE.MIGRATE START POSITIONS {}-{} TO 127.0.0.1:{} PROTOCOL {}",
            range.first(),
            range.last(),
            7001 + to,
            self.protocol
        );
        cluster.send(self.operator, &request);
    }
}

fn drawn_range(draw: &mut Draw, is_of_the_slot: bool) -> PositionRange {
    let tagged = Slot::of_key(TAG.as_bytes());
    let middle = Position(Position::first_of(tagged).0 + (1 << (Position::HASH_BITS - 1)));
    let kind = if is_of_the_slot { 4 + draw.below(2) } else { draw.below(6) };
    let (first, last) = match kind {
        0 | 1 => (Position::FIRST, Position::LAST),
        2 => (Position::FIRST, middle.previous().expect("it is not the first")),
        3 => (middle, Position::LAST),
        4 => (middle, Position::last_of(tagged)),
        _ => (Position::first_of(tagged), middle.previous().expect("it is not the first")),
    };
    PositionRange::new(first, last).expect("in order")
}

/// The owner of all of a range, if there is only one.
fn only_owner(map: &TabletMap, range: PositionRange) -> Option<NodeId> {
    let owner = map.owner_of(range.first());
    let is_elsewhere = |tablet: &sidle_cluster::Tablet| tablet.range.overlaps(range) && tablet.owner != owner;
    (!map.tablets().iter().any(is_elsewhere)).then_some(owner)
}
