//! The source's workers' view of a migration.
//!
//! Purpose: a worker answers a read of frozen data only to a client that names this migration, and only while
//! nothing can have been released (M4, M8).
//!
//! Invariants: M4 (frozen, for the same migration id), M8 (never "absent" once over). A worker that found
//! nothing in the store reads the phase *again* before it answers "absent". Release begins after
//! [`ExportPhase::Done`] is published, so an affected look-up sees the phase. The barrier before release
//! ensures this for whole commands; the second look makes it local.
//!
//! A range that is copied before its freeze is tracked first: workers keep serving it, and mark their changes
//! (M11).
//!
//! Ownership: [`ExportView`] is shared with every worker; [`ExportWriter`], of which there is one, belongs to
//! the source machine.

use crate::cuts::{Ahead, GivenView, HotPositions, PositionsGiven, Share, Windows};
use crate::marks::Marks;
use crate::{Copies, Cuts, MigrationSpec, ProtocolChoices, SourceReads};
use sidle_types::{MigrationId, NodeId, Position, PositionRange, TabletEpoch, fault};
use sidle_wire::limits::HOT_HINTS_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// An export's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportPhase {
    /// Some worker may still serve the range under the old table.
    Pending,
    /// Every worker serves the range and marks its changes there (M11): it is copied.
    Tracking,
    /// Nothing in the range changes any more (M2); reads of frozen data are answered.
    Frozen,
    /// The migration is over: ask the owner (M8).
    Done,
}

/// The source's workers' view of a migration.
#[derive(Debug)]
pub struct ExportView {
    id: MigrationId,
    epoch: TabletEpoch,
    range: PositionRange,
    target: NodeId,
    answers_reads: bool,
    /// The changes, of a range that is copied before it is given.
    marks: Option<Marks>,
    /// What was given, of a range that is given bit by bit.
    given: Option<GivenView>,
    /// Of a way back: what this node owned of the range when it began. All else is the target's.
    began_with: Option<Share>,
    /// Where workers note their accesses, if hot positions are given first.
    hot: Option<HotPositions>,
    /// Positions that were hot before the migration, the hottest first.
    known_hot: Box<[Position]>,
    /// If only these are copied before the freeze: changes elsewhere are not marked.
    watched: Option<Watched>,
    phase: AtomicU8,
    /// Whether the target is known to count the range's keys.
    handed_over: AtomicBool,
}

/// Hot positions that are copied before the freeze.
#[derive(Debug)]
struct Watched {
    /// In order.
    positions: Box<[Position]>,
    /// From which step on workers mark their changes there; [`u64::MAX`] if from none yet.
    since: AtomicU64,
}

impl Watched {
    fn new(mut positions: Box<[Position]>) -> Watched {
        positions.sort_unstable();
        Watched { positions, since: AtomicU64::new(u64::MAX) }
    }

    fn has(&self, position: Position) -> bool {
        self.positions.binary_search(&position).is_ok()
    }
}

impl ExportView {
    /// The view of a migration that has not begun, and the one handle that may change it. `hot`: what clients
    /// have accessed often, the first most; so much of it counts as travels in one frame.
    pub fn new(spec: &MigrationSpec, hot: &[Position]) -> (Arc<ExportView>, ExportWriter) {
        ExportView::begun(spec, hot, None)
    }

    /// The same of a way back, which begins with this share of the range here (M21).
    pub fn of_way_back(
        spec: &MigrationSpec,
        hot: &[Position],
        share: Share,
    ) -> (Arc<ExportView>, ExportWriter) {
        assert!(spec.cuts().is_some(), "M21: only what is given bit by bit turns back");
        ExportView::begun(spec, hot, Some(share))
    }

