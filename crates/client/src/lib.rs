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
//! node, or as many as [`Config::connections_per_node`] says. Operations started from any number of tasks are
//! pipelined: all that gather while the driver task waits for its turn leave in one write per connection, and
//! all replies of one read complete together. While a range of keys moves between nodes, reads go on without
//! waiting (`sidle-client-core` says how).
//!
//! One connection to each node carries the most work for the least processor time. Several let a node answer
//! side by side: on several of its threads, and while a command on one of them takes long. They share the map
//! and all that is learnt of running migrations, which several clients in one program would each have to
//! learn for themselves.
//!
//! [`Client::start`] sends an operation at once, awaited or not: start several and then await them to have
//! them travel together. The typed methods ([`Client::get`] and the like) send when they are first polled, as
//! async functions do. Operations that are under way at the same time may run in any order.
//!
//! **Ownership.** A task that [`Client::connect`] spawns on the present runtime owns the sockets and ends
//! with the last handle; a mutex, held for one operation's start or one batch of replies, guards the state
//! they share.

// The edge: what the pure crates are given as arguments is read here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod client;
mod command;
mod driver;
mod error;
mod link;
mod operations;
mod waiting;

pub use client::{Call, Client};
pub use error::Error;
pub use operations::{Condition, Expiry, SetOptions, SetOutcome};
pub use sidle_client_core::{Awareness, Config, Counters, Effect, Failure, Reason};
pub use sidle_resp::Value;
