//! This node as the target: it makes room, connects to the source, copies the range first if the protocol
//! needs it, takes it over, and sweeps it at the end.

use super::table::Then;
use super::unsynced::News;
use super::{ControlEvent, CopyToRead, NodeControl, spec};
use crate::mover::{MoverReport, MoverStep, Table};
use sidle_cluster::{
    LargeCollections, MigrationRecord, PrepareRefusal, Progress, Settled, SourceStage, Takeover, Target,
    TargetStage,
};
use sidle_migration::{ImportView, ImportWriter, ImporterCounters, MigrationSpec, Share};
use sidle_store::{ImportNote, ImportStage};
use sidle_types::{GaveAll, ImportId, MigrationId, PositionRange, TabletEpoch, fault};
use std::sync::Arc;

/// The percentage of free memory that an import may plan to fill: the rest is for concurrent writes, and for
/// the cleaner.
const FILL_PERCENT: u64 = 90;

/// What arrives: an import, or a copy ahead of the freeze.
#[derive(Debug)]
pub struct Import {
    pub(super) view: Arc<ImportView>,
    counters: ImporterCounters,
    stalled: bool,
    /// Why all that was left was given at once, if so.
    gave_all: Option<GaveAll>,
    /// If it is to turn back and nothing is in transit: what this node owns.
    settled: Option<Settled>,
    /// Of one that goes on after a restart: what the mover is given once the range is clear.
    held: Option<(Box<MigrationSpec>, ImportWriter)>,
    /// The source restarted: another import goes on with what this one has been given.
    is_resumed: bool,
    /// The source died, and what is left is to be read from a copy of its log.
    awaits_copy: bool,
    /// What had arrived by then of the import before, if this is that other one.
    earlier: Progress,
}

impl Import {
    pub(super) fn new(view: Arc<ImportView>) -> Import {
        let counters = ImporterCounters::default();
        Import {
            view,
            counters,
            stalled: false,
            gave_all: None,
            settled: None,
            held: None,
            is_resumed: false,
            awaits_copy: false,
            earlier: Progress::default(),
        }
    }

    /// The import that goes on where this one ended.
    fn resumed(&self, view: Arc<ImportView>) -> Import {
        Import { earlier: self.progress(), ..Import::new(view) }
    }

    /// Its progress as reported to the coordinator.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            activated: self.view.source_is_frozen(),
            records_moved: self.earlier.records_moved + self.counters.records_moved,
            bytes_moved: self.earlier.bytes_moved + self.counters.bytes_moved,
            next: self.view.progress().collect(),
            changes: self.counters.changes,
            changes_left: self.counters.changes_left,
            collections: self.earlier.collections.and(LargeCollections {
                arrived: self.counters.collections,
                ahead: self.counters.collections_ahead,
                patch_bytes: self.counters.patch_bytes,
            }),
            stalled: self.stalled.then(|| "the target is out of memory".to_owned()),
            gave_all: self.gave_all,
            settled: self.settled,
        }
    }

    /// Whether this is a copy without the last round. It may still hold what the source has deleted or
    /// overwritten, and a stale value is worse than none. Call it when nothing more is replayed.
    fn is_stale_copy(&self) -> bool {
        self.view.is_copied_ahead() && !self.view.activated()
    }
}

/// What is to be read from a copy for an import whose source died: all but what this node had been given.
pub(super) fn copy_for(target: &Target<Import>) -> Option<CopyToRead> {
    let MigrationRecord { range, epoch, target: owner, ref source_log, .. } = target.record;
    let dead = source_log.clone()?;
    let takeover = Takeover { range, owner, epoch, dead, import: None, unread_by: Vec::new() };
    let ranges = target.import.as_ref()?.view.left_behind().ranges().to_vec();
    Some(CopyToRead { takeover, ranges, keeps: true, import: None })
}

/// Whether its range must not be discarded by others (C7).
fn claims_range(target: &Target<Import>) -> bool {
    !matches!(target.stage(), TargetStage::Clearing | TargetStage::Dropped | TargetStage::Over)
}

