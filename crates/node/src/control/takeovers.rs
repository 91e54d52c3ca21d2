//! What this node takes over from dead nodes: it is to be read once nothing is in the way.

use sidle_cluster::Takeover;
use sidle_types::{PositionRange, TabletEpoch};

/// What a driver is to put into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// From where, and what it is reported as.
    pub takeover: Takeover,
    /// What is to be read, within the range.
    pub ranges: Vec<PositionRange>,
    /// Whether what is there is kept, and wins over what is read (M5): then the range is served meanwhile.
    /// Otherwise it is not, and what is there goes first.
    pub keeps: bool,
}

impl TakeOver {
    /// All of it, in place of what is there.
    pub(super) fn instead(takeover: Takeover) -> TakeOver {
        TakeOver { ranges: vec![takeover.range], keeps: false, takeover }
    }
}

/// The takeovers of this node that the driver was asked to carry out.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    begun: Vec<Takeover>,
    /// Of those, what could not be read, and is tried again.
    failing: Vec<PositionRange>,
}

impl Takeovers {
    /// Forgets what is not to be read any more.
    pub(super) fn keep(&mut self, listed: &[TakeOver]) {
        self.begun.retain(|begun| listed.iter().any(|task| task.takeover == *begun));
        let is_begun = |range: &PositionRange| self.begun.iter().any(|begun| begun.range == *range);
        self.failing.retain(is_begun);
    }

    /// Whether it is to begin yet.
    pub(super) fn is_due(&self, takeover: &Takeover) -> bool {
        !self.begun.contains(takeover)
    }

    /// It has begun.
    pub(super) fn begin(&mut self, takeover: Takeover) {
        self.begun.push(takeover);
    }

    /// It could not be read, for now. Whether that is new.
    pub(super) fn fails(&mut self, range: PositionRange, epoch: TabletEpoch) -> bool {
        let is_new = self.has_begun(range, epoch) && !self.failing.contains(&range);
        self.failing.extend(is_new.then_some(range));
        is_new
    }

    /// What could not be read.
    pub(super) fn failing(&self) -> &[PositionRange] {
        &self.failing
    }

    /// Whether this one has begun, and is still to be read.
    pub(super) fn has_begun(&self, range: PositionRange, epoch: TabletEpoch) -> bool {
        self.begun.iter().any(|begun| (begun.range, begun.epoch) == (range, epoch))
    }
}
