//! This node as the target: room is made, the source connected, where the protocol says so the range copied,
//! then taken, and in the end swept.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::{MoverCommand, MoverReport};
use sidle_cluster::{AgentInput, MigrationRecord, PrepareRefusal, Progress};
use sidle_migration::{Copies, ImportView, ImporterCounters, MigrationSpec};
use sidle_types::{MigrationId, MonotonicUs, PositionRange};
use std::sync::Arc;

/// Of the free memory, how much an import may plan to fill: the rest is for writes meanwhile, and for the
/// cleaner.
const FILL_PERCENT: u64 = 90;

/// A migration to this node that may begin.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) record: MigrationRecord,
    stage: Stage,
    /// Where the protocol copies before the freeze, what arrives already.
    copy: Option<Import>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What an earlier owner left in the range is still being cleared (C4).
    Clearing,
    /// The mover connects to the source.
    Connecting,
    /// The range is copied ahead.
    Copying,
    /// The coordinator was told that it may begin.
    Ready,
}

/// A migration to this node that has begun.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) view: Arc<ImportView>,
    counters: ImporterCounters,
    stalled: bool,
    /// What the mover said last, if it came before the commit was heard of.
    ended: Option<Ended>,
}

#[derive(Debug)]
enum Ended {
    Finished,
    Failed(String),
}

impl Import {
    fn new(view: Arc<ImportView>) -> Import {
        Import { view, counters: ImporterCounters::default(), stalled: false, ended: None }
    }

    /// Whether this is a copy without the last round: what was deleted or overwritten at the source may still
    /// be in it, and a stale value is worse than none. To be asked when nothing more is replayed.
    fn is_stale_copy(&self) -> bool {
        self.view.is_copied_ahead() && !self.view.activated()
    }

    fn progress(&self) -> Progress {
        Progress {
            activated: self.view.source_is_frozen(),
            records_moved: self.counters.records_moved,
            bytes_moved: self.counters.bytes_moved,
            next: self.view.progress().collect(),
            changes: self.counters.changes,
            changes_left: self.counters.changes_left,
            stalled: self.stalled.then(|| "the target is out of memory".to_owned()),
        }
    }
}

impl NodeControl {
    /// The coordinator asks whether this node can take a range.
    pub(super) fn prepare(&mut self, now: MonotonicUs, record: MigrationRecord) {
        let id = record.id;
        if let Err(why) = self.spec(&record) {
            return self.refuse(now, id, PrepareRefusal::Other { why });
        }
        let memory = self.parts.store.memory();
        let free = memory.limit.saturating_sub(memory.log_live + memory.index);
        let needed_bytes = record.counters.bytes;
        let free_bytes = free / 100 * FILL_PERCENT;
        if needed_bytes > free_bytes {
            return self.refuse(now, id, PrepareRefusal::NoMemory { needed_bytes, free_bytes });
        }
        self.preparations.insert(id, Preparation { record, stage: Stage::Clearing, copy: None });
        self.prepare_waiting(now);
    }

    fn refuse(&mut self, now: MonotonicUs, migration: MigrationId, why: PrepareRefusal) {
        self.agent.handle(now, AgentInput::PrepareRefused { migration, why });
    }

