//! Several whole nodes and their coordinator on virtual time, driven by real commands.
//!
//! Nothing here is random or real: time jumps to the next event, messages take a fixed time, and a test
//! decides what is held back, cut, or not given a turn.

use super::TestClient;
use super::log::TestLog;
use super::network::{Delivery, LATENCY_US, Network, Purpose, Sent, Side};
use super::node::TestNode;
use super::solo::node_info;
use crate::mover::Link;
use crate::now::Now;
use crate::queue::MoverIndex;
use sidle_cluster::{
    ClusterId, Coordinator, CoordinatorInput, Founding, Incarnation, MemoryMetaStore, NodeInfo, StartNumber,
};
use sidle_migration::Tuning;
use sidle_resp::Value;
use sidle_types::{MigrationId, MonotonicUs, NodeId, Speaks, WallMs};
use sidle_wire::Message;

/// A node's memory in its next incarnation.
const RESTARTED_MEMORY_BYTES: u64 = 64 << 20;

/// The setup of a test cluster.
#[derive(Clone, Debug)]
pub struct ClusterSetup {
    /// How many nodes.
    pub nodes: usize,
    /// How many workers each of them has.
    pub workers: u16,
    /// How much memory each of them has.
    pub memory_bytes: Vec<u64>,
    /// How migrations are carried out.
    pub tuning: Tuning,
    /// What the program spoke that founded it.
    pub founder_speaks: Speaks,
    /// Whether nodes have a durable log.
    pub is_durable: bool,
}

impl Default for ClusterSetup {
    fn default() -> ClusterSetup {
        ClusterSetup {
            nodes: 2,
            workers: 2,
            memory_bytes: vec![64 << 20; 3],
            tuning: Tuning::default(),
            founder_speaks: Speaks::THIS_BUILD,
            is_durable: false,
        }
    }
}

/// A test's connection, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientKey(pub usize);

/// Several nodes and their coordinator.
pub struct TestCluster {
    /// The nodes; the first one founds the cluster and owns everything.
    pub nodes: Vec<TestNode>,
    /// What connects them.
    pub network: Network,
    coordinator: Coordinator<MemoryMetaStore>,
    ids: Vec<NodeId>,
    tuning: Tuning,
    clients: usize,
    /// The wall clock at virtual time 0.
    pub wall_start_ms: u64,
}

impl TestCluster {
    /// A cluster whose nodes have all joined.
    pub fn new(setup: ClusterSetup) -> TestCluster {
        let infos: Vec<NodeInfo> = (0..setup.nodes).map(|index| node_info(index as u8 + 1)).collect();
        let founding = Founding {
            cluster: ClusterId::from_bits(1),
            first: infos[0].clone(),
            start: StartNumber(1),
            speaks: setup.founder_speaks,
        };
        let start = MonotonicUs(1);
        let coordinator = Coordinator::open(start, MemoryMetaStore::new(), founding, crate::read_protocol)
            .expect("an empty store opens");
        let mut cluster = TestCluster {
            ids: infos.iter().map(|info| info.id).collect(),
            nodes: Vec::new(),
            network: Network::at(start.0),
            coordinator,
            tuning: setup.tuning,
            clients: 0,
            wall_start_ms: 1_700_000_000_000,
        };
        let now = cluster.now();
        for (info, &memory_bytes) in infos.into_iter().zip(&setup.memory_bytes) {
            let log = setup.is_durable.then(TestLog::default);
            cluster.nodes.push(TestNode::new(info, setup.workers, memory_bytes, setup.tuning, now, log));
        }
        for node in &mut cluster.nodes {
            node.control.handle(now.mono, crate::control::ControlInput::Connected);
        }
        cluster.run_until("all nodes know of each other", |cluster| {
            let knows_all = |node: &TestNode| {
                let table = node.workers[0].ranges();
                table.is_joined() && table.map().nodes().len() == cluster.nodes.len()
            };
            cluster.nodes.iter().all(knows_all)
        });
        cluster
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        Now {
            mono: MonotonicUs(self.network.now_us),
            wall: WallMs(self.wall_start_ms + self.network.now_us / 1000),
            wall_micros: (self.network.now_us % 1000) as u16,
            reading_ns: 0,
        }
    }

    /// Does everything due at this instant.
    pub fn settle(&mut self) {
        // Far more rounds than any instant needs: what never settles is a fault.
        for _ in 0..100_000 {
            let now = self.now();
            let mut progress = false;
            while let Some(delivery) = self.network.receive() {
                progress = true;
                self.deliver(now, delivery);
            }
            for (index, node) in self.nodes.iter_mut().enumerate() {
                progress |= node.step(index, now, &self.ids, &mut self.network);
            }
            self.coordinator.handle(now.mono, CoordinatorInput::Timer);
            while let Some(message) = self.coordinator.poll_transmit() {
                self.network.send_to_node(message);
            }
            while self.coordinator.poll_event().is_some() {}
            if !progress {
                return;
            }
        }
        panic!("the cluster does not settle at {} us", self.network.now_us);
    }

