//! What the coordinator has learnt about an unfinished migration since it opened. It can ask for all of it
//! again.

use crate::timing::{PREPARE_DEADLINE_US, RATE_WINDOW_US, RETRY_US};
use crate::{
    LargeCollections, MigrationCounters, MigrationRecord, MigrationState, NodeSays, PartitionStatus,
    PrepareRefusal, Progress, Survey,
};
use sidle_types::{MigrationId, MonotonicUs};
use std::collections::BTreeMap;

/// What is known of every unfinished migration.
pub(super) type Attempts = BTreeMap<MigrationId, Attempt>;

/// The sender of a message about a migration: the properties that matter there.
#[derive(Debug)]
pub(super) struct Speaker {
    /// Whether it is the incarnation of the source that the record names.
    pub(super) is_source: bool,
    /// Whether it is that of the target.
    pub(super) is_target: bool,
    /// Its name in reasons.
    pub(super) shown: String,
}

/// A rate over less time than this means nothing.
const FIRST_RATE_AFTER_US: u64 = 20_000;

/// The volatile side of an unfinished migration.
#[derive(Debug)]
pub(super) struct Attempt {
    /// What the source counted; not yet committed.
    pub(super) survey: Option<Survey>,
    /// What the target answered to the preparation.
    pub(super) prepared: Option<Result<(), PrepareRefusal>>,
    /// When the survey or preparation was asked for last.
    pub(super) asked_at: Option<MonotonicUs>,
    /// When the preparation is given up.
    pub(super) deadline: MonotonicUs,
    /// How far the target has come, by what its present incarnation reports.
    pub(super) progress: Progress,
    /// What had arrived by the reports of its earlier ones.
    earlier: Arrived,
    /// Whether the target has everything.
    pub(super) finished: bool,
    /// Why source or target cannot continue.
    pub(super) broken: Option<String>,
    /// Whether its source has been sent no map in which it runs. Only the coordinator that started it knows.
    pub(super) is_withheld: bool,
    /// Since when records move, to this coordinator's knowledge: since it runs, or is copied before.
    pub(super) moves_since: Option<MonotonicUs>,
    /// Whether it may have moved before this coordinator ran: how long, and how much, is not known.
    is_joined_late: bool,
    /// Since the first report, if it was taken over.
    rate: Option<Rate>,
}

/// What has arrived at a target.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    records: u64,
    bytes: u64,
    collections: LargeCollections,
}

impl Arrived {
    fn of(progress: &Progress) -> Arrived {
        let &Progress { records_moved, bytes_moved, collections, .. } = progress;
        Arrived { records: records_moved, bytes: bytes_moved, collections }
    }

    /// Reports are not trusted to stay within a number.
    fn and(self, later: Arrived) -> Arrived {
        Arrived {
            records: self.records.saturating_add(later.records),
            bytes: self.bytes.saturating_add(later.bytes),
            collections: self.collections.and(later.collections),
        }
    }
}

/// The recent rate of a migration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    window_since: MonotonicUs,
    bytes_at_start: u64,
    fraction_at_start: f64,
    bytes_per_second: u64,
    /// Of the range, as [`Attempt::fraction`].
    fraction_per_second: f64,
}

impl Rate {
    /// Nothing is known yet of what comes behind this.
    const fn from(now: MonotonicUs, bytes_at_start: u64, fraction_at_start: f64) -> Rate {
        let (bytes_per_second, fraction_per_second) = (0, 0.0);
        Rate { window_since: now, bytes_at_start, fraction_at_start, bytes_per_second, fraction_per_second }
    }

    /// Takes in how far it has come by now.
    fn advance(&mut self, now: MonotonicUs, bytes_moved: u64, fraction: f64) {
        let elapsed_us = now.since(self.window_since);
        let is_first = self.bytes_per_second == 0 && elapsed_us >= FIRST_RATE_AFTER_US;
        if elapsed_us < RATE_WINDOW_US && !is_first {
            return;
        }
        let bytes = bytes_moved.saturating_sub(self.bytes_at_start);
        self.bytes_per_second = (u128::from(bytes) * 1_000_000 / u128::from(elapsed_us)) as u64;
        self.fraction_per_second = (fraction - self.fraction_at_start).max(0.0) * 1e6 / elapsed_us as f64;
        if elapsed_us >= RATE_WINDOW_US {
            (self.window_since, self.bytes_at_start, self.fraction_at_start) = (now, bytes_moved, fraction);
        }
    }
}

