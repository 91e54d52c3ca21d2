//! One migration at its target, as the coordinator knows it.

use super::event::End;
use super::outbox::Outbox;
use crate::bounds::clipped;
use crate::limits::MAX_REASON_BYTES;
use crate::timing::{HEARTBEAT_INTERVAL_US, PROGRESS_INTERVAL_US, RETRY_US};
use crate::{MigrationRecord, MigrationState, NodeSays, PrepareRefusal, Progress};
use sidle_types::{MigrationId, MonotonicUs};

/// A migration that this node takes a range in.
#[derive(Debug)]
pub(super) enum Target {
    /// The driver makes room, and where the protocol says so takes a copy, which is reported.
    Preparing(Option<Reports>),
    /// There is room, or there is none and nothing is kept.
    Prepared(Result<(), PrepareRefusal>),
    /// The range is taken.
    Importing(Reports),
}

/// The reports of an import, or of a copy made before it, to the coordinator.
#[derive(Debug)]
pub(super) struct Reports {
    progress: Progress,
    /// Whether the coordinator has not been told the latest.
    dirty: bool,
    told_at: MonotonicUs,
    /// Whether everything has arrived, or why it never will.
    finished: Option<Result<(), String>>,
}

impl Target {
    pub(super) fn importing(now: MonotonicUs) -> Target {
        Target::Importing(Reports::new(now))
    }

    /// The coordinator asks again whether it may begin.
    pub(super) fn asked_again(&self, migration: MigrationId, out: &mut Outbox) {
        if let Target::Prepared(result) = self {
            out.send(match result {
                Ok(()) => NodeSays::Prepared { migration },
                Err(why) => NodeSays::PrepareRefused { migration, why: why.clone() },
            });
        }
    }

    /// The driver reports how far it is; what is reported does not always fit the state.
    pub(super) fn reported(
        &mut self,
        now: MonotonicUs,
        migration: MigrationId,
        report: NodeSays,
        out: &mut Outbox,
    ) {
        match (&mut *self, report) {
            (Target::Preparing(_), NodeSays::Prepared { .. }) => {
                *self = Target::Prepared(Ok(()));
                self.asked_again(migration, out);
            }
            (Target::Preparing(_), NodeSays::PrepareRefused { why, .. }) => {
                *self = Target::Prepared(Err(why.clipped()));
                self.asked_again(migration, out);
            }
            (Target::Preparing(reports), NodeSays::Progress { progress, .. }) => {
                // The first word, that the target copies, goes out at once.
                let is_first = reports.is_none();
                let reports = reports.get_or_insert_with(|| Reports::new(now));
                reports.progressed(progress.clipped());
                if is_first {
                    reports.tell(now, migration, out);
                }
            }
            (Target::Importing(reports), NodeSays::Progress { progress, .. }) => {
                // And so does the first that it serves.
                let serves_now = progress.activated && !reports.progress.activated;
                reports.progressed(progress.clipped());
                if serves_now {
                    reports.tell(now, migration, out);
                }
            }
            (Target::Importing(reports), NodeSays::Finished { progress, .. }) => {
                reports.progress = progress.clipped();
                reports.finished.get_or_insert(Ok(()));
                reports.tell(now, migration, out);
            }
            (Target::Importing(reports), NodeSays::Broken { why, .. }) => {
                reports.finished.get_or_insert(Err(clipped(why, MAX_REASON_BYTES)));
                reports.tell(now, migration, out);
            }
            _ => {}
        }
    }

    /// Tells the coordinator how far it is, whether or not that is due.
    pub(super) fn tell(&mut self, now: MonotonicUs, migration: MigrationId, out: &mut Outbox) {
        if let Target::Importing(reports) | Target::Preparing(Some(reports)) = self {
            reports.tell(now, migration, out);
        }
    }

    /// When the coordinator is to be told of it next.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let (Target::Importing(reports) | Target::Preparing(Some(reports))) = self else { return None };
        Some(reports.told_at.plus_us(match reports {
            Reports { finished: Some(_), .. } => RETRY_US,
            Reports { dirty: true, .. } => PROGRESS_INTERVAL_US,
            // Now and then even so: a coordinator that restarted knows nothing of it.
            _ => HEARTBEAT_INTERVAL_US,
        }))
    }

    /// What the end is, if not in vain.
    pub(super) fn end(self, record: Option<&MigrationRecord>) -> Option<End> {
        let Target::Importing(reports) = self else { return None };
        let is_done = record.is_some_and(|record| record.state == MigrationState::Done);
        (is_done || matches!(reports.finished, Some(Ok(())))).then_some(End::Complete)
    }
}

impl Reports {
    fn new(now: MonotonicUs) -> Reports {
        Reports { progress: Progress::default(), dirty: false, told_at: now, finished: None }
    }

    fn progressed(&mut self, progress: Progress) {
        self.dirty |= self.progress != progress;
        self.progress = progress;
    }

    fn tell(&mut self, now: MonotonicUs, migration: MigrationId, out: &mut Outbox) {
        self.dirty = false;
        self.told_at = now;
        let progress = self.progress.clone();
        out.send(match &self.finished {
            None => NodeSays::Progress { migration, progress },
            Some(Ok(())) => NodeSays::Finished { migration, progress },
            Some(Err(why)) => NodeSays::Broken { migration, why: why.clone() },
        });
    }
}
