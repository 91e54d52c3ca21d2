//! This node as the source: tracked first if the protocol needs it, then published as exported, frozen behind
//! the barrier, released behind another.

use super::table::Then;
use super::{ControlEvent, NodeControl, spec};
use crate::mover::{MoverStep, Table};
use crate::shared::NodeParts;
use sidle_cluster::{Source, SourceStage, Survey, TabletMap, TargetStage};
use sidle_migration::{BarrierPassed, ExportView, ExportWriter, MigrationSpec};
use sidle_store::{ImportNote, ImportStage};
use sidle_types::{ImportId, MigrationId, Position, PositionRange};
use std::sync::Arc;

/// How many positions are known to be hot when a migration begins, at most, and of how many seconds.
const HOT_POSITIONS: usize = 256;
const HOT_SECONDS: usize = 5;

/// How many parts of a range are noted in one change of the durable log, at most.
const NOTES_AT_ONCE: usize = 4096;

/// What clients have accessed most in the range, where that goes first.
fn hot_in(parts: &NodeParts, spec: &MigrationSpec) -> Vec<Position> {
    if !spec.protocol.hot_first {
        return Vec::new();
    }
    let hottest = parts.shared.heat.hottest_in(spec.range, HOT_POSITIONS, HOT_SECONDS);
    hottest.into_iter().map(|hot| hot.position).collect()
}

impl NodeControl {
    /// The coordinator requests the amount of data, and where to cut it.
    pub(super) fn survey(&mut self, id: MigrationId, partitions: usize) {
        let (store, source) = (&self.parts.store, self.agent.migrations.sources.get_mut(&id));
        let source = source.expect("just asked about");
        source.surveyed(Survey {
            records: store.len_in(source.range),
            bytes: store.bytes_in(source.range),
            partitions: store.partition(source.range, partitions),
        });
    }

    /// Resumes ranges that this node now owns and that have arrived whole (C6). From the next table on
    /// workers mark their changes there; behind its barrier it is copied (C5).
    pub(super) fn track_waiting(&mut self) {
        let sources = self.agent.migrations.sources.iter();
        let waiting =
            sources.filter(|(_, source)| source.stage == SourceStage::Waiting && self.is_whole(source.range));
        for id in waiting.map(|(&id, _)| id).collect::<Vec<_>>() {
            let is_served = self.serve(id);
            let source = self.agent.migrations.sources.get_mut(&id).expect("it waited");
            source.stage = if is_served { SourceStage::Tracked } else { SourceStage::Stopped };
            if is_served {
                self.publish(vec![Then::Mover(id, Table::Tracked)]);
            }
        }
    }

    /// Starts the mover as the source. False, with a note, if impossible: the target gets no answer, and
    /// gives up.
    fn serve(&mut self, id: MigrationId) -> bool {
        self.serve_by(id, ExportView::new)
    }

    /// The same with a view of its own.
    fn serve_by(
        &mut self,
        id: MigrationId,
        view: impl FnOnce(&MigrationSpec, &[Position]) -> (Arc<ExportView>, ExportWriter),
    ) -> bool {
        let speaks = self.agent.speaks();
        let source = self.agent.migrations.sources.get_mut(&id).expect("it is to be served");
        let record = source.record.as_ref().expect("asked to be served, with its record");
        match spec(record, self.tuning, speaks) {
            Ok(mut spec) => {
                // An earlier incarnation of this node tracked what was copied before.
                if source.stage >= SourceStage::GivenAway && spec.protocol.copies_in_preparation() {
                    spec.protocol = spec.protocol.resumed();
                }
                // Before the table is published from which on workers mark their changes there (M28).
                let hot = hot_in(&self.parts, &spec);
                let (view, writer) = view(&spec, &hot);
                source.view = Some(view);
                self.command(id, MoverStep::StartExport(Box::new(spec), writer));
                true
            }
            Err(why) => {
                self.event(ControlEvent::Note(format!("migration {id} cannot be served: {why}")));
                false
            }
        }
    }

