//! This node as the source: where the protocol says so tracked first, then published as exported, frozen
//! behind the barrier, released behind another.

use super::migrations::Migration;
use super::source::Source;
use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use sidle_cluster::MigrationRecord;
use sidle_migration::ExportView;
use sidle_types::{MigrationId, PositionRange};
use std::sync::Arc;

impl NodeControl {
    /// The range is copied while this node serves it: from the next table on workers mark what they change in
    /// it, and behind its barrier it is copied (C5).
    pub(super) fn start_tracking(&mut self, record: MigrationRecord) {
        self.drop_tracked_in(record.range, record.id);
        self.migrations.insert(record.id, Migration::Source(Source::Waiting(Box::new(record))));
        self.track_waiting();
    }

    /// Goes on with ranges that are this node's and have arrived whole (C6).
    pub(super) fn track_waiting(&mut self) {
        let waiting = self.migrations.sources().filter_map(|(id, source)| match source {
            Source::Waiting(record) if self.is_whole(record.range) => Some((id, record.clone())),
            _ => None,
        });
        for (id, record) in waiting.collect::<Vec<_>>() {
            if self.start(&record, Source::Tracked, "copied") {
                self.publish(vec![Then::Track(id)]);
            }
        }
    }

    /// Has the mover take part as the source; false, with a note, where that cannot be: the target asks in
    /// vain, and gives up.
    fn start(
        &mut self,
        record: &MigrationRecord,
        state: fn(Arc<ExportView>) -> Source,
        to_be: &'static str,
    ) -> bool {
        let id = record.id;
        match self.spec(record) {
            Ok(spec) => {
                let (view, writer) = ExportView::new(&spec);
                self.migrations.insert(id, Migration::Source(state(view)));
                self.command(MoverCommand::StartExport(Box::new(spec), writer));
                true
            }
            Err(why) => {
                self.migrations.remove(id);
                self.event(ControlEvent::Note(format!("migration {id} cannot be {to_be}: {why}")));
                false
            }
        }
    }

    /// Whether this node owns all of the range and takes part in nothing there. The coordinator asks for
    /// nothing before that, but this node may hear of the end of what came before later than of what comes
    /// next; and what it is asked late is of a migration that is over.
    fn is_whole(&self, range: PositionRange) -> bool {
        let is_owned = self
            .map
            .as_ref()
            .is_some_and(|map| map.tablets_in(range).iter().all(|tablet| tablet.owner == self.me.id));
        is_owned && !self.migrations.in_table(range)
    }

    /// The copy comes to nothing; what was kept for it goes.
    fn stop_tracking(&mut self, id: MigrationId) {
        let was_in_table = self.migrations.source(id).is_some_and(|source| source.view().is_some());
        self.migrations.remove(id);
        if was_in_table {
            self.command(MoverCommand::DropExport(id));
            self.publish(Vec::new());
        }
    }

    /// Earlier migrations that tracked something of the range were given up, though this node has not heard
    /// of it: the coordinator begins nothing that overlaps what is not over.
    fn drop_tracked_in(&mut self, range: PositionRange, later: MigrationId) {
        let earlier = self.migrations.sources().filter(|(id, _)| *id < later);
        let dead = earlier.filter(|(_, source)| source.is_tracked() && source.range().overlaps(range));
        let dead: Vec<MigrationId> = dead.map(|(id, _)| id).collect();
        dead.into_iter().for_each(|id| self.stop_tracking(id));
    }

    /// The next map gives the range away: with it the range is exported, and behind its barrier frozen.
    pub(super) fn start_export(&mut self, record: &MigrationRecord) {
        if let Some(Migration::Source(source)) = self.migrations.get_mut(record.id)
            && let Some(view) = source.view()
        {
            // It was tracked until now.
            *source = Source::GivenAway(Arc::clone(view));
            return;
        }
        self.drop_tracked_in(record.range, record.id);
        self.start(record, Source::GivenAway, "served");
    }

    /// It is over, and nobody needs the range's records any more.
    pub(super) fn release(&mut self, id: MigrationId, range: PositionRange) {
        let source = self.migrations.source(id);
        let then = match source {
            Some(Source::GivenAway(_) | Source::Exported(_)) => {
                self.migrations.insert(id, Migration::Source(Source::Releasing(range)));
                Then::Release(id)
            }
            // It ran and is over, and this node has not heard of it in between.
            _ => {
                self.keep(id);
                Then::Discard(range)
            }
        };
        self.publish(vec![then]);
    }

    /// It is over, and the range stays.
    pub(super) fn keep(&mut self, id: MigrationId) {
        if matches!(self.migrations.source(id), Some(Source::Waiting(_) | Source::Tracked(_))) {
            self.stop_tracking(id);
        }
    }
}
