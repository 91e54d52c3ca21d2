//! MCR, the migration completion ranges (Fulva, section IV-B): the progress of each partition of a migration.

use sidle_types::{Position, PositionRange};

/// For each partition the first position that has not arrived at the target. It never runs ahead, but may
/// fall behind (M7).
#[derive(Debug)]
pub(crate) struct Mcr {
    /// Where each partition starts, in order.
    firsts: Vec<u64>,
    /// The first position of each partition that has not arrived.
    next: Vec<u64>,
    /// One bit for each partition that has arrived whole.
    done: u64,
}

/// The target's report for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionProgress {
    /// The first position that has not arrived.
    Next(Position),
    /// All of it has arrived.
    Done,
}

impl Mcr {
    /// Nothing has arrived. There are at most 64 partitions ([`sidle_cluster::MAX_PARTITIONS`]).
    pub(crate) fn new(partitions: &[PositionRange]) -> Mcr {
        const { assert!(sidle_cluster::MAX_PARTITIONS <= 64, "one bit for each partition") };
        let firsts: Vec<u64> = partitions.iter().map(|range| range.first().0).collect();
        Mcr { next: firsts.clone(), firsts, done: 0 }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.firsts.as_slice()) + size_of_val(self.next.as_slice()) + size_of_val(&self.done)
    }

    /// Whether the position, which lies in the migration's range, has arrived.
    #[inline]
    pub(crate) fn has_arrived(&self, position: Position) -> bool {
        // A linear count over a few numbers that share a cache line or two, without a branch to mispredict.
        let at_or_before =
            self.firsts.iter().fold(0, |count, &first| count + usize::from(first <= position.0));
        let Some(partition) = at_or_before.checked_sub(1) else { return false };
        position.0 < self.next[partition] || self.done >> partition & 1 == 1
    }

    /// Takes in the target's report, merged by maximum. A report with another number of partitions is about
    /// another migration and is ignored. Returns whether anything was new.
    pub(crate) fn merge(&mut self, progress: &[PartitionProgress]) -> bool {
        if progress.len() != self.next.len() {
            return false;
        }
        let mut is_news = false;
        for (partition, (next, reported)) in self.next.iter_mut().zip(progress).enumerate() {
            match reported {
                PartitionProgress::Next(position) => {
                    // Never beyond the partition: the next one has its own number.
                    let end = self.firsts.get(partition + 1).copied().unwrap_or(u64::MAX);
                    let reported = position.0.min(end);
                    is_news |= reported > *next;
                    *next = (*next).max(reported);
                }
                PartitionProgress::Done => {
                    is_news |= self.done >> partition & 1 == 0;
                    self.done |= 1 << partition;
                }
            }
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_testbed::fixtures::range;

    fn next(position: u64) -> PartitionProgress {
        PartitionProgress::Next(Position(position))
    }

    /// The example of Fulva's figure 3, with `P_i` as the first position that has not arrived.
    #[test]
    fn figure_3_of_fulva() {
        let mut mcr = Mcr::new(&[range(1, 100), range(101, 200), range(201, 300), range(301, 400)]);
        assert!(!mcr.has_arrived(Position(1)));
        mcr.merge(&[next(60), next(101), next(201), next(333)]);
        for (position, has_arrived) in [
            (1, true),
            (59, true),
            (60, false),
            (101, false),
            (250, false),
            (301, true),
            (332, true),
            (333, false),
        ] {
            assert_eq!(mcr.has_arrived(Position(position)), has_arrived, "{position}");
        }
    }

    #[test]
    fn reports_merge_by_maximum() {
        let mut mcr = Mcr::new(&[range(0, 99), range(100, u64::MAX)]);
        assert!(mcr.merge(&[next(50), next(150)]));
        assert!(mcr.merge(&[next(20), PartitionProgress::Done]));
        assert!(!mcr.merge(&[next(40), next(120)]), "all of it was known");
        assert!(!mcr.merge(&[next(50), PartitionProgress::Done]));
        assert!(mcr.has_arrived(Position(49)));
        assert!(!mcr.has_arrived(Position(50)));
        assert!(mcr.has_arrived(Position(u64::MAX)), "a partition that is done stays done");
    }

    #[test]
    fn reports_that_do_not_fit_change_nothing_they_should_not() {
        let mut mcr = Mcr::new(&[range(0, 99), range(100, 199)]);
        mcr.merge(&[next(50)]);
        mcr.merge(&[]);
        assert!(!mcr.has_arrived(Position(0)));
        mcr.merge(&[next(5000), next(0)]);
        assert!(mcr.has_arrived(Position(99)));
        assert!(!mcr.has_arrived(Position(100)), "a partition's number is no evidence for the next one");
    }
}
