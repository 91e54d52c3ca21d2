//! The sources of a thread's operations.

use crate::load::plan::World;
use sidle_workload::{Chooser, Draw, Ledger, OperationStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Records are handed out this many at a time.
const CHUNK: u64 = 256;
/// How often a write looks for another record if its record is taken.
const REDRAWS: u32 = 16;

/// Every record once, or each of some, divided among threads.
#[derive(Debug)]
pub(crate) struct Sweep {
    next: AtomicU64,
    records: u64,
    /// The records, if they are not all.
    some: Option<Vec<u64>>,
}

impl Sweep {
    /// Every record below the count.
    pub(crate) const fn new(records: u64) -> Sweep {
        Sweep { next: AtomicU64::new(0), records, some: None }
    }

    /// These records.
    pub(crate) fn of(some: Vec<u64>) -> Sweep {
        Sweep { next: AtomicU64::new(0), records: some.len() as u64, some: Some(some) }
    }

    /// The record with this number in the sweep.
    fn record(&self, number: u64) -> u64 {
        self.some.as_ref().map_or(number, |some| some[number as usize])
    }

    /// How many were handed out.
    pub(crate) fn done(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.records)
    }

    fn chunk(&self) -> std::ops::Range<u64> {
        let from = self.next.fetch_add(CHUNK, Ordering::Relaxed).min(self.records);
        from..(from + CHUNK).min(self.records)
    }
}

/// A source of operations.
#[derive(Debug)]
pub(crate) enum Feed<'a> {
    /// The workload, without end.
    Workload(Box<OperationStream>),
    /// A write (loading) or a read (reading back) of every record.
    Sweep {
        /// The records' source.
        sweep: &'a Sweep,
        /// The rest of the last chunk.
        chunk: std::ops::Range<u64>,
        /// Whether the records are written.
        write: bool,
    },
    /// A read, then a write of one record after the other, without end.
    Probe {
        /// The records.
        records: Vec<u64>,
        /// How many operations there were.
        turn: usize,
    },
}

/// A feed's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A read of this record.
    Read(u64),
    /// A write of this claimed record, with this sequence number.
    Write(u64, u32),
    /// Nothing at present: all records tried are being written.
    Busy,
    /// Nothing from now on.
    End,
}

impl Feed<'_> {
    /// The workload of thread number `thread`.
    pub(crate) fn workload(world: &World<'_>, thread: u32) -> Feed<'static> {
        let plan = &world.plan;
        let chooser = Chooser::new(plan.distribution, plan.records, plan.seed);
        let stream = OperationStream::new(&plan.workload, chooser, plan.seed, u64::from(thread));
        Feed::Workload(Box::new(stream))
    }

    /// The next operation.
    #[inline]
    pub(crate) fn next(&mut self, ledger: &Ledger) -> Next {
        match self {
            Feed::Workload(stream) => {
                let Draw { write, mut record } = stream.draw();
                if !write {
                    return Next::Read(record);
                }
                for _ in 0..REDRAWS {
                    if let Some(sequence) = ledger.claim(record) {
                        return Next::Write(record, sequence);
                    }
                    record = stream.another_record();
                }
                Next::Busy
            }
            Feed::Sweep { sweep, chunk, write } => {
                if chunk.is_empty() {
                    *chunk = sweep.chunk();
                }
                let Some(number) = chunk.next() else { return Next::End };
                let record = sweep.record(number);
                match *write {
                    false => Next::Read(record),
                    true => ledger.claim(record).map_or(Next::Busy, |sequence| Next::Write(record, sequence)),
                }
            }
            Feed::Probe { records, turn } => {
                if records.is_empty() {
                    return Next::End;
                }
                let record = records[*turn / 2 % records.len()];
                let write = *turn % 2 == 1;
                *turn += 1;
                match write {
                    false => Next::Read(record),
                    true => ledger.claim(record).map_or(Next::Busy, |sequence| Next::Write(record, sequence)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_gives_every_record_once() {
        let sweep = Sweep::new(1000);
        let ledger = Ledger::new(1000, 1);
        let mut seen = vec![0; 1000];
        let mut feeds = [(); 3].map(|()| Feed::Sweep { sweep: &sweep, chunk: 0..0, write: true });
        let mut ended = 0;
        while ended < 3 {
            ended = 0;
            for feed in &mut feeds {
                match feed.next(&ledger) {
                    Next::Write(record, 1) => seen[record as usize] += 1,
                    Next::End => ended += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(seen.iter().all(|&times| times == 1));
        assert_eq!(sweep.done(), 1000);
    }

    #[test]
    fn a_sweep_of_some_records_gives_those() {
        let sweep = Sweep::of(vec![7, 3]);
        let mut feed = Feed::Sweep { sweep: &sweep, chunk: 0..0, write: false };
        let ledger = Ledger::new(10, 1);
        let given = [(); 3].map(|()| feed.next(&ledger));
        assert_eq!(given, [Next::Read(7), Next::Read(3), Next::End]);
    }

    #[test]
    fn a_probe_reads_then_writes_each_record() {
        let ledger = Ledger::new(10, 1);
        let mut feed = Feed::Probe { records: vec![4, 7], turn: 0 };
        let mut next = || feed.next(&ledger);
        assert_eq!(
            [next(), next(), next(), next(), next(), next()],
            [Next::Read(4), Next::Write(4, 1), Next::Read(7), Next::Write(7, 1), Next::Read(4), Next::Busy]
        );
    }
}
