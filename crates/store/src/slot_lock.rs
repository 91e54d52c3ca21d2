//! The lock of one slot, and its use by readers without it.
//!
//! Purpose: a change of several keys is one change to every reader, and a reader of one key still takes no
//! lock. The lock is a word in the slot's cache line, which a look-up loads anyway.
//!
//! The word is free, held, or exclusive. Held: one writer at a time; readers continue, since each sees a
//! single word of it. Exclusive: the holder publishes several related words, and look-ups wait. One bit says
//! whether somebody observes a key of the slot (`interest`); only the holder changes it. The rest of the word
//! counts releases, so that a reader of several keys detects writes in between.
//!
//! Invariants:
//! - X1: a writer publishes related words only with the locks of all their slots exclusive, from before the
//!   first word until after the last.
//! - X2: a look-up of one key loads the lock before anything else of the slot, and waits while it is
//!   exclusive.
//! - X3: a read of several keys counts only if all their locks were free before and after, and none was
//!   released in between; or if the reader held all of them.
//!
//! From X1 and X2: a change of several keys happens when its first word is published. A reader that finds the
//! lock exclusive waits, and sees all of it. A reader that passed the lock before may still see an old word
//! after that instant; it began before, and so counts as before. In between only this change has altered a
//! word of the slot. A reader that has seen a new word, or knows of one, finds every lock exclusive or
//! released later. From X3: between the last load before and the first load after no writer was in any of the
//! slots.
//!
//! Locks of several slots are taken in ascending order, so no two writers deadlock. A waiting reader holds no
//! lock.

use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// How often a waiting thread checks a lock before it yields.
const SPINS: u32 = 100;

/// The word's bits with the state.
const STATE: u32 = 3;
const FREE: u32 = 0;
const HELD: u32 = 1;
const EXCLUSIVE: u32 = 2;
/// The bit for observed keys.
const INTEREST: u32 = 4;
/// The first bit of the count.
const COUNT_SHIFT: u32 = 3;

/// The lock of one slot.
#[derive(Debug)]
pub(crate) struct SlotLock {
    word: AtomicU32,
}

impl SlotLock {
    pub(crate) fn new() -> SlotLock {
        SlotLock { word: AtomicU32::new(FREE) }
    }

    /// Takes the lock; it is held for one command only, so waiting means spinning, then yielding.
    #[inline]
    pub(crate) fn acquire(&self) {
        loop {
            let free = self.word.load(Ordering::Relaxed);
            let taken = free | HELD;
            if free & STATE == FREE
                && self.word.compare_exchange_weak(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            self.wait_while(|state| state != FREE);
        }
    }

    /// From now on look-ups wait. The caller has the lock.
    #[inline]
    pub(crate) fn make_exclusive(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, HELD, "only the holder makes the lock exclusive");
        // Later publications are releases, hence seen after this.
        self.word.store(word & !STATE | EXCLUSIVE, Ordering::Relaxed);
    }

    /// Look-ups continue: all related words are published, and the caller keeps the lock.
    pub(crate) fn let_readers_in(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, EXCLUSIVE, "readers wait for a publication only");
        self.word.store(word & !STATE | HELD, Ordering::Release);
    }

    /// Releases the lock.
    #[inline]
    pub(crate) fn release(&self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word & !STATE).wrapping_add(1 << COUNT_SHIFT), Ordering::Release);
    }

    /// Waits while the lock is exclusive (X2).
    #[inline]
    pub(crate) fn await_turn(&self) {
        // Acquire: the slot is loaded after this.
        if self.word.load(Ordering::Acquire) & STATE == EXCLUSIVE {
            self.await_turn_cold();
        }
    }

    #[cold]
    fn await_turn_cold(&self) {
        self.wait_while(|state| state == EXCLUSIVE);
    }

    /// Whether a key of the slot is observed. The caller has the lock.
    #[inline]
    pub(crate) fn has_interest(&self) -> bool {
        self.word.load(Ordering::Relaxed) & INTEREST != 0
    }

    /// Notes whether a key of the slot is observed. The caller has the lock.
    pub(crate) fn set_interest(&self, is_observed: bool) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_ne!(word & STATE, FREE, "only the holder changes the bit");
        let word = if is_observed { word | INTEREST } else { word & !INTEREST };
        self.word.store(word, Ordering::Relaxed);
    }

    /// Waits until the lock is free; returns its number of releases.
    pub(crate) fn count_when_free(&self) -> u64 {
        u64::from(self.wait_while(|state| state != FREE) >> COUNT_SHIFT)
    }

    /// The number of the lock's releases, if it is free.
    pub(crate) fn count_if_free(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE == FREE).then_some(u64::from(word >> COUNT_SHIFT))
    }

    /// Waits, and returns the word after that.
    fn wait_while(&self, is_to_wait: impl Fn(u32) -> bool) -> u32 {
        let mut spins = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            if !is_to_wait(word & STATE) {
                return word;
            }
            spins += 1;
            if spins < SPINS { spin_loop() } else { yield_now() }
        }
    }
}

/// Reads what several locks protect without taking them, if there was no write meanwhile (X3). Load it with
/// `Acquire`, so that the second check of the locks comes after.
pub(crate) fn read_undisturbed<'l, L: Iterator<Item = &'l SlotLock>, T>(
    locks: impl Fn() -> L,
    read: impl FnOnce() -> T,
) -> Option<T> {
    // A count never decreases, so their sum is unchanged only if each of them is.
    let before: u64 = locks().map(SlotLock::count_when_free).sum();
    let seen = read();
    let after = locks().try_fold(0, |sum, lock| Some(sum + lock.count_if_free()?));
    (after == Some(before)).then_some(seen)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn read<T>(locks: &[SlotLock], read: impl FnOnce() -> T) -> Option<T> {
        read_undisturbed(|| locks.iter(), read)
    }

    #[test]
    fn a_read_beside_a_write_does_not_count() {
        let locks = [SlotLock::new(), SlotLock::new()];
        let write = |number: usize| {
            locks[number].acquire();
            locks[number].release();
        };
        assert_eq!(read(&locks, || 7), Some(7));
        for number in [0, 1] {
            assert_eq!(read(&locks, || write(number)), None);
            assert_eq!(read(&locks, || locks[number].acquire()), None);
            locks[number].release();
        }
        assert_eq!(read(&locks, || 8), Some(8));
    }

    #[test]
    fn the_count_wraps_without_touching_the_state() {
        let lock = SlotLock { word: AtomicU32::new(!STATE) };
        lock.acquire();
        lock.make_exclusive();
        lock.release();
        assert_eq!(lock.count_if_free(), Some(0));
    }

    /// Two values that change together, read as a pair and one after the other.
    #[test]
    fn look_ups_wait_for_the_whole_of_a_change() {
        let (lock, values) = (SlotLock::new(), [AtomicU32::new(0), AtomicU32::new(0)]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..20_000 {
                    lock.acquire();
                    lock.make_exclusive();
                    values.iter().for_each(|cell| cell.store(value, Ordering::Release));
                    lock.release();
                }
            });
            let load = |number: usize| values[number].load(Ordering::Acquire);
            for _ in 0..20_000 {
                lock.await_turn();
                let first = load(0);
                lock.await_turn();
                assert!(load(1) >= first);
                let pair = read_undisturbed(|| std::iter::once(&lock), || (load(0), load(1)));
                assert!(pair.is_none_or(|(first, second)| first == second));
            }
        });
    }
}
