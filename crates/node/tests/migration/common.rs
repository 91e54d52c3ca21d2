//! A cluster of two or three nodes with keys in it, and migrations stopped at the point that a test is about.

use sidle_node::testing::{ClientKey, ClusterSetup, TestCluster};
use sidle_resp::Value;
use sidle_types::{MigrationId, Position, Slot};

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

/// The protocol that copies before the freeze.
pub(crate) const AHEAD: &str = "source-driven";

/// A cluster with a connection to the first worker of every node.
pub(crate) struct Scene {
    pub(crate) cluster: TestCluster,
    pub(crate) to: Vec<ClientKey>,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::of(ClusterSetup::default())
    }

    pub(crate) fn of(setup: ClusterSetup) -> Scene {
        let nodes = setup.nodes;
        let mut cluster = TestCluster::new(setup);
        let to = (0..nodes).map(|node| cluster.connect(node, 0)).collect();
        Scene { cluster, to }
    }

    /// Sends a request to a node and waits for the reply.
    pub(crate) fn ask(&mut self, node: usize, request: &str) -> Value {
        self.cluster.ask(self.to[node], request)
    }

    /// Sets these keys, by way of the first node.
    pub(crate) fn fill(&mut self, keys: impl IntoIterator<Item = String>) {
        for key in keys {
            assert_eq!(self.ask(0, &format!("SET {key} old-{key}")), ok());
        }
    }

    /// Asks for a migration of all slots to a node; it runs once the coordinator has its way.
    pub(crate) fn start(&mut self, span: &str, to: usize) -> MigrationId {
        self.start_by("fulva", span, to)
    }

    /// The same by any protocol. One that copies before the freeze has begun to when this returns.
    pub(crate) fn start_by(&mut self, protocol: &str, span: &str, to: usize) -> MigrationId {
        let request = format!("SIDLE.MIGRATE START {span} TO 127.0.0.1:{} PROTOCOL {protocol}", 7001 + to);
        match self.ask(0, &request) {
            Value::Integer(id) => MigrationId(id as u64),
            other => panic!("the migration is refused: {other:?}"),
        }
    }

    /// Starts a migration and lets it come to the point where the target serves and nothing has arrived: bulk frames
    /// are held from here on.
    pub(crate) fn start_and_hold(&mut self, span: &str, to: usize) -> MigrationId {
        self.cluster.network.hold_bulk = true;
        let id = self.start(span, to);
        self.cluster.run_until("the target serves", |cluster| {
            let table = cluster.nodes[to].workers[0].ranges();
            table.import(id).is_some_and(|view| view.activated())
        });
        id
    }

    /// Starts a migration that copies before the freeze, and lets the copy be made but for what changes from here on: bulk
    /// frames are held then.
    pub(crate) fn copy_and_hold(&mut self, span: &str, to: usize) -> MigrationId {
        self.cluster.network.hold_bulk = true;
        let id = self.start_by(AHEAD, span, to);
        self.cluster.network.release();
        self.cluster.run_until("all is copied", |cluster| !cluster.nodes[to].parts.store.is_empty());
        self.cluster.network.hold_bulk = true;
        self.cluster.run_for(5_000);
        id
    }

    /// Lets everything through again, and waits for the end of the migration.
    pub(crate) fn finish(&mut self, id: MigrationId) {
        self.cluster.network.release();
        self.cluster.run_until("the migration is over", |cluster| {
            cluster.nodes.iter().all(|node| {
                let table = node.workers[0].ranges();
                table.map().migration(id).is_none() && table.import(id).is_none()
            })
        });
        // Memory goes back in slices, and tombstones too.
        self.cluster.run_for(1_000_000);
    }

    pub(crate) fn state(&mut self, id: MigrationId) -> String {
        let Value::Bulk(json) = self.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else {
            panic!("no status")
        };
        let status: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        status["state"].as_str().expect("a state").to_owned()
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
