//! The coordinator's record on disk between two commits: whether it is still where the next start looks for
//! it.
//!
//! A file that is removed while open accepts every write and vanishes with the process. So the coordinator
//! checks for the record, and rewrites it. If it cannot, changes fail until it can, and the status reports
//! it.

use super::event::CoordinatorEvent;
use crate::bounds::clipped;
use crate::limits::MAX_TEXT_BYTES;
use crate::timing::RECORD_CHECK_US;
use crate::{MetaError, MetaStore, Metadata, Place};
use sidle_types::MonotonicUs;

/// When it was checked last, and what was wrong then.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) checked_at: MonotonicUs,
    gone: Option<MetaError>,
    /// Why the last commit failed, until one succeeds.
    pub(super) failed: Option<MetaError>,
}

impl Record {
    /// It was just loaded or founded.
    pub(super) const fn new(now: MonotonicUs) -> Record {
        Record { checked_at: now, gone: None, failed: None }
    }

    /// When the next check is due.
    pub(super) const fn due_at(&self) -> MonotonicUs {
        self.checked_at.plus_us(RECORD_CHECK_US)
    }
    /// Checks for the record; returns an event for the operator's log.
    pub(super) fn look(&mut self, meta: &mut impl MetaStore, data: &Metadata) -> Option<CoordinatorEvent> {
        let before = self.gone.take();
        match meta.keep(data) {
            Ok(Place::Kept) => None,
            Ok(Place::WrittenAnew) => Some(CoordinatorEvent::RecordWrittenAnew),
            Err(error) => {
                self.gone = Some(error.clone());
                (before.as_ref() != Some(&error)).then_some(CoordinatorEvent::RecordGone { error })
            }
        }
    }

    /// What is wrong with it, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let error = self.failed.as_ref().or(self.gone.as_ref())?;
        Some(clipped(error.to_string(), MAX_TEXT_BYTES))
    }
}
