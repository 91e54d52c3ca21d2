//! One migration at its source, as the coordinator knows it.

use super::event::End;
use super::outbox::Outbox;
use crate::{MigrationRecord, NodeSays, Survey};
use sidle_types::{MigrationId, PositionRange};

/// A migration that this node gives a range up in.
#[derive(Debug)]
pub(super) struct Source {
    range: PositionRange,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The driver counts the range.
    Counting,
    /// What was counted.
    Counted(Survey),
    /// The range is copied while it is served.
    Tracking,
    /// The range is given away.
    Exporting,
}

impl Source {
    pub(super) fn counting(range: PositionRange) -> Source {
        Source { range, state: State::Counting }
    }

    pub(super) fn tracking(range: PositionRange) -> Source {
        Source { range, state: State::Tracking }
    }

    pub(super) fn exporting(range: PositionRange) -> Source {
        Source { range, state: State::Exporting }
    }

    pub(super) fn is_exporting(&self) -> bool {
        matches!(self.state, State::Exporting)
    }

    pub(super) fn is_tracking(&self) -> bool {
        matches!(self.state, State::Tracking)
    }

    /// The coordinator asks again for what was counted.
    pub(super) fn asked_again(&self, migration: MigrationId, out: &mut Outbox) {
        if let State::Counted(survey) = &self.state {
            out.send(NodeSays::Surveyed { migration, survey: survey.clone() });
        }
    }

    /// The driver has counted the range.
    pub(super) fn reported(&mut self, migration: MigrationId, report: NodeSays, out: &mut Outbox) {
        if let (State::Counting, NodeSays::Surveyed { survey, .. }) = (&self.state, report) {
            self.state = State::Counted(survey);
            self.asked_again(migration, out);
        }
    }

    /// Has the range tracked; false where it is already, or given away.
    pub(super) fn track(&mut self, range: PositionRange) -> bool {
        let begins = matches!(self.state, State::Counting | State::Counted(_));
        if begins {
            *self = Source::tracking(range);
        }
        begins
    }

    /// What the end is, if not in vain. No map may have shown it running, if the node was cut off meanwhile.
    pub(super) fn end(self, record: Option<&MigrationRecord>) -> Option<End> {
        let gave_away = self.is_exporting() || record.is_some_and(MigrationRecord::ran);
        gave_away.then_some(End::GivenAway(self.range))
    }
}
