//! Publishing range tables, and what has to wait until every worker uses one.

use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use crate::range_table::RangeTable;
use sidle_cluster::AgentInput;
use sidle_migration::BarrierTicket;
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, PositionRange};
use std::sync::Arc;

/// What happens once every worker has passed a table.
#[derive(Debug)]
pub(super) enum Then {
    /// The agent hears that every worker uses the map of this epoch.
    TellAgent(MapEpoch),
    /// Every worker marks what it changes in the export, which is still served (C5).
    Track(MigrationId),
    /// The export is frozen (C1).
    Freeze(MigrationId),
    /// The export's memory goes back (C2).
    Release(MigrationId),
    /// The import's tombstones go (C3).
    Finish(MigrationId),
    /// What the store holds in the range is nobody's, where that is still so (C2, C7).
    Discard(PositionRange),
    /// Tombstones in the range are of no use any more (C3).
    Sweep(PositionRange),
}

/// A table that not every worker may have passed yet.
#[derive(Debug)]
pub(super) struct Awaited {
    ticket: BarrierTicket,
    then: Vec<Then>,
}

impl NodeControl {
    /// Publishes the table of the present map, imports and exports. What was not waited for before may wait
    /// for it.
    pub(super) fn publish(&mut self, mut then: Vec<Then>) {
        let Some(map) = &self.map else { return };
        let imports: Vec<_> = self.imports.values().map(|import| Arc::clone(&import.view)).collect();
        let exports: Vec<_> = self.exports.values().cloned().collect();
        debug_assert_eq!(self.owned_copies(), [], "a copy would be served before its last round (C8)");
        let table = RangeTable::new(self.me.id, Arc::clone(map), &imports, &exports);
        // C1: only a table by which this node no longer owns the range starts its freeze.
        let (given, kept) = (self.to_freeze.drain(..)).partition(|id| map.migration(*id).is_some());
        self.to_freeze = kept;
        let given: Vec<MigrationId> = given;
        let ticket = self.parts.published.publish(Arc::new(table));
        #[cfg(feature = "bug-switches")]
        let given = self.freeze_at_once(given, &ticket);
        #[cfg(feature = "bug-switches")]
        self.track_at_once(&mut then, &ticket);
        then.extend(given.into_iter().map(Then::Freeze));
        self.event(ControlEvent::NotifyWorkers);
        // Tables are passed in order, so that one that nothing waits for need not be remembered.
        if !then.is_empty() {
            self.awaited.push_back(Awaited { ticket, then });
        }
    }

    /// The named fault `freeze_without_barrier`; what is to be frozen behind the barrier, otherwise.
    #[cfg(feature = "bug-switches")]
    fn freeze_at_once(&mut self, given: Vec<MigrationId>, ticket: &BarrierTicket) -> Vec<MigrationId> {
        if !self.bugs.freeze_without_barrier {
            return given;
        }
        for id in given {
            self.command(MoverCommand::Frozen(id, ticket.unproved()));
        }
        Vec::new()
    }

    /// The named fault `tracking_without_barrier`: what is to be done behind the barrier is done now.
    #[cfg(feature = "bug-switches")]
    fn track_at_once(&mut self, then: &mut Vec<Then>, ticket: &BarrierTicket) {
        let is_early = |step: &mut Then| self.bugs.tracking_without_barrier && matches!(step, Then::Track(_));
        for step in then.extract_if(.., is_early).collect::<Vec<_>>() {
            if let Then::Track(id) = step {
                self.command(MoverCommand::Tracked(id, ticket.unproved()));
            }
        }
    }

    /// Publishes a table by which this node serves nothing.
    pub(super) fn serve_nothing(&mut self) {
        self.map = None;
        let _nothing_waits =
            self.parts.published.publish(Arc::new(RangeTable::before_joining(self.me.clone())));
        self.event(ControlEvent::NotifyWorkers);
    }

    /// Whether something in the range is to be cleared once a barrier has passed.
    pub(super) fn is_awaited(&self, range: PositionRange) -> bool {
        let clears = |step: &Then| match step {
            Then::Discard(cleared) | Then::Sweep(cleared) => cleared.overlaps(range),
            // Their ranges are kept until the mover is done.
            Then::TellAgent(_) | Then::Track(_) | Then::Freeze(_) | Then::Release(_) | Then::Finish(_) => {
                false
            }
        };
        self.awaited.iter().any(|awaited| awaited.then.iter().any(clears))
    }

    /// Goes on with what waited for tables that every worker has passed, in the order in which they were
    /// published.
    pub(super) fn pass_barriers(&mut self, now: MonotonicUs) {
        while let Some(Awaited { ticket, .. }) = self.awaited.front() {
            // Each step takes a proof of its own.
            if ticket.passed().is_none() {
                return;
            }
            let Awaited { ticket, then } = self.awaited.pop_front().expect("it is in front");
            for step in then {
                let proof = ticket.passed().expect("a barrier stays passed");
                match step {
                    Then::TellAgent(epoch) => self.agent.handle(now, AgentInput::Published { epoch }),
                    Then::Track(id) => self.command(MoverCommand::Tracked(id, proof)),
                    Then::Freeze(id) => self.command(MoverCommand::Frozen(id, proof)),
                    Then::Release(id) => self.command(MoverCommand::ReleaseExport(id, proof)),
                    Then::Finish(id) => self.command(MoverCommand::FinishImport(id, proof)),
                    Then::Discard(range) => self.jobs.discard(self.leavings_in(range), proof),
                    Then::Sweep(range) => self.jobs.sweep(range, proof),
                }
            }
        }
    }
}
