//! One migration at its target.

use super::event::End;
use super::talk::Talk;
use crate::bounds::clipped;
use crate::limits::MAX_REASON_BYTES;
use crate::timing::{HEARTBEAT_INTERVAL_US, PROGRESS_INTERVAL_US, RETRY_US};
use crate::{MigrationRecord, MigrationState, NodeSays, PrepareRefusal, Progress};
use sidle_types::MonotonicUs;

/// A migration to this node. `I`: what arrives there.
#[derive(Debug)]
pub struct Target<I> {
    /// The migration, with its partitions.
    pub record: MigrationRecord,
    /// What arrives, an import or a copy made before it: the driver's, until nothing is left here.
    pub import: Option<I>,
    stage: TargetStage,
    /// Why nothing is prepared.
    refusal: Option<PrepareRefusal>,
    /// Whether a map has shown it running.
    pub(super) began: bool,
    progress: Progress,
    /// Whether the latest progress is still to be reported, and when it was reported last.
    dirty: bool,
    told_at: MonotonicUs,
    /// Whether everything has arrived, or why it never will.
    finished: Option<Result<(), String>>,
    pub(super) talk: Talk,
}

/// A migration's stage at its target; the driver sets all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetStage {
    /// Leftovers of an earlier owner in the range are being cleared.
    Clearing,
    /// It connects to the source.
    Connecting,
    /// The range is copied ahead of the freeze.
    Copying,
    /// The coordinator may begin.
    Ready,
    /// Nothing is prepared here, or no longer.
    Dropped,
    /// It has begun: the range is this node's.
    Importing,
    /// It is over, and its state here is being dropped.
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

    /// Its stage here.
    pub fn stage(&self) -> TargetStage {
        self.stage
    }

    /// Whether the driver still prepares it, or has prepared it, and it has not begun.
    pub fn is_prepared(&self) -> bool {
        self.stage < TargetStage::Dropped
    }

    /// Whether this incarnation of the node was never asked to prepare it: an earlier one was.
    pub fn is_unprepared(&self) -> bool {
        self.stage == TargetStage::Dropped && self.refusal.is_none()
    }

    /// Moves it to this stage.
    pub fn advance(&mut self, stage: TargetStage) {
        self.stage = stage;
        self.talk.owes = true;
    }

    /// It cannot be prepared, or not stay prepared.
    pub fn refuse(&mut self, why: PrepareRefusal) {
        self.refusal = Some(why.clipped());
        self.advance(TargetStage::Dropped);
    }

    /// Takes in its progress; may be called at any rate.
    pub fn progressed(&mut self, progress: Progress) {
        let progress = progress.clipped();
        // Activation is reported at once.
        self.talk.owes |= progress.activated && !self.progress.activated;
        // So is that nothing is in transit: commands wait for the turn.
        self.talk.owes |= progress.settled.is_some() && self.progress.settled.is_none();
        self.dirty |= self.progress != progress;
        self.progress = progress;
    }

    /// Everything has arrived, or, for this reason, never will. If it may go on, report a stall in the
    /// progress instead. Reported once a map shows the migration running.
    pub fn finish(&mut self, result: Result<(), String>) {
        self.finished.get_or_insert(result.map_err(|why| clipped(why, MAX_REASON_BYTES)));
        self.talk.owes = true;
    }

    /// The message for the coordinator now.
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

    /// When the next unasked report to the coordinator is due.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let pause_us = match self {
            Target { began: true, finished: Some(_), .. } => RETRY_US,
            Target { dirty: true, .. } => PROGRESS_INTERVAL_US,
            // Reported regularly even so: a restarted coordinator knows nothing of it.
            _ => HEARTBEAT_INTERVAL_US,
        };
        self.reports().then(|| self.told_at.plus_us(pause_us))
    }

    /// Its end.
    pub(super) fn end(&self, record: Option<&MigrationRecord>) -> End {
        let is_done = record.is_some_and(|record| record.state == MigrationState::Done);
        let is_complete = self.began && (is_done || self.finished == Some(Ok(())));
        if is_complete { End::Complete } else { End::in_vain(record) }
    }
}
