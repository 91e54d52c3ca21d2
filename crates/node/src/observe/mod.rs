//! What commands took: the time itself, its distribution, and what took long.
//!
//! The clock belongs to whoever drives the node. A [`Worker`](crate::Worker) is given a stopwatch and reads
//! it at the edges of what it runs: once behind each batch, and around the commands of a batch that may take
//! longer than the others ([`Lap`]). What is measured goes to the command's counters ([`Latencies`]), and
//! where it is long to SLOWLOG ([`SlowLog`]) and LATENCY ([`Spikes`]).

mod lap;
mod latencies;
mod slow_log;
mod spikes;
mod thresholds;

pub(crate) use lap::{Lap, Spent};
pub(crate) use latencies::{Distribution, Latencies};
pub(crate) use slow_log::{SlowEntry, SlowLog, shown_arguments};
pub(crate) use spikes::{Spikes, event_of};
pub(crate) use thresholds::{Thresholds, percentiles};
