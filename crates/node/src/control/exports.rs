//! This node as the source: where the protocol says so tracked first, then published as exported, frozen
//! behind the barrier, released behind another.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use sidle_cluster::MigrationRecord;
use sidle_migration::ExportView;
use sidle_types::{MigrationId, PositionRange};

impl NodeControl {
    /// The range is copied while this node serves it: from the next table on workers mark what they change in
    /// it, and behind its barrier it is copied (C5).
    pub(super) fn start_tracking(&mut self, record: MigrationRecord) {
        self.drop_tracked_in(record.range, record.id);
        self.to_track.insert(record.id, record);
        self.track_waiting();
    }

    /// Goes on with ranges that are this node's and have arrived whole (C6).
    pub(super) fn track_waiting(&mut self) {
        let ready: Vec<MigrationId> = (self.to_track.iter())
            .filter(|(_, record)| self.is_whole(record.range))
            .map(|(&id, _)| id)
            .collect();
        for id in ready {
            let record = self.to_track.remove(&id).expect("just seen");
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

    /// Whether this node owns all of the range and takes part in nothing there. The coordinator asks for
    /// nothing before that, but this node may hear of the end of what came before later than of what comes
    /// next; and what it is asked late is of a migration that is over.
    fn is_whole(&self, range: PositionRange) -> bool {
        let is_owned = self
            .map
            .as_ref()
            .is_some_and(|map| map.tablets_in(range).iter().all(|tablet| tablet.owner == self.me.id));
        is_owned
            && !self.imports.values().any(|import| import.view.range().overlaps(range))
            && !self.exports.values().any(|view| view.range().overlaps(range))
    }

    /// The copy comes to nothing; what was kept for it goes.
    pub(super) fn stop_tracking(&mut self, id: MigrationId) {
        self.to_track.remove(&id);
        if self.exports.remove(&id).is_some() {
            self.command(MoverCommand::DropExport(id));
            self.publish(Vec::new());
        }
    }

    /// Earlier migrations that tracked something of the range were given up, though this node has not heard
    /// of it: the coordinator begins nothing that overlaps what is not over.
    fn drop_tracked_in(&mut self, range: PositionRange, later: MigrationId) {
        let tracked =
            (self.exports.iter()).filter(|(_, view)| view.is_tracked()).map(|(&id, view)| (id, view.range()));
        let waiting = self.to_track.iter().map(|(&id, record)| (id, record.range));
        let dead: Vec<MigrationId> = (tracked.chain(waiting))
            .filter(|(id, its)| *id < later && its.overlaps(range))
            .map(|(id, _)| id)
            .collect();
        dead.into_iter().for_each(|id| self.stop_tracking(id));
    }

    /// The next map gives the range away: with it the range is exported, and behind its barrier frozen.
    pub(super) fn start_export(&mut self, record: MigrationRecord) {
        let id = record.id;
        if self.exports.contains_key(&id) {
            // It was tracked until now.
            return self.to_freeze.push(id);
        }
        self.to_track.remove(&id);
        self.drop_tracked_in(record.range, id);
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
