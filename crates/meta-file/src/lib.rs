//! The cluster's metadata in one file: the embedded [`MetaStore`](sidle_cluster::MetaStore) of the process
//! that runs the coordinator.
//!
//! The store ([`FileMetaStore`]) works on a [`Medium`]: a [`FileMedium`] in the server, and in the simulator
//! a simulated disk that can crash between any two steps.

// I/O edge: files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod format;
mod medium;
mod store;

pub use format::{Unreadable, decode, encode};
pub use medium::{FileMedium, Medium, Whereabouts};
pub use store::FileMetaStore;
