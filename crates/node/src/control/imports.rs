//! This node as the target: room is made, the source connected, where the protocol says so the range copied,
//! then taken, and in the end swept.

use super::migrations::Migration;
use super::table::Then;
use super::target::{Import, Stage, Target};
use super::{ControlEvent, NodeControl};
use crate::mover::{MoverCommand, MoverReport};
use sidle_cluster::{MigrationRecord, NodeSays, PrepareRefusal};
use sidle_migration::{Copies, ImportView, ImporterCounters, MigrationSpec};
use sidle_types::{MigrationId, MonotonicUs, PositionRange};

/// Of the free memory, how much an import may plan to fill: the rest is for writes meanwhile, and for the
/// cleaner.
const FILL_PERCENT: u64 = 90;

impl NodeControl {
    /// The coordinator asks whether this node can take a range.
    pub(super) fn prepare(&mut self, now: MonotonicUs, record: MigrationRecord) {
        let id = record.id;
        let checked = match self.migrations.get(id) {
            Some(_) => Err("what an earlier attempt left here is not cleared yet".to_owned()),
            None => self.spec(&record),
        };
        if let Err(why) = checked {
            return self.refuse(now, id, PrepareRefusal::Other { why });
        }
        let memory = self.parts.store.memory();
        let free = memory.limit.saturating_sub(memory.log_live + memory.index);
        let needed_bytes = record.counters.bytes;
        let free_bytes = free / 100 * FILL_PERCENT;
        if needed_bytes > free_bytes {
            return self.refuse(now, id, PrepareRefusal::NoMemory { needed_bytes, free_bytes });
        }
        self.migrations.insert(id, Migration::Target(Target::new(record)));
        self.prepare_waiting();
    }

    fn refuse(&mut self, now: MonotonicUs, migration: MigrationId, why: PrepareRefusal) {
        self.report(now, NodeSays::PrepareRefused { migration, why });
    }

    /// Goes on with preparations whose range is clear by now (C4).
    pub(super) fn prepare_waiting(&mut self) {
        let waiting = self.migrations.targets().filter(|(_, target)| target.stage == Stage::Clearing);
        let waiting: Vec<(MigrationId, PositionRange)> =
            waiting.map(|(id, target)| (id, target.range())).collect();
        for (id, range) in waiting {
            // An earlier migration of the range whose end this node has not heard of yet counts too.
            let in_hand = self.migrations.have_records_in(range)
                || self.jobs.overlaps(range)
                || self.barriers.clear_in(range)
                // Who owns it takes nothing in: the map is to change yet, or the question is late (C7).
                || self.owned_in(range).next().is_some();
            if in_hand && !self.bugs.prepares_over_leavings {
                continue;
            }
            let store = &self.parts.store;
            let is_clear = store.len_in(range) == 0 && store.tombstones_in(range) == 0;
            if !is_clear && !self.bugs.prepares_over_leavings {
                // Nobody looks after what is left here; this node does not own it.
                self.publish(vec![Then::Discard(range)]);
                continue;
            }
            let target = self.migrations.target(id).expect("it waits");
            target.stage = Stage::Connecting;
            let source = target.record.source;
            self.command(MoverCommand::Expect(id, source));
        }
    }

    /// The tablets that this node owns and that share a position with the range.
    fn owned_in(&self, range: PositionRange) -> impl Iterator<Item = PositionRange> {
        let tablets = self.map.iter().flat_map(move |map| map.tablets_in(range));
        tablets.filter(|tablet| tablet.owner == self.me.id).map(|tablet| tablet.range)
    }

    /// What of the range is nobody's: neither owned nor exported nor imported nor copied by this node (C7).
    pub(super) fn leavings_in(&self, range: PositionRange) -> Vec<PositionRange> {
        self.owned_in(range).chain(self.migrations.claimed()).fold(vec![range], |left, used| {
            let outside = |part: PositionRange| <[_; 2]>::from(part.without(used)).into_iter().flatten();
            left.into_iter().flat_map(outside).collect()
        })
    }

    /// Migrations not heard of as running of which something was copied that is this node's.
    pub(super) fn owned_copies(&self) -> Vec<MigrationId> {
        let copies = self.migrations.targets().filter(|(_, target)| target.is_copy());
        let owned = copies.filter(|(_, copied)| self.owned_in(copied.range()).next().is_some());
        owned.map(|(id, _)| id).collect()
    }

