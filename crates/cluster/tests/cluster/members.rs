//! Who becomes a member, who stays one, and who is forgotten.

use crate::world::{World, chunks, info, node_id, start_of};
use sidle_cluster::limits::{MAX_IDLE_DOWN, MAX_INCARNATION_LEAP, MAX_OPEN_WAITS};
use sidle_cluster::{
    ClusterId, CommitFailure, CoordinatorEvent, CoordinatorInput, CoordinatorSays, Heartbeat, Incarnation,
    Metadata, NodeInfo, NodeName, NodeSays, NodeState, Refusal, Reply, Request, StartNumber, ToCoordinator,
};
use sidle_types::{MapEpoch, MigrationId, NodeId, Speaks};

/// Sends the coordinator a message as this incarnation of a node; returns the answers to that incarnation.
fn says(world: &mut World, from: NodeId, incarnation: u64, body: NodeSays) -> Vec<CoordinatorSays> {
    let (now, incarnation) = (world.now, Incarnation(incarnation));
    let coordinator = world.coordinator();
    coordinator.handle(now, CoordinatorInput::Message(ToCoordinator { from, incarnation, body }));
    let sent: Vec<_> = std::iter::from_fn(|| coordinator.poll_transmit()).collect();
    sent.into_iter()
        .filter(|sent| sent.to == from && sent.incarnation == incarnation)
        .map(|sent| sent.body)
        .collect()
}

/// A join of this incarnation of a node, at the addresses of node `at`.
fn join(world: &mut World, node: u8, incarnation: u64, at: u8) -> CoordinatorSays {
    join_of(world, node, incarnation, at, Some(start_of(incarnation)))
}

/// The same, of the process with this number.
fn join_of(
    world: &mut World,
    node: u8,
    incarnation: u64,
    at: u8,
    start: Option<StartNumber>,
) -> CoordinatorSays {
    let NodeInfo { client_addr, bus_addr, .. } = info(at, 1);
    let (cluster, speaks) = (Some(ClusterId::from_bits(0xc1)), Speaks::THIS_BUILD);
    let body = NodeSays::Join { client_addr, bus_addr, cluster, start, speaks, log_since: None };
    // Messages about its migrations may come first.
    let mut said = says(world, node_id(node), incarnation, body);
    let place = said.iter().position(|said| !matches!(said, CoordinatorSays::Over { .. }));
    said.remove(place.expect("an answer"))
}

fn refused(said: CoordinatorSays) -> String {
    match said {
        CoordinatorSays::JoinRefused { why } => why,
        said => panic!("not refused: {said:?}"),
    }
}

fn state(world: &mut World, node: u8) -> Option<NodeState> {
    world.status().nodes.iter().find(|status| status.id == node_id(node)).map(|status| status.state)
}

fn events(world: &mut World) -> Vec<CoordinatorEvent> {
    let coordinator = world.coordinator();
    std::iter::from_fn(|| coordinator.poll_event()).collect()
}

fn forget(world: &mut World, node: u8) -> Reply {
    world.ask(1, Request::Forget { node: NodeName::Id(node_id(node)) })
}

#[test]
fn a_later_life_waits_until_the_present_one_is_gone() {
    for at in [2, 9] {
        let mut world = World::new(1, 3);
        for _ in 0..20 {
            let said = join(&mut world, 2, 2, at);
            assert!(
                matches!(&said, CoordinatorSays::JoinLater { why } if why.contains("still heard of")),
                "{said:?}"
            );
            world.run_for(500_000);
        }
        assert_eq!(world.coordinator().map().node(node_id(2)), Some(&info(2, 1)));
        assert_eq!(state(&mut world, 2), Some(NodeState::Up), "it was not sent away");
        // Its connection ends, as when a process is killed: at once, wherever the next incarnation runs.
        world.kill_node(2);
        assert!(matches!(join(&mut world, 2, 2, at), CoordinatorSays::Welcome { .. }));
    }
}

#[test]
fn a_later_life_of_a_node_that_fell_silent_is_let_in() {
    let mut world = World::new(2, 3);
    world.node(2).cut_off = true;
    world.run_for(1_000_000);
    assert!(matches!(join(&mut world, 2, 2, 9), CoordinatorSays::JoinLater { .. }));
    world.run_for(1_500_000);
    assert!(matches!(join(&mut world, 2, 2, 9), CoordinatorSays::Welcome { .. }));
    // The earlier incarnation is notified, in case it still runs.
    let said = says(&mut world, node_id(2), 1, NodeSays::Heartbeat(Heartbeat::default()));
    assert_eq!(said, [CoordinatorSays::Superseded]);
}

