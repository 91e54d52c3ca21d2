//! The cluster's metadata in etcd, and which of several nodes coordinates.
//!
//! etcd is reached through its JSON gateway, by requests that each have a deadline: nothing waits on a
//! stream. [`EtcdElection`] campaigns; whoever wins gets an [`EtcdMetaStore`] for its term.
//!
//! # Keys
//! | key | value |
//! |---|---|
//! | `/sidle/NAME/leader` | what the leader announced; it lies under the leader's lease |
//! | `/sidle/NAME/metadata` | a line with term and number of the commit, then the text that a file would hold |
//!
//! # Invariants
//! 1. A commit is one transaction, and is taken only if the leader's key is still the one that this process
//!    made (its creation revision, which is the term) and the metadata is what this process saw last (its
//!    modification revision). So a leader that was replaced changes nothing, whatever it believes.
//! 2. An answer that does not come proves nothing. What is stored then says by term and number whether it is
//!    this process's commit.
//! 3. A request that was lost and is repeated, or comes late, finds another modification revision: no commit
//!    is made twice, or after a later one.

// I/O edge: sockets and clocks.
#![allow(clippy::disallowed_methods)]

mod election;
mod gateway;
mod kv;
mod location;
mod store;
mod value;

pub use election::EtcdElection;
pub use location::{EtcdLocation, LocationError};
pub use store::{EtcdMetaStore, MAX_VALUE_BYTES};
