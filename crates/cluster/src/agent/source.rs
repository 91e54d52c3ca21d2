//! One migration at its source.

use super::event::End;
use super::talk::Talk;
use crate::{MigrationRecord, NodeSays, Survey};
use sidle_types::{MigrationId, PositionRange};

/// A migration away from this node. `X`: what the node serves it by.
#[derive(Debug)]
pub struct Source<X> {
    /// The range.
    pub range: PositionRange,
    /// The migration, with its partitions. There is none before it is to be tracked or given away.
    pub record: Option<MigrationRecord>,
    /// Its stage here.
    pub stage: SourceStage,
    /// What the range is served by: the driver's, from [`SourceStage::Tracked`] until nothing is left here.
    pub view: Option<X>,
    survey: Option<Survey>,
    pub(super) talk: Talk,
}

/// A migration's stage at its source. The driver sets the stages marked so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceStage {
    /// The range is counted.
    Surveyed,
    /// It is tracked once it is whole.
    Waiting,
    /// The driver's: it is served, and copied behind the barrier of the table that tracks it.
    Tracked,
    /// The driver's: its copy has failed.
    Stopped,
    /// A map gives it away. The next table from that map starts its freeze.
    GivenAway,
    /// The driver's: behind the barrier of that table it is frozen.
    Exported,
    /// The driver's: the range came back, and what was given of it is cleared.
    TakenBack,
    /// The driver's: it is over, and its memory is freed.
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

    /// Moves it to tracked or given away; returns whether it was not there before.
    pub(super) fn advance(&mut self, stage: SourceStage) -> bool {
        let begins = self.stage < stage;
        self.stage = self.stage.max(stage);
        begins
    }

    /// The message that the coordinator waits for at this stage, if any.
    pub(super) fn message(&self, migration: MigrationId) -> Option<NodeSays> {
        let survey = self.survey.clone().filter(|_| self.stage == SourceStage::Surveyed)?;
        Some(NodeSays::Surveyed { migration, survey })
    }

    /// Its end. If the node was cut off meanwhile, no map may have shown it running.
    pub(super) fn end(&self, record: Option<&MigrationRecord>) -> End {
        let gave_away = self.stage >= SourceStage::GivenAway || record.is_some_and(MigrationRecord::ran);
        if gave_away { End::GivenAway(self.range) } else { End::in_vain(record) }
    }
}
