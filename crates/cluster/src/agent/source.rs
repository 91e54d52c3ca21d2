//! One migration at its source.

use super::event::End;
use super::talk::Talk;
use crate::{MigrationRecord, NodeSays, Survey};
use sidle_types::{MigrationId, PositionRange};

/// A migration that this node gives a range up in. `X`: what the node serves it by.
#[derive(Debug)]
pub struct Source<X> {
    /// The range.
    pub range: PositionRange,
    /// The migration, with its partitions. There is none before it is to be tracked or given away.
    pub record: Option<MigrationRecord>,
    /// How far it is here.
    pub stage: SourceStage,
    /// What the range is served by: the driver's, from [`SourceStage::Tracked`] until nothing is left here.
    pub view: Option<X>,
    survey: Option<Survey>,
    pub(super) talk: Talk,
}

/// How far a migration is at its source. The driver sets those that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceStage {
    /// The range is counted.
    Surveyed,
    /// It will be tracked once it is whole.
    Waiting,
    /// The driver's: it is served, and copied behind the barrier of the table that says so.
    Tracked,
    /// The driver's: its copy has come to nothing.
    Stopped,
    /// A map gives it away. The next table by that map starts its freeze.
    GivenAway,
    /// The driver's: behind the barrier of that table it is frozen.
    Exported,
    /// The driver's: it is over, and the memory goes back.
    Over,
}

impl<X> Source<X> {
    pub(super) fn new(range: PositionRange) -> Source<X> {
        let (stage, talk) = (SourceStage::Surveyed, Talk::default());
        Source { range, record: None, stage, view: None, survey: None, talk }
    }

    /// Answers [`AgentEvent::Survey`](super::AgentEvent::Survey).
    pub fn surveyed(&mut self, survey: Survey) {
        self.survey.get_or_insert(survey);
        self.talk.owes = true;
    }

    /// It is to be tracked, or given away; whether it was not before.
    pub(super) fn advance(&mut self, stage: SourceStage) -> bool {
        let begins = self.stage < stage;
        self.stage = self.stage.max(stage);
        begins
    }

    /// What the coordinator is to be told now.
    pub(super) fn message(&self, migration: MigrationId) -> Option<NodeSays> {
        let survey = self.survey.clone().filter(|_| self.stage == SourceStage::Surveyed)?;
        Some(NodeSays::Surveyed { migration, survey })
    }

    /// What its end is. No map may have shown it running, if the node was cut off meanwhile.
    pub(super) fn end(&self, record: Option<&MigrationRecord>) -> End {
        let gave_away = self.stage >= SourceStage::GivenAway || record.is_some_and(MigrationRecord::ran);
        if gave_away { End::GivenAway(self.range) } else { End::in_vain(record) }
    }
}
