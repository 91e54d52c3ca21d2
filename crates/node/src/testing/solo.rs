//! A node that owns everything: workers, connections, no cluster.

use super::TestClient;
use super::log::TestLog;
use crate::config::Config;
use crate::current_table::CurrentTable;
use crate::now::Now;
use crate::queue::{WorkerIndex, connect};
use crate::range_table::RangeTable;
use crate::shared::NodeParts;
use crate::shared::{NodeShared, ProcessFacts};
use crate::worker::Worker;
use sidle_cluster::{HostPort, NodeInfo, TabletMap};
use sidle_migration::{FULVA, MigrationSpec, Tuning};
use sidle_resp::Value;
use sidle_store::{Store, StoreConfig};
use sidle_testbed::fixtures::{node_id, node_info_at};
use sidle_types::{
    ImportId, MigrationId, MigrationPolicy, MonotonicUs, PositionRange, ProtocolVersion, TabletEpoch, WallMs,
};
use std::sync::Arc;

/// A member of a test cluster, identified by `number`.
pub fn node_info(number: u8) -> NodeInfo {
    let client_addr = HostPort::new("127.0.0.1", 7000 + u16::from(number)).expect("a good address");
    node_info_at(number, client_addr)
}

/// A migration by Fulva between two such members, in one part.
pub fn migration_spec(number: u64, range: PositionRange, source: u8, target: u8) -> MigrationSpec {
    MigrationSpec {
        id: MigrationId(number),
        import: ImportId(number),
        epoch: TabletEpoch(1),
        range,
        version: ProtocolVersion::CURRENT,
        source: node_id(source),
        source_life: 1,
        target: node_id(target),
        partitions: vec![range],
        protocol: FULVA,
        bytes: 0,
        policy: MigrationPolicy::default(),
        tuning: Tuning::default(),
    }
}

/// The parts shared by a test node's workers, movers and control.
pub fn parts(info: &NodeInfo, workers: u16, memory_bytes: u64) -> NodeParts {
    parts_of(info, workers, StoreConfig::with_memory(memory_bytes))
}

/// The same, of a store set up like this.
pub(super) fn parts_of(info: &NodeInfo, workers: u16, store: StoreConfig) -> NodeParts {
    let process = ProcessFacts {
        node: info.id,
        run_id: info.id,
        started_at: WallMs(0),
        process_id: 1,
        port: info.client_addr.port(),
        system: "test".into(),
        executable: "sidle".into(),
        config_file: String::new(),
    };
    let first = Arc::new(RangeTable::before_joining(info.clone()));
    NodeParts {
        store: Arc::new(Store::new(store).expect("a good configuration")),
        shared: Arc::new(NodeShared::new(Config::default(), usize::from(workers), process)),
        published: Arc::new(CurrentTable::new(workers, first)),
    }
}

/// A node on its own, with one worker.
pub struct SoloNode {
    /// What is shared.
    pub parts: NodeParts,
    /// The worker.
    pub worker: Worker,
    /// The time.
    pub now: Now,
}

impl SoloNode {
    /// A node that owns every position.
    pub fn new() -> SoloNode {
        SoloNode::with_memory(64 << 20)
    }

    /// A node that owns every position, with this much memory.
    pub fn with_memory(bytes: u64) -> SoloNode {
        SoloNode::of(parts(&node_info(1), 1, bytes))
    }

    /// The same, with a durable log that nobody writes.
    pub fn durable() -> SoloNode {
        SoloNode::recovered(64 << 20, &TestLog::default())
    }

    /// A node that owns every position, with this much memory, and what this durable log has. Whoever calls
    /// this has the log written.
    pub fn recovered(bytes: u64, log: &TestLog) -> SoloNode {
        let store = StoreConfig { is_durable: true, ..StoreConfig::with_memory(bytes) };
        let parts = parts_of(&node_info(1), 1, store);
        log.recover(&parts.store);
        SoloNode::of(parts)
    }

    fn of(parts: NodeParts) -> SoloNode {
        let info = node_info(1);
        let (mut ports, _) = connect(1, 1);
        let map = Arc::new(TabletMap::founded_by(info.clone()));
        let _ticket = parts.published.publish(Arc::new(RangeTable::new(info.id, map, &[], &[])));
        let worker = Worker::new(&parts, WorkerIndex(0), ports.remove(0), 1);
        let now = Now {
            mono: MonotonicUs(1_000_000),
            wall: WallMs(1_700_000_000_000),
            wall_micros: 0,
            reading_ns: 0,
        };
        SoloNode { parts, worker, now }
    }

    /// A new connection.
    pub fn connect(&self) -> TestClient {
        TestClient::connect(&self.parts.shared, self.now)
    }

    /// One request and its reply.
    ///
    /// # Panics
    /// If there is no reply at once.
    pub fn ask(&mut self, client: &mut TestClient, request: &str) -> Value {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        client.send(&args);
        while client.serve(&mut self.worker, self.now) {}
        client.receive().expect("a node that owns everything answers at once")
    }
}

impl Default for SoloNode {
    fn default() -> SoloNode {
        SoloNode::new()
    }
}
