//! What tests drive a node with, on virtual time: connections without sockets, whole nodes without threads.

mod client;
mod hooks;
mod solo;

pub use client::{TestClient, Waits};
pub use hooks::Hooks;
pub use solo::{SoloNode, node_info, parts};
