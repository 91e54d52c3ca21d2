//! When a source that gives bit by bit has fallen behind, so that it is to give all that is left at once.
//!
//! While the source serves what it has not given, a command costs one trip, and waits for its workers. If
//! that takes longer than to have the target take the key, the target serves better. So: once the workers'
//! wait has been more than [`GIVE_ALL_WAIT_PERMILLE`] of a take's round trip for [`GIVE_ALL_AFTER_US`].
//!
//! The source decides, once and for good. While it is not known how long a take lasts, the source serves.

use crate::tuning::{GIVE_ALL_AFTER_US, GIVE_ALL_WAIT_PERMILLE};
use sidle_types::MonotonicUs;

/// How many cuts the mean duration of a take goes back, about.
const MEAN_OF: u64 = 8;

/// Whether the source has fallen behind.
#[derive(Debug, Default)]
pub(super) struct ByLoad {
    /// The mean duration of the last cuts at the target; `None` until one has been reported.
    take_us: Option<u64>,
    /// Since when the workers' wait has been too long.
    behind_since: Option<MonotonicUs>,
    has_fallen_behind: bool,
}

impl ByLoad {
    /// The target reports how long its last cut took; 0: it had none.
    pub(super) fn took(&mut self, took_us: u32) {
        if took_us > 0 {
            let took_us = u64::from(took_us);
            self.take_us =
                Some(self.take_us.map_or(took_us, |mean| (mean * (MEAN_OF - 1) + took_us) / MEAN_OF));
        }
    }

    /// The slowest worker is so far behind schedule.
    pub(super) fn waits(&mut self, now: MonotonicUs, wait_us: u64) {
        let is_too_long =
            self.take_us.is_some_and(|take_us| wait_us * 1_000 > take_us * GIVE_ALL_WAIT_PERMILLE);
        if !is_too_long {
            self.behind_since = None;
            return;
        }
        let since = *self.behind_since.get_or_insert(now);
        self.has_fallen_behind |= now.since(since) >= GIVE_ALL_AFTER_US;
    }

    /// Whether everything is to be given.
    pub(super) fn has_fallen_behind(&self) -> bool {
        self.has_fallen_behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    /// Whether the source gives all, when it is measured every 2 ms from 1 ms on.
    fn gives_all(took_us: u32, waits_us: impl IntoIterator<Item = u64>) -> bool {
        let mut rule = ByLoad::default();
        rule.took(took_us);
        for (n, wait_us) in waits_us.into_iter().enumerate() {
            rule.waits(MonotonicUs(MS + 2 * MS * n as u64), wait_us);
        }
        rule.has_fallen_behind()
    }

    #[test]
    fn a_source_whose_workers_are_late_for_long_enough_has_fallen_behind() {
        assert!(gives_all(1_000, [1_501; 26]));
        assert!(!gives_all(1_000, [1_500; 100]), "the wait is short beside a take");
        assert!(!gives_all(1_000, [1_501; 25]), "not for long enough");
        assert!(!gives_all(0, [1_000_000; 100]), "how long a take lasts is not known");
        let with_a_break = [1_501; 25].into_iter().chain([0]).chain([1_501; 25]);
        assert!(!gives_all(1_000, with_a_break), "it has caught up in between");
    }

    #[test]
    fn it_is_behind_from_the_first_measurement_that_shows_it() {
        let last_us = |at_us| {
            let mut rule = ByLoad::default();
            rule.took(1_000);
            rule.waits(MonotonicUs(0), 1_500);
            rule.waits(MonotonicUs(7), 1_501);
            rule.waits(MonotonicUs(at_us), 1_501);
            rule.has_fallen_behind()
        };
        assert!(!last_us(7 + GIVE_ALL_AFTER_US - 1) && last_us(7 + GIVE_ALL_AFTER_US));
    }

    #[test]
    fn what_it_waited_before_a_take_was_known_does_not_count() {
        let mut rule = ByLoad::default();
        rule.waits(MonotonicUs(0), 1_501);
        rule.took(1_000);
        rule.waits(MonotonicUs(GIVE_ALL_AFTER_US), 1_501);
        assert!(!rule.has_fallen_behind());
        rule.waits(MonotonicUs(2 * GIVE_ALL_AFTER_US), 1_501);
        assert!(rule.has_fallen_behind());
    }

    #[test]
    fn a_take_that_lasts_longer_makes_the_same_wait_short() {
        let mut rule = ByLoad::default();
        rule.took(1_000);
        rule.waits(MonotonicUs(0), 1_501);
        rule.took(1_008);
        rule.waits(MonotonicUs(GIVE_ALL_AFTER_US), 1_501);
        assert!(!rule.has_fallen_behind(), "the mean is 1,001 us");
        rule.waits(MonotonicUs(GIVE_ALL_AFTER_US + 1), 1_502);
        rule.waits(MonotonicUs(2 * GIVE_ALL_AFTER_US + 1), 1_502);
        assert!(rule.has_fallen_behind());
    }

    #[test]
    fn it_never_catches_up_again() {
        assert!(gives_all(1_000, [1_501; 26].into_iter().chain([0; 100])));
    }

    #[test]
    fn a_take_lasts_as_long_as_the_last_ones_did() {
        let mut rule = ByLoad::default();
        rule.took(8_000);
        (0..60).for_each(|_| rule.took(800));
        assert!(rule.take_us.is_some_and(|mean| (800..900).contains(&mean)), "{rule:?}");
        rule.took(0);
        assert!(rule.take_us.is_some_and(|mean| mean >= 800), "no cut changes nothing");
    }
}
