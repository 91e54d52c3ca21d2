//! One migration at its target.

use super::event::End;
use super::talk::Talk;
use crate::bounds::clipped;
use crate::limits::MAX_REASON_BYTES;
use crate::timing::{HEARTBEAT_INTERVAL_US, PROGRESS_INTERVAL_US, RETRY_US};
use crate::{MigrationRecord, MigrationState, NodeSays, PrepareRefusal, Progress};
use sidle_types::MonotonicUs;

/// A migration that this node takes a range in. `I`: what arrives there.
#[derive(Debug)]
pub struct Target<I> {
    /// The migration, with its partitions.
    pub record: MigrationRecord,
    /// What arrives, an import or a copy made before it: the driver's, until nothing is left here.
    pub import: Option<I>,
    stage: TargetStage,
    /// Why there is nothing made ready.
    refusal: Option<PrepareRefusal>,
    /// Whether a map has shown it running.
    pub(super) began: bool,
    progress: Progress,
    /// Whether the coordinator has not been told the latest, and when it was told last.
    dirty: bool,
    told_at: MonotonicUs,
    /// Whether everything has arrived, or why it never will.
    finished: Option<Result<(), String>>,
    pub(super) talk: Talk,
}

/// How far a migration is at its target; all of it is the driver's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetStage {
    /// What an earlier owner left in the range is still being cleared.
    Clearing,
    /// The source is connected.
    Connecting,
    /// The range is copied ahead of the freeze.
    Copying,
    /// The coordinator may begin.
    Ready,
    /// Nothing is made ready here, or not any more.
    Dropped,
    /// It has begun: the range is this node's.
    Importing,
    /// It is over, and what was kept for it goes.
    Over,
}

impl<I> Target<I> {
    pub(super) fn new(now: MonotonicUs, record: MigrationRecord, stage: TargetStage) -> Target<I> {
        Target {
            record,
            import: None,
            stage,
            refusal: None,
            began: false,
            progress: Progress::default(),
            dirty: false,
            told_at: now,
            finished: None,
            talk: Talk::default(),
        }
    }

    /// How far it is here.
    pub fn stage(&self) -> TargetStage {
        self.stage
    }

    /// Whether it has not begun, as far as the driver knows.
    pub fn is_prepared(&self) -> bool {
        self.stage < TargetStage::Dropped
    }

    /// It has come so far.
    pub fn advance(&mut self, stage: TargetStage) {
        self.stage = stage;
        self.talk.owes = true;
    }

    /// It cannot be made ready, or not be kept so.
    pub fn refuse(&mut self, why: PrepareRefusal) {
        self.refusal = Some(why.clipped());
        self.advance(TargetStage::Dropped);
    }

    /// So much has arrived; as often as the driver likes.
    pub fn progressed(&mut self, progress: Progress) {
        let progress = progress.clipped();
        // That it serves is told at once.
        self.talk.owes |= progress.activated && !self.progress.activated;
        self.dirty |= self.progress != progress;
        self.progress = progress;
    }

    /// Everything has arrived, or, for this reason, never will. A hope to go on is a stall in the progress.
    /// Told once a map shows the migration running.
    pub fn finish(&mut self, result: Result<(), String>) {
        self.finished.get_or_insert(result.map_err(|why| clipped(why, MAX_REASON_BYTES)));
        self.talk.owes = true;
    }

    /// What the coordinator is to be told now.
    pub(super) fn message(&mut self, now: MonotonicUs) -> Option<NodeSays> {
        (self.told_at, self.dirty) = (now, false);
        let migration = self.record.id;
        let progress = || self.progress.clone();
        match (&self.finished, self.stage) {
            (None, _) if self.began => Some(NodeSays::Progress { migration, progress: progress() }),
            (Some(Ok(())), _) if self.began => Some(NodeSays::Finished { migration, progress: progress() }),
            (Some(Err(why)), _) if self.began => Some(NodeSays::Broken { migration, why: why.clone() }),
            (_, TargetStage::Copying) => Some(NodeSays::Progress { migration, progress: progress() }),
            (_, TargetStage::Ready) => Some(NodeSays::Prepared { migration }),
            _ => self.refusal.clone().map(|why| NodeSays::PrepareRefused { migration, why }),
        }
    }

    /// Whether there are things to report without being asked.
    pub(super) fn reports(&self) -> bool {
        self.began || self.stage == TargetStage::Copying
    }

    /// When the coordinator is to be told of it next, though it does not wait for it.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let pause_us = match self {
            Target { began: true, finished: Some(_), .. } => RETRY_US,
            Target { dirty: true, .. } => PROGRESS_INTERVAL_US,
            // Now and then even so: a coordinator that restarted knows nothing of it.
            _ => HEARTBEAT_INTERVAL_US,
        };
        self.reports().then(|| self.told_at.plus_us(pause_us))
    }

    /// What its end is.
    pub(super) fn end(&self, record: Option<&MigrationRecord>) -> End {
        let is_done = record.is_some_and(|record| record.state == MigrationState::Done);
        let is_complete = self.began && (is_done || self.finished == Some(Ok(())));
        if is_complete { End::Complete } else { End::in_vain(record) }
    }
}
