//! Sidle's client without input or output: routing, tracking of migrations, double reads.
//!
//! **Purpose.** [`Core`] takes operations and the bytes of replies, and returns the bytes of requests and
//! outcomes. It sends each operation to the owner of its key. While a key's range moves, it reads from the
//! target alone or from source and target at once, so that no read ever waits for a pull. It opens one or
//! several connections to each node, which share all knowledge.
//!
//! **Invariants.** M4: a source value is returned only if the target answered "not here yet" to the same
//! attempt and the source confirmed that it is frozen for the same migration id. Tracking of a migration
//! (MCR, SPH) only saves requests. It is bounded, ends with the migration, and an error in it costs a second
//! round trip, never a wrong answer. An operation that ends without an answer reports whether its effect is
//! none or unknown, and claims "none" only where it is certain.
//!
//! **Realises.** Fulva (sections III-B and IV-B: MCR, SPH, double-read), with its holes closed: "not here
//! yet" and "absent" are two answers, the source confirms the migration it is frozen for, and all tracking is
//! cleared between migrations. Deviation: no "sampling-pulled" bit; any answer of the target other than "not
//! here yet" proves as much.
//!
//! **Ownership.** One thread owns a `Core`; time is an argument.

mod answers;
mod config;
mod connection;
mod core;
mod counters;
mod deferred;
mod double_read;
mod event;
mod fingerprints;
mod index;
mod lifecycle;
mod links;
mod lossy_sets;
mod mcr;
mod once;
mod operation;
mod outcome;
#[cfg(test)]
mod pools;
mod redirect;
mod refresh;
#[cfg(test)]
mod register;
mod routing;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod script;
mod slots_map;
mod sph;
mod timers;
mod tracking;

pub use config::{Awareness, Config};
pub use connection::ConnectionId;
pub use core::{Busy, Core, Destination};
pub use counters::Counters;
pub use event::{Event, Input};
pub use once::{OnceRequests, completion_key};
pub use operation::Class;
pub use outcome::{Completions, Effect, Failure, Outcome, Reason, Token};