impl Attempt {
    /// Nothing received yet.
    pub(super) fn new(now: MonotonicUs, record: &MigrationRecord) -> Attempt {
        let next = record.partitions.iter().map(|partition| Some(partition.first())).collect();
        let MigrationCounters { records_moved, bytes_moved, .. } = record.counters;
        Attempt {
            survey: None,
            prepared: None,
            asked_at: None,
            deadline: now.plus_us(PREPARE_DEADLINE_US),
            progress: Progress { records_moved, bytes_moved, next, ..Progress::default() },
            earlier: Arrived::default(),
            finished: false,
            broken: None,
            is_withheld: false,
            moves_since: record.ran().then_some(now),
            is_joined_late: false,
            rate: Some(Rate::from(now, bytes_moved, 0.0)),
        }
    }

    /// The same for a migration that an earlier process of the coordinator left. Once it has been counted,
    /// some of it may have moved.
    pub(super) fn taken_over(now: MonotonicUs, record: &MigrationRecord) -> Attempt {
        let attempt = Attempt::new(now, record);
        match record.partitions.is_empty() {
            true => attempt,
            false => Attempt { is_joined_late: true, rate: None, ..attempt },
        }
    }

    /// When to act if nothing arrives.
    pub(super) fn timeout(&self, record: &MigrationRecord) -> Option<MonotonicUs> {
        if record.state != MigrationState::Preparing {
            return None;
        }
        let ask = self.asked_at.map(|at| at.plus_us(RETRY_US));
        Some(ask.map_or(self.deadline, |ask| ask.min(self.deadline)))
    }

    /// Takes in a node's message about the migration (M9: what does not fit is dropped). Whether it is copied
    /// now, so that the requester can watch. `copies_before`: its protocol copies while it is prepared.
    pub(super) fn hear(
        &mut self,
        now: MonotonicUs,
        record: &MigrationRecord,
        copies_before: bool,
        from: Speaker,
        body: NodeSays,
    ) -> bool {
        let preparing = record.state == MigrationState::Preparing;
        let running = record.state == MigrationState::Running;
        let Speaker { is_source, is_target, shown } = from;
        let counted = !record.partitions.is_empty();
        match body {
            NodeSays::Surveyed { survey, .. } if preparing && is_source && !counted => {
                let found = MigrationRecord { partitions: survey.partitions.clone(), ..record.clone() };
                if found.partitions_tile_the_range() {
                    self.survey = Some(survey);
                } else {
                    self.broken =
                        Some(format!("the source {shown} cut the range into parts that do not fit"));
                }
            }
            NodeSays::Prepared { .. } if preparing && is_target && counted => {
                self.prepared.get_or_insert(Ok(()));
            }
            NodeSays::PrepareRefused { why, .. } if preparing && is_target && counted => {
                self.prepared.get_or_insert(Err(why));
            }
            NodeSays::Progress { progress, .. } if running && is_target => {
                self.advance(now, record, progress)
            }
            NodeSays::Progress { progress, .. } if preparing && is_target && counted && copies_before => {
                self.copied(now, record, progress);
                return true;
            }
            NodeSays::Finished { progress, .. } if running && is_target => {
                self.advance(now, record, progress);
                self.finished = true;
            }
            NodeSays::Broken { why, .. } if running && is_target => {
                self.broken.get_or_insert(format!("the target {shown} cannot go on ({why})"));
            }
            _ => {}
        }
        false
    }

    /// Enters the migration's next step with the progress known so far, if it was copied before.
    pub(super) fn go_on(&mut self, before: Attempt) {
        self.is_joined_late = before.is_joined_late;
        if before.moves_since.is_some() {
            (self.moves_since, self.progress, self.rate) = (before.moves_since, before.progress, before.rate);
            self.earlier = before.earlier;
        }
    }

    /// A node has restarted, and the target begins anew: what it reports of its progress counts. What is
    /// known of the source's freeze stays true. So does what has arrived: another incarnation of the target
    /// counts from 0, the same one counts on.
    pub(super) fn begin_anew(&mut self, now: MonotonicUs, record: &MigrationRecord, is_another_target: bool) {
        let next = Attempt::new(now, record).progress.next;
        let Progress { activated, gave_all, records_moved, bytes_moved, collections, .. } = self.progress;
        let known = Progress { activated, gave_all, next, ..Progress::default() };
        if is_another_target {
            self.earlier = self.earlier.and(Arrived::of(&self.progress));
            self.progress = known;
        } else {
            self.progress = Progress { records_moved, bytes_moved, collections, ..known };
        }
        (self.finished, self.broken, self.rate) = (false, None, None);
    }

