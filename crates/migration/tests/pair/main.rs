//! Scenarios of one migration on virtual time: a source and a target machine with their stores, workers that follow the
//! node's rules at both ends, and links with faults. One test per edge case of the design, one per reordering, and
//! hundreds of seeded random runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
#[cfg(feature = "bug-switches")]
mod bugs;
mod checks;
mod copies;
mod faults;
mod model;
mod net;
mod phases;
mod protocols;
mod pulls;
mod random;
mod records;
mod refusals;
mod rng;
mod workers;
mod world;
