//! Counters of every slot, written by all workers.
//!
//! A sample adds to one slot's counters without a lock. Their memory is taken with the first one.

use crate::access::Usage;
use sidle_types::{SLOT_COUNT, Slot};
use std::cmp::Reverse;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    nanoseconds: AtomicU64,
}

#[derive(Debug)]
struct Tables {
    /// Since the last reset.
    totals: Box<[Counters]>,
    /// Accesses in the second that has not ended; apart, since all of them are visited each second.
    recent: Box<[AtomicU32]>,
}

/// The counters of all slots.
#[derive(Debug, Default)]
pub struct SlotCounters(OnceLock<Tables>);

impl SlotCounters {
    /// Adds to a slot's sums.
    pub fn add(&self, slot: Slot, usage: Usage) {
        let tables = self.0.get_or_init(|| Tables {
            totals: (0..SLOT_COUNT).map(|_| Counters::default()).collect(),
            recent: (0..SLOT_COUNT).map(|_| AtomicU32::new(0)).collect(),
        });
        let counters = &tables.totals[slot.index()];
        for (counter, amount) in [
            (&counters.reads, usage.operations - usage.writes),
            (&counters.writes, usage.writes),
            (&counters.bytes_in, usage.bytes_in),
            (&counters.bytes_out, usage.bytes_out),
            (&counters.nanoseconds, usage.nanoseconds),
        ] {
            if amount > 0 {
                counter.fetch_add(amount, Relaxed);
            }
        }
        let operations = usage.operations.try_into().unwrap_or(u32::MAX);
        tables.recent[slot.index()].fetch_add(operations, Relaxed);
    }

    /// A slot's sums since the last reset.
    pub fn of(&self, slot: Slot) -> Usage {
        let Some(tables) = self.0.get() else { return Usage::default() };
        let counters = &tables.totals[slot.index()];
        let writes = counters.writes.load(Relaxed);
        Usage {
            operations: counters.reads.load(Relaxed) + writes,
            writes,
            bytes_in: counters.bytes_in.load(Relaxed),
            bytes_out: counters.bytes_out.load(Relaxed),
            nanoseconds: counters.nanoseconds.load(Relaxed),
        }
    }

    /// The memory that they take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.0.get().map_or(0, |tables| size_of_val(&*tables.totals) + size_of_val(&*tables.recent))
    }

    /// Starts again from 0. An addition at the same moment may survive.
    pub fn reset(&self) {
        for counters in self.0.get().into_iter().flat_map(|tables| &tables.totals) {
            let Counters { reads, writes, bytes_in, bytes_out, nanoseconds } = counters;
            for counter in [reads, writes, bytes_in, bytes_out, nanoseconds] {
                counter.store(0, Relaxed);
            }
        }
    }

    /// Ends a second: the slots with most accesses in it, so many at most, the hottest first.
    pub(crate) fn end_second(&self, most: usize) -> Vec<(Slot, u64)> {
        let Some(tables) = self.0.get() else { return Vec::new() };
        let counts = Slot::all().zip(&tables.recent).filter(|(_, count)| count.load(Relaxed) > 0);
        hottest(counts.map(|(slot, count)| (slot, u64::from(count.swap(0, Relaxed)))).collect(), most)
    }
}

/// The slots with the largest counts, so many at most, the largest first.
pub(crate) fn hottest(mut slots: Vec<(Slot, u64)>, most: usize) -> Vec<(Slot, u64)> {
    let order = |&(slot, count): &(Slot, u64)| (Reverse(count), slot);
    if slots.len() > most {
        slots.select_nth_unstable_by_key(most, order);
        slots.truncate(most);
        slots.shrink_to_fit();
    }
    slots.sort_unstable_by_key(order);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn sums_stay_until_a_reset_and_seconds_begin_anew() {
        let slots = SlotCounters::default();
        assert_eq!((slots.of(slot(7)), slots.end_second(3)), (Usage::default(), vec![]));
        let read = Usage { operations: 4, writes: 0, bytes_in: 100, bytes_out: 200, nanoseconds: 50 };
        let write = Usage { operations: 2, writes: 2, bytes_in: 10, bytes_out: 20, nanoseconds: 5 };
        slots.add(slot(7), read);
        slots.add(slot(7), write);
        slots.add(slot(9), read);
        let both = Usage { operations: 6, writes: 2, bytes_in: 110, bytes_out: 220, nanoseconds: 55 };
        assert_eq!(slots.of(slot(7)), both);
        assert_eq!(slots.end_second(1), [(slot(7), 6)]);
        assert_eq!(slots.end_second(1), []);
        assert_eq!(slots.of(slot(7)), both);
        slots.reset();
        assert_eq!((slots.of(slot(7)), slots.of(slot(9))), (Usage::default(), Usage::default()));
    }
}
