//! The double read (Fulva, section IV-B), one attempt of it, as a state machine without anything around it.
//!
//! Invariant M4: a source value is returned only if the target said "not here yet" to the same attempt, and
//! the source confirms that it is frozen for the same migration id. Whatever else the two answer, in whatever
//! order, the target's answer is taken or the attempt is made anew.
//!
//! Why that is enough: the target's "not here yet" falls inside the operation; at that moment the target had
//! neither a value nor a tombstone for the key, so the frozen value was the latest. Why the id matters: were
//! the target's answer of a later migration than the source's confirmation, the range could have gone there
//! and back in between. A target therefore names its migration (`EMPTY 7`). Where one does not, the caller
//! has to know that no other migration can be meant.

use sidle_types::MigrationId;

/// What the target said of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetSays {
    /// A value, or that there is none: it knows.
    Known,
    /// Not here yet, for the migration named.
    NotHereYet(Option<MigrationId>),
}

/// What the source said of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceSays {
    /// Frozen for the migration asked about; this is the value, or that there is none.
    Frozen,
    /// The migration is over.
    Done,
    /// It is not frozen for that migration: the two sides' maps differ.
    NotFrozen,
    /// It could not be asked: the connection was lost, or it answered an error.
    Failed,
}

/// What to do next.
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
    Said(SourceSays),
}

impl DoubleRead {
    /// Both are asked at once.
    pub(crate) fn both(migration: MigrationId) -> DoubleRead {
        DoubleRead { migration, target_waits: false, source: Source::Asked }
    }

    /// The target is asked alone, since it is believed to know.
    pub(crate) fn target_alone(migration: MigrationId) -> DoubleRead {
        DoubleRead { migration, target_waits: false, source: Source::NotAsked }
    }

    /// The migration that the attempt belongs to.
    pub(crate) fn migration(&self) -> MigrationId {
        self.migration
    }

    /// The target has answered.
    pub(crate) fn target_said(&mut self, said: TargetSays) -> Verdict {
        match said {
            TargetSays::Known => Verdict::TakeTarget,
            TargetSays::NotHereYet(Some(id)) if id != self.migration => Verdict::AgainLater,
            TargetSays::NotHereYet(_) => {
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
    pub(crate) fn source_said(&mut self, said: SourceSays) -> Verdict {
        assert!(self.source == Source::Asked, "the source answers once, when it was asked");
        self.source = Source::Said(said);
        self.verdict()
    }

    fn verdict(&self) -> Verdict {
        match self.source {
            // The target's answer is needed whatever the source said, and may be enough alone.
            _ if !self.target_waits => Verdict::Wait,
            Source::NotAsked | Source::Asked => Verdict::Wait,
            Source::Said(SourceSays::Frozen) => Verdict::TakeSource,
            Source::Said(SourceSays::Done) => Verdict::AgainNow,
            Source::Said(SourceSays::NotFrozen | SourceSays::Failed) => Verdict::AgainLater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MigrationId = MigrationId(7);
    const EMPTY: TargetSays = TargetSays::NotHereYet(None);

    #[derive(Clone, Copy)]
    enum Said {
        Target(TargetSays),
        Source(SourceSays),
    }
    use Said::{Source as S, Target as T};

    fn play(mut read: DoubleRead, answers: &[Said]) -> Vec<Verdict> {
        let answer = |said: &Said| match *said {
            T(said) => read.target_said(said),
            S(said) => read.source_said(said),
        };
        answers.iter().map(answer).collect()
    }

    #[test]
    fn both_asked_in_every_order_of_answers() {
        use Verdict::*;
        for (answers, verdicts) in [
            (&[T(TargetSays::Known)][..], &[TakeTarget][..]),
            (&[S(SourceSays::Frozen), T(TargetSays::Known)], &[Wait, TakeTarget]),
            (&[S(SourceSays::Done), T(TargetSays::Known)], &[Wait, TakeTarget]),
            (&[S(SourceSays::NotFrozen), T(TargetSays::Known)], &[Wait, TakeTarget]),
            (&[S(SourceSays::Failed), T(TargetSays::Known)], &[Wait, TakeTarget]),
            (&[S(SourceSays::Frozen), T(EMPTY)], &[Wait, TakeSource]),
            (&[S(SourceSays::Done), T(EMPTY)], &[Wait, AgainNow]),
            (&[S(SourceSays::NotFrozen), T(EMPTY)], &[Wait, AgainLater]),
            (&[S(SourceSays::Failed), T(EMPTY)], &[Wait, AgainLater]),
            (&[T(EMPTY), S(SourceSays::Frozen)], &[Wait, TakeSource]),
            (&[T(EMPTY), S(SourceSays::Done)], &[Wait, AgainNow]),
            (&[T(EMPTY), S(SourceSays::NotFrozen)], &[Wait, AgainLater]),
            (&[T(EMPTY), S(SourceSays::Failed)], &[Wait, AgainLater]),
        ] {
            assert_eq!(play(DoubleRead::both(ID), answers), verdicts);
        }
    }

    #[test]
    fn target_asked_alone() {
        use Verdict::*;
        for (answers, verdicts) in [
            (&[T(TargetSays::Known)][..], &[TakeTarget][..]),
            (&[T(EMPTY), S(SourceSays::Frozen)], &[AskSource, TakeSource]),
            (&[T(EMPTY), S(SourceSays::Done)], &[AskSource, AgainNow]),
            (&[T(EMPTY), S(SourceSays::NotFrozen)], &[AskSource, AgainLater]),
            (&[T(EMPTY), S(SourceSays::Failed)], &[AskSource, AgainLater]),
        ] {
            assert_eq!(play(DoubleRead::target_alone(ID), answers), verdicts);
        }
    }

    #[test]
    fn an_answer_of_another_migration_pairs_with_nothing() {
        let same = T(TargetSays::NotHereYet(Some(ID)));
        let other = T(TargetSays::NotHereYet(Some(MigrationId(9))));
        assert_eq!(play(DoubleRead::both(ID), &[S(SourceSays::Frozen), same])[1], Verdict::TakeSource);
        assert_eq!(play(DoubleRead::both(ID), &[S(SourceSays::Frozen), other])[1], Verdict::AgainLater);
        assert_eq!(play(DoubleRead::target_alone(ID), &[other]), [Verdict::AgainLater]);
    }

    /// M4, over every sequence of two answers: the source's value is taken only after "not here yet" and
    /// "frozen".
    #[test]
    fn source_value_needs_both_confirmations() {
        let sources = [SourceSays::Frozen, SourceSays::Done, SourceSays::NotFrozen, SourceSays::Failed];
        for target in [TargetSays::Known, EMPTY, TargetSays::NotHereYet(Some(MigrationId(9)))] {
            for source in sources {
                for answers in [[T(target), S(source)], [S(source), T(target)]] {
                    let takes = play(DoubleRead::both(ID), &answers).contains(&Verdict::TakeSource);
                    assert_eq!(takes, target == EMPTY && source == SourceSays::Frozen);
                }
            }
        }
    }
}
