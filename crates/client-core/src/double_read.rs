//! The double read (Fulva, section IV-B): one attempt as a bare state machine.
//!
//! Invariant M4: a source value is returned only if the target answered "not here yet" to the same attempt,
//! and the source confirms that it is frozen for the same migration id. For any other two answers, in any
//! order, the target's answer is taken or another attempt is made.
//!
//! Why that is enough: the target's "not here yet" falls inside the operation. At that moment the target had
//! neither a value nor a tombstone for the key, so the frozen value was the latest. Why the id matters: if
//! the target's answer were from a later migration than the source's confirmation, the range could have moved
//! there and back in between. So a target names its migration (`EMPTY 7`). Otherwise the caller must know
//! that no other migration is possible.

use sidle_types::MigrationId;

/// The target's answer for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetAnswer {
    /// A value, or its absence: final.
    Known,
    /// Not here yet, for the named migration.
    NotHereYet(Option<MigrationId>),
}

/// The source's answer for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceAnswer {
    /// Frozen for the requested migration; a value, or its absence.
    Frozen,
    /// The migration is over.
    Done,
    /// It is not frozen for that migration: the two sides' maps differ.
    NotFrozen,
    /// No answer: the connection was lost, or it was an error.
    Failed,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Wait for the other answer.
    Wait,
    /// The target's answer is the operation's.
    TakeTarget,
    /// The source's value is the operation's (M4 holds).
    TakeSource,
    /// Ask the source, which was not asked before.
    AskSource,
    /// Make another attempt at once: the target must know by now.
    AgainNow,
    /// Make another attempt when the map is newer or some time has passed.
    AgainLater,
}

/// One attempt to read a key of a migrating range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoubleRead {
    migration: MigrationId,
    target_waits: bool,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    NotAsked,
    Asked,
    Answered(SourceAnswer),
}

impl DoubleRead {
    /// Both are asked at once.
    pub(crate) fn both(migration: MigrationId) -> DoubleRead {
        DoubleRead { migration, target_waits: false, source: Source::Asked }
    }

    /// The target is asked alone, since it should know.
    pub(crate) fn target_alone(migration: MigrationId) -> DoubleRead {
        DoubleRead { migration, target_waits: false, source: Source::NotAsked }
    }

    /// The attempt's migration.
    pub(crate) fn migration(&self) -> MigrationId {
        self.migration
    }

    /// The target has answered.
    pub(crate) fn target_answered(&mut self, answer: TargetAnswer) -> Verdict {
        match answer {
            TargetAnswer::Known => Verdict::TakeTarget,
            TargetAnswer::NotHereYet(Some(id)) if id != self.migration => Verdict::AgainLater,
            TargetAnswer::NotHereYet(_) => {
                self.target_waits = true;
                if self.source == Source::NotAsked {
                    self.source = Source::Asked;
                    return Verdict::AskSource;
                }
                self.verdict()
            }
        }
    }

    /// The source has answered.
    pub(crate) fn source_answered(&mut self, answer: SourceAnswer) -> Verdict {
        assert!(self.source == Source::Asked, "the source answers once, when it was asked");
        self.source = Source::Answered(answer);
        self.verdict()
    }

