//! Real nodes for tests: processes on free ports, killed when the test ends, and a small client that follows
//! redirections as Redis Cluster clients do.

#![allow(dead_code, unreachable_pub)] // each test program uses a part of it
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests run processes and read clocks

mod client;
mod node;
pub mod redis;

#[allow(unused_imports)] // each test program uses a part of it
pub use client::{Client, bulk};
#[allow(unused_imports)]
pub use node::{Node, NodeOptions, sidle};

use serde_json::Value as Json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time limit for anything in a test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The processors that a thread may run on, from this file of the kernel.
pub fn allowed_cpus(status: impl AsRef<std::path::Path>) -> String {
    let text = std::fs::read_to_string(status).expect("the thread is there");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("the kernel lists them").trim().to_owned()
}

/// The last processor that the test itself may run on.
pub fn last_cpu() -> String {
    let list = allowed_cpus("/proc/self/status");
    list.rsplit([',', '-']).next().expect("there is one").to_owned()
}

/// Calls `ready` until it returns something; panics after [`PATIENCE`].
pub fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stops workers, also if their test fails: a scope that waits for them would never end.
pub struct StopWhenDropped<'s>(pub &'s AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A cluster of real nodes. The first one runs the coordinator and owns everything at first.
pub struct TestCluster {
    /// The nodes, in the order they were started.
    pub nodes: Vec<Node>,
}

impl TestCluster {
    /// Starts nodes and waits until every one of them knows all.
    pub fn start(nodes: usize) -> TestCluster {
        TestCluster::start_with(nodes, &NodeOptions::default())
    }

    /// As [`start`](Self::start), with options for every node.
    pub fn start_with(nodes: usize, options: &NodeOptions) -> TestCluster {
        assert!(nodes > 0);
        let mut cluster = TestCluster { nodes: vec![Node::start(options)] };
        for _ in 1..nodes {
            cluster.join(options);
        }
        cluster
    }

    /// Adds a node and waits until every node knows it.
    pub fn join(&mut self, options: &NodeOptions) {
        self.join_some(options);
        self.wait_until_known(self.nodes.len());
    }

    /// The same where not all nodes are up.
    pub fn join_some(&mut self, options: &NodeOptions) {
        let first = self.nodes[0].address();
        let options = options.clone().flag("--join", &first);
        self.nodes.push(Node::start(&options));
    }

    /// Waits until every node answers that the cluster has this many members, all of them up.
    pub fn wait_until_known(&self, members: usize) {
        for node in &self.nodes {
            eventually("every node knows every other", || {
                let report = node.status()?;
                let nodes = report["nodes"].as_array()?;
                let all_up = nodes.iter().all(|node| node["state"] == "up");
                let slots = node.client().try_request(&["CLUSTER", "SLOTS"])?;
                let slots_known = matches!(slots, sidle_resp::Value::Array(_));
                (nodes.len() == members && all_up && slots_known).then_some(())
            });
        }
    }

    /// A client of node `index`.
    pub fn client(&self, index: usize) -> Client {
        self.nodes[index].client()
    }

    /// Starts a migration of slots through node 0 and returns its number.
    pub fn start_migration(&self, slots: &str, target: usize) -> u64 {
        self.start_migration_of("--slots", slots, target)
    }

    /// As [`start_migration`](Self::start_migration), with a range in `--slots` or in `--positions`.
    pub fn start_migration_of(&self, unit: &str, range: &str, target: usize) -> u64 {
        let to = self.nodes[target].address();
        let output = self.nodes[0].run(&["migrate", "--to", &to, unit, range, "--detach", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let begun: Json = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
        begun["id"].as_u64().expect("the id is a number")
    }

    /// Waits until a migration is over, and returns its last status.
    pub fn wait_for_migration(&self, id: u64) -> Json {
        eventually("the migration is over", || {
            let migration = self.migration(id)?;
            matches!(migration["state"].as_str()?, "done" | "failed" | "cancelled").then_some(migration)
        })
    }

    /// How a migration ended, by an operator at one of the nodes; panics with its status if it does not.
    pub fn migration_ended(&self, operator: &mut Client, id: i64) -> String {
        let id = id.to_string();
        let mut status = None;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let reply = operator.request(&["SIDLE.MIGRATE", "STATUS", &id]);
            status = reply.as_bytes().and_then(|text| serde_json::from_slice::<Json>(text).ok());
            let state = status.as_ref().and_then(|status| status["state"].as_str()).unwrap_or_default();
            if matches!(state, "done" | "failed" | "cancelled") {
                return state.to_owned();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("migration {id} is not over after {PATIENCE:?}: {status:?}")
    }

    /// Sets records that are never read, so that a migration takes a while: in all slots, and so many more
    /// with a tag.
    pub fn fill(&self, records: usize, (tag, tagged): (&str, usize)) {
        let filling = "x".repeat(100);
        let keys = (0..records).map(|number| format!("filling:{number}"));
        let keys: Vec<String> =
            keys.chain((0..tagged).map(|number| format!("{tag}filling:{number}"))).collect();
        let mut client = self.client(0);
        for some in keys.chunks(1000) {
            let requests: Vec<Vec<String>> =
                some.iter().map(|key| vec!["SET".to_owned(), key.clone(), filling.clone()]).collect();
            client.pipeline(&requests);
        }
    }

    /// The cluster's status of a migration.
    pub fn migration(&self, id: u64) -> Option<Json> {
        self.nodes.iter().find_map(|node| node.migration(id))
    }
}
