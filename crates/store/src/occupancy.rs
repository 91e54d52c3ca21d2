//! Which slots have entries, a bit for each.
//!
//! Purpose: counts, walks and samples visit the slots in order. Most slots of a small store are empty, and
//! checking each table costs a cache line; here one load skips 64 slots.
//!
//! A bit changes only when a slot gets its first entry or loses its last, under the slot's lock: overwriting
//! costs nothing. Other slots of the word are under other locks, hence the read-modify-write.
//!
//! Guarantee for readers: the bit is set before the slot's first entry is published. So a thread that knows
//! of an entry sees the bit as well. For a concurrent first or last entry it may see either; then `changes`
//! has grown: it is counted before the bit changes.

use crate::sync::{AtomicU64, Ordering};
use sidle_types::{SLOT_COUNT, Slot};

const SLOTS_PER_WORD: u16 = u64::BITS as u16;

/// A bit for each slot.
pub(crate) struct Occupancy {
    words: Vec<AtomicU64>,
    /// How often bits changed.
    changes: AtomicU64,
}

impl Occupancy {
    /// All slots are empty.
    pub(crate) fn new() -> Occupancy {
        let words = (0..SLOT_COUNT / SLOTS_PER_WORD).map(|_| AtomicU64::new(0)).collect();
        Occupancy { words, changes: AtomicU64::new(0) }
    }

    fn word_and_bit(&self, slot: Slot) -> (&AtomicU64, u64) {
        let number = slot.number();
        (&self.words[usize::from(number / SLOTS_PER_WORD)], 1 << (number % SLOTS_PER_WORD))
    }

    /// The slot is about to get its first entry. Under its lock.
    #[cold]
    pub(crate) fn fill(&self, slot: Slot) {
        let (word, bit) = self.word_and_bit(slot);
        self.changes.fetch_add(1, Ordering::Relaxed);
        word.fetch_or(bit, Ordering::Release);
    }

    /// The slot has lost its last entry. Under its lock.
    #[cold]
    pub(crate) fn empty(&self, slot: Slot) {
        let (word, bit) = self.word_and_bit(slot);
        self.changes.fetch_add(1, Ordering::Relaxed);
        word.fetch_and(!bit, Ordering::Release);
    }

    /// How often slots got their first entry or lost their last.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether the slot has entries.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn has(&self, slot: Slot) -> bool {
        let (word, bit) = self.word_and_bit(slot);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// The slots from `first` to `last` that have entries, in order.
    pub(crate) fn between(&self, first: Slot, last: Slot) -> Occupied<'_> {
        let (word, bit) = self.word_and_bit(first);
        Occupied {
            words: &self.words,
            number: first.number() / SLOTS_PER_WORD,
            left: word.load(Ordering::Acquire) & !(bit - 1),
            last,
        }
    }
}

/// Slots with entries, in order. Each word is read when it is reached.
pub(crate) struct Occupied<'o> {
    words: &'o [AtomicU64],
    /// The current word, and its bits still to be returned.
    number: u16,
    left: u64,
    last: Slot,
}

impl Iterator for Occupied<'_> {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        while self.left == 0 {
            if self.number >= self.last.number() / SLOTS_PER_WORD {
                return None;
            }
            self.number += 1;
            self.left = self.words[usize::from(self.number)].load(Ordering::Acquire);
        }
        let slot = Slot::new(self.number * SLOTS_PER_WORD + self.left.trailing_zeros() as u16)?;
        self.left &= self.left - 1;
        (slot <= self.last).then_some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).expect("a slot")
    }

    fn numbers(occupancy: &Occupancy, first: u16, last: u16) -> Vec<u16> {
        occupancy.between(slot(first), slot(last)).map(Slot::number).collect()
    }

    #[test]
    fn between_gives_what_was_filled_and_not_emptied_inside_the_bounds() {
        let occupancy = Occupancy::new();
        assert_eq!(numbers(&occupancy, 0, SLOT_COUNT - 1), []);
        let all = [0, 1, 62, 63, 64, 127, 128, 5000, 16_320, 16_383];
        all.into_iter().for_each(|number| occupancy.fill(slot(number)));
        assert_eq!(numbers(&occupancy, 0, SLOT_COUNT - 1), all);
        for (from, &first) in all.iter().enumerate() {
            for (to, &last) in all.iter().enumerate().skip(from) {
                assert_eq!(numbers(&occupancy, first, last), all[from..=to]);
                if from < to {
                    assert_eq!(numbers(&occupancy, first, last - 1), all[from..to]);
                    assert_eq!(numbers(&occupancy, first + 1, last), all[from + 1..=to]);
                }
            }
        }
        occupancy.empty(slot(63));
        occupancy.empty(slot(64));
        assert_eq!(numbers(&occupancy, 2, 130), [62, 127, 128]);
        assert!(occupancy.has(slot(62)) && !occupancy.has(slot(63)));
    }

    #[test]
    fn threads_that_fill_and_empty_slots_of_one_word_lose_no_bit() {
        let occupancy = Occupancy::new();
        std::thread::scope(|scope| {
            for thread in 0..4u16 {
                let occupancy = &occupancy;
                scope.spawn(move || {
                    for round in 0..10_000u16 {
                        let slot = slot(thread * 16 + round % 16);
                        occupancy.fill(slot);
                        assert!(occupancy.has(slot));
                        occupancy.empty(slot);
                    }
                    occupancy.fill(slot(thread * 16));
                });
            }
        });
        assert_eq!(numbers(&occupancy, 0, SLOT_COUNT - 1), [0, 16, 32, 48]);
    }
}
