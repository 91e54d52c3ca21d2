//! What this node takes over from dead nodes: it is to be read once nothing is in the way.

use sidle_cluster::Takeover;
use sidle_types::{MonotonicUs, PositionRange, TabletEpoch};

/// What a driver is to put into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyToRead {
    /// From where, and what it is reported as.
    pub takeover: Takeover,
    /// What is to be read, within the range.
    pub ranges: Vec<PositionRange>,
    /// Whether what is there is kept, and wins over what is read (M5): then the range is served meanwhile.
    /// Otherwise it is not, and what is there goes first.
    pub keeps: bool,
}

impl CopyToRead {
    /// All of it, in place of what is there.
    pub(super) fn instead(takeover: Takeover) -> CopyToRead {
        CopyToRead { ranges: vec![takeover.range], keeps: false, takeover }
    }
}

/// How long a driver's failure rests before it is asked again.
const RETRY_US: u64 = 3_000_000;

/// What the driver was asked to carry out.
#[derive(Debug)]
struct Begun {
    takeover: Takeover,
    /// It failed, and is tried again then.
    retry_at: Option<MonotonicUs>,
}

/// The takeovers of this node that the driver was asked to carry out.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    begun: Vec<Begun>,
    /// Of those, what could not be read when it was tried last.
    failing: Vec<PositionRange>,
}

impl Takeovers {
    /// Forgets what is not to be read any more.
    pub(super) fn keep(&mut self, listed: &[CopyToRead]) {
        self.begun.retain(|begun| listed.iter().any(|task| task.takeover == begun.takeover));
        let is_begun = |range: &PositionRange| self.begun.iter().any(|begun| begun.takeover.range == *range);
        self.failing.retain(is_begun);
    }

    /// Whether it is to begin, or to begin again. The driver is at work on nothing that is.
    pub(super) fn is_due(&self, now: MonotonicUs, takeover: &Takeover) -> bool {
        let begun = self.begun.iter().find(|begun| begun.takeover == *takeover);
        begun.is_none_or(|begun| begun.retry_at.is_some_and(|at| at <= now))
    }

    /// When something is to begin again.
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.begun.iter().filter_map(|begun| begun.retry_at).min()
    }

    /// It has begun.
    pub(super) fn begin(&mut self, takeover: Takeover) {
        self.begun.retain(|begun| begun.takeover != takeover);
        self.begun.push(Begun { takeover, retry_at: None });
    }

    /// It could not be read, for now. Whether it could when it was tried before, or was not tried before.
    pub(super) fn fails(&mut self, now: MonotonicUs, range: PositionRange, epoch: TabletEpoch) -> bool {
        let begun = self.begun.iter_mut().find(|begun| is_of(begun, range, epoch));
        let Some(begun) = begun else { return false };
        begun.retry_at = Some(now.plus_us(RETRY_US));
        let is_new = !self.failing.contains(&range);
        self.failing.extend(is_new.then_some(range));
        is_new
    }

    /// What could not be read.
    pub(super) fn failing(&self) -> &[PositionRange] {
        &self.failing
    }

    /// Whether this one has begun, and is still to be read.
    pub(super) fn has_begun(&self, range: PositionRange, epoch: TabletEpoch) -> bool {
        self.begun.iter().any(|begun| is_of(begun, range, epoch))
    }
}

fn is_of(begun: &Begun, range: PositionRange, epoch: TabletEpoch) -> bool {
    (begun.takeover.range, begun.takeover.epoch) == (range, epoch)
}
