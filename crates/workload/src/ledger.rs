//! The values that a read may return: which writes of each record were started and acknowledged.
//!
//! All clients of a run share one ledger. A record has at most one write under way: its writer claims the
//! record first, and a client that finds it claimed takes another. So the writes of a record are ordered. A
//! read called after write n was acknowledged must see n or a later started write. A write of unknown fate
//! never releases its claim: it may still take effect at any later time.

use crate::{Stamp, ValueFault, ValueFormat};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a read's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// The record is missing although a write of it was acknowledged.
    #[error("missing")]
    Missing,
    /// The bytes are not a whole value.
    #[error("torn")]
    Torn,
    /// A whole value of another record.
    #[error("other_record")]
    OtherRecord,
    /// A value older than one that was acknowledged before the read was called.
    #[error("stale")]
    Stale,
    /// A value of this run that nobody has started to write.
    #[error("never_written")]
    NeverWritten,
}

/// The last write of a record acknowledged before a read was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor(u32);

impl Floor {
    /// Whether this run has acknowledged a write of the record.
    pub const fn is_written(self) -> bool {
        self.0 > 0
    }
}

/// The writes of a run, by record: 8 bytes each.
#[derive(Debug)]
pub struct Ledger {
    /// Upper half: the last sequence started; lower half: the last acknowledged. Unequal: claimed.
    records: Box<[AtomicU64]>,
    run: u32,
}

