//! What the dispatcher remembers of a connection.

use crate::flush::Flush;
use crate::forward::Progress;
use crate::progress_reports::ProgressReports;
use crate::queue::Ticket;
use crate::routing::Asked;
use sidle_types::MapEpoch;

/// What the dispatcher remembers of a connection.
#[derive(Debug, Default)]
pub(crate) struct RouteState {
    /// The newest map that an opted-in client was told of.
    pub(crate) map_told: MapEpoch,
    /// What an opted-in client was told of each running migration.
    pub(crate) told: ProgressReports,
    /// The ticket of the request that waits, or has been woken and not run since.
    pub(crate) ticket: Option<Ticket>,
    /// Of the request that waits: which of its keys were asked of which import.
    pub(crate) asked: Asked,
    /// Of the request that is run again: which of its keys an import has answered for. What the store does
    /// not have of these is absent, even if the mark that said so has made way since.
    pub(crate) settled: Asked,
    /// Whether the request that is run again has waited as long as it would.
    pub(crate) waited_out: bool,
    /// How far a FLUSHALL has come that works in steps.
    pub(crate) flush: Option<Flush>,
    /// What its steps have taken so far.
    pub(crate) spent_ns: u64,
    /// How far a command has come that other nodes run, or run parts of.
    pub(crate) forward: Option<Box<Progress>>,
}