    /// Does what is due now, then jumps to the next event, at most to `until_us`.
    pub fn advance(&mut self, until_us: u64) {
        self.settle();
        let now = self.now();
        let nodes = self.nodes.iter().filter_map(|node| node.next_timeout_us(now));
        let next = nodes
            .chain(self.network.next_arrival_us())
            .chain(self.coordinator.poll_timeout().map(|at| at.0))
            .min()
            .unwrap_or(until_us);
        self.network.now_us = next.clamp(self.network.now_us + 1, until_us.max(self.network.now_us + 1));
    }

    /// Lets so much time pass.
    pub fn run_for(&mut self, us: u64) {
        let until = self.network.now_us + us;
        while self.network.now_us < until {
            self.advance(until);
        }
        self.settle();
    }

    /// Lets time pass until something holds, at most a minute.
    ///
    /// # Panics
    /// If it does not.
    pub fn run_until(&mut self, what: &str, mut holds: impl FnMut(&mut TestCluster) -> bool) {
        let limit = self.network.now_us + 60_000_000;
        self.settle();
        while !holds(self) {
            assert!(self.network.now_us < limit, "it never happened that {what}");
            self.advance(limit);
            self.settle();
        }
    }

    fn deliver(&mut self, now: Now, delivery: Delivery) {
        match delivery {
            Delivery::Message(_, _, Sent::ToCoordinator(message)) => {
                self.coordinator.handle(now.mono, CoordinatorInput::Message(message));
            }
            Delivery::Message(_, _, Sent::ToNode(message)) => {
                let index = self.ids.iter().position(|&id| id == message.to);
                let node = &mut self.nodes[index.expect("the coordinator knows members only")];
                node.control.handle(now.mono, crate::control::ControlInput::Message(message));
            }
            Delivery::Opened(connection) => self.opened(now, connection),
            Delivery::Refused(connection) => {
                let Some(known) = self.network.connections.remove(&connection) else { return };
                let node = known.opener;
                match known.purpose {
                    Purpose::Lane(migration, lane) => {
                        self.mover(node, migration).connect_failed(now.mono, migration, lane);
                    }
                    Purpose::Forward { worker, link, .. } => {
                        self.nodes[node].workers[worker].forward_lost(now, link);
                    }
                }
            }
            Delivery::Closed(connection, to) => {
                let Some(known) = self.network.connections.get(&connection) else { return };
                let node = known.node(to);
                match known.purpose {
                    Purpose::Lane(migration, _) => {
                        self.mover(node, migration).closed(now.mono, Link(connection));
                    }
                    Purpose::Forward { worker, link, .. } if to == Side::Opener => {
                        self.nodes[node].workers[worker].forward_lost(now, link);
                    }
                    Purpose::Forward { .. } => {
                        if let Some((worker, client)) = self.nodes[node].forwarded.remove(&connection) {
                            self.nodes[node].drop_client(worker, client);
                        }
                    }
                }
            }
            Delivery::Message(connection, to, Sent::Bytes(bytes)) => {
                self.deliver_bytes(now, connection, to, &bytes);
            }
        }
    }

    fn opened(&mut self, now: Now, connection: u64) {
        let Some(known) = self.network.connections.get(&connection) else { return };
        let (opener, acceptor, purpose) = (known.opener, known.acceptor, known.purpose);
        match purpose {
            Purpose::Lane(migration, lane) => {
                self.mover(opener, migration).connected(now.mono, migration, lane, Link(connection));
            }
            Purpose::Forward { worker, link, version } => {
                let node = &mut self.nodes[acceptor];
                let client = TestClient::forwarded(&node.parts.shared, version, now);
                let on = connection as usize % node.workers.len();
                node.forwarded.insert(connection, (on, client));
                self.nodes[opener].workers[worker].forward_connected(now.mono, link);
            }
        }
    }

    fn deliver_bytes(&mut self, now: Now, connection: u64, to: Side, bytes: &[u8]) {
        let Some(known) = self.network.connections.get_mut(&connection) else { return };
        let node = known.node(to);
        let migration = match known.purpose {
            Purpose::Lane(migration, _) => migration,
            Purpose::Forward { worker, link, .. } if to == Side::Opener => {
                self.nodes[node].workers[worker].forward_received(now, link, bytes);
                return;
            }
            Purpose::Forward { .. } => {
                if let Some((_, client)) = self.nodes[node].forwarded.get_mut(&connection) {
                    client.send_raw(bytes);
                }
                return;
            }
        };
        let mut reader = std::mem::take(known.reader(to));
        reader.push(bytes);
        while let Some(frame) = reader.next_frame().expect("nodes send whole, sound frames") {
            let message = Message::parse(frame).expect("nodes send sound messages");
            if let Some(pending) = self.mover(node, migration).message(now.mono, Link(connection), message) {
                // Workers run while a mover replays: they see everything half done.
                self.nodes[node].step_workers(now);
                self.mover(node, migration).replay(now.mono, pending);
            }
        }
        if let Some(known) = self.network.connections.get_mut(&connection) {
            *known.reader(to) = reader;
        }
    }

