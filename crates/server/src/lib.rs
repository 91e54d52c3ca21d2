//! Sockets, threads and clocks around a node.

// The edge: the arguments of the pure crates are read here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod address;
mod bus;
mod bus_error;
mod cleaner;
mod clock;
mod cluster_secret;
pub mod config;
mod control;
mod cpus;
mod data_dir;
mod descriptors;
mod door;
mod durable_log;
mod election;
mod exposure;
mod join;
mod last_map;
mod limits;
mod listener;
mod memory;
mod mover;
mod other_log;
mod output;
mod process;
mod repeated;
mod saver;
mod start;
mod thread;
mod users_file;
mod worker;

pub use cluster_secret::{Fault, SecretError, SecretFileError, create as create_cluster_secret};
pub use cpus::{CpusError, check_cpus};
pub use data_dir::DataDirError;
pub use descriptors::TooFewDescriptors;
pub use exposure::Exposed;
pub use listener::ListenError;
pub use memory::MemoryError;
pub use other_log::OtherLog;
pub use start::{StartError, keep_to_processors, run};
