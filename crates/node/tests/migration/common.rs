//! A cluster of two or three nodes with keys, and migrations stopped at the tested point.

use sidle_migration::{Copies, ExportPhase, ExportView, FULVA, PROTOCOLS, ProtocolChoices, Serves};
use sidle_node::testing::{ClientKey, ClusterSetup, TestCluster};
use sidle_resp::Value;
use sidle_types::{MigrationId, Position, Slot};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

pub(crate) fn int(number: i64) -> Value {
    Value::Integer(number)
}

pub(crate) fn ok() -> Value {
    Value::Simple("OK".into())
}

pub(crate) fn error(text: &str) -> Value {
    Value::Error(text.into())
}

/// `MOVED` to the node with this index.
pub(crate) fn moved(key: &str, node: usize) -> Value {
    error(&format!("MOVED {} 127.0.0.1:{}", Slot::of_key(key.as_bytes()), 7001 + node))
}

/// `ASK` to the node with this index.
pub(crate) fn ask(key: &str, node: usize) -> Value {
    error(&format!("ASK {} 127.0.0.1:{}", Slot::of_key(key.as_bytes()), 7001 + node))
}

/// Runs a scenario with every protocol, each time in a new scene, and names those that fail.
pub(crate) fn for_every_protocol(story: impl Fn(Scene)) {
    for_protocols_that(|_| true, 2, story);
}

/// The same with protocols that make a choice (at least one), and so many nodes.
pub(crate) fn for_protocols_that(
    choose: impl Fn(&ProtocolChoices) -> bool,
    nodes: usize,
    story: impl Fn(Scene),
) {
    let chosen: Vec<ProtocolChoices> = PROTOCOLS.iter().copied().copied().filter(choose).collect();
    assert!(!chosen.is_empty(), "no protocol has that choice");
    let fails = |protocol: &ProtocolChoices| {
        let scene =
            Scene { protocol: *protocol, ..Scene::of(ClusterSetup { nodes, ..ClusterSetup::default() }) };
        catch_unwind(AssertUnwindSafe(|| story(scene))).is_err()
    };
    let failed: Vec<&str> =
        chosen.iter().filter(|protocol| fails(protocol)).map(|protocol| protocol.name).collect();
    assert!(failed.is_empty(), "it fails with {}", failed.join(", "));
}

/// The source serves while its records are copied.
pub(crate) fn copies_ahead(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeFreeze(_))
}

/// The source is frozen before anything is copied: from then on the target is the owner.
pub(crate) fn freezes_first(protocol: &ProtocolChoices) -> bool {
    !copies_ahead(protocol) && !by_cuts(protocol)
}

/// The range is given bit by bit: both ends serve, each its own.
pub(crate) fn by_cuts(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeCuts(_))
}

/// The target serves while records arrive.
pub(crate) fn serves_while_it_fills(protocol: &ProtocolChoices) -> bool {
    protocol.serves == Serves::AtActivation
}

