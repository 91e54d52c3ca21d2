//! The target's workers' view of a migration: a few atomics, written by one mover.
//!
//! Purpose: a worker decides per command, without a lock, whether it may acknowledge (M3) and whether the
//! store's answer for a key is final.
//!
//! Invariants: M3 (nothing is acknowledged while [`ImportPhase::Waiting`]), M23 (of a range given bit by bit,
//! nothing is acknowledged at a position that was not given), M6 (removals leave a tombstone,
//! see [`ImportView::left_by_removal`]), M7 (progress never passes a record that is not readable, and never
//! moves back).
//!
//! The order that M7 rests on: a worker calls [`ImportView::has_arrived`] *before* it looks into the store.
//! The mover replays, then publishes progress with release ordering. The worker loads it with acquire
//! ordering, so everything that the progress covers is in the index at the look-up. In the other order, a
//! record could arrive between a look-up that missed and the progress that covers it, and an existing key
//! would read as absent.
//!
//! The view also counts this node's keys that are not here: see [`ImportView::missing_keys`].
//!
//! Realises: Fulva III-B (P_1..P_N). Its code lets progress run ahead of replay and sets a finished
//! partition's to 0; here a finished partition has a state of its own.
//!
//! Ownership: [`ImportView`] is shared with every worker; [`ImportWriter`], of which there is one, belongs to
//! the target machine.

use crate::cuts::{Ahead, GivenDigest, PositionsGiven, Share};
use crate::{Copies, MigrationSpec, OnMissing};
use sidle_store::Leave;
use sidle_types::{MigrationId, NodeId, Position, PositionRange, TabletEpoch, fault};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An import's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ImportPhase {
    /// The source may still acknowledge: requests are parked (M3).
    Waiting,
    /// The source owns the range and serves it; its records, or hot ones, arrive ahead (M11, M30). Workers
    /// here ignore the range before the commit, and park requests after it.
    Copying,
    /// The range is given bit by bit: this node serves what it was given, the source the rest.
    Taking,
    /// The source is frozen and records are arriving. The protocol serves nothing before all have arrived:
    /// requests are parked.
    Filling,
    /// The target serves; records are arriving.
    Serving,
    /// Everything has arrived. Removals still leave tombstones: a delayed replay may be under way.
    Complete,
}

impl ImportPhase {
    /// Whether arriving records may enter the store.
    pub const fn takes_records(self) -> bool {
        matches!(
            self,
            ImportPhase::Copying | ImportPhase::Taking | ImportPhase::Filling | ImportPhase::Serving
        )
    }
}

/// The target's workers' view of a migration.
#[derive(Debug)]
pub struct ImportView {
    id: MigrationId,
    epoch: TabletEpoch,
    range: PositionRange,
    source: NodeId,
    copied_ahead: bool,
    /// Whether all of it is, so that progress is made before the freeze.
    progresses_ahead: bool,
    /// Positions given out of turn, of a range that is given bit by bit.
    out_of_turn: Option<PositionsGiven>,
    /// Of a way back, and of a range that was given bit by bit until a node restarted: what this node owned
    /// of it when this view began.
    began_with: Option<Share>,
    digest: Option<GivenDigest>,
    /// Large collections that the source serves until their turn comes, in order.
    large: OnceLock<Box<[Position]>>,
    /// Of such a range: whether the source has given all that was left, what was not copied included.
    gave_all: AtomicBool,
    /// Of such a range that turns back: whether nothing is in transit any more, and nothing more is taken.
    takes_no_more: AtomicBool,
    missing: OnMissing,
    sample_one_in: Option<u32>,
    pulls_out_of_turn: bool,
    partitions: Box<[PositionRange]>,
    progress: Box<[Progress]>,
    phase: AtomicU8,
    counts: Counts,
}