impl NodeControl {
    /// The coordinator asks whether this node can take a range.
    pub(super) fn prepare(&mut self, id: MigrationId) {
        let speaks = self.agent.speaks();
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        let memory = self.parts.store.memory();
        let free = memory.limit.saturating_sub(memory.log_live + memory.index);
        let needed_bytes = target.record.counters.bytes;
        let free_bytes = free / 100 * FILL_PERCENT;
        if let Err(why) = spec(&target.record, self.tuning, speaks) {
            target.refuse(PrepareRefusal::Other { why });
        } else if needed_bytes > free_bytes {
            target.refuse(PrepareRefusal::NoMemory { needed_bytes, free_bytes });
        }
    }

    /// The first map says what is of use of what the durable log had: it has what this node owned when it
    /// ended, copies included, and the tombstones of imports.
    pub(super) fn sort_recovered(&mut self) -> Vec<Then> {
        let targets = self.agent.migrations.targets.values().filter(|target| target.import.is_some());
        let mut ids: Vec<ImportId> = targets.map(|target| target.record.import()).collect();
        ids.extend(self.succeeding().map(MigrationRecord::import));
        let goes_on = |note: &ImportNote| ids.contains(&note.id);
        let (going_on, over): (Vec<_>, Vec<_>) =
            self.parts.store.noted_imports().into_iter().partition(goes_on);
        for note in over {
            self.parts.store.note_import(ImportNote { stage: ImportStage::Over, ..note });
        }
        let store = &self.parts.store;
        let is_needed = |swept: &PositionRange| !going_on.iter().any(|note| note.range.overlaps(*swept));
        let swept = self.owned_in(PositionRange::ALL).filter(|range| store.tombstones_in(*range) > 0);
        let swept = swept.filter(is_needed).map(Then::Sweep);
        let has_any = !store.is_empty() || store.tombstones_in(PositionRange::ALL) > 0;
        let discarded = has_any.then_some(Then::Discard(PositionRange::ALL));
        discarded.into_iter().chain(swept).collect()
    }

    /// Resumes preparations whose range is clear by now (C4).
    pub(super) fn prepare_waiting(&mut self) {
        let targets = self.agent.migrations.targets.iter();
        let waiting = targets.filter(|(_, target)| target.stage() == TargetStage::Clearing);
        let waiting = waiting.map(|(&id, target)| (id, target.record.range));
        for (id, range) in waiting.collect::<Vec<_>>() {
            // An earlier migration of the range whose end has not been reported here counts too. So does one
            // that a late question has brought back: the coordinator ends it, since it knows none like it.
            let in_hand = self.has_records_in(range)
                || self.is_prepared_in(range)
                || self.jobs.overlaps(range)
                || self.barriers.clear_in(range)
                // An owner takes nothing in: the map is yet to change, or the question is outdated (C7).
                || self.owned_in(range).next().is_some();
            if in_hand && !fault!(PreparesOverLeavings) {
                continue;
            }
            let store = &self.parts.store;
            let is_clear = store.len_in(range) == 0 && store.tombstones_in(range) == 0;
            if !is_clear && !fault!(PreparesOverLeavings) {
                // Nobody clears what is left here; this node does not own it.
                self.publish(vec![Then::Discard(range)]);
                continue;
            }
            let target = self.agent.migrations.targets.get_mut(&id).expect("it waits");
            target.advance(TargetStage::Connecting);
            let source = target.record.source;
            self.command(id, MoverStep::Expect(source));
        }
    }

    /// Whether a migration has records in the range, or is about to.
    pub(super) fn has_records_in(&self, range: PositionRange) -> bool {
        let migrations = &self.agent.migrations;
        let sources = migrations.sources.iter().filter(|(_, source)| source.view.is_some());
        let targets = migrations.targets.iter().filter(|(_, target)| target.import.is_some());
        let ranges = sources.map(|(_, source)| source.range);
        ranges.chain(targets.map(|(_, target)| target.record.range)).any(|other| other.overlaps(range))
    }

    /// Whether a migration into the range is prepared here, or further.
    fn is_prepared_in(&self, range: PositionRange) -> bool {
        let targets = self.agent.migrations.targets.values().filter(|target| claims_range(target));
        targets.map(|target| target.record.range).any(|other| other.overlaps(range))
    }