#[test]
fn a_life_that_no_restarts_explain_keeps_nobody_out() {
    let mut world = World::new(3, 3);
    world.kill_node(2);
    let why = refused(join(&mut world, 2, 2 + MAX_INCARNATION_LEAP, 2));
    assert!(why.contains("set 'starts' in its node.json to 1"), "{why}");
    let why = refused(join(&mut world, 8, 1 + MAX_INCARNATION_LEAP, 8));
    assert!(why.contains("no restarts explain"), "a new node: {why}");
    world.start_node(2);
    world.run_for(3_000_000);
    assert_eq!(state(&mut world, 2), Some(NodeState::Up));
    // Starts that never reached the coordinator are acceptable.
    world.kill_node(2);
    assert!(matches!(join(&mut world, 2, 2 + MAX_INCARNATION_LEAP, 2), CoordinatorSays::Welcome { .. }));
}

#[test]
fn an_older_copy_of_a_data_directory_is_told_what_to_set() {
    let mut world = World::new(4, 3);
    for _ in 0..3 {
        world.kill_node(2);
        world.start_node(2);
        world.run_for(3_000_000);
    }
    world.kill_node(2);
    let why = refused(join(&mut world, 2, 2, 2));
    assert!(why.contains("set 'starts' in its node.json to 4"), "{why}");
    // At that number it starts again.
    assert!(matches!(join(&mut world, 2, 5, 2), CoordinatorSays::Welcome { .. }));
}

#[test]
fn a_copy_in_the_same_life_is_refused() {
    let mut world = World::new(5, 3);
    let why = refused(join(&mut world, 2, 1, 9));
    assert!(why.contains("a member already, at 10.0.0.2:7000"), "{why}");
    assert!(matches!(join(&mut world, 2, 1, 2), CoordinatorSays::Welcome { .. }), "a repeated join");
    assert_eq!(world.coordinator().map().node(node_id(2)), Some(&info(2, 1)));
}

#[test]
fn an_older_copy_that_comes_back_in_the_last_life_is_no_member_of_a_migration() {
    let mut world = World::new(10, 3);
    world.ask(1, World::start(chunks(8, 11), 2));
    world.settle();
    world.node(3).stalled = true;
    world.ask(2, World::start(chunks(8, 11), 3));
    assert!(world.run_until(1_000_000, |world| world.runs(2)));
    world.kill_node(2);
    let other = StartNumber(0xbad);
    for start in [Some(other), None] {
        let why = refused(join_of(&mut world, 2, 1, 2, start));
        assert!(
            why.contains("two processes use copies") && why.contains("set 'starts' in its node.json to 1"),
            "{why}"
        );
    }
    world.kill_coordinator();
    world.start_coordinator();
    refused(join_of(&mut world, 2, 1, 2, Some(other)));
    assert!(world.runs(2), "nobody has joined that has lost what the source had");
    // As its refusal advised. Its earlier incarnation is void, and the migration ends.
    assert!(matches!(join_of(&mut world, 2, 2, 2, Some(other)), CoordinatorSays::Welcome { .. }));
    world.run_for(100_000);
    assert!(!world.runs(2));
}

#[test]
fn a_forgotten_node_that_migrations_name_cannot_come_back_as_another_process_in_the_same_life() {
    let mut world = World::new(11, 3);
    world.ask(1, World::start(chunks(8, 11), 2));
    world.settle();
    world.ask(2, World::start(chunks(8, 11), 3));
    world.settle();
    (2..=3).for_each(|node| world.kill_node(node));
    world.run_for(3_000_000);
    assert_eq!(forget(&mut world, 2), Reply::Forgotten { node: node_id(2) });
    let why = refused(join_of(&mut world, 2, 1, 2, Some(StartNumber(0xbad))));
    assert!(why.contains("start 1 of this node was a member already"), "{why}");
    assert!(matches!(join(&mut world, 2, 1, 2), CoordinatorSays::Welcome { .. }), "the same process");
}

#[test]
fn a_member_of_before_such_numbers_were_drawn_joins_with_any_and_keeps_it() {
    let mut world = World::new(12, 3);
    world.kill_node(2);
    assert!(matches!(join_of(&mut world, 2, 2, 2, None), CoordinatorSays::Welcome { .. }));
    let epoch = world.coordinator().map().epoch();
    assert!(matches!(join_of(&mut world, 2, 2, 2, Some(StartNumber(7))), CoordinatorSays::Welcome { .. }));
    refused(join_of(&mut world, 2, 2, 2, Some(StartNumber(8))));
    assert!(matches!(join_of(&mut world, 2, 2, 2, Some(StartNumber(7))), CoordinatorSays::Welcome { .. }));
    assert_eq!(world.coordinator().map().epoch(), epoch, "that is nobody else's business");
    // Written by a version without such numbers.
    let mut data = serde_json::to_value(world.coordinator().data()).unwrap();
    data.as_object_mut().unwrap().remove("starts").expect("it is written down");
    let older: Metadata = serde_json::from_value(data).unwrap();
    assert_eq!((older.check(), older.starts.len()), (Ok(()), 0));
}