/// The terms of the number of missing keys.
#[derive(Debug, Default)]
struct Counts {
    /// Records in the range at the source when it was frozen.
    frozen: AtomicU64,
    /// Of those, how many have an entry here: arrived, or found to have been written here blindly.
    met: AtomicU64,
    /// How many came in bulk, whether new here or not.
    passed: AtomicU64,
    /// Of a range that is given bit by bit: records here that are not this node's yet.
    inert: AtomicU64,
}

/// Of one partition: `next` is its first position that is not here, and counts until `all`.
#[derive(Debug)]
struct Progress {
    next: AtomicU64,
    all: AtomicBool,
}

impl ImportView {
    /// The view of a migration that has not begun, and the one handle that may change it.
    ///
    /// Panics if the partitions do not tile the range: see [`MigrationSpec::check`].
    pub fn new(spec: &MigrationSpec) -> (Arc<ImportView>, ImportWriter) {
        ImportView::begun(spec, None)
    }

    /// The same of a way back, which begins with this share of the range here (M21), and with so many records
    /// of what this node had given before.
    pub fn of_way_back(spec: &MigrationSpec, share: Share, outdated: u64) -> (Arc<ImportView>, ImportWriter) {
        assert!(spec.cuts().is_some(), "M21: only what is given bit by bit turns back");
        let (view, mut writer) = ImportView::begun(spec, Some(share));
        writer.set_inert(outdated);
        (view, writer)
    }

    /// The same of one that goes on after a restart of a node, by a spec that is
    /// [resumed](crate::ProtocolChoices::resumed). It begins with what this node had been given, if the range
    /// was given bit by bit: what comes of that from the source is outdated (M24).
    pub fn resumed(spec: &MigrationSpec, given: Share) -> (Arc<ImportView>, ImportWriter) {
        assert!(spec.cuts().is_none(), "M33: after a restart the source gives all at once");
        ImportView::begun(spec, (!given.ranges().is_empty()).then_some(given))
    }

    fn begun(spec: &MigrationSpec, began_with: Option<Share>) -> (Arc<ImportView>, ImportWriter) {
        spec.check().expect("specs are checked where they enter the node");
        let progress = |partition: &PositionRange| Progress {
            next: AtomicU64::new(partition.first().0),
            all: AtomicBool::new(false),
        };
        let first = match spec.protocol.copies {
            _ if spec.protocol.copies_in_preparation() => ImportPhase::Copying,
            Copies::AfterFreeze | Copies::BeforeFreeze(_) => ImportPhase::Waiting,
            Copies::BeforeCuts(_) => ImportPhase::Taking,
        };
        let view = Arc::new(ImportView {
            id: spec.id,
            epoch: spec.epoch,
            range: spec.range,
            source: spec.source,
            copied_ahead: first == ImportPhase::Copying,
            progresses_ahead: matches!(spec.protocol.copies, Copies::BeforeFreeze(_)),
            out_of_turn: spec.cuts().map(|cuts| PositionsGiven::new(cuts.out_of_turn)),
            began_with,
            digest: spec.cuts().filter(|cuts| cuts.digest).map(|_| GivenDigest::default()),
            large: OnceLock::new(),
            gave_all: AtomicBool::new(false),
            takes_no_more: AtomicBool::new(false),
            missing: spec.protocol.missing,
            sample_one_in: spec.protocol.sampling.map(|sampling| sampling.one_in),
            pulls_out_of_turn: spec.protocol.priority.in_flight > 0,
            progress: spec.partitions.iter().map(progress).collect(),
            partitions: spec.partitions.clone().into(),
            phase: AtomicU8::new(first as u8),
            counts: Counts::default(),
        });
        (Arc::clone(&view), ImportWriter { view })
    }

    /// The migration.
    pub fn id(&self) -> MigrationId {
        self.id
    }

    /// The epoch at which this node owns the range.
    pub fn epoch(&self) -> TabletEpoch {
        self.epoch
    }

    /// The range that arrives.
    pub fn range(&self) -> PositionRange {
        self.range
    }

    /// Its source.
    pub fn source(&self) -> NodeId {
        self.source
    }

    /// The partitions, in order.
    pub fn partitions(&self) -> &[PositionRange] {
        &self.partitions
    }

