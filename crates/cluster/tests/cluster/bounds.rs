//! Too long, too many or too large input is refused during parsing, and never stored.

use crate::world::{World, chunks, info, node_id, read_protocol};
use serde_json::{Value, json};
use sidle_cluster::limits::{
    HISTORY, MAX_BACKUPS, MAX_HELD, MAX_MESSAGE_BYTES, MAX_NODE_MESSAGE_BYTES, MAX_NODES, MAX_NUMBER,
    MAX_PARTITIONS, MAX_PATIENCE_US, MAX_PROTOCOL_BYTES, MAX_REASON_BYTES, MAX_TABLETS, MAX_TAKEOVERS,
    MAX_TEXT_BYTES, MAX_UNFINISHED,
};
use sidle_cluster::{
    ClusterId, ControlMessage, Coordinator, CoordinatorInput, CoordinatorSays, DeadLog, Founding, Heartbeat,
    HostPort, Incarnation, LogBackup, MemoryMetaStore, MetaStore, Metadata, MigrationRecord, MigrationState,
    NodeInfo, NodeName, NodeSays, PrepareRefusal, Progress, Refusal, Reply, Request, StartNumber, Survey,
    Tablet, TabletMap, Takeover, Term, ToCoordinator, ToNode,
};
use sidle_testbed::fixtures::running;
use sidle_types::{
    LogId, MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, NodeId, Position, PositionRange, Speaks,
    TabletEpoch,
};
use std::sync::Arc;

fn from_node(body: NodeSays) -> ControlMessage {
    ToCoordinator { from: node_id(1), incarnation: Incarnation(3), body }.into()
}

fn to_node(body: CoordinatorSays) -> ControlMessage {
    ToNode { to: node_id(1), incarnation: Incarnation(3), start: None, term: Term::ONLY, body }.into()
}

