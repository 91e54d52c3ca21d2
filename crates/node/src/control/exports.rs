//! This node as the source: where the protocol says so tracked first, then published as exported, frozen behind the
//! barrier, released behind another.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use sidle_cluster::MigrationRecord;
use sidle_migration::ExportView;
use sidle_types::{MigrationId, PositionRange};

impl NodeControl {
    /// The range is copied while this node serves it: from the next table on workers mark what they change in it, and
    /// behind its barrier it is copied (C5).
    pub(super) fn start_tracking(&mut self, record: MigrationRecord) {
        self.drop_tracked_in(record.range);
        self.to_track.insert(record.id, record);
        self.track_waiting();
    }

    /// Goes on with ranges whose import is over by now. The coordinator asks for nothing before that, but this node may
    /// hear of it later; and what is written into an import is not marked (C6).
    pub(super) fn track_waiting(&mut self) {
        let imports = &self.imports;
        let has_arrived = |_: &MigrationId, record: &mut MigrationRecord| {
            !imports.values().any(|import| import.view.range().overlaps(record.range))
        };
        let ready: Vec<_> = self.to_track.extract_if(.., has_arrived).collect();
        for (id, record) in ready {
            match self.spec(&record) {
                Ok(spec) => {
                    let (view, writer) = ExportView::new(&spec);
                    self.exports.insert(id, view);
                    self.command(MoverCommand::StartExport(Box::new(spec), writer));
                    self.publish(vec![Then::Track(id)]);
                }
                // The target asks in vain, and the preparation is given up.
                Err(why) => {
                    self.event(ControlEvent::Note(format!("migration {id} cannot be copied: {why}")));
                }
            }
        }
    }

    /// The copy comes to nothing; what was kept for it goes.
    pub(super) fn stop_tracking(&mut self, id: MigrationId) {
        self.to_track.remove(&id);
        if self.exports.remove(&id).is_some() {
            self.command(MoverCommand::DropExport(id));
            self.publish(Vec::new());
        }
    }

    /// A migration that tracked something of the range was given up, though this node has not heard of it: the
    /// coordinator begins nothing that overlaps what is not over.
    fn drop_tracked_in(&mut self, range: PositionRange) {
        let overlapping =
            self.exports.iter().filter(|(_, view)| view.is_tracked() && view.range().overlaps(range));
        let waiting = self.to_track.iter().filter(|(_, record)| record.range.overlaps(range));
        let dead: Vec<MigrationId> =
            overlapping.map(|(&id, _)| id).chain(waiting.map(|(&id, _)| id)).collect();
        dead.into_iter().for_each(|id| self.stop_tracking(id));
    }

    /// The next map gives the range away: with it the range is exported, and behind its barrier frozen.
    pub(super) fn start_export(&mut self, record: MigrationRecord) {
        let id = record.id;
        if self.exports.contains_key(&id) {
            // It was tracked until now.
            return self.to_freeze.push(id);
        }
        self.drop_tracked_in(record.range);
        match self.spec(&record) {
            Ok(spec) => {
                let (view, writer) = ExportView::new(&spec);
                self.exports.insert(id, view);
                self.to_freeze.push(id);
                self.command(MoverCommand::StartExport(Box::new(spec), writer));
            }
            // The target asks in vain, and reports that it cannot go on.
            Err(why) => self.event(ControlEvent::Note(format!("migration {id} cannot be served: {why}"))),
        }
    }

    /// Nobody needs the range's records any more.
    pub(super) fn release_export(&mut self, id: MigrationId, range: PositionRange) {
        let then = match self.exports.remove(&id) {
            Some(_) => {
                self.clearing.insert(id, range);
                Then::Release(id)
            }
            None => Then::Discard(range),
        };
        self.publish(vec![then]);
    }
}