    /// The import's phase.
    #[inline]
    pub fn phase(&self) -> ImportPhase {
        match self.phase.load(Ordering::Acquire) {
            0 => ImportPhase::Waiting,
            1 => ImportPhase::Copying,
            2 => ImportPhase::Taking,
            3 => ImportPhase::Filling,
            4 => ImportPhase::Serving,
            _ => ImportPhase::Complete,
        }
    }

    /// Whether this node may acknowledge requests for the range (M3).
    #[inline]
    pub fn activated(&self) -> bool {
        matches!(self.phase(), ImportPhase::Taking | ImportPhase::Serving | ImportPhase::Complete)
    }

    /// Whether everything that the source has at this position is here, so that the store's next answer is
    /// final. For a copy made before the freeze this means nothing until the import is
    /// [activated](Self::activated). Of a range that is given bit by bit: whether this node owns the position
    /// (M23).
    ///
    /// Call this *before* looking into the store: see the module's header. A position outside the range is a
    /// caller's bug.
    #[inline]
    pub fn has_arrived(&self, position: Position) -> bool {
        if self.phase() == ImportPhase::Complete {
            return true;
        }
        assert!(self.range.contains(position), "{position} is outside the import of {}", self.range);
        let index = self.partitions.partition_point(|partition| partition.last() < position);
        let progress = &self.progress[index];
        progress.all.load(Ordering::Acquire)
            || progress.next.load(Ordering::Acquire) > position.0
            || self.owns_beyond_progress(position)
    }

    /// Whether the position is this node's, wherever the progress stands.
    pub fn owns_beyond_progress(&self, position: Position) -> bool {
        self.out_of_turn.as_ref().is_some_and(|given| given.since(position).is_some())
            || self.began_with_position(position)
    }

    /// Whether this node owned the position when this view began: never, but for a way back, and after a
    /// restart of a node.
    fn began_with_position(&self, position: Position) -> bool {
        self.began_with.as_ref().is_some_and(|share| share.has(position))
    }

    /// Whether some positions may be this node's, wherever the progress stands.
    pub(crate) fn may_own_beyond_progress(&self) -> bool {
        self.out_of_turn.is_some() || self.began_with.is_some()
    }

    /// Of a way back: what this node owned of the range when it began.
    pub(crate) fn began_with(&self) -> Option<&Share> {
        self.began_with.as_ref()
    }

    /// What this node owns of a range that is given bit by bit.
    pub fn owned(&self) -> Share {
        let below = |(bounds, next): (&PositionRange, Option<Position>)| {
            let last = next.map_or(Some(bounds.last()), Position::previous)?;
            PositionRange::new(bounds.first(), last)
        };
        let below = self.partitions.iter().zip(self.progress()).filter_map(below);
        let out_of_turn = self.out_of_turn.iter().flat_map(PositionsGiven::iter).map(PositionRange::only);
        let before = self.began_with.iter().flat_map(|share| share.ranges().iter().copied());
        Share::of(below.chain(out_of_turn).chain(before))
    }

    /// What is not this node's from the beginning: all but what it had been given before a restart.
    pub fn left_behind(&self) -> Share {
        self.began_with.as_ref().unwrap_or(&Share::default()).rest_of(self.range)
    }

    /// Whether the range is given bit by bit, and the source has not [given all](Self::gave_all): what is in
    /// the store at a position that was not given means nothing (M23), and no command runs there.
    #[inline]
    pub fn is_by_cuts(&self) -> bool {
        self.out_of_turn.is_some() && !self.gave_all()
    }

    /// Whether commands over a large collection at this position are for the source, which serves it until
    /// its turn comes: nobody would while all of it is in transit. A hint (M26): it may have been given.
    #[inline]
    pub fn is_left_to_source(&self, position: Position) -> bool {
        let Some(large) = self.large.get().filter(|_| self.is_by_cuts()) else { return false };
        large.binary_search(&position).is_ok() && !self.has_arrived(position)
    }

