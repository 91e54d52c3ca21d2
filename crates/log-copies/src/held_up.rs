//! Whether commits become safe, or are held up.

use sidle_types::{CommitNumber, MonotonicUs};
use sidle_wire::Place;

/// How far commits have come on their way, and since when no further.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    /// Since when a commit has waited, and nothing has come further.
    since: Option<MonotonicUs>,
    /// They have waited for longer than is to be borne.
    is_long: bool,
    reached: Reached,
}

/// How far commits have come. Each part counts: a long one is on its way to a copy for a while. Not what this
/// node has written or synced itself: that goes on, if only with commits that have no records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// The last commit that is safe.
    pub(crate) safe: CommitNumber,
    /// Up to where all copies that count have the log; without any, its beginning.
    pub(crate) copied: Place,
}

impl Reached {
    /// Whether it came further.
    fn advance(&mut self, to: Reached) -> bool {
        let is_further = to.safe > self.safe || to.copied > self.copied;
        self.safe = self.safe.max(to.safe);
        self.copied = self.copied.max(to.copied);
        is_further
    }
}

impl Waits {
    /// This is so now. `waits`: whether a commit is not safe. `most_us`: for how long that is borne.
    pub(crate) fn note(&mut self, now: MonotonicUs, waits: bool, reached: Reached, most_us: u64) {
        let is_further = self.reached.advance(reached);
        self.since = match waits {
            true if is_further => Some(now),
            true => self.since.or(Some(now)),
            false => None,
        };
        self.is_long = self.since.is_some_and(|since| now.since(since) >= most_us);
    }

    /// Whether they have waited for longer than is to be borne.
    pub(crate) fn are_long(&self) -> bool {
        self.is_long
    }

    /// When they will have, if nothing comes further.
    pub(crate) fn due(&self, most_us: u64) -> Option<MonotonicUs> {
        self.since.filter(|_| !self.is_long).map(|since| since.plus_us(most_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_US: u64 = 100;

    fn at(safe: u64, copied: u64) -> Reached {
        Reached { safe: CommitNumber(safe), copied: Place { file: 1, at: copied } }
    }

    #[test]
    fn they_are_long_once_nothing_has_come_further_for_so_long() {
        let mut waits = Waits::default();
        waits.note(MonotonicUs(0), false, at(1, 1), MOST_US);
        assert_eq!(waits.due(MOST_US), None, "nothing waits");
        waits.note(MonotonicUs(1_000), true, at(1, 1), MOST_US);
        assert_eq!((waits.are_long(), waits.due(MOST_US)), (false, Some(MonotonicUs(1_100))));
        for (now, further) in [(1_050, at(1, 2)), (1_120, at(1, 3)), (1_200, at(2, 3))] {
            waits.note(MonotonicUs(now), true, further, MOST_US);
            assert_eq!((waits.are_long(), waits.due(MOST_US)), (false, Some(MonotonicUs(now + MOST_US))));
        }
        // A copy that is away, and back where it was, has not come further.
        waits.note(MonotonicUs(1_250), true, Reached { copied: Place::default(), ..at(2, 0) }, MOST_US);
        waits.note(MonotonicUs(1_300), true, at(2, 3), MOST_US);
        assert_eq!((waits.are_long(), waits.due(MOST_US)), (true, None));
        waits.note(MonotonicUs(1_400), true, at(3, 3), MOST_US);
        assert!(!waits.are_long(), "it came further");
        waits.note(MonotonicUs(1_500), false, at(4, 4), MOST_US);
        assert_eq!((waits.are_long(), waits.due(MOST_US)), (false, None));
    }
}