    /// Forgets what was made ready. The memory of a copy goes back as soon as nothing more is replayed.
    fn drop_preparation(&mut self, id: MigrationId) {
        let Some(target) = self.migrations.target(id) else { return };
        let is_known_to_mover = target.stage != Stage::Clearing;
        if target.import.take().is_some() {
            target.stage = Stage::Over;
        } else {
            self.migrations.remove(id);
        }
        if is_known_to_mover {
            self.command(MoverCommand::DropImport(id));
        }
    }

    /// The map may say that a range is this node's whose copy is still prepared: the migration ran and is
    /// over, and the maps in between were lost. The copy becomes an import, of which nothing is served unless
    /// it is activated, until the migration's end comes and says what is to be done with it (C8).
    pub(super) fn meet_missed_commits(&mut self) {
        for id in self.owned_copies() {
            self.migrations.target(id).expect("just seen").stage = Stage::Importing;
        }
    }

    /// The next map gives the range to this node.
    pub(super) fn start_import(&mut self, now: MonotonicUs, record: &MigrationRecord) {
        let id = record.id;
        let spec = self.spec(record);
        let target = self.migrations.target(id).filter(|target| target.is_prepared());
        let why = match (target, spec) {
            // The range that was copied ahead is this node's: when the last round is here it is served.
            (Some(target), _) if target.is_copy() => {
                target.stage = Stage::Importing;
                return self.go_on_with_copy(now, id);
            }
            (Some(target), Ok(spec)) => {
                target.stage = Stage::Importing;
                return self.import(spec);
            }
            // The coordinator begins nothing that this incarnation of the node has not prepared. Without an
            // import the range is lost (R3), and nothing is acknowledged in it.
            (None, _) => format!("migration {id} begins without having been prepared"),
            (Some(_), Err(why)) => {
                self.migrations.remove(id);
                format!("migration {id} cannot begin: {why}")
            }
        };
        self.event(ControlEvent::Note(why));
    }

    /// Has the mover take part as the target.
    fn import(&mut self, spec: MigrationSpec) {
        let (view, writer) = ImportView::new(&spec);
        let target = self.migrations.target(spec.id).expect("prepared");
        target.import = Some(Import::new(view));
        self.command(MoverCommand::StartImport(Box::new(spec), writer));
    }

    fn go_on_with_copy(&mut self, now: MonotonicUs, id: MigrationId) {
        self.tell_progress(now, id);
        match self.arriving(id).and_then(|import| import.finished.take()) {
            Some(Ok(())) => self.tell_finished(now, id),
            Some(Err(why)) => self.report(now, NodeSays::Broken { migration: id, why }),
            None => {}
        }
    }

    /// Both connections to the source are open.
    fn connected(&mut self, now: MonotonicUs, id: MigrationId) {
        let target = self.migrations.target(id).filter(|target| target.stage == Stage::Connecting);
        let Some(record) = target.map(|target| target.record.clone()) else { return };
        let spec = self.spec(&record).ok();
        let ahead = spec.filter(|spec| matches!(spec.protocol.copies, Copies::BeforeFreeze(_)));
        let stage = if ahead.is_some() { Stage::Copying } else { Stage::Ready };
        self.migrations.target(id).expect("just seen").stage = stage;
        match ahead {
            Some(spec) => {
                self.import(spec);
                self.tell_progress(now, id);
            }
            None => self.report(now, NodeSays::Prepared { migration: id }),
        }
    }

    /// What arrives for the migration, before the commit or after.
    fn arriving(&mut self, id: MigrationId) -> Option<&mut Import> {
        self.migrations.target(id)?.import.as_mut()
    }

    /// The mover cannot go on.
    fn failed(&mut self, now: MonotonicUs, id: MigrationId, why: String) {
        match self.migrations.target(id) {
            Some(target) if target.stage < Stage::Ready => {
                self.drop_preparation(id);
                self.refuse(now, id, PrepareRefusal::Other { why });
            }
            // The commit may be on its way.
            Some(Target { stage: Stage::Ready, import: Some(copy), .. }) => copy.finished = Some(Err(why)),
            _ => self.report(now, NodeSays::Broken { migration: id, why }),
        }
    }

