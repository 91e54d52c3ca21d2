//! What every store of the cluster's metadata promises, asked of each of them: in memory, in a file, in etcd.
//! A test whose etcd is not installed prints that it was skipped.

#![allow(clippy::disallowed_methods)] // real sockets, processes and clocks

#[path = "../support/etcd.rs"]
mod etcd;
mod in_etcd;
mod lossy;
mod promises;
mod worlds;
