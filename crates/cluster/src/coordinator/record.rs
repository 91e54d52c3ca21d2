//! The coordinator's record on disk, between two commits: whether it still lies where the next start looks
//! for it.
//!
//! A file that is removed while it is open takes every write and is gone with the process. So the coordinator
//! looks, and writes the record anew; where that cannot be, changes fail until it can, and the status says
//! so.

use super::{Coordinator, CoordinatorEvent};
use crate::bounds::clipped;
use crate::limits::MAX_TEXT_BYTES;
use crate::timing::RECORD_CHECK_US;
use crate::{MetaError, MetaStore, Place};
use sidle_types::MonotonicUs;

/// When it was looked for last, and what was wrong then.
#[derive(Debug)]
pub(super) struct Record {
    checked_at: MonotonicUs,
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
}

impl<M: MetaStore> Coordinator<M> {
    /// Looks for the record, and whether too many members are idle, if it is time to. After a failed commit
    /// the next commit writes it, or tells why not.
    pub(super) fn keep_record(&mut self, now: MonotonicUs) {
        if now < self.record.due_at() {
            return;
        }
        self.record.checked_at = now;
        self.forget_surplus(now);
        if self.commit_retry_at.is_some() {
            return;
        }
        let before = self.record.gone.take();
        match self.meta.keep(&self.data) {
            Ok(Place::Kept) => {}
            Ok(Place::WrittenAnew) => self.event(CoordinatorEvent::RecordWrittenAnew),
            Err(error) => {
                if before.as_ref() != Some(&error) {
                    self.event(CoordinatorEvent::RecordGone { error: error.clone() });
                }
                self.record.gone = Some(error);
            }
        }
    }

    /// What is wrong with the record, in words.
    pub(super) fn record_trouble(&self) -> Option<String> {
        let error = self.record.failed.as_ref().or(self.record.gone.as_ref())?;
        Some(clipped(error.to_string(), MAX_TEXT_BYTES))
    }
}