    fn begun(
        spec: &MigrationSpec,
        hot: &[Position],
        began_with: Option<Share>,
    ) -> (Arc<ExportView>, ExportWriter) {
        let ProtocolChoices { copies, hot_first, .. } = spec.protocol;
        let hot = hot.iter().copied().filter(|&position| hot_first && spec.range.contains(position));
        let known_hot: Box<[Position]> = hot.take(HOT_HINTS_MAX).collect();
        // Of large collections versions say what has changed: changes there are not marked (M32).
        let watched = spec.protocol.names_ahead().then(|| Watched::new(known_hot.clone()));
        let given = |cuts: Cuts| {
            let windows = Windows::new(spec, u64::from(cuts.bytes));
            GivenView::new(&spec.partitions, &windows, cuts.out_of_turn)
        };
        let view = Arc::new(ExportView {
            id: spec.id,
            epoch: spec.epoch,
            range: spec.range,
            target: spec.target,
            answers_reads: spec.protocol.source_reads == SourceReads::AnswersFrozen,
            marks: (copies != Copies::AfterFreeze || watched.is_some()).then(Marks::new),
            given: spec.cuts().map(given),
            began_with,
            hot: (hot_first && watched.is_none()).then(HotPositions::default),
            known_hot,
            watched,
            phase: AtomicU8::new(ExportPhase::Pending as u8),
            handed_over: AtomicBool::new(false),
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

    /// The range that leaves.
    pub fn range(&self) -> PositionRange {
        self.range
    }

    /// Its owner now.
    pub fn target(&self) -> NodeId {
        self.target
    }

    /// Whether clients that name the migration may read the frozen copy.
    pub fn answers_reads(&self) -> bool {
        self.answers_reads
    }

    /// Whether a worker that owns the range must mark its changes there.
    pub fn is_tracked(&self) -> bool {
        self.marks.is_some() && self.given.is_none()
    }

    /// Whether this position may be copied before the freeze.
    pub(crate) fn is_copied_ahead(&self, position: Position) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.has(position))
    }

    /// Whether a worker at this step is to mark a change at this position of a range that is tracked.
    fn is_marked(&self, position: Position, step: u64) -> bool {
        let is_since = |watched: &Watched| watched.since.load(Ordering::Acquire) <= step;
        self.range.contains(position)
            && self.watched.as_ref().is_none_or(|watched| is_since(watched) && watched.has(position))
    }

    /// Positions that were hot before the migration, the hottest first.
    pub(crate) fn known_hot(&self) -> &[Position] {
        &self.known_hot
    }

    /// Whether the range is given bit by bit.
    pub fn is_by_cuts(&self) -> bool {
        self.given.is_some()
    }

    /// Whether this node still owns a position of the range that is given bit by bit, for a worker at this
    /// step (M20).
    #[inline]
    pub fn keeps(&self, position: Position, step: u64) -> bool {
        self.given
            .as_ref()
            .is_some_and(|given| !given.is_given(position, step) || fault!(SourceServesWhatItGave))
            && self.began_with(position)
    }

    /// Whether this node owned the position when the migration began: always, but for a way back.
    pub(crate) fn began_with(&self, position: Position) -> bool {
        self.began_with.as_ref().is_none_or(|share| share.has(position))
    }

    /// What this node keeps of a range that was given bit by bit, and is given no further.
    pub fn kept(&self) -> Share {
        let given = self.given.as_ref().map_or_else(Vec::new, GivenView::ranges);
        let never_owned = self.began_with.as_ref().map(|share| share.rest_of(self.range));
        let never_owned = never_owned.iter().flat_map(|share| share.ranges().iter().copied());
        Share::of(given.into_iter().chain(never_owned)).rest_of(self.range)
    }

    /// How many records are at positions that were given bit by bit.
    pub fn given_records(&self) -> u64 {
        self.given.as_ref().map_or(0, GivenView::records)
    }

    /// Marks a change by a worker at this step, at a position that this node keeps (M22). Call it after the
    /// write, within the same command.
    pub fn mark_kept(&self, position: Position, step: u64) {
        if let (Some(marks), Some(given)) = (&self.marks, &self.given)
            && given.is_marked(position, step)
        {
            marks.mark(position);
        }
    }

    /// A worker at this step notes a sampled access. What is given is hot no more.
    pub fn note_access(&self, position: Position, step: u64) {
        if let (Some(hot), true) = (&self.hot, self.keeps(position, step)) {
            hot.note(position);
        }
    }

    /// How many records this node still counts, of so many in the range.
    pub fn kept_records(&self, in_range: u64) -> u64 {
        match &self.given {
            Some(given) => in_range.saturating_sub(given.records()),
            None => in_range,
        }
    }

    /// Marks a change by a worker at this step at the position. Call it after the write, within the same
    /// command (M11).
    pub fn mark(&self, position: Position, step: u64) {
        if let Some(marks) = self.marks.as_ref().filter(|_| self.is_marked(position, step)) {
            marks.mark(position);
        }
    }

    /// Marks that a worker may have changed everything in the range; as [`mark`](Self::mark).
    pub fn mark_range(&self, range: PositionRange) {
        if let (Some(marks), Some(inside)) = (&self.marks, self.range.intersection(range)) {
            marks.mark_range(inside);
        }
    }

    /// How many changes are marked and not taken.
    pub fn marked(&self) -> u64 {
        self.marks.as_ref().map_or(0, Marks::len)
    }

    /// Whether the target is known to count the range's keys as its own; until then this node still does.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed) || self.phase() == ExportPhase::Done
    }

