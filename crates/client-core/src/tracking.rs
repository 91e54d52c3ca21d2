//! A client's knowledge of the running migrations, one by one.
//!
//! All parts only save requests: a wrong entry costs a second round trip, never a wrong answer. They belong
//! to one migration id and end with it, so knowledge of one migration is never used in another (A to B to A;
//! A to B, B to C).

use crate::config::{FINGERPRINTS_BYTES, SPH_BYTES};
use crate::fingerprints::Fingerprints;
use crate::mcr::{Mcr, PartitionProgress};
use crate::sph::Sph;
use sidle_cluster::MigrationRecord;
use sidle_types::{MigrationId, Position, PositionFilter, PositionRange};

/// MCR and SPH of one migration, and what its target has pushed.
#[derive(Debug)]
pub(crate) struct Tracking {
    pub(crate) id: MigrationId,
    range: PositionRange,
    mcr: Mcr,
    sph: Sph,
    /// Of a range that is given bit by bit.
    given: Option<Fingerprints>,
}

impl Tracking {
    fn new(record: &MigrationRecord, sph_bytes: usize, given_bytes: usize) -> Tracking {
        Tracking {
            id: record.id,
            range: record.range,
            mcr: Mcr::new(&record.partitions),
            sph: Sph::new(sph_bytes),
            given: record.kept_by_source.then(|| Fingerprints::new(given_bytes)),
        }
    }

    /// Whether to ask the target alone: it has an entry for the position.
    #[inline]
    pub(crate) fn is_at_target(&self, position: Position) -> bool {
        self.mcr.has_arrived(position)
            || self.sph.contains(position)
            || self.given.as_ref().is_some_and(|given| given.contains(position))
    }

    /// Notes that the target has an entry for the position.
    #[inline]
    pub(crate) fn seen_at_target(&mut self, position: Position) {
        if self.range.contains(position) && !self.mcr.has_arrived(position) {
            let mcr = &self.mcr;
            self.sph.insert(position, |old| mcr.has_arrived(old));
        }
    }

    /// Whether the range is given bit by bit.
    pub(crate) fn is_by_cuts(&self) -> bool {
        self.given.is_some()
    }

    /// The target was given what this filter names. Returns how many of that were not known.
    pub(crate) fn given(&mut self, filter: &PositionFilter) -> u64 {
        let Some(given) = &mut self.given else { return 0 };
        match filter {
            PositionFilter::Positions(positions) => {
                let is_new = |position: &&Position| {
                    let is_new = !self.mcr.has_arrived(**position) && !self.sph.contains(**position);
                    is_new && self.range.contains(**position)
                };
                let new: Vec<Position> = positions.iter().filter(is_new).copied().collect();
                new.iter().for_each(|&position| self.seen_at_target(position));
                new.len() as u64
            }
            PositionFilter::Fingerprints { bits, values } => {
                values.iter().map(|&value| u64::from(given.insert(value, *bits))).sum()
            }
        }
    }

    fn given_bytes(&self, bytes: impl Fn(&Fingerprints) -> usize) -> usize {
        self.given.as_ref().map_or(0, bytes)
    }

    /// Takes in the target's progress report.
    pub(crate) fn progressed(&mut self, progress: &[PartitionProgress]) {
        // Every connection receives it, and most of it is known from another by then.
        if self.mcr.merge(progress) {
            let mcr = &self.mcr;
            self.sph.sweep(|old| mcr.has_arrived(old));
        }
    }
}

/// The migrations of the present map.
#[derive(Debug, Default)]
pub(crate) struct Trackings {
    migrations: Vec<Tracking>,
}

impl Trackings {
    /// Keeps the tracking of migrations that still run, drops the others, and starts new ones.
    pub(crate) fn install(&mut self, records: &[MigrationRecord]) {
        let mut before = std::mem::take(&mut self.migrations);
        // Half of what is left for each: the tables together never exceed the bound, for any number of them.
        let is_running = |tracking: &Tracking| records.iter().any(|record| record.id == tracking.id);
        let kept: usize = before.iter().filter(|t| is_running(t)).map(|t| t.sph.max_bytes()).sum();
        let mut left = SPH_BYTES.saturating_sub(kept);
        let kept = before.iter().filter(|t| is_running(t)).map(|t| t.given_bytes(Fingerprints::max_bytes));
        let mut left_given = FINGERPRINTS_BYTES.saturating_sub(kept.sum());
        for record in records {
            let known = before.iter().position(|tracking| tracking.id == record.id);
            self.migrations.push(match known {
                Some(index) => before.swap_remove(index),
                None => {
                    let tracking = Tracking::new(record, left / 2, left_given / 2);
                    left -= tracking.sph.max_bytes();
                    left_given -= tracking.given_bytes(Fingerprints::max_bytes);
                    tracking
                }
            });
        }
    }

