//! A bank on real nodes: transactions over all of them, while ranges move, nodes die and clients vanish.
//!
//! Clients transfer money between accounts on all nodes, by transactions; others sum all accounts up, by
//! transactions too. The sum is always the same.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod bank;
mod dead_clients;
mod execs;
mod kills;
mod moves;
mod shared_client;
#[path = "../support/mod.rs"]
mod support;