    /// The export's phase.
    #[inline]
    pub fn phase(&self) -> ExportPhase {
        match self.phase.load(Ordering::Acquire) {
            0 => ExportPhase::Pending,
            1 => ExportPhase::Tracking,
            2 => ExportPhase::Frozen,
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
    /// The view that it changes.
    pub fn view(&self) -> &Arc<ExportView> {
        &self.view
    }

    /// Every worker marks its changes.
    pub fn track(&mut self) {
        assert!(self.view.marks.is_some(), "M11: nothing is marked here");
        assert_eq!(self.view.phase(), ExportPhase::Pending, "M11: tracking begins once, before the freeze");
        self.view.phase.store(ExportPhase::Tracking as u8, Ordering::Release);
    }

    /// Takes the marked changes: in order, apart.
    pub fn take_marks(&mut self) -> Vec<PositionRange> {
        self.view.marks.as_ref().map_or_else(Vec::new, Marks::take)
    }

    /// A mark that was taken, or a change that was noticed while it was packed, is left to the next time.
    pub(crate) fn mark_again(&self, position: Position) {
        self.view.mark(position, u64::MAX);
    }

    /// From this step on workers mark changes at hot positions, which are then copied (M28).
    pub(crate) fn watch(&mut self, number: u64) {
        let watched = self.view.watched.as_ref().expect("hot positions are copied before the freeze");
        watched.since.store(number, Ordering::Release);
    }

    /// The positions that were copied ahead and have not changed since every worker marked its changes there,
    /// in order; call it behind the freeze.
    pub(crate) fn unchanged(&mut self) -> Box<[Position]> {
        assert_eq!(self.view.phase(), ExportPhase::Frozen, "M30: it may change yet");
        let marked = self.take_marks();
        let is_marked = |&position: &Position| {
            let before = marked.partition_point(|range| range.last() < position);
            marked.get(before).is_some_and(|range| range.contains(position))
        };
        let watched = self.view.watched.iter().flat_map(|watched| watched.positions.iter().copied());
        watched.filter(|position| !is_marked(position)).collect()
    }

    /// Takes the positions that workers have noticed to be hot.
    pub(crate) fn take_hot(&self) -> Vec<Position> {
        self.view.hot.as_ref().map_or_else(Vec::new, HotPositions::take)
    }

    /// The set of positions that are given out of turn.
    pub(crate) fn out_of_turn(&self) -> &PositionsGiven {
        &self.by_cuts().out_of_turn
    }

    /// Writes the next step: see [`GivenView::write_step`].
    pub(crate) fn write_step(&mut self, number: u64, given: &Ahead, marked: &Ahead) {
        self.by_cuts().write_step(number, given, marked);
    }

    /// So many more records are at positions given.
    pub(crate) fn gave_records(&mut self, records: u64) {
        self.by_cuts().add_records(records);
    }

    fn by_cuts(&self) -> &GivenView {
        self.view.given.as_ref().expect("the range is given bit by bit")
    }

    /// No worker serves the range any more.
    pub fn freeze(&mut self) {
        let phase = self.view.phase();
        assert!(phase < ExportPhase::Frozen, "M2: an export is frozen once");
        // Changes from before tracking began are in no round.
        let was_tracked = phase == ExportPhase::Tracking;
        let is_copied = self.view.marks.is_some() && self.view.watched.is_none();
        assert!(was_tracked || !is_copied, "M11: frozen, and never tracked");
        self.view.phase.store(ExportPhase::Frozen as u8, Ordering::Release);
    }

    /// The target knows of the freeze.
    pub fn hand_over(&mut self) {
        self.view.handed_over.store(true, Ordering::Relaxed);
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
        let (view, mut writer) = ExportView::new(&spec(range(0, 9), vec![range(0, 9)]), &[]);
        assert_eq!(view.phase(), ExportPhase::Pending);
        writer.freeze();
        assert_eq!(view.phase(), ExportPhase::Frozen);
        writer.finish();
        assert_eq!(view.phase(), ExportPhase::Done);
    }

    fn tracked() -> (Arc<ExportView>, ExportWriter) {
        let mut spec = spec(range(10, 19), vec![range(10, 19)]);
        spec.protocol = crate::SOURCE_DRIVEN;
        ExportView::new(&spec, &[])
    }

    #[test]
    fn tracking_comes_before_the_freeze_and_marks_are_of_the_range() {
        let (view, mut writer) = tracked();
        writer.track();
        assert_eq!(view.phase(), ExportPhase::Tracking);
        view.mark(Position(9), 0);
        view.mark(Position(19), 0);
        view.mark_range(range(0, 11));
        assert_eq!(view.marked(), 2);
        writer.freeze();
        assert_eq!(writer.take_marks(), [range(10, 11), range(19, 19)]);
        assert_eq!(view.phase(), ExportPhase::Frozen);
    }

    #[test]
    fn only_what_is_hot_is_marked_where_nothing_else_is_copied_ahead() {
        let mut spec = spec(range(10, 19), vec![range(10, 19)]);
        spec.protocol.hot_first = true;
        let hot = [14, 9, 12, 18].map(Position);
        let (view, mut writer) = ExportView::new(&spec, &hot);
        assert_eq!(view.known_hot(), [14, 12, 18].map(Position));
        writer.track();
        writer.watch(5);
        for (position, step) in [(9, 5), (12, 4), (13, 5), (14, 5), (18, 4)] {
            view.mark(Position(position), step);
        }
        assert_eq!(view.marked(), 1);
        view.mark_range(range(17, 30));
        writer.freeze();
        assert_eq!(*writer.unchanged(), [Position(12)]);
    }

    #[test]
    #[should_panic(expected = "M11: frozen, and never tracked")]
    fn freeze_refuses_a_copy_that_was_never_tracked() {
        tracked().1.freeze();
    }

    #[test]
    #[should_panic(expected = "M8")]
    fn finish_refuses_what_was_never_frozen() {
        ExportView::new(&spec(range(0, 9), vec![range(0, 9)]), &[]).1.finish();
    }
}
