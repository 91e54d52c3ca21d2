//! What is refused, and the texts of the refusals.

use crate::world::{BAD, World, chunks, info, node_id};
use sidle_cluster::{
    ClusterId, CommitFailure, CoordinatorEvent, CoordinatorInput, CoordinatorSays, Incarnation, NodeName,
    NodeSays, PrepareRefusal, Refusal, Reply, Request, ToCoordinator,
};
use sidle_testbed::Quality;
use sidle_types::{MigrationId, MigrationPolicy, PositionRange, Speaks};

fn start(range: PositionRange, target: &str) -> Request {
    Request::StartMigration {
        range,
        target: target.parse().unwrap(),
        protocol: "fulva".to_owned(),
        policy: MigrationPolicy::default(),
    }
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        reply => panic!("not refused: {reply:?}"),
    }
}

#[test]
fn start_refusals_say_what_is_wrong_and_change_nothing() {
    let mut world = World::new(1, 4);
    // Node 2 owns 8 to 11; node 4 is down; migration 2 of chunk 15 runs to node 3.
    world.ask(1, start(chunks(8, 11), "10.0.0.2:7000"));
    world.settle();
    world.node(3).stalled = true;
    world.ask(1, start(chunks(15, 15), "10.0.0.3:17000"));
    world.kill_node(4);
    world.run_for(3_000_000);
    let before = world.coordinator().meta().committed().cloned();

    let id = |number| node_id(number).to_string();
    let shown = |number: u8| format!("10.0.0.{number}:7000 ({})", &id(number)[..8]);
    for (range, target, text) in [
        (
            chunks(0, 0),
            id(9),
            format!("no node of this cluster is called {}: `sidle status` lists them", id(9)),
        ),
        (
            chunks(0, 0),
            "10.0.0.9:7000".into(),
            "no node of this cluster is called 10.0.0.9:7000: `sidle status` lists them".into(),
        ),
        (
            chunks(0, 0),
            id(4),
            format!("the target {} is down: the coordinator has not heard of it lately", shown(4)),
        ),
        (
            chunks(6, 12),
            id(3),
            format!(
                "the range (slots 6144-13311) has 3 parts that other nodes own, and a migration moves one: move \
                 each alone, `sidle migrate --slots 6144-8191 --to {to}`, `sidle migrate --slots 8192-12287 \
                 --to {to}`, `sidle migrate --slots 12288-13311 --to {to}`",
                to = info(3, 1).client_addr
            ),
        ),
        (chunks(8, 9), id(2), format!("the target {} already owns slots 8192-10239", shown(2))),
        (
            chunks(14, 15),
            id(2),
            "the range overlaps slots 15360-16383 of migration 2, which is running".into(),
        ),
    ] {
        let refused = refusal(world.ask(1, start(range, &target)));
        assert_eq!(refused.to_string(), text);
    }
    let unknown = Request::StartMigration {
        range: chunks(0, 0),
        target: NodeName::Id(node_id(2)),
        protocol: "teleport".into(),
        policy: MigrationPolicy::default(),
    };
    let refused = refusal(world.ask(1, unknown));
    assert_eq!(refused.to_string(), "there is no migration protocol 'teleport': the protocols are fulva");
    assert_eq!(world.coordinator().meta().committed().cloned(), before);
}

#[test]
fn a_source_that_is_down_is_refused() {
    let mut world = World::new(2, 3);
    world.kill_node(1);
    world.run_for(3_000_000);
    let refused = refusal(world.ask(2, start(chunks(0, 0), "10.0.0.3:7000")));
    assert_eq!(refused, Refusal::SourceDown { node: "10.0.0.1:7000 (01010101)".into() });
}

#[test]
fn a_target_without_memory_is_refused_with_the_numbers() {
    let mut world = World::new(3, 2);
    world.node(2).refuse = Some(PrepareRefusal::NoMemory { needed_bytes: 4_000, free_bytes: 1_000 });
    let refused = refusal(world.ask(1, start(chunks(0, 3), "10.0.0.2:7000"))).to_string();
    assert_eq!(
        refused,
        "migration 1 failed before it ran: the target 10.0.0.2:7000 (02020202) has no memory for it: 4000 bytes \
         needed, 1000 bytes free; nothing has changed"
    );
    assert_eq!(world.migration(1).unwrap().state, "failed");
    assert_eq!(world.owner_of(0), node_id(1));
    world.node(2).refuse = None;
    world.settle();
    assert!(matches!(world.ask(1, start(chunks(0, 3), "10.0.0.2:7000")), Reply::Started { .. }));
}

#[test]
fn a_preparation_that_nobody_answers_is_given_up() {
    let mut world = World::new(4, 3);
    // The coordinator receives the target's messages, but the target receives none.
    let ticket = world.request(3, start(chunks(0, 3), "10.0.0.2:7000"));
    world.node(2).deaf = true;
    world.run_for(35_000_000);
    let refused = refusal(world.replies.remove(&ticket).unwrap()).to_string();
    assert!(refused.contains("did not answer within 30 s; nothing has changed"), "{refused}");
}