    /// The tablets that this node owns and that share a position with the range.
    pub(super) fn owned_in(&self, range: PositionRange) -> impl Iterator<Item = PositionRange> {
        let tablets = self.map.iter().flat_map(move |map| map.tablets_in(range));
        tablets.filter(|tablet| tablet.owner == self.me().id).map(|tablet| tablet.range)
    }

    /// The parts of the range that nobody uses: not owned, exported, imported or copied by this node (C7).
    pub(super) fn leavings_in(&self, range: PositionRange) -> Vec<PositionRange> {
        let targets = self.agent.migrations.targets.iter().filter(|(_, target)| claims_range(target));
        let claimed = self.exports().map(|view| view.range());
        let claimed = claimed.chain(targets.map(|(_, target)| target.record.range));
        self.owned_in(range).chain(claimed).fold(vec![range], |left, used| {
            let outside = |part: PositionRange| <[_; 2]>::from(part.without(used)).into_iter().flatten();
            left.into_iter().flat_map(outside).collect()
        })
    }

    /// Copies of ranges that this node now owns, whose migrations were not reported as running.
    pub(super) fn owned_copies(&self) -> Vec<MigrationId> {
        let targets = self.agent.migrations.targets.iter();
        let copies = targets.filter(|(_, target)| target.is_prepared() && target.import.is_some());
        let owned = copies.filter(|(_, copied)| self.owned_in(copied.record.range).next().is_some());
        owned.map(|(&id, _)| id).collect()
    }

    /// It cannot be prepared, or not begin: its preparation is dropped. A copy's memory is freed once nothing
    /// more is replayed.
    fn refuse(&mut self, id: MigrationId, why: PrepareRefusal) {
        let target = self.agent.migrations.targets.get_mut(&id).expect("it was prepared");
        let is_known_to_mover = target.stage() > TargetStage::Clearing;
        target.refuse(why);
        if is_known_to_mover {
            self.command(id, MoverStep::Drop);
        }
    }

    /// The map may give this node a range whose copy is still prepared: the migration ran and ended, and the
    /// maps in between were lost. The copy becomes an import that serves nothing unless it is activated. The
    /// migration's end then decides what becomes of it (C8).
    pub(super) fn meet_missed_commits(&mut self) {
        for id in self.owned_copies() {
            self.agent.migrations.targets.get_mut(&id).expect("just seen").advance(TargetStage::Importing);
        }
    }

    /// The next map gives the range to this node. What was copied ahead is served when the last round is
    /// here.
    pub(super) fn start_import(&mut self, id: MigrationId) {
        let speaks = self.agent.speaks();
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        if let Some(before) = target.record.continues {
            return self.import_way_back(id, before);
        }
        let is_copied = target.import.is_some();
        if target.is_unprepared() && self.parts.store.commits().is_some() {
            return self.resume_import(id);
        }
        let why = match spec(&target.record, self.tuning, speaks) {
            // The coordinator begins only what this incarnation of the node has prepared. Without an import
            // the range is lost (R3), and nothing is acknowledged in it.
            _ if !target.is_prepared() => format!("migration {id} begins unprepared"),
            Err(why) if !is_copied => {
                self.refuse(id, PrepareRefusal::Other { why: why.clone() });
                format!("migration {id} cannot begin: {why}")
            }
            spec => {
                target.advance(TargetStage::Importing);
                return spec.into_iter().filter(|_| !is_copied).for_each(|spec| self.import(spec));
            }
        };
        self.event(ControlEvent::Note(why));
    }

