//! This node as the source: published as exported, frozen behind the barrier, released behind another.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use sidle_cluster::MigrationRecord;
use sidle_migration::ExportView;
use sidle_types::{MigrationId, PositionRange};

impl NodeControl {
    /// The next map gives the range away: with it the range is exported, and behind its barrier frozen.
    pub(super) fn start_export(&mut self, record: MigrationRecord) {
        let id = record.id;
        match self.spec(&record) {
            Ok(spec) => {
                let (view, writer) = ExportView::new(&spec);
                self.exports.insert(id, view);
                self.to_freeze.push(id);
                self.command(MoverCommand::StartExport(spec, writer));
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