fn request(request: Request) -> ControlMessage {
    from_node(NodeSays::Request { number: 9, oldest_open: 3, request })
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn record(id: u64) -> MigrationRecord {
    MigrationRecord {
        protocol: text(MAX_PROTOCOL_BYTES),
        policy: MigrationPolicy::Rate { bytes_per_s: MAX_NUMBER },
        partitions: parts(PositionRange::ALL, MAX_PARTITIONS),
        state: MigrationState::Failed { why: text(MAX_TEXT_BYTES) },
        ..running(id, PositionRange::ALL, 1, 2, MAX_NUMBER)
    }
}

/// The range in this many parts.
fn parts(range: PositionRange, count: usize) -> Vec<PositionRange> {
    let width = (range.last().0 - range.first().0) / count as u64;
    let first = |index: usize| range.first().0 + width * index as u64;
    let last = |index: usize| if index + 1 == count { range.last().0 } else { first(index + 1) - 1 };
    (0..count).map(|at| PositionRange::new(Position(first(at)), Position(last(at))).unwrap()).collect()
}

/// The largest messages that a node can send.
fn largest_from_a_node() -> Vec<ControlMessage> {
    let migration = MigrationId(MAX_NUMBER);
    let progress = Progress {
        next: vec![Some(Position::LAST); MAX_PARTITIONS],
        stalled: Some("\u{1}".repeat(MAX_REASON_BYTES)),
        ..Progress::default()
    };
    let holds = (0..MAX_HELD as u64).map(|at| MigrationId(MAX_NUMBER - MAX_HELD as u64 + at)).collect();
    let trouble = Some("\u{1}".repeat(MAX_REASON_BYTES));
    let partitions = parts(PositionRange::ALL, MAX_PARTITIONS);
    let why = PrepareRefusal::Other { why: text(MAX_REASON_BYTES) };
    let policy = MigrationPolicy::Deadline { ms: MAX_NUMBER };
    let target = NodeName::Addr(HostPort::new(&text(253), 65535).unwrap());
    vec![
        from_node(NodeSays::Heartbeat(Heartbeat { holds, trouble, ..Heartbeat::default() })),
        from_node(NodeSays::Surveyed {
            migration,
            survey: Survey { records: MAX_NUMBER, bytes: MAX_NUMBER, partitions },
        }),
        from_node(NodeSays::PrepareRefused { migration, why }),
        from_node(NodeSays::Progress { migration, progress: progress.clone() }),
        from_node(NodeSays::Finished { migration, progress }),
        from_node(NodeSays::Broken { migration, why: text(MAX_REASON_BYTES) }),
        request(Request::StartMigration {
            range: PositionRange::ALL,
            target: target.clone(),
            protocol: text(MAX_PROTOCOL_BYTES),
            policy,
        }),
        request(Request::Forget { node: target }),
        request(Request::AwaitEnd { migration, patience_us: MAX_PATIENCE_US }),
    ]
}

/// The largest possible map.
fn largest_map() -> TabletMap {
    let node = |number: usize| {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let host = HostPort::new(&text(253), 65535).unwrap();
        let (client_addr, bus_addr) = (host.clone(), host);
        NodeInfo {
            id: NodeId::from_bytes(bytes),
            incarnation: Incarnation(MAX_NUMBER),
            client_addr,
            bus_addr,
        }
    };
    let nodes: Vec<NodeInfo> = (0..MAX_NODES).map(node).collect();
    let (source, target) = (nodes[0].id, nodes[1].id);
    let epoch = TabletEpoch(MAX_NUMBER);
    let tablets: Vec<Tablet> = parts(PositionRange::ALL, MAX_TABLETS)
        .into_iter()
        .map(|range| Tablet { range, owner: target, epoch })
        .collect();
    let migrations = tablets[..MAX_UNFINISHED].iter().enumerate().map(|(index, tablet)| MigrationRecord {
        source,
        target,
        range: tablet.range,
        partitions: parts(tablet.range, MAX_PARTITIONS),
        state: MigrationState::Running,
        ..record(index as u64 + 1)
    });
    let migrations = migrations.collect();
    let map = TabletMap::new(MapEpoch(MAX_NUMBER), nodes, tablets.clone(), migrations).unwrap();
    let dead = DeadLog {
        from: source,
        log: LogId([0xff; 16]),
        log_epoch: MAX_NUMBER,
        backups: vec![LogBackup { node: source, incarnation: Incarnation(MAX_NUMBER) }; MAX_BACKUPS],
    };
    let takeovers = tablets[MAX_UNFINISHED..][..MAX_TAKEOVERS].iter();
    let takeovers = takeovers.map(|tablet| Takeover {
        range: tablet.range,
        owner: target,
        epoch,
        dead: dead.clone(),
        import: None,
        unread_by: Vec::new(),
    });
    let mut json = serde_json::to_value(&map).unwrap();
    json["takeovers"] = serde_json::to_value(takeovers.collect::<Vec<_>>()).unwrap();
    serde_json::from_value(json).unwrap()
}

#[test]
fn the_largest_messages_fit() {
    for message in largest_from_a_node() {
        let json = message.to_json();
        assert!(json.len() <= MAX_NODE_MESSAGE_BYTES, "{} bytes", json.len());
        assert_eq!(ControlMessage::from_json(&json), Ok(message));
    }
    let map = Arc::new(largest_map());
    let metadata = Metadata {
        history: (0..HISTORY as u64).map(|at| Arc::new(record(100 + at))).collect(),
        next_migration: MigrationId(1_000),
        ..Metadata::new(ClusterId::from_bits(1), TabletMap::clone(&map))
    };
    assert_eq!(metadata.check(), Ok(()));
    let mut store = MemoryMetaStore::new();
    store.commit(&metadata).unwrap();
    let founding = Founding {
        cluster: ClusterId::from_bits(1),
        first: map.nodes()[0].clone(),
        start: StartNumber(1),
        speaks: Speaks::THIS_BUILD,
    };
    let coordinator = Coordinator::open(MonotonicUs(1), store, founding, read_protocol).unwrap();
    let report = Box::new(coordinator.report(MonotonicUs(2)));
    for body in [
        CoordinatorSays::Welcome { cluster: ClusterId::from_bits(u128::MAX), map: Arc::clone(&map) },
        CoordinatorSays::Reply { number: MAX_NUMBER, reply: Reply::Status(report) },
        CoordinatorSays::Track { record: Box::new(record(1)) },
        CoordinatorSays::JoinRefused { why: text(MAX_TEXT_BYTES) },
    ] {
        let message = to_node(body);
        let json = message.to_json();
        assert!(json.len() < MAX_MESSAGE_BYTES, "{} bytes", json.len());
        assert_eq!(ControlMessage::from_json(&json), Ok(message));
    }
}

/// A message with what is at `path` changed.
fn changed(message: &ControlMessage, path: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&message.to_json()).unwrap();
    change(json.pointer_mut(path).unwrap_or_else(|| panic!("{path} in {message:?}")));
    serde_json::to_vec(&json).unwrap()
}

fn refused(body: &[u8]) -> String {
    ControlMessage::from_json(body).unwrap_err().to_string()
}

