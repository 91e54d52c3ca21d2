//! Clients that subscribed are told what cuts give; nobody else is, and it costs little.

use crate::common::*;
use sidle_client_core::{Config, ConnectionId, Core, Counters, Event, Input, Outcome};
use sidle_node::testing::{ClientKey, TestCluster};
use sidle_resp::{ReplyWriter, RespVersion, Value};
use sidle_types::{HashedKey, MigrationId, Position, PositionFilter, parse_cursors};

const VALUE_BYTES: usize = 1000;

/// What a push told.
struct Told {
    migration: MigrationId,
    cut: i64,
    cursors: Vec<Option<Position>>,
    filter: PositionFilter,
    bytes: u64,
}

fn told(push: Value) -> Told {
    let Value::Push(items) = push else { panic!("not a push: {push:?}") };
    let [name, Value::Integer(id), Value::Integer(cut), Value::Bulk(cursors), Value::Bulk(filter)] =
        items.as_slice()
    else {
        panic!("not of cuts: {items:?}")
    };
    assert_eq!(*name, bulk("sidle-given"));
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, RespVersion::Resp3);
    writer.push(5);
    writer.bulk(b"sidle-given");
    writer.integer(*id);
    writer.integer(*cut);
    writer.bulk(cursors);
    writer.bulk(filter);
    Told {
        migration: MigrationId(*id as u64),
        cut: *cut,
        cursors: parse_cursors(cursors).expect("cursors").collect(),
        filter: PositionFilter::parse(filter).expect("a filter"),
        bytes: bytes.len() as u64,
    }
}

impl Scene {
    /// Two nodes whose first has so many large values.
    fn with_large_values(count: usize) -> Scene {
        let mut scene = Scene { protocol: sidle_migration::HANDOFF, ..Scene::new() };
        let value = "v".repeat(VALUE_BYTES);
        for key in keys("key", count) {
            assert_eq!(scene.ask(0, &format!("SET {key} {value}")), ok());
        }
        scene
    }

    fn subscriber(&mut self, worker: usize) -> ClientKey {
        let client = self.cluster.connect_aware(1, worker);
        assert_eq!(self.cluster.ask(client, "CLIENT CAPA sidle-given"), ok());
        client
    }

    /// The pushes of cuts since the last call.
    fn told(&mut self, client: ClientKey) -> Vec<Told> {
        let pushes = std::iter::from_fn(|| self.cluster.client(client).receive_push());
        let of_cuts = |push: &Value| matches!(push, Value::Push(items) if items[0] != bulk("sidle-map"));
        pushes.filter(of_cuts).map(told).collect()
    }

    fn digest_bytes(&mut self) -> u64 {
        let Value::Bulk(info) = self.ask(1, "INFO") else { panic!("no text") };
        let info = String::from_utf8(info).expect("text");
        let figure = info.lines().find_map(|line| line.strip_prefix("migration_digest_bytes:"));
        figure.expect("a figure").parse().expect("a number")
    }
}