    /// It is over, and everything has arrived.
    pub(super) fn finish_import(&mut self, id: MigrationId) {
        if let Some(target) = self.migrations.target(id).filter(|target| target.is_importing()) {
            target.stage = Stage::Over;
            target.import = None;
            self.publish(vec![Then::Finish(id)]);
        }
    }

    /// It is over: it will not begin, or what has not arrived is given up. Then first nothing more may be
    /// replayed; then the range is an ordinary one.
    pub(super) fn give_up(&mut self, id: MigrationId, why: &str) {
        match self.migrations.target(id) {
            Some(target) if target.is_importing() => {
                self.event(ControlEvent::Note(format!("migration {id} is given up: {why}")));
                self.command(MoverCommand::DropImport(id));
            }
            Some(target) if target.is_prepared() => {
                self.drop_preparation(id);
                self.event(ControlEvent::Note(format!("migration {id} does not begin: {why}")));
            }
            _ => {}
        }
    }

    /// A mover reported something.
    pub(super) fn mover_reported(&mut self, now: MonotonicUs, id: MigrationId, report: MoverReport) {
        match report {
            MoverReport::Connected => self.connected(now, id),
            MoverReport::CaughtUp => {
                if let Some(target) = self.migrations.target(id).filter(|target| target.is_prepared()) {
                    target.stage = Stage::Ready;
                    self.report(now, NodeSays::Prepared { migration: id });
                }
            }
            MoverReport::Unreachable => {
                // After the coordinator was told that it may begin, the mover goes on trying.
                if self.migrations.target(id).is_some_and(|target| target.stage == Stage::Connecting) {
                    self.drop_preparation(id);
                    let error = "the connection could not be opened".to_owned();
                    self.refuse(now, id, PrepareRefusal::SourceUnreachable { error });
                }
            }
            MoverReport::Activated => self.tell_progress(now, id),
            MoverReport::Moved(counters) => {
                self.count(id, counters);
                self.tell_progress(now, id);
            }
            MoverReport::Stalled | MoverReport::Resumed => {
                if let Some(import) = self.arriving(id) {
                    import.stalled = report == MoverReport::Stalled;
                    self.tell_progress(now, id);
                }
            }
            MoverReport::Finished(counters) => {
                self.count(id, counters);
                if let Some(import) = self.arriving(id) {
                    import.stalled = false;
                    import.finished = Some(Ok(()));
                }
                self.tell_finished(now, id);
            }
            MoverReport::Failed(why) => self.failed(now, id, why),
            MoverReport::ImportDropped => self.dropped(id),
            MoverReport::ImportEnded | MoverReport::ExportEnded => self.migrations.remove(id),
        }
    }

    /// Nothing is replayed any more.
    fn dropped(&mut self, id: MigrationId) {
        let Some(target) = self.migrations.target(id) else { return };
        let range = target.range();
        if target.is_importing() && target.is_stale_copy() {
            // Nobody is served in the range before it is clear.
            self.jobs.clear_unserved(id, range);
        } else if target.is_importing() {
            self.migrations.remove(id);
            self.publish(vec![Then::Sweep(range)]);
        } else if target.stage == Stage::Over {
            // No table ever had it: nobody knows of the copy.
            self.migrations.remove(id);
            self.publish(vec![Then::Discard(range)]);
        }
    }

    fn count(&mut self, id: MigrationId, counters: ImporterCounters) {
        if let Some(import) = self.arriving(id) {
            let before = std::mem::replace(&mut import.counters, counters);
            self.parts.shared.gauges.migration.add(before, counters);
        }
    }

    /// What a stale copy left is gone: the range is an ordinary one, and empty.
    pub(super) fn cleared_unserved(&mut self, id: MigrationId) {
        if self.migrations.target(id).is_some_and(|target| target.is_importing()) {
            self.migrations.remove(id);
            self.publish(Vec::new());
        }
    }

    fn tell_progress(&mut self, now: MonotonicUs, migration: MigrationId) {
        if let Some(progress) = self.arriving(migration).map(|import| import.progress()) {
            self.report(now, NodeSays::Progress { migration, progress });
        }
    }

    fn tell_finished(&mut self, now: MonotonicUs, migration: MigrationId) {
        let target = self.migrations.target(migration).filter(|target| target.is_importing());
        if let Some(progress) = target.and_then(|target| target.import.as_ref()).map(Import::progress) {
            self.report(now, NodeSays::Finished { migration, progress });
        }
    }
}
