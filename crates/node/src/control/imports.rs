//! This node as the target: room is made, the source connected, the range taken, and in the end swept.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::{MoverCommand, MoverReport};
use sidle_cluster::{AgentInput, MigrationRecord, PrepareRefusal, Progress};
use sidle_migration::{ImportView, TargetCounters};
use sidle_types::{MigrationId, MonotonicUs};
use std::sync::Arc;

/// Of the free memory, how much an import may plan to fill: the rest is for writes meanwhile, and for the cleaner.
const FILL_PERCENT: u64 = 90;

/// A migration to this node that may begin.
#[derive(Debug)]
pub(super) struct Preparation {
    record: MigrationRecord,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What an earlier owner left in the range is still being cleared (C4).
    Clearing,
    /// The mover connects to the source.
    Connecting,
    /// The coordinator was told that it may begin.
    Ready,
}

/// A migration to this node that has begun.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) view: Arc<ImportView>,
    counters: TargetCounters,
    stalled: bool,
}

impl Import {
    fn progress(&self) -> Progress {
        Progress {
            activated: self.view.activated(),
            records_moved: self.counters.records_moved,
            bytes_moved: self.counters.bytes_moved,
            next: self.view.progress().collect(),
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
        self.preparations.insert(id, Preparation { record, stage: Stage::Clearing });
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
                || self.exports.values().any(|view| view.range().overlaps(range))
                || self.clearing.values().any(|clearing| clearing.overlaps(range))
                || self.jobs.overlaps(range)
                || self.is_awaited(range);
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

    /// The migration will not begin.
    pub(super) fn abandon(&mut self, id: MigrationId, why: String) {
        if let Some(preparation) = self.preparations.remove(&id) {
            if preparation.stage != Stage::Clearing {
                self.command(MoverCommand::DropImport(id));
            }
            self.event(ControlEvent::Note(format!("migration {id} does not begin: {why}")));
        }
    }

    /// The next map gives the range to this node.
    pub(super) fn start_import(&mut self, record: MigrationRecord) {
        let id = record.id;
        let spec = match (self.preparations.remove(&id), self.spec(&record)) {
            (Some(_), Ok(spec)) => spec,
            // The coordinator begins nothing that this life of the node has not prepared. Without an import the range
            // is lost (R3), and nothing is acknowledged in it.
            (None, _) => {
                return self.event(ControlEvent::Note(format!(
                    "migration {id} begins without having been prepared"
                )));
            }
            (_, Err(why)) => {
                return self.event(ControlEvent::Note(format!("migration {id} cannot begin: {why}")));
            }
        };
        let (view, writer) = ImportView::new(&spec);
        self.imports.insert(id, Import { view, counters: TargetCounters::default(), stalled: false });
        self.command(MoverCommand::StartImport(spec, writer));
    }

    /// What has not arrived is given up. First nothing more may be replayed; then the range is an ordinary one.
    pub(super) fn discard_rest(&mut self, id: MigrationId, why: String) {
        if self.imports.contains_key(&id) {
            self.event(ControlEvent::Note(format!("migration {id} is given up: {why}")));
            self.command(MoverCommand::DropImport(id));
        }
    }

    /// A mover reported something.
    pub(super) fn mover_reported(&mut self, now: MonotonicUs, id: MigrationId, report: MoverReport) {
        match report {
            MoverReport::Connected => {
                if let Some(preparation) = self.preparations.get_mut(&id) {
                    preparation.stage = Stage::Ready;
                    self.agent.handle(now, AgentInput::Prepared { migration: id });
                }
            }
            MoverReport::Unreachable => {
                // After the coordinator was told that it may begin, the mover goes on trying.
                if self.preparations.get(&id).is_some_and(|p| p.stage == Stage::Connecting) {
                    self.preparations.remove(&id);
                    self.command(MoverCommand::DropImport(id));
                    let error = "the connection could not be opened".to_owned();
                    self.refuse(now, id, PrepareRefusal::SourceUnreachable { error });
                }
            }
            MoverReport::Activated => self.tell_progress(now, id),
            MoverReport::Moved(counters) => {
                if let Some(import) = self.imports.get_mut(&id) {
                    self.parts.shared.gauges.migration.add(import.counters, counters);
                    import.counters = counters;
                    self.tell_progress(now, id);
                }
            }
            MoverReport::Stalled | MoverReport::Resumed => {
                if let Some(import) = self.imports.get_mut(&id) {
                    import.stalled = report == MoverReport::Stalled;
                    self.tell_progress(now, id);
                }
            }
            MoverReport::Finished(counters) => {
                if let Some(import) = self.imports.get_mut(&id) {
                    self.parts.shared.gauges.migration.add(import.counters, counters);
                    import.counters = counters;
                    import.stalled = false;
                    let progress = import.progress();
                    self.agent.handle(now, AgentInput::Finished { migration: id, progress });
                }
            }
            MoverReport::Failed(why) => self.agent.handle(now, AgentInput::Broken { migration: id, why }),
            MoverReport::ImportDropped => {
                if let Some(import) = self.imports.remove(&id) {
                    self.publish(vec![Then::Sweep(import.view.range())]);
                }
            }
            MoverReport::ImportEnded | MoverReport::ExportEnded => {
                self.clearing.remove(&id);
            }
        }
    }

    fn tell_progress(&mut self, now: MonotonicUs, id: MigrationId) {
        if let Some(import) = self.imports.get(&id) {
            let progress = import.progress();
            self.agent.handle(now, AgentInput::Progress { migration: id, progress });
        }
    }
}