#[test]
fn a_node_that_owns_nothing_and_is_down_is_forgotten() {
    let mut world = World::new(6, 4);
    world.ask(1, World::start(chunks(8, 11), 2));
    world.settle();
    world.node(3).stalled = true;
    world.ask(1, World::start(chunks(15, 15), 3));
    // Its source knows that it runs.
    world.run_for(10_000);
    let shown = |number: u8| format!("10.0.0.{number}:7000 ({})", &node_id(number).to_string()[..8]);
    let name = NodeName::Id(node_id(9)).to_string();
    assert_eq!(forget(&mut world, 9), Reply::Refused(Refusal::UnknownNode { name }));
    assert_eq!(forget(&mut world, 1), Reply::Refused(Refusal::Coordinates { node: shown(1) }));
    assert_eq!(forget(&mut world, 4), Reply::Refused(Refusal::StillUp { node: shown(4) }));
    (2..=4).for_each(|node| world.kill_node(node));
    world.run_for(3_000_000);
    let tablets = Refusal::OwnsTablets { node: shown(2), tablets: 1 };
    assert_eq!(forget(&mut world, 2), Reply::Refused(tablets));
    let takes_part = Refusal::TakesPart { node: shown(3), migration: MigrationId(2), why: String::new() };
    assert_eq!(forget(&mut world, 3), Reply::Refused(takes_part));
    assert_eq!(forget(&mut world, 4), Reply::Forgotten { node: node_id(4) });
    assert_eq!(state(&mut world, 4), None);
    assert_eq!(world.coordinator().meta().committed().unwrap().map.nodes().len(), 3);
    // All learn it with the next map.
    world.run_for(1_000_000);
    assert_eq!(world.node(1).map().unwrap().nodes().len(), 3);
}

#[test]
fn a_forgotten_node_that_comes_back_joins_anew() {
    let mut world = World::new(7, 3);
    world.node(3).cut_off = true;
    world.run_for(3_000_000);
    assert_eq!(forget(&mut world, 3), Reply::Forgotten { node: node_id(3) });
    // It was still running, only cut off.
    world.node(3).cut_off = false;
    world.run_for(3_000_000);
    assert_eq!(state(&mut world, 3), Some(NodeState::Up));
    world.ask(1, World::start(chunks(3, 5), 3));
    world.settle();
    assert_eq!(world.owner_of(4), node_id(3));
    // The past incarnation of a remembered migration stays behind, forgotten or not.
    world.ask(1, World::start(chunks(3, 5), 1));
    world.settle();
    world.kill_node(3);
    world.start_node(3);
    world.run_for(3_000_000);
    world.ask(3, World::start(chunks(0, 0), 2));
    world.settle();
    world.kill_node(3);
    world.run_for(3_000_000);
    assert_eq!(forget(&mut world, 3), Reply::Forgotten { node: node_id(3) });
    assert!(refused(join(&mut world, 3, 1, 3)).contains("set 'starts' in its node.json to 2"));
    assert!(matches!(join(&mut world, 3, 3, 3), CoordinatorSays::Welcome { .. }));
}

#[test]
fn a_forgotten_node_cannot_come_back_in_an_incarnation_that_it_had() {
    let mut world = World::new(13, 3);
    world.ask(3, World::start(chunks(0, 0), 2));
    world.settle();
    world.kill_node(3);
    // No migration names this incarnation.
    world.start_node(3);
    world.run_for(3_000_000);
    world.kill_node(3);
    world.run_for(3_000_000);
    assert_eq!(forget(&mut world, 3), Reply::Forgotten { node: node_id(3) });
    assert!(refused(join(&mut world, 3, 1, 3)).contains("set 'starts' in its node.json to 2"));
    assert!(matches!(join(&mut world, 3, 3, 3), CoordinatorSays::Welcome { .. }));
}