#[test]
fn a_number_a_text_or_a_list_beyond_its_limit_is_refused_by_name() {
    let said = |says: &str, rest: &str| format!("/to_coordinator/body/{says}{rest}");
    let largest = largest_from_a_node();
    let [heartbeat, surveyed, refusal, progress, _, broken, start, _, wait] = &largest[..] else { panic!() };
    let cases: Vec<(&ControlMessage, String, Value, String)> = vec![
        (heartbeat, "/to_coordinator/incarnation".into(), json!(u64::MAX), "'incarnation' is above".into()),
        (heartbeat, said("heartbeat", "/map_epoch"), json!(MAX_NUMBER + 1), "'map_epoch' is above".into()),
        (heartbeat, said("heartbeat", "/load/keys"), json!(u64::MAX), "'keys' is above".into()),
        (
            heartbeat,
            said("heartbeat", "/holds"),
            json!(vec![1; MAX_HELD + 1]),
            format!("'holds' has more than {MAX_HELD}"),
        ),
        (heartbeat, said("heartbeat", "/holds"), json!([2, 2]), "'holds' is not in ascending order".into()),
        (
            heartbeat,
            said("heartbeat", "/trouble"),
            json!(text(MAX_REASON_BYTES + 1)),
            "'trouble' has more than".into(),
        ),
        (surveyed, said("surveyed", "/migration"), json!(u64::MAX), "'migration' is above".into()),
        (surveyed, said("surveyed", "/survey/records"), json!(u64::MAX), "'records' is above".into()),
        (
            refusal,
            said("prepare_refused", "/why/other/why"),
            json!(text(MAX_REASON_BYTES + 1)),
            "'why' has more than 1024 bytes".into(),
        ),
        (broken, said("broken", "/why"), json!(text(MAX_REASON_BYTES + 1)), "'why' has more than".into()),
        (
            progress,
            said("progress", "/progress/stalled"),
            json!(text(MAX_REASON_BYTES + 1)),
            "'stalled' has more".into(),
        ),
        (
            progress,
            said("progress", "/progress/next"),
            json!(vec![Value::Null; MAX_PARTITIONS + 1]),
            "'next' has more".into(),
        ),
        (start, said("request", "/number"), json!(u64::MAX), "'number' is above".into()),
        (start, said("request", "/oldest_open"), json!(10), "'oldest_open' is above 'number'".into()),
        (
            start,
            said("request", "/request/start_migration/protocol"),
            json!(text(257)),
            "'protocol' has more".into(),
        ),
        (start, said("request", "/request/start_migration/policy/deadline/ms"), json!(0), "'ms' is 0".into()),
        (
            wait,
            said("request", "/request/await_end/patience_us"),
            json!(MAX_PATIENCE_US + 1),
            "'patience_us' is above".into(),
        ),
    ];
    for (message, path, value, why) in cases {
        let error = refused(&changed(message, &path, |at| *at = value));
        assert!(error.contains(&why), "{path}: {error}");
    }
    let parts = |value: &mut Value| {
        let first = value[0].clone();
        value.as_array_mut().unwrap().push(first);
    };
    let error = refused(&changed(surveyed, &said("surveyed", "/survey/partitions"), parts));
    assert!(error.contains("'partitions' has more than 64 entries"), "{error}");
}

#[test]
fn the_coordinator_is_held_to_limits_too() {
    let map = Arc::new(TabletMap::founded_by(info(1, 1)));
    let update = to_node(CoordinatorSays::MapUpdate { map });
    let node = |value: &mut Value| {
        let first = value[0].clone();
        *value = Value::Array(vec![first; MAX_NODES + 1]);
    };
    let at = |list: &str| format!("/to_node/body/map_update/map/{list}");
    assert!(refused(&changed(&update, &at("nodes"), node)).contains("'nodes' has more than 1000 entries"));
    let tablet = |value: &mut Value| {
        let first = value[0].clone();
        *value = Value::Array(vec![first; MAX_TABLETS + 1]);
    };
    assert!(refused(&changed(&update, &at("tablets"), tablet)).contains("'tablets' has more than 32768"));
    assert!(
        refused(&changed(&update, &at("epoch"), |epoch| *epoch = json!(u64::MAX))).contains("'map_epoch'")
    );
    let host = at("nodes/0/client_addr");
    let error = refused(&changed(&update, &host, |address| *address = json!(text(1 << 20) + ":7000")));
    assert!(error.contains("too long") && error.len() < 1_000, "{error}");
    for (partitions, why) in [(0, "'partitions' is 0"), (u64::MAX, "'partitions' is above 64")] {
        let (migration, range) = (MigrationId(1), PositionRange::ALL);
        let survey = to_node(CoordinatorSays::Survey { migration, range, partitions: partitions as usize });
        assert!(refused(&survey.to_json()).contains(why));
    }
    let state = Reply::Refused(Refusal::Protocol { why: text(MAX_TEXT_BYTES + 1) });
    let reply = to_node(CoordinatorSays::Reply { number: 1, reply: state });
    assert!(refused(&reply.to_json()).contains("'why' has more than 4096 bytes"));
}

