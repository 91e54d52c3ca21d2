//! The coordinator's record on disk, between two commits: whether it still lies where the next start looks
//! for it.
//!
//! A file that is removed while it is open takes every write and is gone with the process. So the coordinator
//! looks, and writes the record anew; where that cannot be, changes fail until it can, and the status says
//! so.

use super::event::CoordinatorEvent;
use crate::bounds::clipped;
use crate::limits::MAX_TEXT_BYTES;
use crate::timing::RECORD_CHECK_US;
use crate::{MetaError, MetaStore, Metadata, Place};
use sidle_types::MonotonicUs;

/// When it was looked for last, and what was wrong then.
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

    /// When it is to be looked for again.
    pub(super) const fn due_at(&self) -> MonotonicUs {
        self.checked_at.plus_us(RECORD_CHECK_US)
    }
    /// Looks for the record; what an operator may want to know of it.
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