    /// The next map shows this node as the source of a way back: it was the target of the migration before.
    /// Nothing is in transit: what it owns is its share of the way back (C9, M20). The mover clears nothing.
    fn export_way_back(&mut self, id: MigrationId, before: MigrationId) {
        let turned = self.agent.migrations.targets.get_mut(&before);
        let turned = turned.filter(|target| target.stage() == TargetStage::Importing);
        let share = turned.and_then(|target| {
            let import = target.import.take()?;
            target.advance(TargetStage::Over);
            Some(import.view.owned())
        });
        if share.is_some() {
            self.command(before, MoverStep::Turned);
            let range = self.agent.migrations.sources[&id].range;
            let import = self.agent.migrations.targets[&before].record.import();
            self.parts.store.note_import(ImportNote { id: import, range, stage: ImportStage::Over });
        }
        let is_kept = self.agent.migrations.sources[&id].record.as_ref().is_some_and(|at| at.kept_by_source);
        match share {
            // A node has restarted since: all of it is given at once (M33).
            _ if !is_kept => _ = self.serve(id),
            Some(share) => _ = self.serve_by(id, |spec, hot| ExportView::of_way_back(spec, hot, share)),
            None => self.note_without_share(id, before),
        }
    }

    /// Nothing is in transit of a migration that turns back. What this node kept is in its durable log before
    /// the way back begins, so that it may restart in that (M33).
    pub(super) fn note_kept(&mut self, id: MigrationId, back: MigrationId) {
        let source = self.agent.migrations.sources.get(&id);
        let Some(view) = source.and_then(|source| source.view.as_ref()) else { return };
        let Some(commits) = self.parts.store.commits() else { return };
        for some in view.kept().ranges().chunks(NOTES_AT_ONCE) {
            self.parts.store.note_given(ImportId::of(back, 0), some.iter().copied());
        }
        let noted = commits.latest_in(view.range());
        self.parts.shared.durability.want_synced(noted);
        self.reports.wait_for(noted);
    }

    /// A migration that was to turn back does not: what was noted for its way back is in vain.
    pub(super) fn forget_kept(&self, id: MigrationId) {
        let Some(source) = self.agent.migrations.sources.get(&id) else { return };
        let Some(back) = source.record.as_ref().and_then(|record| record.turn).map(|turn| turn.by) else {
            return;
        };
        let begun = self.agent.migrations.targets.get(&back);
        if begun.is_none_or(|target| target.import.is_none()) {
            let stage = ImportStage::Over;
            let note = ImportNote { id: ImportId::of(back, 0), range: source.range, stage };
            self.parts.store.note_import(note);
        }
    }

    /// The coordinator turns nothing back that this incarnation of the node has no part in.
    pub(super) fn note_without_share(&mut self, id: MigrationId, before: MigrationId) {
        let what = format!("migration {id} continues migration {before}, of which nothing is here");
        self.event(ControlEvent::Note(what));
    }

    /// Whether this node owns all of the range and takes part in nothing there. The coordinator waits for
    /// that, but this node may learn of an earlier migration's end after the next request. A delayed request
    /// is for a migration that is over.
    fn is_whole(&self, range: PositionRange) -> bool {
        let is_own = |map: &Arc<TabletMap>| map.tablets_in(range).iter().all(|at| at.owner == self.me().id);
        self.map.as_ref().is_some_and(is_own)
            && !self.exports().any(|view| view.range().overlaps(range))
            && !self.imports().any(|view| view.range().overlaps(range))
    }

