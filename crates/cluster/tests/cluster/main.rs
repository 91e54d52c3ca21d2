//! The coordinator and its nodes together, on virtual time.
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod bounds;
mod copies;
mod given_back;
mod health;
mod hostile;
mod lives;
mod log_copies;
mod members;
mod migrations;
mod named_faults;
mod reclaims;
mod refusals;
mod restarts;
mod takeovers;
mod terms;
mod turned_back;
mod versions;
mod world;