    /// The next map shows this node as the target of a way back: it was the source of the migration before,
    /// and was not asked to prepare. As in [`start_export`](Self::start_export). If a node has restarted
    /// since, it goes on as any import does then, with what this node kept; that is in its log (M33).
    fn import_way_back(&mut self, id: MigrationId, before: MigrationId) {
        let speaks = self.agent.speaks();
        let record = &self.agent.migrations.targets[&id].record;
        let is_resumed = !record.kept_by_source;
        let spec = match spec(record, self.tuning, speaks) {
            Ok(spec) => spec,
            Err(why) => return self.event(ControlEvent::Note(format!("migration {id} cannot begin: {why}"))),
        };
        let turned = self.agent.migrations.sources.get_mut(&before);
        let turned = turned.filter(|source| source.stage == SourceStage::Exported);
        let Some((kept, source)) = turned.and_then(|source| Some((source.view.take()?, source))) else {
            match is_resumed && self.parts.store.commits().is_some() {
                true => self.resume_import(id),
                false => self.note_without_share(id, before),
            }
            return;
        };
        source.stage = SourceStage::Over;
        self.command(before, MoverStep::Turned);
        if is_resumed {
            return self.resume(spec, kept.kept(), None);
        }
        let (view, writer) = ImportView::of_way_back(&spec, kept.kept(), kept.given_records());
        let import = Import::new(view);
        let target = self.agent.migrations.targets.get_mut(&id).expect("just announced");
        target.progressed(import.progress());
        target.import = Some(import);
        target.advance(TargetStage::Importing);
        self.command(id, MoverStep::StartImport(Box::new(spec), writer));
    }

    /// The migration goes on with this incarnation of the node, which was not asked to prepare. The durable
    /// log has what an earlier one answered: that is served on, and everything is pulled anew (M5, M6). If it
    /// had answered nobody, what it has is copies, which may be outdated: they go before anything arrives
    /// (C4).
    fn resume_import(&mut self, id: MigrationId) {
        let speaks = self.agent.speaks();
        let spec = match spec(&self.agent.migrations.targets[&id].record, self.tuning, speaks) {
            Ok(spec) => spec,
            Err(why) => return self.event(ControlEvent::Note(format!("migration {id} cannot go on: {why}"))),
        };
        let noted = self.parts.store.noted_import(spec.import);
        self.resume(spec, Share::of(noted.given), noted.stage);
    }

    /// The import goes on with what this node owns of the range, and has noted, as far as this stage.
    fn resume(&mut self, mut spec: MigrationSpec, given: Share, stage: Option<ImportStage>) {
        let id = spec.id;
        spec.protocol = spec.protocol.resumed();
        let copies = given.rest_of(spec.range);
        let (view, mut writer) = ImportView::resumed(&spec, given);
        if stage == Some(ImportStage::Complete) {
            writer.resume_complete();
        }
        let mut import = Import::new(view);
        if stage >= Some(ImportStage::Serving) || copies.ranges().is_empty() || fault!(ResumedOverCopies) {
            self.go_on(id, Box::new(spec), writer);
        } else {
            import.held = Some((Box::new(spec), writer));
            self.jobs.clear_unserved(id, copies.ranges());
        }
        let target = self.agent.migrations.targets.get_mut(&id).expect("just announced");
        target.progressed(import.progress());
        target.import = Some(import);
        target.advance(TargetStage::Importing);
        self.event(ControlEvent::Note(format!(
            "migration {id} goes on here, with what its target had noted"
        )));
    }

    /// The mover goes on with an import after a restart, of this node or of the source.
    fn go_on(&mut self, id: MigrationId, spec: Box<MigrationSpec>, writer: ImportWriter) {
        self.command(id, MoverStep::StartImport(spec, writer));
        let target = &self.agent.migrations.targets[&id];
        if target.record.source_log.is_some() {
            self.command(id, MoverStep::SourceDied);
        }
    }

    /// The running migrations whose targets died, and whose place this node takes: it is still to read what
    /// those had been given.
    pub(super) fn succeeding(&self) -> impl Iterator<Item = &MigrationRecord> {
        let me = self.me().id;
        let map = self.map.iter();
        map.flat_map(move |map| {
            let own = map.takeovers().iter().filter(move |takeover| takeover.owner == me);
            own.filter(|own| own.import.is_some()).filter_map(|own| map.migration_at(own.range.first()))
        })
    }

    /// The imports whose sources died, and that wait for what a copy has.
    pub(super) fn awaiting_copies(&self) -> impl Iterator<Item = &Target<Import>> {
        let awaits = |target: &&Target<Import>| target.import.as_ref().is_some_and(|at| at.awaits_copy);
        self.agent.migrations.targets.values().filter(awaits)
    }

