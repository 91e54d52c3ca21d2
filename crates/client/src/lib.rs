//! Sidle's client on tokio.
//!
//! ```no_run
//! use sidle_client::{Client, Error};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     // Any node of the cluster; the others are found.
//!     let client = Client::connect(&["127.0.0.1:6379"]).await?;
//!     client.set("greeting", "hello").await?;
//!     assert_eq!(client.get("greeting").await?.as_deref(), Some(&b"hello"[..]));
//!
//!     // Started together, sent together.
//!     let calls = [client.start(&[b"INCR", b"a"]), client.start(&[b"INCR", b"b"])];
//!     for call in calls {
//!         println!("{:?}", call.await?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A password goes into [`Config::credentials`], for [`Client::connect_with`].
//!
//! **Purpose.** [`Client`] is a handle, cheap to clone, to the connections of one application: one to each
//! node, or [`Config::connections_per_node`]. Operations from any number of tasks are pipelined. All that are
//! started before the driver task's turn leave in one write per connection, and all replies of one read
//! complete together. While a range of keys moves between nodes, reads go on without waiting (see
//! `sidle-client-core`).
//!
//! One connection to each node is the cheapest in processor time. Several let a node answer in parallel, on
//! several threads and beside a slow command. They share the map and what is known of running migrations,
//! which several clients in one program would each have to learn.
//!
//! [`Client::start`] sends an operation at once, awaited or not: start several, then await them, to send them
//! together. The typed methods ([`Client::get`] and others) send when first polled, like async functions.
//! Operations under way at the same time may run in any order.
//!
//! [`Client::exec_once`] runs a command exactly once, however often it has to be sent: over lost connections,
//! deaths of nodes, and moves of its keys.
//!
//! [`Client::transact`] runs a closure as a transaction over any keys, on any nodes: what it reads has not
//! changed when its writes are made, all of them or none. It is tried again where another one was in its way.
//!
//! **Ownership.** A task that [`Client::connect`] spawns on the current runtime owns the sockets and ends
//! with the last handle. A mutex guards the shared state; it is held for the start of one operation or one
//! batch of replies.

// I/O edge: it reads the clocks and sockets whose values pure crates take as arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod client;
mod clock;
mod command;
mod course;
mod driver;
mod error;
mod link;
mod numbers;
mod once;
mod operations;
mod resolve;
mod transact;
mod transaction;
mod transaction_error;
mod waiting;

pub use client::{Call, Client};
pub use error::Error;
pub use operations::{Condition, Expiry, SetOptions, SetOutcome};
pub use resolve::{Resolution, UnansweredKey, resolve};
pub use sidle_client_core::{Awareness, Config, Counters, Effect, Failure, Reason};
pub use sidle_resp::Value;
pub use transact::TransactPolicy;
pub use transaction::{Committed, Transaction};
pub use transaction_error::{Conflict, TransactionError};