#[test]
fn subscribers_are_told_what_cuts_gave_and_others_are_not() {
    let mut scene = Scene::with_large_values(1000);
    let (first, second) = (scene.subscriber(0), scene.subscriber(1));
    let aware = scene.cluster.connect_aware(1, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    for key in keys("key", 60) {
        assert!(matches!(scene.ask(1, &format!("GET {key}")), Value::Bulk(_)), "it is taken");
    }
    scene.cluster.run_for(20_000);
    let taken = scene.told(first);
    assert!(taken.iter().all(|told| told.migration == id));
    assert!(taken.is_sorted_by(|a, b| a.cut < b.cut), "in order");
    let knows = |key: &String| taken.iter().any(|told| told.filter.contains(position(key)));
    assert!(keys("key", 60).iter().all(knows), "all that was given out of turn");
    let errs = (100..1000).filter(|n| knows(&format!("key{n}"))).count();
    assert!(errs < 40, "{errs} errors");
    assert!(taken.len() <= 12, "several cuts are told at once: {}", taken.len());
    scene.finish(id);
    let rest = scene.told(first);
    assert!(rest.last().is_some_and(|told| told.cursors.iter().all(Option::is_none)), "everything is given");
    let all: Vec<Told> = taken.into_iter().chain(rest).collect();
    let sent: u64 = all.iter().chain(&scene.told(second)).map(|told| told.bytes).sum();
    assert_eq!(scene.digest_bytes(), sent);
    assert!(sent <= (1000 * (VALUE_BYTES as u64 + 40)) / 100, "a hundredth of what moved: {sent}");
    assert_eq!(scene.told(aware).len(), 0);
}

#[test]
fn a_new_subscriber_is_told_at_once_how_far_it_is() {
    let mut scene = Scene::with_large_values(200);
    let id = scene.start_by("handoff,cut-bytes=10000,partitions=2", "SLOTS 0-16383", 1);
    scene.cluster.run_until("something is given", |cluster| {
        let view = cluster.nodes[1].workers[0].ranges().import(id);
        view.is_some_and(|view| view.digest().is_some_and(|digest| digest.cut() >= 2))
    });
    let owned: Vec<_> =
        scene.cluster.nodes[1].workers[0].ranges().import(id).expect("it runs").progress().collect();
    let client = scene.subscriber(0);
    let told = scene.told(client);
    assert_eq!((told[0].migration, told[0].cursors.len()), (id, 2));
    let reached = |position: &Option<Position>| position.map_or(u64::MAX, |position| position.0);
    assert!(told[0].cursors.iter().zip(&owned).all(|(told, owned)| reached(told) >= reached(owned)));
    assert!(told[0].filter.is_empty());
    scene.finish(id);
}

#[test]
fn many_subscribers_are_told_no_more_than_they_may_be() {
    let mut scene = Scene::with_large_values(300);
    let clients: Vec<ClientKey> = (0..200).map(|n| scene.subscriber(n % 2)).collect();
    let id = scene.start_by("handoff,cut-bytes=5000", "SLOTS 0-16383", 1);
    for key in keys("key", 300) {
        scene.ask(1, &format!("GET {key}"));
    }
    scene.finish(id);
    let sent: u64 =
        clients.iter().map(|&client| scene.told(client).iter().map(|told| told.bytes).sum::<u64>()).sum();
    assert_eq!(scene.digest_bytes(), sent);
    assert!(sent <= 300 * (VALUE_BYTES as u64 + 40) / 100, "{sent}");
}

#[test]
fn without_a_digest_nobody_is_told() {
    let mut scene = Scene::with_large_values(100);
    let client = scene.subscriber(0);
    let id = scene.start_by("handoff,digest=off", "SLOTS 0-16383", 1);
    scene.ask(1, "GET key1");
    let late = scene.subscriber(1);
    scene.finish(id);
    assert_eq!((scene.told(client).len(), scene.told(late).len(), scene.digest_bytes()), (0, 0, 0));
}

#[test]
fn a_subscription_needs_resp3_and_ends_with_it() {
    let mut scene = Scene::with_large_values(300);
    let plain = scene.cluster.connect(1, 0);
    assert_eq!(
        scene.cluster.ask(plain, "CLIENT CAPA sidle-given"),
        error("ERR CLIENT CAPA sidle needs RESP3: send HELLO 3 first")
    );
    let (reset, downgraded, again) = (scene.subscriber(0), scene.subscriber(0), scene.subscriber(0));
    assert_eq!(scene.cluster.ask(reset, "RESET"), Value::Simple("RESET".into()));
    scene.cluster.ask(downgraded, "HELLO 2");
    scene.cluster.ask(again, "HELLO 2");
    scene.cluster.ask(again, "HELLO 3");
    let stays = scene.subscriber(0);
    let gone = scene.subscriber(0);
    scene.cluster.disconnect(gone);
    let id = scene.start_by("handoff", "SLOTS 0-16383", 1);
    scene.finish(id);
    for client in [plain, reset, downgraded, again] {
        assert_eq!(scene.told(client).len(), 0);
    }
    assert!(!scene.told(stays).is_empty());
}

/// The client library's core, over connections that take no time.
struct Library {
    core: Core,
    wires: Vec<(ConnectionId, ClientKey, Vec<u8>)>,
    replies: Vec<Value>,
}

impl Library {
    fn new() -> Library {
        let config = Config::new(vec!["127.0.0.1:7001".parse().expect("an address")]);
        Library { core: Core::new(config), wires: Vec::new(), replies: Vec::new() }
    }

    /// Lets a little time pass.
    fn step(&mut self, cluster: &mut TestCluster) {
        let now = cluster.now().mono;
        let replies = &mut self.replies;
        let mut done = |_, outcome: Outcome<'_>| match outcome {
            Outcome::Reply(reply) => replies.push(reply.to_value()),
            Outcome::Failed(failure) => panic!("it fails: {failure:?}"),
        };
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle(now, Input::Tick, &mut done);
        }
        while let Some(event) = self.core.poll_event() {
            if let Event::Connect { connection, address } = event {
                let to = cluster.connect_raw(usize::from(address.port() - 7001), 0);
                self.wires.push((connection, to, Vec::new()));
                self.core.handle(now, Input::Connected(connection), &mut done);
            }
        }
        while let Some(connection) = self.core.poll_transmit() {
            let mut bytes = Vec::new();
            self.core.take_output(connection, &mut bytes);
            let wire = self.wires.iter().find(|wire| wire.0 == connection).expect("it is open");
            cluster.client(wire.1).send_raw(&bytes);
        }
        cluster.run_for(20);
        let now = cluster.now().mono;
        for (connection, to, input) in &mut self.wires {
            input.extend(cluster.client(*to).take_output());
            let consumed = self.core.received(now, *connection, input, &mut done);
            input.drain(..consumed);
        }
    }

    fn run_for(&mut self, cluster: &mut TestCluster, us: u64) {
        let until = cluster.now().mono.plus_us(us);
        while cluster.now().mono < until {
            self.step(cluster);
        }
    }

    fn get(&mut self, cluster: &mut TestCluster, key: &str) -> Value {
        self.core.get(cluster.now().mono, 0, HashedKey::new(key.as_bytes())).expect("one at a time");
        while self.replies.is_empty() {
            self.step(cluster);
        }
        self.replies.remove(0)
    }
}