    /// What a copy had is here.
    pub(super) fn copy_is_here(&mut self, range: PositionRange, epoch: TabletEpoch) {
        let is_it = |target: &&Target<Import>| (target.record.range, target.record.epoch) == (range, epoch);
        let id = self.awaiting_copies().find(is_it).map(|target| target.record.id);
        if let Some(id) = id {
            self.command(id, MoverStep::CopyIsHere);
        }
    }

    /// The source restarted, and knows neither what it had marked nor what it had given. Or it died, and
    /// a copy of its log is read. Copies go. Where the range was given bit by bit, another import goes on
    /// once the mover has ended this one.
    pub(super) fn source_restarted(&mut self, id: MigrationId) {
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        let Some(import) = &mut target.import else { return };
        import.is_resumed = !target.record.kept_by_source && import.view.is_by_cuts();
        import.settled = None;
        let has_died = target.record.source_log.is_some();
        self.unsynced.forget_settled(id);
        self.command(id, if has_died { MoverStep::SourceDied } else { MoverStep::SourceRestarted });
    }

    /// Another import goes on, with what this node was given: by it the source has given all (M33).
    fn resume_given(&mut self, id: MigrationId) {
        let speaks = self.agent.speaks();
        let target = self.agent.migrations.targets.get_mut(&id).expect("it is resumed");
        let before = target.import.as_ref().expect("it was given something");
        let given = before.view.owned();
        match spec(&target.record, self.tuning, speaks) {
            Ok(spec) => {
                let (view, writer) = ImportView::resumed(&spec, given);
                target.import = Some(before.resumed(view));
                self.go_on(id, Box::new(spec), writer);
                self.publish(Vec::new());
                self.event(ControlEvent::Note(format!(
                    "migration {id} goes on after a restart of its source"
                )));
            }
            Err(why) => self.event(ControlEvent::Note(format!("migration {id} cannot go on: {why}"))),
        }
    }

    /// Starts the mover as the target.
    fn import(&mut self, spec: MigrationSpec) {
        let (view, writer) = ImportView::new(&spec);
        let target = self.agent.migrations.targets.get_mut(&spec.id).expect("prepared");
        let import = Import::new(view);
        target.progressed(import.progress());
        target.import = Some(import);
        self.command(spec.id, MoverStep::StartImport(Box::new(spec), writer));
    }

    /// Both connections to the source are open.
    fn connected(&mut self, id: MigrationId) {
        let speaks = self.agent.speaks();
        let target = self.agent.migrations.targets.get_mut(&id);
        let Some(target) = target.filter(|target| target.stage() == TargetStage::Connecting) else { return };
        let spec = spec(&target.record, self.tuning, speaks).ok();
        match spec.filter(|spec| spec.protocol.copies_in_preparation()) {
            Some(spec) => {
                target.advance(TargetStage::Copying);
                self.import(spec);
            }
            None => target.advance(TargetStage::Ready),
        }
    }

    /// The migration is over, and everything has arrived.
    pub(super) fn finish_import(&mut self, id: MigrationId) {
        let target = self.agent.migrations.targets.get_mut(&id);
        if let Some(target) = target.filter(|target| target.stage() == TargetStage::Importing) {
            target.advance(TargetStage::Over);
            self.publish(vec![Then::Mover(id, Table::Over)]);
        }
    }

    /// The migration is over: it will not begin, or missing records are given up. First replay must end; then
    /// the range is an ordinary one.
    pub(super) fn give_up(&mut self, id: MigrationId, why: String) {
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        if target.is_prepared() {
            self.event(ControlEvent::Note(format!("migration {id} does not begin: {why}")));
            self.refuse(id, PrepareRefusal::Other { why });
        } else if target.stage() == TargetStage::Importing {
            target.import.iter_mut().for_each(|import| import.is_resumed = false);
            self.event(ControlEvent::Note(format!("migration {id} is given up: {why}")));
            self.command(id, MoverStep::Drop);
        }
    }

