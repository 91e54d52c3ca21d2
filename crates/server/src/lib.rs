//! Sockets, threads and clocks around a node.

// The edge: what the pure crates are given as arguments is read here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod address;
pub mod config;
