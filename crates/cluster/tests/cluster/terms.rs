//! Two coordinators of one cluster: the later one counts, and the earlier one finds out.

use crate::world::{info, node_id, read_protocol};
use sidle_cluster::{
    AgentInput, ClusterId, Contest, ContestedStore, Coordinator, CoordinatorEvent, CoordinatorInput,
    CoordinatorSays, Founding, Incarnation, MetaError, MetaStore, NodeAgent, NodeInfo, NodeSays, StartNumber,
    Term, ToCoordinator, ToNode,
};
use sidle_types::{MonotonicUs, Speaks};
use std::sync::Arc;

const NOW: MonotonicUs = MonotonicUs(1_000_000);

fn coordinator(store: ContestedStore, seat: u8) -> Coordinator<ContestedStore> {
    let (cluster, first) = (ClusterId::from_bits(1), info(seat, 1));
    let founding = Founding { cluster, first, start: StartNumber(1), speaks: Speaks::THIS_BUILD };
    Coordinator::open(NOW, store, founding, read_protocol).unwrap()
}

fn joins(node: u8) -> CoordinatorInput {
    let NodeInfo { id, incarnation, client_addr, bus_addr } = info(node, 1);
    let start = Some(StartNumber(u64::from(node)));
    let (speaks, log_since) = (Speaks::THIS_BUILD, None);
    let body = NodeSays::Join { client_addr, bus_addr, cluster: None, start, speaks, log_since };
    CoordinatorInput::Message(ToCoordinator { from: id, incarnation, body })
}

fn sent(coordinator: &mut Coordinator<ContestedStore>) -> Vec<ToNode> {
    std::iter::from_fn(|| coordinator.poll_transmit()).collect()
}

/// An earlier coordinator whose lease has ended unseen, and a later one that has committed.
fn two_of_them() -> (Contest, Coordinator<ContestedStore>, Coordinator<ContestedStore>) {
    let mut contest = Contest::default();
    let mut other = contest.clone();
    let mut earlier = coordinator(contest.stand("first").expect("nobody leads"), 1);
    earlier.handle(NOW, joins(2));
    assert!(sent(&mut earlier).iter().all(|message| message.term == Term(1)));
    assert!(other.stand("second").is_none(), "one at a time");
    contest.end_lease();
    let mut later = coordinator(other.stand("second").expect("nobody leads any more"), 2);
    later.handle(NOW, joins(3));
    assert!(sent(&mut later).iter().all(|message| message.term == Term(2)));
    (contest, earlier, later)
}

#[test]
fn the_earlier_one_commits_nothing_and_sends_nothing() {
    let (contest, mut earlier, later) = two_of_them();
    let committed = contest.committed();
    earlier.handle(NOW.plus_us(1), joins(4));
    assert!(earlier.is_deposed() && sent(&mut earlier).is_empty());
    let events: Vec<_> = std::iter::from_fn(|| earlier.poll_event()).collect();
    assert!(events.contains(&CoordinatorEvent::Deposed), "{events:?}");
    let failed = |event: &CoordinatorEvent| matches!(event, CoordinatorEvent::CommitFailed { .. });
    assert!(!events.iter().any(failed), "it is not tried again: {events:?}");
    assert_eq!(earlier.poll_timeout(), None);
    earlier.handle(NOW.plus_us(9_000_000), joins(2));
    assert!(sent(&mut earlier).is_empty() && earlier.poll_event().is_none());
    assert_eq!(contest.committed(), committed);
    assert_eq!(committed.as_ref(), Some(later.data()));
    assert!(later.map().node(node_id(2)).is_some() && later.map().node(node_id(3)).is_some());
}

/// What waits to be sent when it finds out belongs to changes that count, and is not sent either: its
/// successor sends it.
#[test]
fn what_waits_is_not_sent() {
    let (_contest, mut earlier, _later) = two_of_them();
    earlier.handle(NOW.plus_us(1), joins(2));
    earlier.handle(NOW.plus_us(2), joins(4));
    assert!(earlier.is_deposed() && sent(&mut earlier).is_empty());
}

#[test]
fn a_store_that_was_lost_to_another_term_loads_and_refuses() {
    let mut contest = Contest::default();
    let mut other = contest.clone();
    let mut earlier = coordinator(contest.stand("first").expect("nobody leads"), 1).into_meta();
    let data = earlier.load().unwrap().expect("it was founded");
    contest.end_lease();
    assert_eq!(earlier.commit(&data), Err(MetaError::Deposed), "also before anybody follows");
    assert!(other.stand("second").is_some());
    assert_eq!(earlier.commit(&data), Err(MetaError::Deposed));
}

#[test]
fn a_node_believes_the_latest_of_them() {
    let mut agent: NodeAgent = NodeAgent::new(NOW, info(1, 1), StartNumber(1), None);
    agent.handle(NOW, AgentInput::Connected);
    let (_, earlier, later) = two_of_them();
    let (map, newer) = (Arc::clone(earlier.map()), Arc::clone(later.map()));
    let (to, incarnation, start) = (node_id(1), Incarnation(1), None);
    let mut hear = |at: u64, term: u64, body: CoordinatorSays| {
        let message = ToNode { to, incarnation, start, term: Term(term), body };
        agent.handle(MonotonicUs(at), AgentInput::Message(message));
        (agent.map().map(|map| map.epoch()), agent.last_heard(), agent.is_member())
    };
    let cluster = ClusterId::from_bits(1);
    let first = hear(2, 7, CoordinatorSays::Welcome { cluster, map: Arc::clone(&map) });
    assert_eq!(first, (Some(map.epoch()), Some(MonotonicUs(2)), true));
    for old in [0, 6] {
        assert_eq!(hear(3, old, CoordinatorSays::JoinAgain), first, "of term {old}");
        assert_eq!(hear(3, old, CoordinatorSays::MapUpdate { map: Arc::clone(&newer) }), first);
    }
    let second = hear(4, 9, CoordinatorSays::MapUpdate { map: Arc::clone(&newer) });
    assert_eq!(second, (Some(newer.epoch()), Some(MonotonicUs(4)), true));
    assert_eq!(hear(5, 7, CoordinatorSays::JoinAgain), second, "the one before is late");
}
