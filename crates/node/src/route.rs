use crate::forward::{Hold, Progress};
use crate::goes_on::GoesOn;
use crate::progress_reports::ProgressReports;
use crate::queue::Ticket;
use crate::routing::Asked;
use crate::subscription::Subscription;
use crate::wait::{Behind, Wait};
use sidle_types::{CommitNumber, MapEpoch, PositionRange};

/// The fault `half-exec-visible`: the first command alone, then, in a later turn, the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExecHalf {
    #[default]
    None,
    /// It ran just now.
    First,
    /// Others had their turn.
    Parked,
}

impl ExecHalf {
    /// Whether the first command is to run alone.
    pub(crate) fn is_next(&mut self) -> bool {
        let is_next = *self == ExecHalf::None;
        *self = if is_next { ExecHalf::First } else { ExecHalf::None };
        is_next
    }
}

/// What the dispatcher remembers of a connection.
#[derive(Debug, Default)]
pub(crate) struct RouteState {
    /// The newest map that an opted-in client was sent.
    pub(crate) map_sent: MapEpoch,
    /// The progress that an opted-in client was sent for each running migration.
    pub(crate) reported: ProgressReports,
    /// It is told what cuts give.
    pub(crate) subscription: Option<Subscription>,
    /// The ticket of the request that waits, or has been woken and not run since.
    pub(crate) ticket: Option<Ticket>,
    /// The waiting request's keys that were asked of an import.
    pub(crate) asked: Asked,
    /// The rerun request's keys that an import has answered for. If the store lacks one it is absent, even if
    /// its mark of absence has made way since.
    pub(crate) settled: Asked,
    /// What the rerun request waited for, whole.
    pub(crate) awaited: Option<PositionRange>,
    /// Whether the rerun request's patience is over.
    pub(crate) waited_out: bool,
    /// What a command that found nothing waits for.
    pub(crate) wait: Option<Box<Wait>>,
    /// What a command that ran replies, once those that it gave a turn are served.
    pub(crate) behind: Option<Box<Behind>>,
    /// The commit that a command waits to be synced.
    pub(crate) synced_by: Option<CommitNumber>,
    /// The number of what a command has begun and waits for: a save, or a pause of the clients.
    pub(crate) begun: Option<u64>,
    /// The progress of a command that goes on.
    pub(crate) goes_on: GoesOn,
    /// How far the fault `half-exec-visible` has come with an EXEC.
    pub(crate) exec_half: ExecHalf,
    /// The fault `waits-without-look`: it has looked, others have their turn, and then it waits so long.
    pub(crate) blind: Option<u64>,
    /// The time of its steps so far.
    pub(crate) spent_ns: u64,
    /// The place in the order of holds of a command that one is in the way of (H1).
    pub(crate) place: Option<Hold>,
    /// The progress of a command that other nodes run in whole or part.
    pub(crate) forward: Option<Box<Progress>>,
}

impl RouteState {
    /// Whether what the request does has begun, so that it goes on during a pause.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_run_and_waits()
            || self.goes_on.flush.is_some()
            || self.forward.is_some()
            || self.begun.is_some()
            || self.synced_by.is_some()
            || self.blind.is_some()
            || self.exec_half != ExecHalf::None
    }

    /// Whether the request has run, and waits: it found nothing, or replies when others are served.
    pub(crate) fn has_run_and_waits(&self) -> bool {
        self.wait.is_some() || self.behind.is_some()
    }

    /// The fault `waits-without-look`: whether a command that found nothing lets others have their turn
    /// before it takes its place.
    #[cold]
    pub(crate) fn is_blind_next(&mut self, at_most_ms: u64) -> bool {
        let is_next = self.wait.is_none() && self.blind.is_none();
        self.blind = is_next.then_some(at_most_ms);
        is_next
    }
}