    /// Whether the source serves this position until its turn comes, or it is taken out of turn. A hint
    /// (M26): it may have been given.
    pub fn is_kept_by_source(&self, position: Position) -> bool {
        self.is_by_cuts() && !self.has_arrived(position)
    }

    /// What clients that subscribe are told of it, if they are.
    pub fn digest(&self) -> Option<&GivenDigest> {
        self.digest.as_ref()
    }

    /// Whether the source of a range that was given bit by bit has given all that was left in one cut. From
    /// then on this node owns the range, and what is owed arrives as from any frozen source (M30).
    #[inline]
    pub fn gave_all(&self) -> bool {
        self.gave_all.load(Ordering::Acquire)
    }

    /// Whether the migration turns back, and what has not arrived will not: it stays with the source.
    pub fn takes_no_more(&self) -> bool {
        self.takes_no_more.load(Ordering::Acquire)
    }

    /// By partition, from where on a client need not ask this node first: the progress, until the source gave
    /// all.
    pub fn asked_up_to(&self) -> impl Iterator<Item = Option<Position>> + '_ {
        let gave_all = self.gave_all();
        self.progress().map(move |next| next.filter(|_| !gave_all))
    }

    /// Whether so many more positions may be given out of turn: there is a bound on how many are.
    pub(crate) fn has_room_out_of_turn(&self, more: usize) -> bool {
        self.out_of_turn.as_ref().is_some_and(|given| given.has_room(more))
    }

    /// How many records of the range are in the store and not this node's.
    pub fn inert_records(&self) -> u64 {
        self.counts.inert.load(Ordering::Relaxed)
    }

    /// Whether everything that the source has in these positions of the range is here, and this node may
    /// answer so (M3). Call this before looking into the store.
    pub fn has_all(&self, range: PositionRange) -> bool {
        let covers = |(partition, next): (&PositionRange, Option<Position>)| {
            let is_here = next.is_none_or(|next| next > range.last().min(partition.last()));
            is_here || !partition.overlaps(range)
        };
        self.activated() && self.partitions.iter().zip(self.progress()).all(covers)
    }

    /// How many keys of the range are this node's and not in its store: they have not arrived, and nothing
    /// was written or deleted here in their place. A blind write counts twice until the source reports
    /// whether it has the key (a round trip). Before the source is frozen it counts all of them itself.
    pub fn missing_keys(&self) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let frozen = load(&self.counts.frozen);
        match self.phase() {
            ImportPhase::Waiting | ImportPhase::Copying | ImportPhase::Taking | ImportPhase::Complete => 0,
            // Nothing is served, so nothing changes; the records here may be stale.
            ImportPhase::Filling => frozen,
            ImportPhase::Serving => {
                frozen.saturating_sub(load(&self.counts.met).max(load(&self.counts.passed)))
            }
        }
    }

    /// For each partition the first position that is not here yet, or `None` when all of it is.
    pub fn progress(&self) -> impl ExactSizeIterator<Item = Option<Position>> + '_ {
        self.progress.iter().map(|progress| {
            // `next` does not move once `all` is set, so either order of the two loads yields a state that
            // existed.
            let next = Position(progress.next.load(Ordering::Acquire));
            (!progress.all.load(Ordering::Acquire)).then_some(next)
        })
    }

    /// Whether the source is known to acknowledge nothing more in the range.
    pub fn source_is_frozen(&self) -> bool {
        self.phase() >= ImportPhase::Filling
    }

    /// Whether it, or what is hot of it, was copied before the source froze it: until the last round, or the
    /// activation, has arrived, its records may be stale.
    pub fn is_copied_ahead(&self) -> bool {
        self.copied_ahead
    }

    /// What to do with a command that needs a key that has not arrived.
    #[inline]
    pub fn missing(&self) -> OnMissing {
        self.missing
    }

    /// Of the reads answered "not here yet", one in this many is to be drawn for a sampled pull.
    #[inline]
    pub fn sample_one_in(&self) -> Option<u32> {
        self.sample_one_in
    }

    /// Whether a command that needs a missing key waits until the bulk pulls bring it, however long: nothing
    /// is served before everything is here, or nothing is pulled ahead.
    pub fn waits_for_turns(&self) -> bool {
        match self.phase() {
            ImportPhase::Filling => true,
            ImportPhase::Serving => !self.pulls_out_of_turn,
            ImportPhase::Waiting | ImportPhase::Copying | ImportPhase::Taking | ImportPhase::Complete => {
                false
            }
        }
    }

    /// What a removal in the range leaves behind while this view is in the range table (M6).
    #[inline]
    pub fn left_by_removal(&self) -> Leave {
        // M24 keeps copies out of what was given.
        if fault!(NoTombstones) || self.is_by_cuts() { Leave::Nothing } else { Leave::Tombstone }
    }
}

