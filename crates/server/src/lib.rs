//! Sockets, threads and clocks around a node.

pub mod address;
pub mod config;
