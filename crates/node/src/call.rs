//! One of the node's own commands in execution: its inputs ([`Call`]) and its end ([`Flow`]).
//!
//! Commands over keys get [fewer](sidle_commands::Call), and end more simply.

use crate::locks::awaits_transaction;
use crate::outcome::ControlRequest;
use crate::queue::WorkerIndex;
use crate::range_table::RangeTable;
use crate::session::Session;
use crate::shared::NodeShared;
use crate::stats::WorkerStats;
use sidle_resp::ReplyWriter;
use sidle_store::Store;
use sidle_types::{HashedKey, MigrationId, MonotonicUs, PositionRange, WallMs};
use std::sync::Arc;

pub use sidle_commands::ReplyError;

/// What a command works with.
pub struct Call<'a> {
    /// The whole request, name first.
    pub args: &'a [&'a [u8]],
    /// The data.
    pub store: &'a Arc<Store>,
    /// The wall clock at the start of the loop's turn; decides expiry.
    pub now: WallMs,
    /// The monotonic clock at the same instant; for what ends by itself.
    pub mono: MonotonicUs,
    /// The worker that runs it.
    pub worker: WorkerIndex,
    /// Fresh random bits.
    pub random: u64,
    /// Where the reply goes. Nothing may be written before an error is returned.
    pub reply: ReplyWriter<'a>,
    /// The connection.
    pub session: &'a mut Session,
    /// The counters of this worker.
    pub stats: &'a WorkerStats,
    /// What all workers of the node share.
    pub shared: &'a NodeShared,
    /// Who owns what; for commands that look at the whole node or at the cluster.
    pub ranges: &'a RangeTable,
    /// The command is part of a transaction, which holds locks: of all slots if it counts keys.
    pub(crate) is_locked: bool,
}

/// How a command ended without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The reply is written.
    Done,
    /// The reply is written; the connection closes once it is sent.
    Close,
    /// Nothing is written. The dispatcher discards every key of this node, in slices, and then replies `OK`.
    Flush,
    /// Nothing is written. The command runs again when these positions have arrived, or its patience ends.
    Await(Awaited),
    /// Nothing is written. The command runs again with the next range table: some of this node's keys are
    /// being taken over from a dead node (R5).
    AwaitTable,
    /// Nothing is written. The command runs again when one of its keys has changed, or so many milliseconds
    /// are over; 0: without an end.
    Block(u64),
    /// Nothing is written. The command runs again when the other connections had their turn.
    GoesOn,
    /// Nothing is written. The command runs again when a hold of its keys has ended (F8).
    Held,
    /// Nothing is written. The process ends, and the client sees its connection close.
    Shutdown,
    /// Nothing is written. The control thread has the reply.
    Control(ControlRequest),
}

/// Positions of an import that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The migration that brings them.
    pub migration: MigrationId,
    /// The positions.
    pub range: PositionRange,
    /// How long it waits at most, in microseconds.
    pub patience_us: u64,
}

/// How long a command waits for all keys of a slot, or of the node.
pub(crate) const WHOLE_PATIENCE_US: u64 = 10_000_000;

/// What a command returns.
pub type CommandResult = Result<Flow, ReplyError>;

const WENT_ON: ReplyError = ReplyError::text(
    "TRYAGAIN Keys of these slots were arriving from another node, and belong to another one now: ask again",
);

const STILL_ARRIVING: ReplyError = ReplyError::text(
    "TRYAGAIN Keys of these slots are still arriving from another node: ask again later, or use SCAN",
);

/// What is there is not known: a copy of a dead node's log cannot be read for now.
pub(crate) const UNREADABLE: ReplyError = ReplyError::text(
    "CLUSTERDOWN Hash slot not served: this node cannot read yet what it takes over from a dead node",
);

impl Call<'_> {
    /// Waits until all of the range that this node owns has arrived; `None` when it has. The store's answer
    /// is final from then on. An error if that takes too long, or if what it waited for is not this node's
    /// any more: whoever asked the other node before, and this one now, would find it at neither.
    pub(crate) fn await_arrival(&self, range: PositionRange) -> Result<Option<Flow>, ReplyError> {
        let route = &self.session.route;
        if route.awaited.is_some_and(|awaited| !self.ranges.has(awaited)) {
            return Err(WENT_ON);
        }
        if self.ranges.is_unreadable(range) {
            return Err(UNREADABLE);
        }
        if self.ranges.is_taking_over(range) {
            return Ok(Some(Flow::AwaitTable));
        }
        match self.ranges.awaited_in(range) {
            Some(_) if route.waited_out => Err(STILL_ARRIVING),
            awaited => Ok(awaited.map(|(migration, range)| {
                Flow::Await(Awaited { migration, range, patience_us: WHOLE_PATIENCE_US })
            })),
        }
    }

    /// Whether a transaction that is to write a key has locked it.
    pub(crate) fn is_locked(&self, key: HashedKey<'_>) -> bool {
        awaits_transaction(self.store, (&self.shared.holds, self.worker), &[key], false)
    }

    /// The number of keys of this node ([`RangeTable::key_count`]), expired ones not yet removed included.
    pub(crate) fn key_count(&self) -> u64 {
        match self.ranges.owns_everything() {
            true => self.store.len().saturating_sub(self.store.hidden_len()),
            false => self.ranges.key_count(self.store),
        }
    }
}