    /// Takes in the progress of a copy that is made before the migration runs; a copy with progress is not
    /// given up.
    pub(super) fn copied(&mut self, now: MonotonicUs, record: &MigrationRecord, told: Progress) {
        let is_first = self.moves_since.is_none();
        self.moves_since.get_or_insert(now);
        let marks = |progress: &Progress| {
            let Progress { records_moved, bytes_moved, changes, next, .. } = progress;
            (*records_moved, *bytes_moved, *changes, next.clone())
        };
        let before = marks(&self.progress);
        self.advance(now, record, told);
        if is_first || marks(&self.progress) != before {
            self.deadline = now.plus_us(PREPARE_DEADLINE_US);
        }
    }

    /// Takes in progress, which may be outdated: nothing moves back (M7).
    pub(super) fn advance(&mut self, now: MonotonicUs, record: &MigrationRecord, told: Progress) {
        let known = &mut self.progress;
        if told.changes >= known.changes {
            (known.changes, known.changes_left) = (told.changes, told.changes_left);
        }
        known.activated |= told.activated;
        known.records_moved = known.records_moved.max(told.records_moved);
        known.bytes_moved = known.bytes_moved.max(told.bytes_moved);
        known.collections = known.collections.or_more(told.collections);
        known.stalled = told.stalled;
        known.gave_all = known.gave_all.or(told.gave_all);
        known.settled = known.settled.or(told.settled);
        if told.next.len() == known.next.len() {
            for (known, told) in known.next.iter_mut().zip(told.next) {
                *known = match (*known, told) {
                    (Some(known), Some(told)) => Some(known.max(told)),
                    _ => None,
                };
            }
        }
        let (bytes_moved, fraction) = (self.progress.bytes_moved, self.fraction(record));
        let rate = self.rate.get_or_insert(Rate::from(now, bytes_moved, fraction));
        rate.advance(now, bytes_moved, fraction);
    }

    /// The recent rate; 0 until something has been reported.
    pub(super) fn bytes_per_second(&self) -> u64 {
        self.rate.map_or(0, |rate| rate.bytes_per_second)
    }

    /// The share of the range that has arrived. The partitions hold about equally many records, and positions
    /// are hashes. So the mean of the partitions' shares is the records' share, even while clients write.
    pub(super) fn fraction(&self, record: &MigrationRecord) -> f64 {
        let parts = self.partitions(record);
        let arrived: f64 = parts.iter().map(PartitionStatus::fraction).sum();
        if parts.is_empty() { 0.0 } else { arrived / parts.len() as f64 }
    }

    /// Microseconds to go at the recent rate, if that is known.
    pub(super) fn remaining_us(&self, record: &MigrationRecord) -> Option<u64> {
        let rate = self.rate?;
        let fraction = self.fraction(record);
        let bytes_left = if fraction < 1.0 { self.bytes_left(record) } else { 0 };
        match (bytes_left, rate.bytes_per_second) {
            // The range grew, or what arrived counts twice: how many bytes are left is not known.
            (0, _) => {
                let per_second = rate.fraction_per_second;
                (per_second > 0.0).then(|| ((1.0 - fraction) * 1e6 / per_second).round() as u64)
            }
            (_, 0) => None,
            (left, per_second) => Some((left as f64 * 1e6 / per_second as f64).round() as u64),
        }
    }

    /// How many of the bytes that the source counted have yet to arrive; 0 if that is not known.
    fn bytes_left(&self, record: &MigrationRecord) -> u64 {
        // What was given bit by bit stays given when its target restarts; all else is pulled anew.
        let stays = self.progress.gave_all.map_or(0, |_| self.earlier.bytes);
        record.counters.bytes.saturating_sub(stays.saturating_add(self.progress.bytes_moved))
    }