    /// A mover reported something.
    pub(super) fn mover_reported(&mut self, id: MigrationId, report: MoverReport) {
        if report == MoverReport::Ended {
            return self.ended(id);
        }
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        let stage = target.stage();
        if let Some(news) = News::of(&report) {
            let last = self.unsynced.add((id, target.record.range), news, self.parts.store.commits());
            self.parts.shared.durability.want_synced(last);
        }
        match report {
            MoverReport::Connected => return self.connected(id),
            MoverReport::CaughtUp if target.is_prepared() => target.advance(TargetStage::Ready),
            // After the coordinator was notified that it may begin, the mover keeps trying.
            MoverReport::Unreachable if stage == TargetStage::Connecting => {
                let error = "no connection to it could be opened, after several attempts".to_owned();
                return self.refuse(id, PrepareRefusal::SourceUnreachable { error });
            }
            MoverReport::Failed(why) if stage < TargetStage::Ready => {
                return self.refuse(id, PrepareRefusal::Other { why });
            }
            // The commit may be under way.
            MoverReport::Failed(ref why) => target.finish(Err(why.clone())),
            _ => {}
        }
        let Some(import) = &mut target.import else { return };
        if let MoverReport::Moved(counters)
        | MoverReport::Finished(counters)
        | MoverReport::Settled { counters, .. } = &report
        {
            self.parts.shared.gauges.migration.add(&import.counters, counters);
            import.counters = **counters;
        }
        import.awaits_copy |= report == MoverReport::AwaitsCopy;
        if let MoverReport::GaveAll(why) = report {
            import.gave_all = Some(why);
        }
        import.stalled = match report {
            MoverReport::Stalled(stalled) => stalled,
            MoverReport::Finished(_) => false,
            _ => import.stalled,
        };
        let progress = import.progress();
        target.progressed(progress);
    }

    /// Reports what is synced by now (C10).
    pub(super) fn report_synced(&mut self) {
        for (id, news) in self.unsynced.take_synced(self.kept_commit()) {
            let Some(target) = self.agent.migrations.targets.get_mut(&id) else { continue };
            match (news, &mut target.import) {
                (News::AllIsHere, _) => target.finish(Ok(())),
                (News::Settled(owns), Some(import)) => {
                    import.settled = Some(owns);
                    let progress = import.progress();
                    target.progressed(progress);
                }
                (News::Settled(_), None) => {}
            }
        }
    }

    /// The mover keeps nothing for it any more: nothing is replayed.
    fn ended(&mut self, id: MigrationId) {
        if let Some(source) = self.agent.migrations.sources.get_mut(&id) {
            if source.stage == SourceStage::TakenBack {
                (source.stage, source.view) = (SourceStage::Over, None);
                return self.publish(Vec::new());
            }
            source.view.take_if(|_| source.stage == SourceStage::Over);
        }
        let Some(target) = self.agent.migrations.targets.get(&id) else { return };
        let (stage, range) = (target.stage(), target.record.range);
        if stage == TargetStage::Importing && target.import.as_ref().is_some_and(|import| import.is_resumed) {
            return self.resume_given(id);
        }
        let is_owned = self.owned_in(range).next().is_some();
        let Some(target) = self.agent.migrations.targets.get_mut(&id) else { return };
        let Some(import) = &target.import else { return };
        let import_id = target.record.import();
        self.parts.store.note_import(ImportNote { id: import_id, range, stage: ImportStage::Over });
        let then = match stage {
            // Nothing is served in the range before it is clear.
            TargetStage::Importing if import.is_stale_copy() => {
                return self.jobs.clear_unserved(id, &[range]);
            }
            TargetStage::Importing if is_owned => Some(Then::Sweep(range)),
            // The range went back to its source.
            TargetStage::Importing => Some(Then::Discard(range)),
            // It was in no table: nobody uses the copy.
            TargetStage::Dropped => Some(Then::Discard(range)),
            _ => None,
        };
        target.import = None;
        target.advance(TargetStage::Over);
        if then.is_some() {
            self.publish(then.into_iter().collect());
        }
    }

    /// What a stale copy left is gone: the range is an ordinary one, and empty. Or an import may go on.
    pub(super) fn cleared_unserved(&mut self, id: MigrationId) {
        if let Some(target) = self.agent.migrations.targets.get_mut(&id) {
            if let Some((spec, writer)) = target.import.as_mut().and_then(|import| import.held.take()) {
                return self.go_on(id, spec, writer);
            }
            target.import = None;
            target.advance(TargetStage::Over);
            self.publish(Vec::new());
        }
    }
}
