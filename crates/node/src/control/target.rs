//! A migration at its target, as workers and the store know it.

use sidle_cluster::{MigrationRecord, Progress};
use sidle_migration::{ImportView, ImporterCounters};
use sidle_types::PositionRange;
use std::sync::Arc;

/// A migration that this node takes a range in.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) record: MigrationRecord,
    pub(super) stage: Stage,
    /// What arrives: an import, or what is copied ahead of the freeze.
    pub(super) import: Option<Import>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// What an earlier owner left in the range is still being cleared (C4).
    Clearing,
    /// The mover connects to the source.
    Connecting,
    /// The range is copied ahead.
    Copying,
    /// The coordinator was told that it may begin.
    Ready,
    /// It has begun: the range is this node's.
    Importing,
    /// It is over. The mover frees an import's tombstones, or lets go of a copy that came to nothing.
    Over,
}

/// What arrives.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) view: Arc<ImportView>,
    pub(super) counters: ImporterCounters,
    pub(super) stalled: bool,
    /// Whether everything has arrived, or why it never will, if that came before the commit was heard of.
    pub(super) finished: Option<Result<(), String>>,
}

impl Import {
    pub(super) fn new(view: Arc<ImportView>) -> Import {
        Import { view, counters: ImporterCounters::default(), stalled: false, finished: None }
    }

    /// What the coordinator is told of it.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            activated: self.view.source_is_frozen(),
            records_moved: self.counters.records_moved,
            bytes_moved: self.counters.bytes_moved,
            next: self.view.progress().collect(),
            changes: self.counters.changes,
            changes_left: self.counters.changes_left,
            stalled: self.stalled.then(|| "the target is out of memory".to_owned()),
        }
    }
}

impl Target {
    /// One that the coordinator asks about.
    pub(super) fn new(record: MigrationRecord) -> Target {
        Target { record, stage: Stage::Clearing, import: None }
    }

    pub(super) fn range(&self) -> PositionRange {
        self.record.range
    }

    pub(super) fn view(&self) -> Option<&Arc<ImportView>> {
        self.import.as_ref().map(|import| &import.view)
    }

    pub(super) fn is_importing(&self) -> bool {
        self.stage == Stage::Importing
    }

    /// Whether it has not begun, as far as this node knows.
    pub(super) fn is_prepared(&self) -> bool {
        self.stage < Stage::Importing
    }

    pub(super) fn has_records(&self) -> bool {
        self.import.is_some() || self.stage == Stage::Over
    }

    pub(super) fn claims_range(&self) -> bool {
        !matches!(self.stage, Stage::Clearing | Stage::Over)
    }

    /// Whether this is a copy without the last round: what was deleted or overwritten at the source may still
    /// be in it, and a stale value is worse than none. To be asked when nothing more is replayed.
    pub(super) fn is_stale_copy(&self) -> bool {
        self.view().is_some_and(|view| view.is_copied_ahead() && !view.activated())
    }

    /// Whether something of it is copied ahead, and the commit was not heard of.
    pub(super) fn is_copy(&self) -> bool {
        self.is_prepared() && self.import.is_some()
    }
}
