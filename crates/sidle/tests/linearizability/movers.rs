//! Ranges that cycle through the nodes, and nodes that are paused now and then.

use crate::recording::Run;
use crate::support::TestCluster;
use sidle_resp::Value;
use sidle_types::{Position, PositionRange, Slot};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The last slot of the moving half.
pub(crate) const HALF: u16 = 8191;

/// A moving range, and its place among the run's counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    range: PositionRange,
    number: usize,
}

/// Half of the slots, and the upper part of the tag's slot.
pub(crate) fn ranges(tag: &str) -> [Moving; 2] {
    let slot = |number| Slot::new(number).expect("there are so many");
    let half = PositionRange::of_slots(slot(0), slot(HALF)).expect("in order");
    let split = Slot::of_key(tag.as_bytes());
    let middle = Position(Position::first_of(split).0 + (1 << (Position::HASH_BITS - 1)));
    let upper = PositionRange::new(middle, Position::last_of(split)).expect("in order");
    [Moving { range: half, number: 0 }, Moving { range: upper, number: 1 }]
}

/// Moves a range from node to node until the run is over. The first node has it at first; the other
/// range may be moving between the same nodes, and then one of the two waits.
pub(crate) fn go_round(run: &Run, cluster: &TestCluster, moving: Moving, protocols: &[&str]) {
    let nodes = cluster.nodes.len();
    let span = format!("{}-{}", moving.range.first(), moving.range.last());
    let mut operator = cluster.client(moving.number % nodes);
    for turn in 1.. {
        if run.is_over() {
            return;
        }
        let to = cluster.nodes[turn % nodes].address();
        let protocol = protocols[turn % protocols.len()];
        let what = ["POSITIONS", &span, "TO", &to, "PROTOCOL", protocol];
        let reply = operator.request(&[&["SIDLE.MIGRATE", "START"][..], &what].concat());
        let Value::Integer(id) = reply else {
            panic!("{span} cannot go to node {}: {reply:?}", turn % nodes)
        };
        let state = cluster.migration_ended(&mut operator, id);
        assert_eq!(state, "done", "migration {id}");
        run.migrations[moving.number].fetch_add(1, Ordering::Relaxed);
    }
}

/// Pauses one node after the other for a moment, like an overloaded machine, until the run is
/// over.
pub(crate) fn pause_nodes(run: &Run, cluster: &TestCluster) {
    let mut random = run.random(300);
    while !run.is_over() {
        std::thread::sleep(Duration::from_millis(random.below(100)));
        let node = &cluster.nodes[random.below(cluster.nodes.len() as u64) as usize];
        node.pause();
        std::thread::sleep(Duration::from_millis(5 + random.below(100)));
        node.resume();
    }
}
