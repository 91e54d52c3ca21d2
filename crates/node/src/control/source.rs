//! A migration at its source, as workers and the store know it.

use sidle_cluster::MigrationRecord;
use sidle_migration::ExportView;
use sidle_types::PositionRange;
use std::sync::Arc;

/// A migration that this node gives a range up in.
#[derive(Debug)]
pub(super) enum Source {
    /// The range will be tracked once it is whole (C6).
    Waiting(Box<MigrationRecord>),
    /// The range is served, and copied behind the barrier of the table that says so (C5).
    Tracked(Arc<ExportView>),
    /// The next table that gives the range away starts its freeze (C1).
    GivenAway(Arc<ExportView>),
    /// Behind the barrier of that table it is frozen.
    Exported(Arc<ExportView>),
    /// It is over, and the mover gives the memory back.
    Releasing(PositionRange),
}

impl Source {
    pub(super) fn waits(&self) -> bool {
        matches!(self, Source::Waiting(_))
    }

    pub(super) fn view(&self) -> Option<&Arc<ExportView>> {
        match self {
            Source::Tracked(view) | Source::GivenAway(view) | Source::Exported(view) => Some(view),
            Source::Waiting(_) | Source::Releasing(_) => None,
        }
    }

    pub(super) fn range(&self) -> PositionRange {
        match self {
            Source::Waiting(record) => record.range,
            Source::Tracked(view) | Source::GivenAway(view) | Source::Exported(view) => view.range(),
            Source::Releasing(range) => *range,
        }
    }

    /// Begins to be frozen, if the range is given away and was not frozen before.
    pub(super) fn begin_freeze(&mut self) -> bool {
        let Source::GivenAway(view) = self else { return false };
        *self = Source::Exported(Arc::clone(view));
        true
    }

    /// Whether it only waits to be tracked, or is, or was before it was given away.
    pub(super) fn is_tracked(&self) -> bool {
        self.waits() || self.view().is_some_and(|view| view.is_tracked())
    }
}