/// The only handle that changes an [`ImportView`]; belongs to the target machine.
#[derive(Debug)]
pub struct ImportWriter {
    view: Arc<ImportView>,
}

impl ImportWriter {
    /// The view that it changes.
    pub fn view(&self) -> &Arc<ImportView> {
        &self.view
    }

    /// Sets how many records were in the range when the source was frozen.
    pub fn expect(&mut self, records: u64) {
        self.view.counts.frozen.store(records, Ordering::Relaxed);
    }

    /// Counts this many more of the source's keys with an entry here.
    pub fn met(&mut self, records: u64) {
        self.view.counts.met.fetch_add(records, Ordering::Relaxed);
    }

    /// Counts this many more of the source's records that came in bulk.
    pub fn passed(&mut self, records: u64) {
        self.view.counts.passed.fetch_add(records, Ordering::Relaxed);
    }

    /// This node owns these positions, which are readable: by partition everything before a cursor, and
    /// single positions out of turn (M21, M23).
    pub(crate) fn own(&mut self, cursors: &Ahead, out_of_turn: &[Position]) {
        assert_eq!(self.view.phase(), ImportPhase::Taking, "M23: positions are given bit by bit");
        let given = self.view.out_of_turn.as_ref().expect("it is given bit by bit");
        // Here every step counts: ownership only grows, so a worker needs none to be of one mind.
        out_of_turn.iter().for_each(|&position| given.insert(position, 0));
        for (index, &next) in cursors.iter().enumerate() {
            let before = self.view.progress().nth(index).expect("a cursor for each partition");
            if next != before {
                self.advance(index, next);
            }
        }
        if let Some(digest) = &self.view.digest {
            digest.gave(out_of_turn);
        }
    }

    /// All that was left is given: this node owns the range, and so many of its records are owed. The inert
    /// copies of those are gone (M30). Whoever sees this sees all of it.
    pub(crate) fn owe(&mut self, records: u64) {
        assert_eq!(self.view.phase(), ImportPhase::Taking, "M30: what is owed is the rest of what was given");
        let Counts { frozen, met, passed, inert } = &self.view.counts;
        frozen.store(records, Ordering::Relaxed);
        [met, passed, inert].into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.view.gave_all.store(true, Ordering::Release);
        self.view.phase.store(ImportPhase::Serving as u8, Ordering::Release);
    }

    /// The migration turns back and is settled, or goes on after all.
    pub(crate) fn set_takes_no_more(&mut self, takes_no_more: bool) {
        self.view.takes_no_more.store(takes_no_more, Ordering::Release);
    }

    /// The source names its large collections; the first list counts.
    pub(crate) fn leave_to_source(&mut self, collections: impl Iterator<Item = Position>) {
        let mut large: Vec<Position> = collections.collect();
        large.sort_unstable();
        if !large.is_empty() {
            self.view.large.get_or_init(|| large.into());
        }
    }

    /// Sets how many records are in the store and not this node's.
    pub(crate) fn set_inert(&mut self, records: u64) {
        self.view.counts.inert.store(records, Ordering::Relaxed);
    }

