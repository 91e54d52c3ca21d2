//! The common parts of the programs' command lines: how a program ends ([`exit`]) and is interrupted
//! ([`interrupt`]), how its [`mod@line`] and its numbers are read ([`numbers`]), tables printed ([`table`])
//! and results written ([`output`]), and the commands of both: a node ([`server`]) and a demonstration
//! ([`demo`], [`bank`], [`tpcc`]), which starts its nodes from its own program.

// Programs at the edge read clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bank;
pub mod conclusion;
pub mod demo;
pub mod exit;
#[cfg(feature = "testing")]
pub mod flag_checks;
pub mod interrupt;
pub mod line;
pub mod load;
#[cfg(feature = "testing")]
pub mod named;
pub mod numbers;
pub mod output;
mod own_program;
pub mod server;
pub mod table;
pub mod tpcc;
pub mod transactions;

pub use own_program::own_program;

/// A runtime for commands that wait for sockets or signals.
///
/// # Errors
/// The system refuses it.
pub fn runtime() -> Result<tokio::runtime::Runtime, exit::Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| exit::Failure::refused(format!("cannot start: {error}")))
}
