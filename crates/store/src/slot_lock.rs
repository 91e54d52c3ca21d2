//! The lock of one slot, and what readers that do not take it tell from it.
//!
//! Purpose: a change of several keys is one change to every reader, and a reader of one key still takes no
//! lock. The lock is a word in the slot's cache line, which a look-up loads anyway.
//!
//! The word is free, held, or exclusive. Held: one writer at a time; readers go on, since what each of them
//! can see of it is one word. Exclusive: the holder publishes more than one word that belong together, and
//! look-ups wait. The rest of the word counts how often the lock was given back, so that whoever read several
//! keys sees whether anybody wrote meanwhile.
//!
//! Invariants:
//! - X1: whoever publishes words that belong together has the locks of all their slots exclusive before the
//!   first is published, and gives none of them back before the last.
//! - X2: a look-up of one key loads the lock before anything else of the slot, and waits while it is
//!   exclusive.
//! - X3: what is read of several keys counts only if all their locks were free before and after, and none was
//!   given back in between; or if the reader held all of them.
//!
//! From X1 and X2: a change of several keys happens when its first word is published. Whoever found the lock
//! exclusive waits, and sees all of it. Whoever passed the lock before may still see an old word after that
//! instant; it began before, and so counts as before. No word of the slot has changed in between but by this
//! change. Whoever has seen a new word, or heard of one, finds every lock exclusive or given back later. From
//! X3: between the last load before and the first load after no writer was in any of the slots.
//!
//! Locks of several slots are taken in ascending order, so that no two writers wait for each other. A reader
//! that waits holds no lock.

use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// How often somebody looks at a lock that is not as it should be before it lets others run.
const SPINS: u32 = 100;

/// The part of the word that says who may go on.
const STATE: u32 = 3;
const FREE: u32 = 0;
const HELD: u32 = 1;
const EXCLUSIVE: u32 = 2;
/// Where the part begins that counts.
const COUNT_SHIFT: u32 = 2;

/// The lock of one slot.
#[derive(Debug)]
pub(crate) struct SlotLock {
    word: AtomicU32,
}

impl SlotLock {
    pub(crate) fn new() -> SlotLock {
        SlotLock { word: AtomicU32::new(FREE) }
    }

    /// Takes the lock; it is held for one command only, so waiting is spinning, then yielding.
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
        debug_assert_eq!(word & STATE, HELD, "only who has the lock makes it exclusive");
        // What is published from here on is published with a release, hence seen after this.
        self.word.store(word & !STATE | EXCLUSIVE, Ordering::Relaxed);
    }

    /// Gives the lock back.
    #[inline]
    pub(crate) fn release(&self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word | STATE).wrapping_add(1), Ordering::Release);
    }

    /// Waits while the lock is exclusive (X2).
    #[inline]
    pub(crate) fn await_turn(&self) {
        // Acquire: what is loaded of the slot is loaded after this.
        if self.word.load(Ordering::Acquire) & STATE == EXCLUSIVE {
            self.await_turn_cold();
        }
    }

    #[cold]
    fn await_turn_cold(&self) {
        self.wait_while(|state| state == EXCLUSIVE);
    }

    /// Waits until the lock is free; how often it was given back by then.
    pub(crate) fn count_when_free(&self) -> u64 {
        u64::from(self.wait_while(|state| state != FREE) >> COUNT_SHIFT)
    }

    /// How often the lock was given back, if it is free.
    pub(crate) fn count_if_free(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE == FREE).then_some(u64::from(word >> COUNT_SHIFT))
    }

    /// Waits, and returns the word as it is after that.
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

/// Reads what belongs to several locks without taking them, if nobody wrote meanwhile (X3). What is read has
/// to be loaded with `Acquire`, so that the locks are looked at again after that.
pub(crate) fn read_undisturbed<'l, L: Iterator<Item = &'l SlotLock>, T>(
    locks: impl Fn() -> L,
    read: impl FnOnce() -> T,
) -> Option<T> {
    // A count never goes back, so their sum is the same only if each of them is.
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
    fn what_was_read_while_somebody_wrote_does_not_count() {
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

    /// Two values that change together, read by their pair and one after the other.
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
