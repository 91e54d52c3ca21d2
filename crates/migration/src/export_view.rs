//! What the source's workers see of a migration.
//!
//! Purpose: a worker answers a read of frozen data only to a client that names this migration, and only while nothing
//! can have been released (M4, M8).
//!
//! Invariants: M4 (frozen, for the same migration id), M8 (never "absent" once over). A worker that found nothing in
//! the store asks for the phase *again* before it answers "absent": release begins after [`ExportPhase::Done`] is
//! published, so a look-up that was affected by it sees the phase. The barrier before release makes this certain for
//! whole commands; the second look makes it local.
//!
//! Ownership: [`ExportView`] is shared with every worker; [`ExportWriter`], of which there is one, belongs to the source
//! machine.

use crate::MigrationSpec;
use sidle_types::{MigrationId, NodeId, PositionRange, TabletEpoch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How far an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportPhase {
    /// Some worker may still serve the range under the old table.
    Pending,
    /// Nothing in the range changes any more (M2); reads of frozen data are answered.
    Frozen,
    /// The migration is over: ask the owner (M8).
    Done,
}

/// What the source's workers see of a migration.
#[derive(Debug)]
pub struct ExportView {
    id: MigrationId,
    epoch: TabletEpoch,
    range: PositionRange,
    target: NodeId,
    phase: AtomicU8,
}

impl ExportView {
    /// The view of a migration that has not begun, and the one handle that may change it.
    pub fn new(spec: &MigrationSpec) -> (Arc<ExportView>, ExportWriter) {
        let view = Arc::new(ExportView {
            id: spec.id,
            epoch: spec.epoch,
            range: spec.range,
            target: spec.target,
            phase: AtomicU8::new(ExportPhase::Pending as u8),
        });
        (Arc::clone(&view), ExportWriter { view })
    }

    /// The migration.
    pub fn id(&self) -> MigrationId {
        self.id
    }

    /// The epoch at which the target owns the range.
    pub fn epoch(&self) -> TabletEpoch {
        self.epoch
    }

    /// What leaves.
    pub fn range(&self) -> PositionRange {
        self.range
    }

    /// Who owns it now.
    pub fn target(&self) -> NodeId {
        self.target
    }

    /// How far the export is.
    #[inline]
    pub fn phase(&self) -> ExportPhase {
        match self.phase.load(Ordering::Acquire) {
            0 => ExportPhase::Pending,
            1 => ExportPhase::Frozen,
            _ => ExportPhase::Done,
        }
    }
}

/// The only handle that changes an [`ExportView`]; belongs to the source machine.
#[derive(Debug)]
pub struct ExportWriter {
    view: Arc<ExportView>,
}

impl ExportWriter {
    /// What is written.
    pub fn view(&self) -> &Arc<ExportView> {
        &self.view
    }

    /// No worker serves the range any more.
    pub fn freeze(&mut self) {
        assert_eq!(self.view.phase(), ExportPhase::Pending, "M2: an export is frozen once");
        self.view.phase.store(ExportPhase::Frozen as u8, Ordering::Release);
    }

    /// The migration is over.
    pub fn finish(&mut self) {
        assert_eq!(self.view.phase(), ExportPhase::Frozen, "M8: only a frozen export ends");
        self.view.phase.store(ExportPhase::Done as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::{range, spec};

    #[test]
    fn phases_in_order() {
        let (view, mut writer) = ExportView::new(&spec(range(0, 9), vec![range(0, 9)]));
        assert_eq!(view.phase(), ExportPhase::Pending);
        writer.freeze();
        assert_eq!(view.phase(), ExportPhase::Frozen);
        writer.finish();
        assert_eq!(view.phase(), ExportPhase::Done);
    }

    #[test]
    #[should_panic(expected = "M8")]
    fn finish_refuses_what_was_never_frozen() {
        ExportView::new(&spec(range(0, 9), vec![range(0, 9)])).1.finish();
    }
}
