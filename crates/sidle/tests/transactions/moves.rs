//! Ranges that move from node to node under the bank, by every protocol.

use crate::bank::{Bank, Weather};
use crate::support::TestCluster;
use sidle_migration::PROTOCOLS;
use sidle_resp::Value;
use sidle_types::{Position, PositionRange, Slot};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Records that are never read, so that a move takes a while: in all slots, and in the split slot.
const FILLING: usize = 20_000;
const TAGGED_FILLING: usize = 5_000;
/// Moves of each of two ranges by each protocol, before it goes back to where it began.
const TURNS: usize = 5;
/// Transfers that are committed before each next move at least.
const BETWEEN: u64 = 5;

pub(crate) fn fill(cluster: &TestCluster, tag: &str) {
    cluster.fill(FILLING, (tag, TAGGED_FILLING));
}

/// Half of the slots, and half of the slot of this tag, which the other half of all slots has.
pub(crate) fn ranges(tag: &str) -> [PositionRange; 2] {
    let slot = |number| Slot::new(number).expect("there are so many");
    let half = PositionRange::of_slots(slot(0), slot(8191)).expect("in order");
    let split = Slot::of_key(tag.as_bytes());
    let middle = Position(Position::first_of(split).0 + (1 << (Position::HASH_BITS - 1)));
    [half, PositionRange::new(middle, Position::last_of(split)).expect("in order")]
}

/// Moves a range to a node, and waits for the end.
pub(crate) fn go(cluster: &TestCluster, range: PositionRange, to: usize, protocol: &str) {
    let mut operator = cluster.client(0);
    let (span, to) = (format!("{}-{}", range.first(), range.last()), cluster.nodes[to].address());
    let words = ["SIDLE.MIGRATE", "START", "POSITIONS", &span, "TO", &to, "PROTOCOL", protocol];
    let Value::Integer(id) = operator.request(&words) else { panic!("{span} cannot go to {to}") };
    assert_eq!(cluster.migration_ended(&mut operator, id), "done", "migration {id} by {protocol}");
}

fn moves_under_the_bank(nodes: usize) {
    let cluster = TestCluster::start(nodes);
    let bank = Bank::open(&cluster, Weather::Fair);
    fill(&cluster, bank.tag());
    bank.run(&cluster, |cluster| {
        // Some of the accounts on each node.
        if nodes == 3 {
            let slot = |number| Slot::new(number).expect("there are so many");
            let some = PositionRange::of_slots(slot(8192), slot(10_000)).expect("in order");
            go(cluster, some, 2, PROTOCOLS[0].name);
        }
        for protocol in PROTOCOLS {
            let before = [&bank.transfers, &bank.sums].map(|count| count.load(Relaxed));
            let began = Instant::now();
            std::thread::scope(|scope| {
                for range in ranges(bank.tag()) {
                    let bank = &bank;
                    scope.spawn(move || {
                        for turn in 1..=TURNS {
                            go(cluster, range, turn % nodes, protocol.name);
                            bank.await_more(BETWEEN);
                        }
                        go(cluster, range, 0, protocol.name);
                    });
                }
            });
            let [transfers, sums] = [&bank.transfers, &bank.sums].map(|count| count.load(Relaxed));
            println!(
                "{}: {} transfers, {} sums in {:?}; {:?}",
                protocol.name,
                transfers - before[0],
                sums - before[1],
                began.elapsed(),
                bank.counts
            );
        }
    });
    let counts = &bank.counts;
    let of_moves = [&counts.moved, &counts.late, &counts.failed, &counts.unknown];
    assert_eq!(of_moves.map(|count| count.load(Relaxed)), [0; 4], "a move aborted transactions");
}

#[test]
fn sums_stay_while_ranges_move_between_two_nodes() {
    moves_under_the_bank(2);
}

#[test]
fn sums_stay_while_ranges_move_between_three_nodes() {
    moves_under_the_bank(3);
}
