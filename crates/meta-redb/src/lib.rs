//! The cluster's metadata in a redb file: the embedded [`MetaStore`](sidle_cluster::MetaStore) of the process
//! that runs the coordinator.
//!
//! The store works on a [`Medium`]: a [`FileMedium`] in the server, a simulated disk in the simulator, which
//! crashes it between any two writes.

// The edge: files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod medium;
mod store;

pub use medium::{FileMedium, Medium, Whereabouts};
pub use redb::StorageBackend;
pub use store::RedbMetaStore;