    fn verdict(&self) -> Verdict {
        match self.source {
            // The target's answer is needed in any case, and may be enough alone.
            _ if !self.target_waits => Verdict::Wait,
            Source::NotAsked | Source::Asked => Verdict::Wait,
            Source::Answered(SourceAnswer::Frozen) => Verdict::TakeSource,
            Source::Answered(SourceAnswer::Done) => Verdict::AgainNow,
            Source::Answered(SourceAnswer::NotFrozen | SourceAnswer::Failed) => Verdict::AgainLater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MigrationId = MigrationId(7);
    const EMPTY: TargetAnswer = TargetAnswer::NotHereYet(None);

    #[derive(Clone, Copy)]
    enum Answer {
        Target(TargetAnswer),
        Source(SourceAnswer),
    }
    use Answer::{Source as S, Target as T};

    fn play(mut read: DoubleRead, answers: &[Answer]) -> Vec<Verdict> {
        let answer = |answer: &Answer| match *answer {
            T(answer) => read.target_answered(answer),
            S(answer) => read.source_answered(answer),
        };
        answers.iter().map(answer).collect()
    }

    #[test]
    fn both_asked_in_every_order_of_answers() {
        use Verdict::*;
        for (answers, verdicts) in [
            (&[T(TargetAnswer::Known)][..], &[TakeTarget][..]),
            (&[S(SourceAnswer::Frozen), T(TargetAnswer::Known)], &[Wait, TakeTarget]),
            (&[S(SourceAnswer::Done), T(TargetAnswer::Known)], &[Wait, TakeTarget]),
            (&[S(SourceAnswer::NotFrozen), T(TargetAnswer::Known)], &[Wait, TakeTarget]),
            (&[S(SourceAnswer::Failed), T(TargetAnswer::Known)], &[Wait, TakeTarget]),
            (&[S(SourceAnswer::Frozen), T(EMPTY)], &[Wait, TakeSource]),
            (&[S(SourceAnswer::Done), T(EMPTY)], &[Wait, AgainNow]),
            (&[S(SourceAnswer::NotFrozen), T(EMPTY)], &[Wait, AgainLater]),
            (&[S(SourceAnswer::Failed), T(EMPTY)], &[Wait, AgainLater]),
            (&[T(EMPTY), S(SourceAnswer::Frozen)], &[Wait, TakeSource]),
            (&[T(EMPTY), S(SourceAnswer::Done)], &[Wait, AgainNow]),
            (&[T(EMPTY), S(SourceAnswer::NotFrozen)], &[Wait, AgainLater]),
            (&[T(EMPTY), S(SourceAnswer::Failed)], &[Wait, AgainLater]),
        ] {
            assert_eq!(play(DoubleRead::both(ID), answers), verdicts);
        }
    }

    #[test]
    fn target_asked_alone() {
        use Verdict::*;
        for (answers, verdicts) in [
            (&[T(TargetAnswer::Known)][..], &[TakeTarget][..]),
            (&[T(EMPTY), S(SourceAnswer::Frozen)], &[AskSource, TakeSource]),
            (&[T(EMPTY), S(SourceAnswer::Done)], &[AskSource, AgainNow]),
            (&[T(EMPTY), S(SourceAnswer::NotFrozen)], &[AskSource, AgainLater]),
            (&[T(EMPTY), S(SourceAnswer::Failed)], &[AskSource, AgainLater]),
        ] {
            assert_eq!(play(DoubleRead::target_alone(ID), answers), verdicts);
        }
    }

    #[test]
    fn an_answer_of_another_migration_pairs_with_nothing() {
        let same = T(TargetAnswer::NotHereYet(Some(ID)));
        let other = T(TargetAnswer::NotHereYet(Some(MigrationId(9))));
        assert_eq!(play(DoubleRead::both(ID), &[S(SourceAnswer::Frozen), same])[1], Verdict::TakeSource);
        assert_eq!(play(DoubleRead::both(ID), &[S(SourceAnswer::Frozen), other])[1], Verdict::AgainLater);
        assert_eq!(play(DoubleRead::target_alone(ID), &[other]), [Verdict::AgainLater]);
    }

    /// M4, over every sequence of two answers: the source's value is taken only after "not here yet" and
    /// "frozen".
    #[test]
    fn source_value_needs_both_confirmations() {
        let sources =
            [SourceAnswer::Frozen, SourceAnswer::Done, SourceAnswer::NotFrozen, SourceAnswer::Failed];
        for target in [TargetAnswer::Known, EMPTY, TargetAnswer::NotHereYet(Some(MigrationId(9)))] {
            for source in sources {
                for answers in [[T(target), S(source)], [S(source), T(target)]] {
                    let takes = play(DoubleRead::both(ID), &answers).contains(&Verdict::TakeSource);
                    assert_eq!(takes, target == EMPTY && source == SourceAnswer::Frozen);
                }
            }
        }
    }
}