    /// The source is frozen: the target serves from now on (M3).
    pub fn activate(&mut self) {
        assert!(self.view.phase() < ImportPhase::Serving, "M3: an import is activated once");
        self.view.phase.store(ImportPhase::Serving as u8, Ordering::Release);
    }

    /// The source is frozen: records arrive from now on, and nothing is served.
    pub fn fill(&mut self) {
        assert!(!self.view.source_is_frozen(), "M3: an import is activated once");
        self.view.phase.store(ImportPhase::Filling as u8, Ordering::Release);
    }

    /// The arrived records were discarded: everything is pulled again. Nothing has been served, so no client
    /// noticed.
    pub fn begin_anew(&mut self) {
        let phase = self.view.phase();
        let is_untold = matches!(phase, ImportPhase::Copying | ImportPhase::Filling);
        assert!(is_untold, "M7: progress moves back only before it is told");
        for (partition, progress) in self.view.partitions.iter().zip(&self.view.progress) {
            progress.next.store(partition.first().0, Ordering::Release);
            progress.all.store(false, Ordering::Release);
        }
        self.view.counts.met.store(0, Ordering::Relaxed);
        self.view.counts.passed.store(0, Ordering::Relaxed);
    }

    /// Everything before `next` in the partition is readable; `None`: all of it is (M7).
    pub fn advance(&mut self, partition: usize, next: Option<Position>) {
        let phase = self.view.phase();
        assert!(
            phase.takes_records() && (phase != ImportPhase::Copying || self.view.progresses_ahead),
            "M3, M7: progress is made after activation, or ahead of the freeze, and before the end"
        );
        let bounds = self.view.partitions[partition];
        let progress = &self.view.progress[partition];
        assert!(!progress.all.load(Ordering::Relaxed), "M7: partition {partition} is complete already");
        let Some(next) = next else {
            if fault!(FinishedPartitionResets) {
                return progress.next.store(0, Ordering::Release);
            }
            progress.all.store(true, Ordering::Release);
            return;
        };
        let before = progress.next.load(Ordering::Relaxed);
        assert!(
            before < next.0,
            "M7: progress of partition {partition} goes back from {before:#x} to {next}"
        );
        assert!(bounds.contains(next), "M7: progress {next} is outside partition {partition}");
        progress.next.store(next.0, Ordering::Release);
    }

    /// Everything had arrived in an earlier incarnation of this node.
    pub fn resume_complete(&mut self) {
        assert_eq!(self.view.phase(), ImportPhase::Waiting, "nothing has arrived in this one");
        self.set_complete();
    }

    /// Everything has arrived, or the rest is absent for good (FLUSHALL). Nothing is replayed after this.
    pub fn complete(&mut self) {
        let phase = self.view.phase();
        assert!(phase.takes_records(), "an import is completed once, after activation");
        let has_all = phase == ImportPhase::Taking && self.view.progress().all(|next| next.is_none());
        assert!(has_all || self.view.source_is_frozen(), "M3, M11: complete before the source is frozen");
        self.set_complete();
    }