#[test]
fn the_queue_is_bounded() {
    let mut world = World::new(5, 2);
    world.node(2).stalled = true;
    let piece = (1u64 << 60) / 8;
    let range = |index: u64| {
        let first = index * piece;
        PositionRange::new(sidle_types::Position(first), sidle_types::Position(first + piece - 1)).unwrap()
    };
    for index in 0..64 {
        assert!(
            matches!(world.ask(1, start(range(index), "10.0.0.2:7000")), Reply::Started { .. }),
            "{index}"
        );
    }
    let refused = refusal(world.ask(1, start(range(64), "10.0.0.2:7000")));
    assert_eq!(refused, Refusal::TooManyMigrations { limit: 64 });
}

#[test]
fn a_failed_commit_is_refused_and_nothing_is_acted_on() {
    let mut world = World::new(6, 2);
    world.fail_commits(Some(CommitFailure::NotWritten));
    let refused = refusal(world.ask(1, start(chunks(0, 3), "10.0.0.2:7000"))).to_string();
    assert!(refused.contains("could not write it down (the memory store was told to fail)"), "{refused}");
    assert!(refused.contains("unknown"), "{refused}");
    world.run_for(2_000_000);
    world.fail_commits(None);
    world.run_for(2_000_000);
    assert!(world.status().migrations.is_empty());
    let reply = world.ask(1, start(chunks(0, 3), "10.0.0.2:7000"));
    assert!(matches!(reply, Reply::Started { migration: MigrationId(2), .. }), "a number is not given twice");
}

#[test]
fn a_request_that_nobody_answers_says_that_its_effect_is_unknown() {
    let mut world = World::new(7, 2);
    world.kill_coordinator();
    let reply = world.ask(1, Request::Status);
    assert_eq!(reply, Reply::Refused(Refusal::NoAnswer));
}

#[test]
fn a_node_keeps_a_bounded_number_of_requests() {
    let mut world = World::new(8, 2);
    world.kill_coordinator();
    let tickets: Vec<u64> = (0..65).map(|_| world.request(1, Request::Status)).collect();
    assert_eq!(world.replies.len(), 1);
    let refused = refusal(world.replies.remove(&tickets[64]).unwrap());
    assert_eq!(refused, Refusal::TooManyRequests { limit: 64 });
    world.start_coordinator();
    world.run_for(1_000_000);
    assert_eq!(world.replies.len(), 64, "the others are answered");
}

#[test]
fn a_repeated_request_starts_one_migration() {
    for seed in 0..10 {
        let mut world = World::new(seed, 2);
        world.links = Quality { doubled_permille: 1000, ..BAD };
        for index in 0..4 {
            world.ask(2, start(chunks(index, index), "10.0.0.2:7000"));
        }
        // Refused, and not started by a delayed duplicate of the refused request.
        refusal(world.ask(2, start(chunks(0, 0), "10.0.0.9:7000")));
        world.settle();
        world.run_for(1_000_000);
        assert_eq!(world.status().migrations.len(), 4);
    }
}

#[test]
fn join_refusals_say_what_to_do() {
    let mut world = World::new(9, 2);
    let now = world.now;
    let mut join = |node: u8, incarnation: u64, address: u8, cluster: Option<u128>| {
        let me = info(node, incarnation);
        let body = NodeSays::Join {
            client_addr: info(address, 1).client_addr,
            bus_addr: info(address, 1).bus_addr,
            cluster: cluster.map(ClusterId::from_bits),
            start: None,
            speaks: Speaks::THIS_BUILD,
            log_since: None,
        };
        let message = ToCoordinator { from: me.id, incarnation: Incarnation(incarnation), body };
        let coordinator = world.coordinator();
        coordinator.handle(now, CoordinatorInput::Message(message));
        let events: Vec<_> = std::iter::from_fn(|| coordinator.poll_event()).collect();
        let sent: Vec<_> = std::iter::from_fn(|| coordinator.poll_transmit()).collect();
        match &sent[0].body {
            CoordinatorSays::JoinRefused { why } => {
                assert!(matches!(&events[0], CoordinatorEvent::JoinRefused { why: told, .. } if told == why));
                why.clone()
            }
            body => format!("{body:?}"),
        }
    };
    assert!(join(3, 1, 3, Some(0xbad)).contains("point it to its own coordinator"));
    assert!(join(3, 1, 1, None).contains("has announced the same address"));
    assert!(join(3, 1, 3, None).starts_with("Welcome"));
    assert!(join(2, 0, 2, Some(0xc1)).contains("two processes use one identity"));
}

#[test]
fn what_the_target_owns_already_is_left_out() {
    let mut world = World::new(9, 3);
    world.ask(1, World::start(chunks(4, 7), 2));
    world.settle();
    // Of 2..=7 node 2 has the upper part, and takes the lower one.
    let reply = world.ask(1, World::start(chunks(2, 7), 2));
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    assert_eq!(world.migration(2).unwrap().range, chunks(2, 3));
    world.settle();
    assert_eq!([1, 2, 7, 8].map(|chunk| world.owner_of(chunk)), [1, 2, 2, 1].map(node_id));
    // The rest of the range around the target's own is two ranges, which one migration cannot move.
    let refused = refusal(world.ask(1, World::start(chunks(1, 8), 2))).to_string();
    let to = info(2, 1).client_addr;
    for part in [chunks(1, 1), chunks(8, 8)] {
        let (first, last) = part.slots();
        let command = format!("`sidle migrate --slots {first}-{last} --to {to}`");
        assert!(refused.contains(&command), "{refused}");
    }
}