/// A cluster with a connection to the first worker of every node.
pub(crate) struct Scene {
    pub(crate) cluster: TestCluster,
    pub(crate) to: Vec<ClientKey>,
    /// The protocol of migrations without one.
    pub(crate) protocol: ProtocolChoices,
    /// The target of the last one.
    pub(crate) target: usize,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::of(ClusterSetup::default())
    }

    pub(crate) fn of(setup: ClusterSetup) -> Scene {
        let nodes = setup.nodes;
        let mut cluster = TestCluster::new(setup);
        let to = (0..nodes).map(|node| cluster.connect(node, 0)).collect();
        Scene { cluster, to, protocol: FULVA, target: 1 }
    }

    /// Sends a request to a node and waits for the reply.
    pub(crate) fn ask(&mut self, node: usize, request: &str) -> Value {
        self.cluster.ask(self.to[node], request)
    }

    /// A client's request in the middle of a held migration: it asks the target, and follows a redirection.
    /// If the protocol serves nothing meanwhile, it waits until everything is released, and nothing is held
    /// any more.
    pub(crate) fn client(&mut self, request: &str) -> Value {
        let to = self.to[self.target];
        self.cluster.send(to, request);
        let at_once = self.cluster.reply_now(to);
        if self.cluster.network.hold_bulk
            && !copies_ahead(&self.protocol)
            && !serves_while_it_fills(&self.protocol)
            && !by_cuts(&self.protocol)
        {
            assert_eq!(at_once, None, "{request} is answered while the range moves");
            self.cluster.network.release();
        }
        match at_once {
            Some(Value::Error(text)) if text.starts_with("MOVED ") => {
                let port: usize = text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
                self.ask(port - 7001, request)
            }
            Some(reply) => reply,
            None => self.cluster.reply(to),
        }
    }

    /// Sets these keys, through the first node.
    pub(crate) fn fill(&mut self, keys: impl IntoIterator<Item = String>) {
        for key in keys {
            assert_eq!(self.ask(0, &format!("SET {key} old-{key}")), ok());
        }
    }

    /// Requests a migration of all slots to a node; it runs once the coordinator starts it.
    pub(crate) fn start(&mut self, span: &str, to: usize) -> MigrationId {
        self.start_by(self.protocol.name, span, to)
    }

    /// The same by any protocol. One that copies before the freeze is copying when this returns.
    pub(crate) fn start_by(&mut self, protocol: &str, span: &str, to: usize) -> MigrationId {
        self.target = to;
        let request = format!("SIDLE.MIGRATE START {span} TO 127.0.0.1:{} PROTOCOL {protocol}", 7001 + to);
        match self.ask(0, &request) {
            Value::Integer(id) => MigrationId(id as u64),
            other => panic!("the migration is refused: {other:?}"),
        }
    }

    /// Starts a migration and runs it to its middle: bulk frames are held from here on. The source is frozen,
    /// nothing has arrived, and the target serves if the protocol allows. Or the copy is complete, except for
    /// later changes.
    pub(crate) fn start_and_hold(&mut self, span: &str, to: usize) -> MigrationId {
        if copies_ahead(&self.protocol) {
            return self.copy_and_hold(span, to);
        }
        self.cluster.network.hold_bulk = true;
        let id = self.start(span, to);
        self.cluster.run_until("the source is frozen", |cluster| {
            let table = cluster.nodes[to].workers[0].ranges();
            let is_exported = |view: &ExportView| view.phase() >= ExportPhase::Tracking;
            let tables = || cluster.nodes.iter().map(|node| node.workers[0].ranges());
            let is_given = |view: &Arc<ExportView>| view.id() == id && is_exported(view);
            let gives = || tables().any(|table| table.exports().any(is_given));
            table.import(id).is_some_and(|view| view.source_is_frozen() || view.is_by_cuts() && gives())
        });
        id
    }

    /// Starts a migration that copies before the freeze, and completes the copy, except for later changes:
    /// bulk frames are held then.
    pub(crate) fn copy_and_hold(&mut self, span: &str, to: usize) -> MigrationId {
        assert!(copies_ahead(&self.protocol));
        self.cluster.network.hold_bulk = true;
        let id = self.start(span, to);
        self.cluster.network.release();
        self.cluster.run_until("all is copied", |cluster| !cluster.nodes[to].parts.store.is_empty());
        self.cluster.network.hold_bulk = true;
        self.cluster.run_for(5_000);
        id
    }

    /// Starts a migration of all slots to node 1 that waits to be frozen: one of the source's workers has not
    /// passed the barrier.
    pub(crate) fn start_and_hold_freeze(&mut self) -> MigrationId {
        let hold = |scene: &mut Scene| scene.cluster.nodes[0].held_workers = vec![1];
        if !copies_ahead(&self.protocol) {
            hold(self);
        }
        let id = self.start("SLOTS 0-16383", 1);
        // For a copy made ahead that is the second barrier.
        hold(self);
        self.cluster
            .run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
        self.cluster.run_for(5_000);
        id
    }

    /// Releases everything, and waits for the end of the migration.
    pub(crate) fn finish(&mut self, id: MigrationId) {
        self.cluster.network.release();
        self.cluster.run_until("the migration is over", |cluster| {
            cluster.nodes.iter().all(|node| {
                let table = node.workers[0].ranges();
                table.map().migration(id).is_none() && table.import(id).is_none()
            })
        });
        // Memory and tombstones are freed in slices.
        self.cluster.run_for(1_000_000);
    }

    pub(crate) fn state(&mut self, id: MigrationId) -> String {
        self.status(id)["state"].as_str().expect("a state").to_owned()
    }

    pub(crate) fn status(&mut self, id: MigrationId) -> serde_json::Value {
        let Value::Bulk(json) = self.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else {
            panic!("no status")
        };
        serde_json::from_slice(&json).expect("JSON")
    }
}

/// So many keys with different hash tags, `prefix` in front.
pub(crate) fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}{index}")).collect()
}

/// The position of a key.
pub(crate) fn position(key: &str) -> Position {
    Position::of_key(key.as_bytes())
}

/// The lower and the upper half of the slot of `{tag}`, as arguments of a migration.
pub(crate) fn halves_of_the_slot() -> (String, String) {
    let slot = Slot::of_key(b"{tag}");
    let (first, last) = (Position::first_of(slot), Position::last_of(slot));
    let middle = middle_of_the_slot();
    (format!("POSITIONS {first}-{}", Position(middle.0 - 1)), format!("POSITIONS {middle}-{last}"))
}

fn middle_of_the_slot() -> Position {
    Position(Position::first_of(Slot::of_key(b"{tag}")).0 + (1 << (Position::HASH_BITS - 1)))
}

/// So many keys of the slot of `{tag}` in its lower half, and as many in its upper half.
pub(crate) fn keys_of_both_halves(count: usize) -> (Vec<String>, Vec<String>) {
    let (below, above): (Vec<String>, Vec<String>) =
        keys("{tag}", 100).into_iter().partition(|key| position(key) < middle_of_the_slot());
    (below[..count].to_vec(), above[..count].to_vec())
}

/// A key of each half, and the upper half.
pub(crate) fn pair_in_one_slot() -> (String, String, String) {
    let (below, above) = keys_of_both_halves(1);
    (below[0].clone(), above[0].clone(), halves_of_the_slot().1)
}