    /// Earlier migrations that tracked part of the range were given up, though this node was not notified:
    /// the coordinator begins nothing that overlaps an open migration.
    pub(super) fn drop_tracked_before(&mut self, later: MigrationId) {
        let range = self.agent.migrations.sources[&later].range;
        let is_tracked = |source: &Source<Arc<ExportView>>| match source.stage {
            SourceStage::Waiting => true,
            stage => stage < SourceStage::Over && source.view.as_ref().is_some_and(|view| view.is_tracked()),
        };
        let earlier = self.agent.migrations.sources.iter().filter(|(id, _)| **id < later);
        let dead = earlier.filter(|(_, source)| is_tracked(source) && source.range.overlaps(range));
        for id in dead.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.stop_tracking(id);
        }
    }

    /// The copy is given up; its memory is freed.
    fn stop_tracking(&mut self, id: MigrationId) {
        let source = self.agent.migrations.sources.get_mut(&id).expect("it was tracked");
        let is_given = source.stage >= SourceStage::GivenAway;
        source.stage = if is_given { SourceStage::Over } else { SourceStage::Stopped };
        if source.view.take().is_some() {
            self.command(id, MoverStep::Drop);
            self.publish(Vec::new());
        }
    }

    /// The next map gives the range away. With it the range is exported, and behind its barrier frozen. It
    /// may have been tracked until now.
    pub(super) fn start_export(&mut self, id: MigrationId) {
        let source = &self.agent.migrations.sources[&id];
        if let Some(before) = source.record.as_ref().and_then(|record| record.continues) {
            self.export_way_back(id, before);
        } else if source.view.is_none() {
            self.drop_tracked_before(id);
            self.serve(id);
        }
    }

    /// The target restarted: it does not know what it had requested. What this node has kept of a range that
    /// it gave bit by bit is frozen with the next table, and is all given (M33). The mover begins anew. So it
    /// does for another target, in the place of one that died.
    pub(super) fn give_all(&mut self, id: MigrationId) {
        let Some(source) = self.agent.migrations.sources.get_mut(&id) else { return };
        let Some(record) = &source.record else { return };
        let begins_anew = |view: &mut Arc<ExportView>| {
            view.target() != record.target || view.is_by_cuts() && !record.kept_by_source
        };
        if source.view.take_if(begins_anew).is_none() {
            return;
        }
        source.stage = SourceStage::GivenAway;
        self.forget_kept(id);
        self.barriers.forget(id);
        self.command(id, MoverStep::Drop);
        self.serve(id);
    }

    /// Exports whose freeze starts with this map's table: this node no longer owns the range by it (C1).
    pub(super) fn begin_freezes(&mut self, map: &TabletMap) -> impl Iterator<Item = Then> {
        let given = self.agent.migrations.sources.iter_mut().filter(|(id, source)| {
            source.stage == SourceStage::GivenAway && source.view.is_some() && map.migration(**id).is_some()
        });
        given.map(|(&id, source)| {
            source.stage = SourceStage::Exported;
            Then::Mover(id, Table::Frozen)
        })
    }

    /// A mover goes on, in the order of the tables. A freeze waits until the durable log has it (C11); where
    /// the range is given bit by bit, nothing is frozen.
    pub(super) fn pass_at_mover(&mut self, id: MigrationId, table: Table, proof: BarrierPassed) {
        let frozen = self.agent.migrations.sources.get(&id).filter(|_| table == Table::Frozen);
        let is_by_cuts = |view: &Arc<ExportView>| view.is_by_cuts();
        let frozen = frozen.filter(|source| !source.view.as_ref().is_some_and(is_by_cuts));
        match (frozen, self.parts.store.commits()) {
            (Some(source), Some(commits)) => self.freezes.add(id, source.range, commits, (table, proof)),
            _ => {
                let step = self.freezes.behind(id, (table, proof));
                step.into_iter().for_each(|(table, proof)| self.command(id, MoverStep::Passed(table, proof)));
            }
        }
    }

    /// Movers go on whose freeze the durable log has.
    pub(super) fn pass_safe(&mut self) {
        let Some(commits) = self.parts.store.commits() else { return };
        for (id, table, proof) in self.freezes.take_safe(commits.safe()) {
            self.command(id, MoverStep::Passed(table, proof));
        }
    }

    /// The migration is over, and nobody needs the range's records any more.
    pub(super) fn release(&mut self, id: MigrationId, range: PositionRange) {
        self.keep(id);
        let source = self.agent.migrations.sources.get(&id);
        let is_by_cuts = source.is_some_and(|at| at.view.as_ref().is_some_and(|view| view.is_by_cuts()));
        if is_by_cuts && self.owned_in(range).next().is_some() {
            return self.take_back(id);
        }
        let then = match self.agent.migrations.sources.get_mut(&id) {
            Some(source) if source.view.is_some() => {
                source.stage = SourceStage::Over;
                Then::Mover(id, Table::Over)
            }
            // It turned back, and its way back took over what is here.
            Some(source) if source.stage == SourceStage::Over => return,
            // It ran and ended, and this node was not notified in between.
            _ => Then::Discard(range),
        };
        self.publish(vec![then]);
    }

    /// The range came back in the middle. It is served as before; what was given is cleared, and then it is
    /// an ordinary one.
    fn take_back(&mut self, id: MigrationId) {
        let source = self.agent.migrations.sources.get_mut(&id).expect("it is served");
        source.stage = SourceStage::TakenBack;
        self.command(id, MoverStep::TakeBack);
    }

    /// It is over, and the range stays.
    pub(super) fn keep(&mut self, id: MigrationId) {
        let tracked = [SourceStage::Waiting, SourceStage::Tracked];
        if self.agent.migrations.sources.get(&id).is_some_and(|source| tracked.contains(&source.stage)) {
            self.stop_tracking(id);
        }
    }
}
