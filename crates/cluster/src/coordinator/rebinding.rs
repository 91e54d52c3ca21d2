//! Running migrations that go on with the next incarnation of a node.
//!
//! A node whose durable log goes back to the incarnation that took part has everything that was arranged with
//! that: the frozen copy as a source; what had arrived, and what it acknowledged, as a target. The commit
//! that lets the new incarnation in puts it into the migration's record. So the first map that it sees shows
//! it taking part, and it keeps what that needs.
//!
//! What was given bit by bit goes on otherwise: the source gives all that it kept at once.
//!
//! While the node is down, the migration waits for it, however long: nobody else has what it has.

use super::members::incarnation_of;
use crate::{Incarnation, Metadata, MigrationRecord, MigrationState};
use sidle_types::{MigrationId, NodeId, fault};
use std::sync::Arc;

/// What decides whether a migration goes on.
pub(super) struct Rebinding<'a> {
    pub(super) data: &'a Metadata,
}

impl Rebinding<'_> {
    /// The running migrations that go on with the node's present incarnation and name an earlier one.
    pub(super) fn due(&self, node: NodeId) -> Vec<MigrationId> {
        let present = incarnation_of(self.data, node);
        let goes_on = |record: &&MigrationRecord| {
            let took_part = took_part(record, node).filter(|&before| before != present);
            // Others own what a source had that died.
            let took_part = took_part.filter(|_| record.source_log.is_none() || record.target == node);
            took_part.is_some_and(|before| self.goes_on(record, node, before))
        };
        self.data.map.migrations().iter().filter(goes_on).map(|record| record.id).collect()
    }

    /// Whether a running migration would go on if this node of it restarted.
    pub(super) fn would_go_on(&self, record: &MigrationRecord, node: NodeId) -> bool {
        let is_running = record.state == MigrationState::Running;
        is_running && self.log_since(node).is_some() && may_go_on(record)
    }

    fn goes_on(&self, record: &MigrationRecord, node: NodeId, took_part: Incarnation) -> bool {
        // What it is still to read is in another log.
        let is_to_read = record.target == node && self.data.map.takeover_at(record.range.first()).is_some();
        let has_all = is_to_read || self.log_since(node).is_some_and(|since| since <= took_part);
        may_go_on(record) && (has_all || fault!(ReboundWithoutItsLog))
    }

    /// Since which incarnation the node's durable log has everything.
    fn log_since(&self, node: NodeId) -> Option<Incarnation> {
        self.data.known_start(node, incarnation_of(self.data, node))?.log_since
    }
}

/// Not a way back that a coordinator of an earlier version began: what its target had kept is in no log.
pub(super) fn may_go_on(record: &MigrationRecord) -> bool {
    record.continues.is_none() || record.kept_is_noted
}

/// As which incarnation the node took part.
fn took_part(record: &MigrationRecord, node: NodeId) -> Option<Incarnation> {
    let sides = [(record.source, record.source_incarnation), (record.target, record.target_incarnation)];
    sides.into_iter().find(|(side, _)| *side == node).map(|(_, incarnation)| incarnation)
}

impl Metadata {
    /// A running migration goes on with the node's present incarnation.
    pub(super) fn rebind(&mut self, id: MigrationId, node: NodeId) {
        let present = incarnation_of(self, node);
        self.map = Arc::new(self.map.changed(|map| map.rebind(id, node, present)));
    }
}