    /// Goes on with preparations whose range is clear by now (C4).
    pub(super) fn prepare_waiting(&mut self, _now: MonotonicUs) {
        let waiting: Vec<MigrationId> = (self.preparations.iter())
            .filter(|(_, preparation)| preparation.stage == Stage::Clearing)
            .map(|(&id, _)| id)
            .collect();
        for id in waiting {
            let range = self.preparations[&id].record.range;
            // An earlier migration of the range whose end this node has not heard of yet counts too.
            let in_hand = self.imports.values().any(|import| import.view.range().overlaps(range))
                || self.copies_in(id, range)
                || self.exports.values().any(|view| view.range().overlaps(range))
                || self.clearing.values().any(|clearing| clearing.overlaps(range))
                || self.jobs.overlaps(range)
                || self.is_awaited(range)
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
            let preparation = self.preparations.get_mut(&id).expect("it waits");
            preparation.stage = Stage::Connecting;
            let source = preparation.record.source;
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
        let exported = self.exports.values().map(|view| view.range());
        let imported = self.imports.values().map(|import| import.view.range());
        let prepared = self.preparations.values().filter(|preparation| preparation.stage != Stage::Clearing);
        let prepared = prepared.map(|preparation| preparation.record.range);
        self.owned_in(range).chain(exported).chain(imported).chain(prepared).fold(
            vec![range],
            |left, used| {
                let outside = |part: PositionRange| <[_; 2]>::from(part.without(used)).into_iter().flatten();
                left.into_iter().flat_map(outside).collect()
            },
        )
    }

    /// Whether another migration, whose end this node has not heard of yet, has copied something of the
    /// range.
    fn copies_in(&self, but: MigrationId, range: PositionRange) -> bool {
        let mut others = self.preparations.iter().filter(|(id, _)| **id != but);
        others.any(|(_, other)| other.copy.is_some() && other.record.range.overlaps(range))
    }

    /// Migrations not heard of as running of which something was copied that is this node's.
    pub(super) fn owned_copies(&self) -> Vec<MigrationId> {
        let copies = self.preparations.iter().filter(|(_, preparation)| preparation.copy.is_some());
        let owned = copies.filter(|(_, copied)| self.owned_in(copied.record.range).next().is_some());
        owned.map(|(&id, _)| id).collect()
    }

    /// Forgets what was made ready; whether there was anything.
    fn drop_preparation(&mut self, id: MigrationId) -> bool {
        let Some(preparation) = self.preparations.remove(&id) else { return false };
        if preparation.stage != Stage::Clearing {
            self.command(MoverCommand::DropImport(id));
        }
        if preparation.copy.is_some() {
            // Its memory goes back as soon as nothing more is replayed.
            self.clearing.insert(id, preparation.record.range);
        }
        true
    }

    /// The map may say that a range is this node's whose copy is still prepared: the migration ran and is
    /// over, and the maps in between were lost. The copy becomes an import, of which nothing is served unless
    /// it is activated, until the migration's end comes and says what is to be done with it (C8).
    pub(super) fn meet_missed_commits(&mut self) {
        for id in self.owned_copies() {
            if let Some(copy) = self.preparations.remove(&id).and_then(|preparation| preparation.copy) {
                self.imports.insert(id, copy);
            }
        }
    }

    /// The migration will not begin, or did and is over, and its commit was not heard of.
    pub(super) fn abandon(&mut self, id: MigrationId, why: String) {
        if self.imports.contains_key(&id) {
            self.discard_rest(id, why);
        } else if self.drop_preparation(id) {
            self.event(ControlEvent::Note(format!("migration {id} does not begin: {why}")));
        }
    }

    /// The next map gives the range to this node.
    pub(super) fn start_import(&mut self, now: MonotonicUs, record: MigrationRecord) {
        let id = record.id;
        let spec = match (self.preparations.remove(&id), self.spec(&record)) {
            (Some(Preparation { copy: Some(copy), .. }), _) => return self.go_on_with_copy(now, id, copy),
            (Some(_), Ok(spec)) => spec,
            // The coordinator begins nothing that this incarnation of the node has not prepared. Without an
            // import the range is lost (R3), and nothing is acknowledged in it.
            (None, _) => {
                return self.event(ControlEvent::Note(format!(
                    "migration {id} begins without having been prepared"
                )));
            }
            (_, Err(why)) => {
                return self.event(ControlEvent::Note(format!("migration {id} cannot begin: {why}")));
            }
        };
        let import = self.import_of(spec);
        self.imports.insert(id, import);
    }

    /// Has the mover take part as the target.
    fn import_of(&mut self, spec: MigrationSpec) -> Import {
        let (view, writer) = ImportView::new(&spec);
        self.command(MoverCommand::StartImport(Box::new(spec), writer));
        Import::new(view)
    }

    /// The range that was copied ahead is this node's: as soon as the last round is here it is served.
    fn go_on_with_copy(&mut self, now: MonotonicUs, id: MigrationId, mut copy: Import) {
        let ended = copy.ended.take();
        self.imports.insert(id, copy);
        self.tell_progress(now, id);
        match ended {
            Some(Ended::Finished) => self.tell_finished(now, id),
            Some(Ended::Failed(why)) => self.agent.handle(now, AgentInput::Broken { migration: id, why }),
            None => {}
        }
    }

    fn tell_finished(&mut self, now: MonotonicUs, id: MigrationId) {
        if let Some(import) = self.imports.get(&id) {
            let progress = import.progress();
            self.agent.handle(now, AgentInput::Finished { migration: id, progress });
        }
    }

    /// Both connections to the source are open.
    fn connected(&mut self, now: MonotonicUs, id: MigrationId) {
        let Some(preparation) = self.preparations.get(&id).filter(|p| p.stage == Stage::Connecting) else {
            return;
        };
        let spec = self.spec(&preparation.record);
        let ahead = spec.ok().filter(|spec| matches!(spec.protocol.copies, Copies::BeforeFreeze(_)));
        let copy = ahead.map(|spec| self.import_of(spec));
        let preparation = self.preparations.get_mut(&id).expect("just seen");
        preparation.copy = copy;
        if preparation.copy.is_some() {
            preparation.stage = Stage::Copying;
            self.tell_progress(now, id);
        } else {
            preparation.stage = Stage::Ready;
            self.agent.handle(now, AgentInput::Prepared { migration: id });
        }
    }

    /// What arrives for the migration, before the commit or after.
    fn arriving(&mut self, id: MigrationId) -> Option<&mut Import> {
        let copy = self.preparations.get_mut(&id).and_then(|preparation| preparation.copy.as_mut());
        self.imports.get_mut(&id).or(copy)
    }

    /// The mover cannot go on.
    fn failed(&mut self, now: MonotonicUs, id: MigrationId, why: String) {
        match self.preparations.get_mut(&id) {
            Some(preparation) if preparation.stage != Stage::Ready => {
                self.drop_preparation(id);
                self.refuse(now, id, PrepareRefusal::Other { why });
            }
            // The commit may be on its way.
            Some(Preparation { copy: Some(copy), .. }) => copy.ended = Some(Ended::Failed(why)),
            _ => self.agent.handle(now, AgentInput::Broken { migration: id, why }),
        }
    }

    /// What has not arrived is given up. First nothing more may be replayed; then the range is an ordinary
    /// one.
    pub(super) fn discard_rest(&mut self, id: MigrationId, why: String) {
        if self.imports.contains_key(&id) {
            self.event(ControlEvent::Note(format!("migration {id} is given up: {why}")));
            self.command(MoverCommand::DropImport(id));
        }
    }

    /// A mover reported something.
    pub(super) fn mover_reported(&mut self, now: MonotonicUs, id: MigrationId, report: MoverReport) {
        match report {
            MoverReport::Connected => self.connected(now, id),
            MoverReport::CaughtUp => {
                if let Some(preparation) = self.preparations.get_mut(&id) {
                    preparation.stage = Stage::Ready;
                    self.agent.handle(now, AgentInput::Prepared { migration: id });
                }
            }
            MoverReport::Unreachable => {
                // After the coordinator was told that it may begin, the mover goes on trying.
                if self.preparations.get(&id).is_some_and(|p| p.stage == Stage::Connecting) {
                    self.drop_preparation(id);
                    let error = "no connection to it could be opened, tried again and again".to_owned();
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
                    import.ended = Some(Ended::Finished);
                }
                self.tell_finished(now, id);
            }
            MoverReport::Failed(why) => self.failed(now, id, why),
            MoverReport::ImportDropped => {
                if self.imports.get(&id).is_some_and(Import::is_stale_copy) {
                    // Nobody is served in the range before it is clear.
                    let range = self.imports[&id].view.range();
                    self.jobs.clear_unserved(id, range);
                } else if let Some(import) = self.imports.remove(&id) {
                    self.publish(vec![Then::Sweep(import.view.range())]);
                } else if let Some(range) = self.clearing.remove(&id) {
                    // No table ever had it: nobody knows of the copy.
                    self.publish(vec![Then::Discard(range)]);
                }
            }
            MoverReport::ImportEnded | MoverReport::ExportEnded => {
                self.clearing.remove(&id);
            }
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
        if self.imports.remove(&id).is_some() {
            self.publish(Vec::new());
        }
    }

    fn tell_progress(&mut self, now: MonotonicUs, id: MigrationId) {
        if let Some(import) = self.arriving(id) {
            let progress = import.progress();
            self.agent.handle(now, AgentInput::Progress { migration: id, progress });
        }
    }
}