const fn pack(asked: u32, acknowledged: u32) -> u64 {
    (asked as u64) << 32 | acknowledged as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Ledger {
    /// An empty ledger. `run` distinguishes this run's values from those of earlier ones.
    ///
    /// # Panics
    ///
    /// If the run's number does not fit into 24 bits.
    pub fn new(records: u64, run: u32) -> Ledger {
        assert!(run < 1 << 24, "a run's number has 24 bits");
        Ledger { records: (0..records).map(|_| AtomicU64::new(0)).collect(), run }
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records.len() as u64
    }

    /// The run's number.
    pub const fn run(&self) -> u32 {
        self.run
    }

    fn record(&self, record: u64) -> &AtomicU64 {
        &self.records[record as usize]
    }

    /// Claims a record for one write; returns the write's sequence number, or `None` while another is under
    /// way.
    #[inline]
    pub fn claim(&self, record: u64) -> Option<u32> {
        let word = self.record(record);
        let old = word.load(Ordering::Relaxed);
        let (asked, acknowledged) = unpack(old);
        if asked != acknowledged {
            return None;
        }
        let claimed = pack(asked + 1, acknowledged);
        word.compare_exchange(old, claimed, Ordering::AcqRel, Ordering::Relaxed).ok().map(|_| asked + 1)
    }

    /// The claimed write was acknowledged.
    #[inline]
    pub fn acknowledge(&self, record: u64) {
        let (asked, _) = unpack(self.record(record).load(Ordering::Relaxed));
        self.record(record).store(pack(asked, asked), Ordering::Release);
    }

    /// The claimed write had no effect for certain.
    pub fn refuse(&self, record: u64) {
        let (_, acknowledged) = unpack(self.record(record).load(Ordering::Relaxed));
        self.record(record).store(pack(acknowledged, acknowledged), Ordering::Release);
    }

    /// The least that a read called now must see.
    #[inline]
    pub fn floor(&self, record: u64) -> Floor {
        Floor(unpack(self.record(record).load(Ordering::Acquire)).1)
    }

    /// Judges the result, arriving now, of a read called when the record was at `floor`. A missing record or
    /// a value of an earlier run is valid until this run has an acknowledged write.
    #[inline]
    pub fn judge(
        &self,
        format: &ValueFormat,
        record: u64,
        floor: Floor,
        answer: Option<&[u8]>,
    ) -> Result<Option<Stamp>, Fault> {
        let Some(bytes) = answer else {
            return if floor.is_written() { Err(Fault::Missing) } else { Ok(None) };
        };
        let stamp = format.read(bytes).map_err(|fault| match fault {
            ValueFault::Length | ValueFault::Checksum => Fault::Torn,
        })?;
        if stamp.record != record {
            return Err(Fault::OtherRecord);
        }
        if stamp.run != self.run {
            return if floor.is_written() { Err(Fault::Stale) } else { Ok(Some(stamp)) };
        }
        let (asked, _) = unpack(self.record(record).load(Ordering::Acquire));
        if stamp.sequence < u64::from(floor.0) {
            Err(Fault::Stale)
        } else if stamp.sequence > u64::from(asked) {
            Err(Fault::NeverWritten)
        } else {
            Ok(Some(stamp))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: u64 = 3;

    struct Bench {
        ledger: Ledger,
        format: ValueFormat,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { ledger: Ledger::new(10, 77), format: ValueFormat::new(40).unwrap() }
        }

        fn judge(&self, floor: Floor, stamp: Option<(u64, u64, u32)>) -> Result<(), Fault> {
            let value = stamp.map(|(record, sequence, run)| {
                let mut bytes = Vec::new();
                self.format.write(Stamp { record, sequence, writer: 1, run }, &mut bytes);
                bytes
            });
            self.ledger.judge(&self.format, RECORD, floor, value.as_deref()).map(|_| ())
        }

        fn write(&self) -> u32 {
            let sequence = self.ledger.claim(RECORD).unwrap();
            self.ledger.acknowledge(RECORD);
            sequence
        }
    }

    #[test]
    fn before_any_write_anything_whole_is_right() {
        let bench = Bench::new();
        let floor = bench.ledger.floor(RECORD);
        assert_eq!(bench.judge(floor, None), Ok(()));
        assert_eq!(bench.judge(floor, Some((RECORD, 9, 5))), Ok(()), "an earlier run's");
        assert_eq!(bench.judge(floor, Some((RECORD, 1, 77))), Err(Fault::NeverWritten));
        assert_eq!(bench.judge(floor, Some((4, 9, 5))), Err(Fault::OtherRecord));
    }

    #[test]
    fn after_an_acknowledged_write_older_values_are_stale() {
        let bench = Bench::new();
        assert_eq!((bench.write(), bench.write()), (1, 2));
        let floor = bench.ledger.floor(RECORD);
        assert_eq!(bench.judge(floor, Some((RECORD, 2, 77))), Ok(()));
        assert_eq!(bench.judge(floor, Some((RECORD, 1, 77))), Err(Fault::Stale));
        assert_eq!(bench.judge(floor, Some((RECORD, 2, 5))), Err(Fault::Stale));
        assert_eq!(bench.judge(floor, None), Err(Fault::Missing));
        assert_eq!(bench.judge(floor, Some((RECORD, 3, 77))), Err(Fault::NeverWritten));
    }

    #[test]
    fn a_write_under_way_may_or_may_not_be_seen() {
        let bench = Bench::new();
        bench.write();
        let floor = bench.ledger.floor(RECORD);
        assert_eq!(bench.ledger.claim(RECORD), Some(2));
        assert_eq!(bench.ledger.claim(RECORD), None, "one write at a time");
        assert_eq!(bench.judge(floor, Some((RECORD, 1, 77))), Ok(()));
        assert_eq!(bench.judge(floor, Some((RECORD, 2, 77))), Ok(()));
        bench.ledger.acknowledge(RECORD);
        assert_eq!(bench.judge(floor, Some((RECORD, 1, 77))), Ok(()), "called before the acknowledgement");
    }

    #[test]
    fn a_refused_write_leaves_the_record_as_it_was() {
        let bench = Bench::new();
        bench.write();
        assert_eq!(bench.ledger.claim(RECORD), Some(2));
        bench.ledger.refuse(RECORD);
        assert_eq!(bench.judge(bench.ledger.floor(RECORD), Some((RECORD, 2, 77))), Err(Fault::NeverWritten));
        assert_eq!(bench.ledger.claim(RECORD), Some(2), "its number is free again");
    }

    #[test]
    fn torn_values_are_reported() {
        let bench = Bench::new();
        let answer = bench.ledger.judge(&bench.format, RECORD, bench.ledger.floor(RECORD), Some(b"half"));
        assert_eq!(answer, Err(Fault::Torn));
    }

    #[test]
    fn claims_are_exclusive_across_threads() {
        let ledger = Ledger::new(1, 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if ledger.claim(0).is_some() {
                            ledger.acknowledge(0);
                        }
                    }
                });
            }
        });
        let last = ledger.claim(0).unwrap();
        assert!((2..=80_001).contains(&last), "{last}");
    }
}
