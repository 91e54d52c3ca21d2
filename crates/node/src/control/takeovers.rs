//! What this node takes over from dead nodes: it is to be read once nothing is in the way.

use sidle_cluster::{MigrationRecord, TabletMap, Takeover};
use sidle_types::{ImportId, MonotonicUs, Position, PositionRange, TabletEpoch};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Of a running migration whose target died: what that had of the import is to be noted as this one, and
    /// no more than that is to be put in (M36).
    pub import: Option<ImportId>,
}

impl CopyToRead {
    /// All of it, in place of what is there.
    pub(super) fn instead(takeover: Takeover, map: &TabletMap) -> CopyToRead {
        let record = map.migration_at(takeover.range.first()).filter(|_| takeover.import.is_some());
        let import = record.map(MigrationRecord::import);
        CopyToRead { ranges: vec![takeover.range], keeps: false, import, takeover }
    }

    /// The import of which the dead node had noted what it had, and as which the new owner goes on with it.
    pub fn imports(&self) -> Option<[ImportId; 2]> {
        Some([self.takeover.import?, self.import?])
    }
}

/// How long a driver's failure rests before it is asked again.
const RETRY_US: u64 = 3_000_000;

/// What names a takeover: where its range begins, and since when it has its owner.
type Key = (Position, TabletEpoch);

/// What the driver was asked to carry out.
#[derive(Debug)]
struct Begun {
    range: PositionRange,
    /// It failed, and is tried again then.
    retry_at: Option<MonotonicUs>,
    /// Whether it could not be read when it was tried last.
    is_failing: bool,
}

/// The takeovers of this node that the driver was asked to carry out.
#[derive(Debug, Default)]
pub(super) struct Takeovers(BTreeMap<Key, Begun>);

impl Takeovers {
    /// Forgets all but these.
    pub(super) fn keep(&mut self, listed: impl IntoIterator<Item = (PositionRange, TabletEpoch)>) {
        if !self.0.is_empty() {
            let listed: BTreeSet<Key> = listed.into_iter().map(|(range, epoch)| key(range, epoch)).collect();
            self.0.retain(|key, _| listed.contains(key));
        }
    }

    /// Whether it is to begin, or to begin again. The driver is at work on nothing that is.
    pub(super) fn is_due(&self, now: MonotonicUs, range: PositionRange, epoch: TabletEpoch) -> bool {
        let begun = self.0.get(&key(range, epoch));
        begun.is_none_or(|begun| begun.retry_at.is_some_and(|at| at <= now))
    }

    /// When something is to begin again.
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.0.values().filter_map(|begun| begun.retry_at).min()
    }

    /// It has begun.
    pub(super) fn begin(&mut self, range: PositionRange, epoch: TabletEpoch) {
        let new = || Begun { range, retry_at: None, is_failing: false };
        self.0.entry(key(range, epoch)).or_insert_with(new).retry_at = None;
    }

    /// It could not be read, for now. Whether it was not failing before.
    pub(super) fn fails(&mut self, now: MonotonicUs, range: PositionRange, epoch: TabletEpoch) -> bool {
        let Some(begun) = self.0.get_mut(&key(range, epoch)) else { return false };
        begun.retry_at = Some(now.plus_us(RETRY_US));
        !std::mem::replace(&mut begun.is_failing, true)
    }

    /// What could not be read.
    pub(super) fn failing(&self) -> Vec<PositionRange> {
        self.0.values().filter(|begun| begun.is_failing).map(|begun| begun.range).collect()
    }

    /// Whether this one has begun, and is still to be read.
    pub(super) fn has_begun(&self, range: PositionRange, epoch: TabletEpoch) -> bool {
        self.0.contains_key(&key(range, epoch))
    }
}

fn key(range: PositionRange, epoch: TabletEpoch) -> Key {
    (range.first(), epoch)
}
