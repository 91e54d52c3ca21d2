//! When bulk work of a migration may go on, without I/O.
//!
//! Each end of a migration has a [`Governor`]. It takes the mover's measurements of its node ([`Load`]) and
//! returns when the next pull may be sent or answered: now, or later. The migration's policy
//! ([`MigrationPolicy`](sidle_types::MigrationPolicy)) limits bulk work, within the [`Limits`] of the node's
//! operator. [`SpareCores`] and [`OwnTime`] turn clock readings into a [`Load`].
//!
//! # Invariants
//! - P1 Bulk work always makes progress: under any load and policy it earns something in every span of time.
//! - P2 Savings and debts are bounded, so that no burst follows a pause, and no standstill a burst.
//! - P3 Only bulk work is held back. Work that clients wait for (activation, priority pulls) skips the
//!   governor, but its processor time is charged.
//!
//! # Realises
//! Rocksteady 2.3.1: pulls and replay have the lowest priority, so that clients keep their latency.
//!
//! # Ownership
//! A governor belongs to a source or target machine, [`SpareCores`] and [`OwnTime`] to a mover: all on one
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