    /// The record's counters, brought up to date.
    pub(super) fn counters(&self, now: MonotonicUs, record: &MigrationRecord) -> MigrationCounters {
        let arrived = self.earlier.and(Arrived::of(&self.progress));
        MigrationCounters {
            records_moved: arrived.records,
            bytes_moved: arrived.bytes,
            gave_all: self.progress.gave_all.or(record.counters.gave_all),
            collections: record.counters.collections.or_more(arrived.collections),
            elapsed_us: self.moves_since.filter(|_| !self.is_joined_late).map_or(0, |since| now.since(since)),
            ..record.counters
        }
    }

    /// How far each part has come.
    pub(super) fn partitions(&self, record: &MigrationRecord) -> Vec<PartitionStatus> {
        let parts = record.partitions.iter().zip(&self.progress.next);
        parts.map(|(&range, &next)| PartitionStatus { range, next }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{range, running};
    use sidle_types::{GaveAll, Position};

    const START: MonotonicUs = MonotonicUs(1_000_000);

    fn record() -> MigrationRecord {
        let record = running(1, range(0, 99), 1, 2, 5);
        let counters = MigrationCounters { records: 100, bytes: 1_000_000, ..record.counters };
        MigrationRecord { counters, ..record }
    }

    /// What is told of a range of which this has arrived.
    fn told(records_moved: u64, bytes_moved: u64, next: Option<u64>) -> Progress {
        Progress { records_moved, bytes_moved, next: vec![next.map(Position)], ..Progress::default() }
    }

    /// After the first second of a migration.
    fn after_a_second(progress: Progress) -> Attempt {
        let mut attempt = Attempt::new(START, &record());
        attempt.advance(START.plus_us(1_000_000), &record(), progress);
        attempt
    }

    #[test]
    fn what_is_left_follows_the_bytes() {
        // Small keys first: nine in ten positions, and a tenth of the bytes.
        let mut attempt = after_a_second(told(90, 100_000, Some(90)));
        assert_eq!(attempt.remaining_us(&record()), Some(9_000_000));
        // A large collection: no position, and half of the bytes.
        attempt.advance(START.plus_us(6_000_000), &record(), told(90, 600_000, Some(90)));
        assert_eq!(attempt.remaining_us(&record()), Some(4_000_000));
        // The other way round.
        let attempt = after_a_second(told(10, 900_000, Some(10)));
        assert_eq!(attempt.remaining_us(&record()), Some(111_111));
    }

    #[test]
    fn what_is_left_follows_the_share_of_records_where_no_bytes_are_left() {
        let grown = after_a_second(told(50, 2_000_000, Some(50)));
        assert_eq!(grown.remaining_us(&record()), Some(1_000_000));
        let complete = after_a_second(told(50, 500_000, None));
        assert_eq!(complete.remaining_us(&record()), Some(0), "the range shrank");
        let uncounted = running(1, range(0, 99), 1, 2, 5);
        assert_eq!(after_a_second(told(50, 500_000, Some(50))).remaining_us(&uncounted), Some(1_000_000));
        assert_eq!(Attempt::new(START, &record()).remaining_us(&record()), None);
    }

    #[test]
    fn what_had_arrived_before_a_restart_stays_counted() {
        let moved = |attempt: &Attempt| {
            let MigrationCounters { records_moved, bytes_moved, .. } = attempt.counters(START, &record());
            (records_moved, bytes_moved)
        };
        let later = |attempt: &mut Attempt, progress| {
            attempt.advance(START.plus_us(2_000_000), &record(), progress);
        };
        let mut attempt = after_a_second(told(60, 600_000, Some(60)));
        // The source: its target counts on.
        attempt.begin_anew(START, &record(), false);
        assert_eq!((moved(&attempt), attempt.fraction(&record())), ((60, 600_000), 0.0));
        later(&mut attempt, told(70, 700_000, Some(10)));
        assert_eq!(moved(&attempt), (70, 700_000));
        // The target: another incarnation counts from 0, and loses nothing of what the ones before had.
        for sum in [(75, 750_000), (80, 800_000)] {
            attempt.begin_anew(START, &record(), true);
            later(&mut attempt, told(5, 50_000, Some(5)));
            assert_eq!(moved(&attempt), sum);
        }
        // Only what was given bit by bit stays given.
        assert_eq!(attempt.bytes_left(&record()), 950_000);
        attempt.progress.gave_all = Some(GaveAll::Restart);
        assert_eq!(attempt.bytes_left(&record()), 200_000);
    }
}
