//! Tests' drivers of a node, on virtual time: connections without sockets, whole nodes without threads.

mod client;
mod cluster;
mod hooks;
mod log;
mod network;
mod node;
mod part;
mod solo;

pub use client::{FORWARDED_BYTES, TestClient, Waits};
pub use cluster::{ClientKey, ClusterSetup, TestCluster};
pub use hooks::Hooks;
pub use log::TestLog;
pub use network::{LATENCY_US, Network};
pub use node::TestNode;
pub use part::{Command, Part};
pub use solo::{SoloNode, migration_spec, node_info, parts};