    fn set_complete(&mut self) {
        for progress in &self.view.progress {
            progress.all.store(true, Ordering::Release);
        }
        self.view.phase.store(ImportPhase::Complete as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::{range, spec};

    fn view() -> (Arc<ImportView>, ImportWriter) {
        ImportView::new(&spec(range(10, u64::MAX), vec![range(10, 19), range(20, 29), range(30, u64::MAX)]))
    }

    fn progress(view: &ImportView) -> Vec<Option<u64>> {
        view.progress().map(|next| next.map(|next| next.0)).collect()
    }

    #[test]
    fn has_arrived_follows_each_partition() {
        let (view, mut writer) = view();
        writer.activate();
        assert!(!view.has_arrived(Position(10)));
        writer.advance(1, Some(Position(25)));
        for (position, arrived) in
            [(10, false), (19, false), (20, true), (24, true), (25, false), (30, false)]
        {
            assert_eq!(view.has_arrived(Position(position)), arrived, "{position}");
        }
        writer.advance(2, None);
        assert!(view.has_arrived(Position(u64::MAX)));
        assert_eq!(progress(&view), [Some(10), Some(25), None]);
    }

    #[test]
    fn waits_for_turns_where_nobody_is_served_or_nothing_is_pulled_out_of_turn() {
        let mut spec = spec(range(10, 29), vec![range(10, 29)]);
        for in_flight in [1, 0] {
            spec.protocol.priority.in_flight = in_flight;
            let (view, mut writer) = ImportView::new(&spec);
            assert!(!view.waits_for_turns(), "the source may still serve");
            writer.fill();
            assert!(view.waits_for_turns());
            writer.activate();
            assert_eq!(view.waits_for_turns(), in_flight == 0);
            writer.complete();
            assert!(!view.waits_for_turns());
        }
    }

    #[test]
    fn has_all_once_each_partition_has_passed_the_range() {
        let (view, mut writer) = view();
        assert!(!view.has_all(range(10, 10)), "M3");
        writer.activate();
        writer.advance(0, None);
        writer.advance(1, Some(Position(25)));
        let has_all = |first, last| view.has_all(range(first, last));
        assert!(has_all(10, 19) && has_all(12, 24) && has_all(20, 20));
        assert!(!has_all(10, 25) && !has_all(24, 30) && !has_all(40, u64::MAX));
        writer.complete();
        assert!(has_all(10, u64::MAX));
    }

    #[test]
    fn missing_is_what_was_frozen_and_has_no_entry_here() {
        let (view, mut writer) = view();
        writer.expect(10);
        assert_eq!(view.missing_keys(), 0, "the source counts them");
        writer.activate();
        assert_eq!(view.missing_keys(), 10);
        writer.met(4);
        assert_eq!(view.missing_keys(), 6);
        writer.passed(7);
        assert_eq!(
            view.missing_keys(),
            3,
            "what came in bulk has an entry here, whatever was counted before"
        );
        writer.met(7);
        assert_eq!(view.missing_keys(), 0);
        writer.complete();
        assert_eq!(view.missing_keys(), 0);
    }

    #[test]
    fn missing_is_everything_while_nobody_is_served() {
        let (view, mut writer) = view();
        writer.expect(10);
        writer.fill();
        writer.met(9);
        assert_eq!(view.missing_keys(), 10);
        writer.begin_anew();
        writer.activate();
        assert_eq!(view.missing_keys(), 10, "what had come was thrown away");
    }

    #[test]
    fn complete_covers_everything() {
        let (view, mut writer) = view();
        writer.activate();
        writer.complete();
        assert!(view.has_arrived(Position(10)) && view.has_arrived(Position(u64::MAX)));
        assert_eq!(progress(&view), [None; 3]);
    }

    #[test]
    fn filling_serves_nobody() {
        let (view, mut writer) = view();
        writer.fill();
        assert!(view.source_is_frozen() && !view.activated());
        writer.advance(1, Some(Position(25)));
        assert!(view.has_arrived(Position(24)) && !view.activated());
        writer.complete();
        assert!(view.activated());
    }

    #[test]
    fn activated_only_after_activation() {
        let (view, mut writer) = view();
        assert!(!view.activated());
        writer.activate();
        assert!(view.activated());
        writer.complete();
        assert!(view.activated());
    }

    #[test]
    #[should_panic(expected = "M7: progress of partition 0 goes back")]
    fn advance_refuses_to_go_back() {
        let (_, mut writer) = view();
        writer.activate();
        writer.advance(0, Some(Position(15)));
        writer.advance(0, Some(Position(14)));
    }

    #[test]
    #[should_panic(expected = "M7: partition 1 is complete already")]
    fn advance_refuses_to_reopen_a_partition() {
        let (_, mut writer) = view();
        writer.activate();
        writer.advance(1, None);
        writer.advance(1, Some(Position(25)));
    }

    #[test]
    #[should_panic(expected = "M3, M7")]
    fn advance_refuses_before_activation() {
        view().1.advance(0, None);
    }
}