    /// The migration at an index of the installed records.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &Tracking {
        &self.migrations[index]
    }

    /// The migration with this id, if it still runs.
    #[inline]
    pub(crate) fn by_id(&mut self, id: MigrationId) -> Option<&mut Tracking> {
        self.migrations.iter_mut().find(|tracking| tracking.id == id)
    }

    /// Whether the migration runs by the present map.
    pub(crate) fn is_running(&self, id: MigrationId) -> bool {
        self.migrations.iter().any(|tracking| tracking.id == id)
    }

    /// The bytes of all MCRs.
    pub(crate) fn mcr_bytes(&self) -> usize {
        self.migrations.iter().map(|tracking| tracking.mcr.bytes()).sum()
    }

    /// The bytes of all that targets have pushed.
    pub(crate) fn given_bytes(&self) -> usize {
        self.migrations.iter().map(|tracking| tracking.given_bytes(Fingerprints::bytes)).sum()
    }

    /// The bytes of all SPH tables.
    pub(crate) fn sph_bytes(&self) -> usize {
        self.migrations.iter().map(|tracking| tracking.sph.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_testbed::fixtures::{range, running};

    #[test]
    fn progress_and_answers_decide_and_what_has_arrived_is_dropped() {
        let mut trackings = Trackings::default();
        trackings.install(&[running(1, range(100, 199), 1, 2, 2)]);
        let tracking = trackings.by_id(MigrationId(1)).unwrap();
        tracking.seen_at_target(Position(150));
        tracking.seen_at_target(Position(160));
        tracking.seen_at_target(Position(500));
        assert!(tracking.is_at_target(Position(150)));
        assert!(!tracking.is_at_target(Position(151)));
        assert!(!tracking.is_at_target(Position(500)), "outside of the range nothing is noted");
        for next in [153, 154, 155, 155] {
            tracking.progressed(&[PartitionProgress::Next(Position(next))]);
        }
        assert!(tracking.is_at_target(Position(150)) && tracking.is_at_target(Position(151)));
        assert_eq!(tracking.sph.len(), 1, "below P_i nothing is kept");
        tracking.seen_at_target(Position(120));
        assert_eq!(tracking.sph.len(), 1, "nor added");
    }

    #[test]
    fn nothing_outlives_its_migration() {
        let mut trackings = Trackings::default();
        trackings.install(&[running(1, range(100, 199), 1, 2, 2), running(2, range(300, 399), 1, 2, 2)]);
        trackings.by_id(MigrationId(1)).unwrap().seen_at_target(Position(150));
        trackings.by_id(MigrationId(2)).unwrap().seen_at_target(Position(350));
        // 1 is over and the same range moves back; 2 still runs.
        trackings.install(&[running(2, range(300, 399), 1, 2, 2), running(3, range(100, 199), 2, 1, 3)]);
        assert!(trackings.by_id(MigrationId(1)).is_none());
        assert!(trackings.at(0).is_at_target(Position(350)));
        assert!(!trackings.at(1).is_at_target(Position(150)));
    }

    #[test]
    fn what_targets_push_is_kept_within_its_bound_and_by_cuts_only() {
        let mut records: Vec<_> =
            (0..40).map(|i| running(i, range(i * 100, i * 100 + 99), 1, 2, 2)).collect();
        let mut trackings = Trackings::default();
        trackings.install(&records[..1]);
        let filter = PositionFilter::Fingerprints { bits: 24, values: (0..4096).collect() };
        assert_eq!(trackings.by_id(MigrationId(0)).unwrap().given(&filter), 0, "nothing is given of it");
        records.iter_mut().for_each(|record| {
            record.kept_by_source = true;
            record.id.0 += 100;
        });
        for count in (0..40).chain([3, 40, 0, 40]) {
            trackings.install(&records[..count]);
            for tracking in &mut trackings.migrations {
                for first in (0..400_000).step_by(4096) {
                    let values = (first..first + 4096).collect();
                    tracking.given(&PositionFilter::Fingerprints { bits: 24, values });
                }
            }
            assert!(trackings.given_bytes() <= FINGERPRINTS_BYTES);
        }
        assert!(trackings.given_bytes() > FINGERPRINTS_BYTES / 2);
        trackings.install(&[]);
        assert_eq!(trackings.given_bytes(), 0);
    }

    #[test]
    fn all_tables_together_keep_the_bound() {
        // At their full growth.
        let most_bytes = |trackings: &Trackings| -> usize {
            trackings.migrations.iter().map(|tracking| tracking.sph.max_bytes()).sum()
        };
        let records: Vec<_> = (0..40).map(|i| running(i, range(i * 100, i * 100 + 99), 1, 2, 2)).collect();
        let mut trackings = Trackings::default();
        for count in (0..40).chain([3, 40, 0, 40]) {
            trackings.install(&records[..count]);
            trackings.migrations.iter_mut().for_each(|t| t.seen_at_target(t.range.first().next().unwrap()));
            assert!(most_bytes(&trackings) <= SPH_BYTES);
        }
        assert!(most_bytes(&trackings) > SPH_BYTES / 2);
    }
}
