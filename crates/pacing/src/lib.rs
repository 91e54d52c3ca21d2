//! When bulk work of a migration may go on, without input or output.
//!
//! Each end of a migration has a [`Governor`]. It takes in what the mover measures of its node ([`Load`]) and
//! says when the next pull may go out or be answered: now, or later. How hard bulk work may press is the
//! migration's policy ([`MigrationPolicy`](sidle_types::MigrationPolicy)), within the [`Limits`] of the
//! node's operator. [`SpareCores`] and [`OwnTime`] turn readings of clocks into what a [`Load`] needs.
//!
//! # Invariants
//! - P1 Bulk work always goes on in the end: whatever the load and the policy, something is earned in every
//!   span of time.
//! - P2 What is saved up and what is owed are bounded, so that a pause is not followed by a burst, nor a
//!   burst by a standstill.
//! - P3 Only bulk work is held back. What somebody waits for (activation, priority pulls) asks no governor;
//!   what it takes of the mover's time is charged all the same.
//!
//! # Realises
//! Rocksteady 2.3.1: pulls and replay have the lowest priority, so that clients keep their latency.
//!
//! # Ownership
//! A governor belongs to a source or target machine, [`SpareCores`] and [`OwnTime`] to a mover: all of one
//! thread.

mod cpu_account;
mod cpu_share;
mod governor;
mod own_time;
mod rate_limit;
mod slo;
mod spare_cores;

pub use cpu_share::{Load, probe_after_us};
pub use governor::{Governor, Limits, Pace};
pub use own_time::OwnTime;
pub use spare_cores::{CpuUsed, SPARE_REST_US, SPARE_WINDOW_US, SpareCores};