/// How often the source sent a client of the library to the target, for keys that another client has taken.
fn trips_to_the_source(protocol: &str) -> Counters {
    let mut scene = Scene::with_large_values(500);
    let mut library = Library::new();
    library.run_for(&mut scene.cluster, 5_000);
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by(protocol, "SLOTS 0-16383", 1);
    let given = keys("key", 100);
    library.run_for(&mut scene.cluster, 50_000);
    for key in &given {
        assert!(matches!(scene.ask(1, &format!("GET {key}")), Value::Bulk(_)), "it is taken");
        library.step(&mut scene.cluster);
    }
    library.run_for(&mut scene.cluster, 20_000);
    for key in &given {
        assert!(matches!(library.get(&mut scene.cluster, key), Value::Bulk(_)));
    }
    let counters = library.core.counters();
    assert!(matches!(library.get(&mut scene.cluster, "key400"), Value::Bulk(_)), "the source keeps it");
    scene.finish(id);
    counters
}

#[test]
fn a_client_that_is_told_makes_no_second_trip() {
    let told = trips_to_the_source("handoff");
    let untold = trips_to_the_source("handoff,digest=off");
    assert_eq!((untold.given, untold.given_pushes, untold.given_learnt), (100, 0, 0));
    assert_eq!((told.given, told.given_learnt), (0, 100), "{told:?}");
    assert!((1..30).contains(&told.given_pushes), "{told:?}");
}