#[test]
fn deep_and_large_texts_are_refused_quickly_and_in_few_words() {
    let wide = |open: &str, bytes: usize| open.repeat(bytes / open.len()).into_bytes();
    for body in [
        wide("[", MAX_MESSAGE_BYTES),
        wide("{\"a\":", MAX_MESSAGE_BYTES),
        wide("{\"to_node\":", 1 << 20),
        format!("{{\"{}\":1}}", text(MAX_MESSAGE_BYTES - 16)).into_bytes(),
        format!("{{\"to_coordinator\":{{\"from\":\"{}\"}}}}", text(1 << 20)).into_bytes(),
        vec![b' '; MAX_MESSAGE_BYTES + 1],
        changed(&largest_from_a_node()[5], "/to_coordinator/from", |from| *from = json!(text(1 << 20))),
    ] {
        let error = refused(&body);
        assert!(error.len() < 1_000, "{} bytes", error.len());
    }
    // Unknown fields are ignored, and cost their bytes on the wire.
    let mut padded: Value = serde_json::from_slice(&largest_from_a_node()[1].to_json()).unwrap();
    padded["to_coordinator"]["padding"] = json!(text(MAX_NODE_MESSAGE_BYTES));
    let error = refused(&serde_json::to_vec(&padded).unwrap());
    assert!(error.contains("the longest has 65536"), "{error}");
}

/// A refusal of 16 MB was committed, crashed the coordinator when it was sent, and again at each restart.
#[test]
fn a_huge_refusal_harms_nobody() {
    let mut world = World::new(1, 3);
    world.node(2).refuse = Some(PrepareRefusal::Other { why: "é".repeat(8 << 20) });
    let reply = world.ask(1, World::start(chunks(0, 3), 2));
    let Reply::Refused(Refusal::NotPrepared { why, .. }) = &reply else { panic!("{reply:?}") };
    assert!(why.len() <= MAX_TEXT_BYTES && why.contains("[...]") && why.ends_with("nothing has changed"));
    // Sent to the coordinator unparsed, it is dropped.
    let before = world.coordinator().data().clone();
    let ticket = world.request(1, World::start(chunks(0, 3), 2));
    world.run_until(1_000_000, |world| world.is_counted(2));
    let (now, why) = (world.now, PrepareRefusal::Other { why: text(16 << 20) });
    let body = NodeSays::PrepareRefused { migration: MigrationId(2), why };
    let message = ToCoordinator { from: node_id(2), incarnation: Incarnation(1), body };
    assert!(ControlMessage::from_json(&ControlMessage::from(message.clone()).to_json()).is_err());
    world.coordinator().handle(now, CoordinatorInput::Message(message));
    world.settle();
    assert!(world.run_until(1_000_000, |world| world.replies.contains_key(&ticket)));
    assert_eq!(world.coordinator().data().check(), Ok(()));
    assert_eq!(world.coordinator().data().map.tablets(), before.map.tablets());
    world.kill_coordinator();
    world.start_coordinator();
}

#[test]
fn a_record_beyond_its_limits_is_refused_with_words() {
    let founding = || Founding {
        cluster: ClusterId::from_bits(1),
        first: info(1, 1),
        start: StartNumber(1),
        speaks: Speaks::THIS_BUILD,
    };
    let metadata = |why: usize| {
        let ended = MigrationRecord { state: MigrationState::Failed { why: text(why) }, ..record(1) };
        let new = Metadata::new(ClusterId::from_bits(1), TabletMap::founded_by(info(1, 1)));
        Metadata { history: [Arc::new(ended)].into(), next_migration: MigrationId(2), ..new }
    };
    let open = |metadata: &Metadata| {
        let mut store = MemoryMetaStore::new();
        store.commit(metadata).unwrap();
        Coordinator::open(MonotonicUs(1), store, founding(), read_protocol).map(|_| ())
    };
    assert_eq!(open(&metadata(MAX_TEXT_BYTES)), Ok(()));
    let error = open(&metadata(16 << 20)).unwrap_err().to_string();
    assert!(error.contains("beyond its limits: 'why' has more than 4096 bytes"), "{error}");
    let far = Metadata { next_migration: MigrationId(u64::MAX), ..metadata(1) };
    assert!(open(&far).unwrap_err().to_string().contains("'next_migration' is above"));
}
