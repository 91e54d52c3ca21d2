//! Commands' durations: the time itself, its distribution, and slow commands.
//!
//! The driver of the node owns the clock. A [`Worker`](crate::Worker) gets a stopwatch and reads it around
//! what it runs: once after each batch, and around those of its commands that may take longer ([`Lap`]).
//! Durations go to the command's counters ([`Latencies`]), long ones also to SLOWLOG ([`SlowLog`]) and
//! LATENCY ([`Spikes`]).

mod graph;
mod lap;
mod latencies;
mod slow_log;
mod spikes;
mod thresholds;

pub(crate) use graph::{extremes, graph};
pub(crate) use lap::{Lap, Spent};
pub(crate) use latencies::{Distribution, Latencies};
pub(crate) use slow_log::{SlowEntry, SlowLog, is_secret, shown_arguments};
pub(crate) use spikes::{Spike, Spikes, event_of};
pub(crate) use thresholds::{Thresholds, percentiles};