#[test]
fn members_that_join_and_go_do_not_fill_the_cluster() {
    let mut world = World::new(8, 2);
    for number in 0..2_000_u64 {
        let mut bytes = [0xee; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let host = format!("10.1.{}.{}", number / 250, number % 250);
        let addr = |port| sidle_cluster::HostPort::new(&host, port).unwrap();
        let body = NodeSays::Join {
            client_addr: addr(7000),
            bus_addr: addr(17000),
            cluster: None,
            start: None,
            speaks: Speaks::THIS_BUILD,
            log_since: None,
        };
        says(&mut world, NodeId::from_bytes(bytes), 1, body);
        world.run_for(2_000);
    }
    assert!(world.status().nodes.len() <= sidle_cluster::limits::MAX_NODES);
    world.run_for(3_000_000);
    assert!(
        matches!(join(&mut world, 9, 1, 9), CoordinatorSays::Welcome { .. }),
        "there is always room for one"
    );
    world.run_for(70_000_000);
    let nodes = world.status().nodes;
    assert!(nodes.len() <= MAX_IDLE_DOWN + 2, "{} are left", nodes.len());
    assert_eq!(nodes.iter().filter(|node| node.state == NodeState::Up).count(), 2);
}

#[test]
fn a_map_that_there_never_was_is_not_believed() {
    let mut world = World::new(9, 3);
    let heartbeat = Heartbeat { map_epoch: MapEpoch(1 << 50), ..Heartbeat::default() };
    for _ in 0..3 {
        says(&mut world, node_id(2), 1, NodeSays::Heartbeat(heartbeat.clone()));
    }
    let told = events(&mut world);
    let told = told.iter().filter(|event| matches!(event, CoordinatorEvent::UnknownMap { .. })).count();
    assert_eq!(told, 1);
    world.ask(1, World::start(chunks(3, 5), 3));
    world.settle();
    let epoch = world.coordinator().map().epoch();
    assert!(world.node(2).uses_epoch(epoch), "it is sent every map");
}

#[test]
fn who_was_replaced_at_an_address_is_not_called_there() {
    let mut world = World::new(13, 3);
    world.kill_node(2);
    world.run_for(3_000_000);
    let silent = |world: &mut World| {
        let now = world.now;
        world.coordinator().silent_members(now).map(|node| node.id).collect::<Vec<_>>()
    };
    assert_eq!(silent(&mut world), [node_id(2)]);
    // A new node, since its data directory is lost.
    assert!(matches!(join(&mut world, 9, 1, 2), CoordinatorSays::Welcome { .. }));
    assert_eq!(silent(&mut world), []);
    // Either of the two may come back there.
    world.run_for(3_000_000);
    assert_eq!(silent(&mut world), [node_id(2), node_id(9)]);
}

#[test]
fn requests_that_wait_hold_up_no_others() {
    let mut world = World::new(10, 2);
    world.node(2).stalled = true;
    world.ask(1, World::start(chunks(0, 3), 2));
    let wait = || Request::AwaitEnd { migration: MigrationId(1), patience_us: 5_000_000 };
    let waits: Vec<u64> = (0..MAX_OPEN_WAITS).map(|_| world.request(1, wait())).collect();
    let refusal = Refusal::TooManyWaits { limit: MAX_OPEN_WAITS };
    assert_eq!(world.ask(1, wait()), Reply::Refused(refusal));
    // More numbers than the window, all answered long before the waits are.
    let begun = world.now;
    for _ in 0..300 {
        assert!(matches!(world.ask(1, Request::Status), Reply::Status(_)));
    }
    let queued = world.request(1, World::start(chunks(8, 9), 2));
    world.run_for(100_000);
    let reply = world.ask(1, Request::Cancel { migration: MigrationId(2) });
    assert_eq!(reply, Reply::Cancelled { migration: MigrationId(2) });
    assert!(world.replies.remove(&queued).is_some());
    assert!(world.now.since(begun) < 2_000_000);
    world.node(2).stalled = false;
    world.settle();
    world.run_for(1_000_000);
    assert!(waits.iter().all(|ticket| matches!(world.replies.get(ticket), Some(Reply::Status(_)))));
}

#[test]
fn a_record_that_has_gone_is_written_anew() {
    let mut world = World::new(11, 2);
    world.coordinator().meta_mut().lose();
    let now = world.now.plus_us(4_000_000);
    world.coordinator().handle(now, CoordinatorInput::Timer);
    assert!(events(&mut world).contains(&CoordinatorEvent::RecordWrittenAnew));
    assert!(world.coordinator().meta().committed().is_some());
    assert_eq!(world.status().record_trouble, None);
}

#[test]
fn a_record_that_cannot_be_written_anew_is_told() {
    let mut world = World::new(12, 2);
    world.fail_commits(Some(CommitFailure::NotWritten));
    world.coordinator().meta_mut().lose();
    let now = world.now.plus_us(4_000_000);
    for later in [0, 4_000_000] {
        world.coordinator().handle(now.plus_us(later), CoordinatorInput::Timer);
    }
    let told = events(&mut world);
    let told = told.iter().filter(|event| matches!(event, CoordinatorEvent::RecordGone { .. })).count();
    assert_eq!(told, 1, "once for one reason");
    assert_eq!(world.status().record_trouble.as_deref(), Some("the memory store was told to fail"));
    world.fail_commits(None);
    world.coordinator().handle(now.plus_us(8_000_000), CoordinatorInput::Timer);
    assert_eq!(world.status().record_trouble, None);
}
