//! What the source has given, as its workers see it.
//!
//! Purpose: a worker decides per command, without a lock, whether this node still owns a position (M20), and
//! whether a change there must be marked (M28).
//!
//! A *step* is what all workers see at one time: by partition, a cursor below which everything is given, and
//! one below which changes are marked. A worker takes the newest step's number at its loop boundary and uses
//! that step for whole commands (D4). Steps are numbered by the node's barrier of steps. Two are kept: the
//! newest and the one before. The third is written only once every worker has passed the newest, so nobody
//! reads it meanwhile.
//!
//! Ownership: shared with every worker; written by the source machine.

use super::PositionsGiven;
use super::windows::{Ahead, Windows};
use sidle_types::{Position, PositionRange};
use std::sync::atomic::{AtomicU64, Ordering};

/// A step that no worker may use yet.
const NEVER: u64 = u64::MAX;

/// What the source has given: see the module's header.
#[derive(Debug)]
pub(crate) struct GivenView {
    partitions: Box<[PositionRange]>,
    steps: [Step; 2],
    pub(crate) out_of_turn: PositionsGiven,
    /// Records at positions given so far.
    records: AtomicU64,
}

#[derive(Debug)]
struct Step {
    /// The first of the barrier's numbers at which it counts.
    since: AtomicU64,
    given: Cursors,
    marked: Cursors,
}

/// A cursor for each partition.
#[derive(Debug)]
struct Cursors {
    next: Box<[AtomicU64]>,
    /// A bit for each partition: all of it.
    all: AtomicU64,
}

impl Cursors {
    fn at(partitions: &[PositionRange]) -> Cursors {
        let next = partitions.iter().map(|partition| AtomicU64::new(partition.first().0)).collect();
        Cursors { next, all: AtomicU64::new(0) }
    }

    fn covers(&self, index: usize, position: Position) -> bool {
        self.all.load(Ordering::Relaxed) >> index & 1 == 1
            || position.0 < self.next[index].load(Ordering::Relaxed)
    }

    fn set(&self, ahead: &Ahead) {
        let mut all = 0;
        for (index, (place, next)) in self.next.iter().zip(ahead).enumerate() {
            match next {
                Some(next) => place.store(next.0, Ordering::Relaxed),
                None => all |= 1 << index,
            }
        }
        self.all.store(all, Ordering::Relaxed);
    }
}

impl GivenView {
    /// Nothing is given; the first windows are marked from the beginning.
    pub(crate) fn new(partitions: &[PositionRange], windows: &Windows, out_of_turn: usize) -> GivenView {
        let step = |since| Step {
            since: AtomicU64::new(since),
            given: Cursors::at(partitions),
            marked: Cursors::at(partitions),
        };
        let view = GivenView {
            partitions: partitions.into(),
            steps: [step(0), step(NEVER)],
            out_of_turn: PositionsGiven::new(out_of_turn),
            records: AtomicU64::new(0),
        };
        view.steps[0].marked.set(&windows.first());
        view
    }

    fn partition_of(&self, position: Position) -> usize {
        self.partitions.partition_point(|partition| partition.last() < position)
    }

    /// The step that a worker with this number uses.
    fn step(&self, number: u64) -> &Step {
        let since = |step: &Step| step.since.load(Ordering::Acquire);
        let [a, b] = &self.steps;
        let (older, newer) = if since(a) < since(b) { (a, b) } else { (b, a) };
        if since(newer) <= number { newer } else { older }
    }

    /// Whether a position of the range is given, for a worker at this step.
    #[inline]
    pub(crate) fn is_given(&self, position: Position, number: u64) -> bool {
        let index = self.partition_of(position);
        self.step(number).given.covers(index, position)
            || self.out_of_turn.since(position).is_some_and(|since| since <= number)
    }

    /// Whether a change at this position is to be marked, for a worker at this step.
    pub(crate) fn is_marked(&self, position: Position, number: u64) -> bool {
        self.step(number).marked.covers(self.partition_of(position), position)
    }

    /// What is given by the newest step.
    pub(crate) fn ranges(&self) -> Vec<PositionRange> {
        let cursors = &self.step(NEVER - 1).given;
        let below = |(index, bounds): (usize, &PositionRange)| {
            let next = Position(cursors.next[index].load(Ordering::Relaxed));
            let is_whole = cursors.all.load(Ordering::Relaxed) >> index & 1 == 1;
            let last = if is_whole { Some(bounds.last()) } else { next.previous() };
            last.and_then(|last| PositionRange::new(bounds.first(), last))
        };
        let below = self.partitions.iter().enumerate().filter_map(below);
        below.chain(self.out_of_turn.iter().map(PositionRange::only)).collect()
    }

    /// Writes the next step, which counts from this number of the barrier on. Every worker has passed the
    /// present one.
    pub(crate) fn write_step(&self, number: u64, given: &Ahead, marked: &Ahead) {
        let [a, b] = &self.steps;
        let since = |step: &Step| step.since.load(Ordering::Relaxed);
        // The one that nobody uses: a step that never counted, or the older of two.
        let is_a = match (since(a), since(b)) {
            (_, NEVER) => false,
            (NEVER, _) => true,
            (a, b) => a < b,
        };
        let unused = if is_a { a } else { b };
        unused.since.store(NEVER, Ordering::Relaxed);
        unused.given.set(given);
        unused.marked.set(marked);
        unused.since.store(number, Ordering::Release);
    }

    /// How many records are at positions given so far.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// So many more records are at positions given.
    pub(crate) fn add_records(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::{range, spec};

    fn view() -> GivenView {
        let partitions = [range(10, 19), range(20, u64::MAX)];
        let windows = Windows::new(&spec(range(10, u64::MAX), partitions.to_vec()), 1 << 20);
        GivenView::new(&partitions, &windows, 9)
    }

    fn given(view: &GivenView, number: u64) -> Vec<u64> {
        [10, 14, 15, 19, 20, 30, u64::MAX]
            .into_iter()
            .filter(|&p| view.is_given(Position(p), number))
            .collect()
    }

    #[test]
    fn a_worker_sees_its_own_step_and_no_later_one() {
        let view = view();
        assert_eq!(given(&view, 0), []);
        view.out_of_turn.insert(Position(30), 5);
        view.write_step(5, &vec![Some(Position(15)), Some(Position(20))], &vec![None, None]);
        assert_eq!(given(&view, 4), []);
        assert_eq!(given(&view, 5), [10, 14, 30]);
        view.write_step(9, &vec![None, Some(Position(20))], &vec![None, None]);
        assert_eq!(given(&view, 8), [10, 14, 30]);
        assert_eq!(given(&view, 9), [10, 14, 15, 19, 30]);
        assert_eq!(view.ranges(), [range(10, 19), range(30, 30)]);
        view.write_step(10, &vec![None, None], &vec![None, None]);
        assert_eq!(given(&view, 9), [10, 14, 15, 19, 30]);
        assert_eq!(given(&view, 10), [10, 14, 15, 19, 20, 30, u64::MAX]);
    }

    #[test]
    fn changes_are_marked_by_step() {
        let view = view();
        view.write_step(3, &vec![Some(Position(10)), Some(Position(20))], &vec![Some(Position(12)), None]);
        let marked = |p, number| view.is_marked(Position(p), number);
        assert!(marked(11, 3) && !marked(12, 3) && marked(u64::MAX, 3));
    }
}