    fn mover(&mut self, node: usize, migration: MigrationId) -> &mut crate::mover::Mover {
        let movers = &mut self.nodes[node].movers;
        let index = MoverIndex::of(migration, movers.len());
        &mut movers[usize::from(index.0)]
    }

    /// A node's machine fails, and its process begins anew: its durable log has what was synced.
    pub fn lose_power(&mut self, node: usize) {
        self.nodes[node].log.as_mut().expect("it has a durable log").lose_power();
        self.restart(node);
    }

    /// A node's process ends and another begins: it has lost its connections, and all knowledge but its
    /// identity and its durable log, if it has one.
    pub fn restart(&mut self, node: usize) {
        self.network.cut_off(node);
        let mut info = self.nodes[node].info.clone();
        let at = self.now().mono;
        self.coordinator.handle(at, CoordinatorInput::Disconnected { node: info.id });
        info.incarnation = Incarnation(info.incarnation.0 + 1);
        let (workers, now) = (self.nodes[node].workers.len() as u16, self.now());
        let log = self.nodes[node].log.take();
        self.nodes[node] = TestNode::new(info, workers, RESTARTED_MEMORY_BYTES, self.tuning, now, log);
        self.nodes[node].control.handle(now.mono, crate::control::ControlInput::Connected);
    }

    /// A new connection to a worker of a node.
    pub fn connect(&mut self, node: usize, worker: usize) -> ClientKey {
        let key = self.clients;
        self.clients += 1;
        let client = TestClient::connect(&self.nodes[node].parts.shared, self.now());
        self.nodes[node].clients.insert(key, (worker, client));
        ClientKey(key)
    }

    /// A new connection with Sidle's protocol.
    pub fn connect_aware(&mut self, node: usize, worker: usize) -> ClientKey {
        let key = self.connect(node, worker);
        self.ask(key, "HELLO 3");
        assert_eq!(self.ask(key, "CLIENT CAPA sidle"), Value::Simple("OK".into()));
        key
    }

    /// A new connection for a client that parses the bytes itself, from the greeting on.
    pub fn connect_raw(&mut self, node: usize, worker: usize) -> ClientKey {
        let key = self.connect(node, worker);
        self.client(key).keep_raw();
        key
    }

    /// The client closes a connection, even a waiting one.
    pub fn disconnect(&mut self, key: ClientKey) {
        for node in &mut self.nodes {
            if let Some((worker, client)) = node.clients.remove(&key.0) {
                node.drop_client(worker, client);
            }
        }
    }

    /// A connection.
    ///
    /// # Panics
    /// If there is none with this key.
    pub fn client(&mut self, key: ClientKey) -> &mut TestClient {
        let found = self.nodes.iter_mut().find_map(|node| node.clients.get_mut(&key.0));
        &mut found.expect("no such connection").1
    }

    /// Serves one connection now, and nothing else.
    pub fn serve_alone(&mut self, key: ClientKey) {
        let now = self.now();
        for node in &mut self.nodes {
            if let Some((worker, client)) = node.clients.get_mut(&key.0) {
                client.serve(&mut node.workers[*worker], now);
            }
        }
    }

    /// Sends a request, words separated by blanks, without waiting for the reply.
    pub fn send(&mut self, key: ClientKey, request: &str) {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.send_words(key, &args);
    }

    /// The same with words of any bytes.
    pub fn send_words(&mut self, key: ClientKey, words: &[&[u8]]) {
        self.client(key).send(words);
    }

    /// The reply to the oldest open request, if it arrives without time passing.
    pub fn reply_now(&mut self, key: ClientKey) -> Option<Value> {
        self.settle();
        self.client(key).receive()
    }

    /// The reply to the oldest open request.
    pub fn reply(&mut self, key: ClientKey) -> Value {
        let mut reply = None;
        self.run_until("a reply comes", |cluster| {
            reply = cluster.client(key).receive();
            reply.is_some()
        });
        reply.expect("it came")
    }

    /// Sends a request and waits for its reply.
    pub fn ask(&mut self, key: ClientKey, request: &str) -> Value {
        self.send(key, request);
        self.reply(key)
    }

    /// The time of a message to another node and back.
    pub const ROUND_TRIP_US: u64 = 2 * LATENCY_US;
}
