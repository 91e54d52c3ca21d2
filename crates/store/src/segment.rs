//! Segments: who owns each piece of the log's range, how full it is, and how many pieces may be taken.
//!
//! The range has two areas. Ordinary segments lie in the first, which is as large as the memory limit. A record over
//! a quarter of a segment takes a run of neighbouring segments in the second, which has address space to spare, so
//! that fragmentation does not refuse what the limit allows. One budget covers both areas and the index.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Segments that only the cleaner may take: it needs room to copy into before it can free.
const CLEANER_RESERVE: u64 = 3;
/// The address space for large records, in multiples of the memory limit.
const LARGE_AREA_FACTOR: u64 = 4;

/// What memory is wanted for, which decides whether it may reach into the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A record that is written or replayed.
    Value,
    /// A record that the cleaner moves.
    Survivor,
}

impl Purpose {
    fn reserve(self) -> u64 {
        match self {
            Purpose::Value => CLEANER_RESERVE,
            Purpose::Survivor => 0,
        }
    }
}

/// What a segment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// In a free list, or never used.
    Free = 0,
    /// A head appends to it; never cleaned.
    Open = 1,
    /// Full, or left by its head: may be cleaned.
    Closed = 2,
    /// The cleaner moves its live records, or it waits in limbo for readers.
    Leaving = 3,
    /// The first of a run that holds one large record.
    Large = 4,
}

/// What is known of one segment.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Segment {
    state: AtomicU8,
    /// Bytes appended; set when it is closed.
    used: AtomicU64,
    /// Bytes of records that nothing refers to any more.
    dead: AtomicU64,
    /// Bytes that are referred to, but not worth keeping: marks of absence, and values that were struck out, up to what a
    /// tombstone takes.
    spare: AtomicU64,
    /// When its contents were written: how many segments had been opened before.
    age: AtomicU64,
}

impl Segment {
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Open,
            2 => State::Closed,
            3 => State::Leaving,
            _ => State::Large,
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Bytes appended, once it is closed.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes still referred to. Exact for a closed segment that cannot be released meanwhile (the caller is pinned or
    /// has taken it); any number for others.
    pub(crate) fn live_bytes(&self) -> u64 {
        let dead = self.dead.load(Ordering::Acquire);
        self.used_bytes().saturating_sub(dead)
    }

    /// Bytes that a cleaner would have to copy; as exact as [`live_bytes`](Self::live_bytes).
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.spare_bytes())
    }

    /// Bytes that are referred to, but not worth keeping.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare.load(Ordering::Relaxed)
    }

    /// Counts what is not worth keeping of a tombstone that the caller is about to publish.
    pub(crate) fn add_spare(&self, bytes: u64) {
        self.spare.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A tombstone has been unlinked; it is counted as dead besides.
    pub(crate) fn remove_spare(&self, bytes: u64) {
        self.spare.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a record as dead. It has been unlinked before (the cleaner reads this count to learn that).
    pub(crate) fn add_dead(&self, bytes: u64) {
        self.dead.fetch_add(bytes, Ordering::Release);
    }

    /// When its contents were written.
    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    pub(crate) fn set_age(&self, age: u64) {
        self.age.store(age, Ordering::Relaxed);
    }

    /// Takes a closed segment to empty it; false if it is not closed or somebody else has taken it.
    pub(crate) fn try_leave(&self) -> bool {
        let (closed, leaving) = (State::Closed as u8, State::Leaving as u8);
        self.state.compare_exchange(closed, leaving, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn close(&self, used_bytes: u64) {
        self.used.store(used_bytes, Ordering::Relaxed);
        self.set_state(State::Closed);
    }
}

/// Some neighbouring segments; the number is 1 in the ordinary area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) segments: u64,
}

/// All segments, and which are free.
pub(crate) struct Segments {
    all: Vec<Segment>,
    segment_bytes: u64,
    /// The budget, in segments; also how many segments the ordinary area has.
    limit: u64,
    /// Writers help the cleaner when no more than this many segments are left.
    short: u64,
    /// The cleaner rests while more than this many segments are left.
    plenty: u64,
    /// Segments that a large record, or a table that grows, has asked for in vain; 0 for none.
    wanted: AtomicU64,
    /// Bytes that the index takes from the budget.
    index_bytes: AtomicU64,
    /// Segments taken, including those in limbo. Written under the lock, read anywhere.
    taken: AtomicU64,
    /// Of those, ordinary segments in limbo: they come back when their readers have gone.
    in_limbo: AtomicU64,
    /// How many segments have been opened: the clock that ages are read from.
    opened: AtomicU64,
    free: Mutex<Free>,
}

struct Free {
    /// Ordinary segments whose pages are backed.
    warm: Vec<u32>,
    /// Ordinary segments that have been used and whose pages were given back.
    cold: Vec<u32>,
    /// Ordinary segments from here on have never been used.
    fresh: u64,
    /// Free runs of the large area, first segment to length; neighbours are joined.
    runs: BTreeMap<u64, u64>,
    /// Lengths of the runs in use.
    taken_runs: BTreeMap<u64, u64>,
}

impl Segments {
    pub(crate) fn new(memory_bytes: u64, segment_bytes: u32) -> Segments {
        let segment_bytes = u64::from(segment_bytes);
        let limit = memory_bytes / segment_bytes;
        let most = crate::address::SPACE_BYTES / segment_bytes;
        let large = (limit * LARGE_AREA_FACTOR).min(most - limit);
        let mut all = Vec::new();
        all.resize_with((limit + large) as usize, Segment::default);
        Segments {
            all,
            segment_bytes,
            limit,
            short: (limit / 128).clamp(1, 8),
            plenty: (limit / 32).clamp(3, 64),
            wanted: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            in_limbo: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            free: Mutex::new(Free {
                warm: Vec::new(),
                cold: Vec::new(),
                fresh: 0,
                runs: BTreeMap::from([(limit, large)]),
                taken_runs: BTreeMap::new(),
            }),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of address space that all segments take.
    pub(crate) fn space_bytes(&self) -> u64 {
        self.all.len() as u64 * self.segment_bytes
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The segment with this number.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> &Segment {
        &self.all[number as usize]
    }

    /// How many ordinary segments there are.
    pub(crate) fn ordinary(&self) -> u64 {
        self.limit
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed) * self.segment_bytes
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// The index took or gave back memory.
    pub(crate) fn index_grew(&self, bytes: i64) {
        self.index_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the index may take so many bytes at once; if not, the cleaner should get that far.
    pub(crate) fn has_index_room(&self, bytes: u64) -> bool {
        let segments = bytes.div_ceil(self.segment_bytes);
        let has_room = self.available(Purpose::Value) >= segments;
        if has_room {
            // What was wanted for this is wanted no more.
            let _ = self.wanted.compare_exchange(segments, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.want(segments);
        }
        has_room
    }

    /// Segments that may still be taken for the purpose.
    pub(crate) fn available(&self, purpose: Purpose) -> u64 {
        let index = (self.index_bytes() + self.segment_bytes - 1) >> self.segment_bytes.trailing_zeros();
        self.limit.saturating_sub(self.taken.load(Ordering::Relaxed) + index + purpose.reserve())
    }

    /// Whether more is taken than values may take, by the small pieces of index that come with new keys. Values may then
    /// replace others, but not add to the index. What is in limbo counts as
    /// free: an allocation may have to wait for it, but nobody needs to go without.
    #[inline]
    pub(crate) fn is_overdrawn(&self) -> bool {
        let index = (self.index_bytes() + self.segment_bytes - 1) >> self.segment_bytes.trailing_zeros();
        let taken = self.taken.load(Ordering::Relaxed) + index + Purpose::Value.reserve();
        taken > self.limit && taken > self.limit + self.in_limbo.load(Ordering::Relaxed)
    }

    /// The segment goes to limbo.
    pub(crate) fn emptied(&self, number: u64) {
        if number < self.limit {
            self.in_limbo.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether so few segments are left that writers help the cleaner.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.available(Purpose::Value) <= self.short.max(self.wanted.load(Ordering::Relaxed))
    }

    /// Whether so many segments are left that nothing needs to be cleaned.
    pub(crate) fn is_plenty(&self) -> bool {
        self.available(Purpose::Value) > self.plenty.max(self.wanted.load(Ordering::Relaxed))
    }

    /// A record would have taken this many segments at once: the cleaner should get that far.
    pub(crate) fn want(&self, segments: u64) {
        self.wanted.store(segments.min(self.limit), Ordering::Relaxed);
    }

    /// The clock that ages are read from.
    pub(crate) fn clock(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn take(&self, segments: u64) {
        self.taken.fetch_add(segments, Ordering::Relaxed);
    }

    fn open(&self, number: u64, state: State) {
        let segment = self.at(number);
        debug_assert_eq!(segment.state(), State::Free);
        segment.used.store(0, Ordering::Relaxed);
        segment.dead.store(0, Ordering::Relaxed);
        segment.spare.store(0, Ordering::Relaxed);
        segment.set_age(self.opened.fetch_add(1, Ordering::Relaxed));
        segment.set_state(state);
    }

    /// Takes an ordinary segment.
    pub(crate) fn allocate(&self, purpose: Purpose) -> Option<u64> {
        let mut free = self.free();
        if self.available(purpose) == 0 {
            return None;
        }
        let number = free.warm.pop().or_else(|| free.cold.pop()).map(u64::from).or_else(|| {
            let fresh = free.fresh;
            (fresh < self.limit).then(|| {
                free.fresh += 1;
                fresh
            })
        })?;
        self.take(1);
        self.open(number, State::Open);
        Some(number)
    }

    /// Takes a run for a large record, first fit. `chill` gives the pages of an ordinary segment back: the pages of
    /// the run come on top of those that free segments still hold.
    pub(crate) fn allocate_run(&self, segments: u64, mut chill: impl FnMut(u64)) -> Option<u64> {
        let mut free = self.free();
        if self.available(Purpose::Value) < segments {
            return None;
        }
        let (&first, &length) = free.runs.iter().find(|&(_, &length)| length >= segments)?;
        free.runs.remove(&first);
        if length > segments {
            free.runs.insert(first + segments, length - segments);
        }
        free.taken_runs.insert(first, segments);
        self.take(segments);
        self.want(0);
        let backed = self.taken.load(Ordering::Relaxed) + free.warm.len() as u64;
        for _ in self.limit..backed {
            let Some(number) = free.warm.pop() else { break };
            chill(u64::from(number));
            free.cold.push(number);
        }
        self.open(first, State::Large);
        Some(first)
    }

    /// The run of a large record in use, or none for an ordinary segment.
    pub(crate) fn large_run(&self, number: u64) -> Option<Run> {
        if number < self.limit {
            return None;
        }
        let segments = *self.free().taken_runs.get(&number).expect("a run in use");
        Some(Run { first: number, segments })
    }

    /// Gives back what was taken and not used.
    pub(crate) fn give_back(&self, number: u64) {
        self.emptied(number);
        self.release(number);
    }

    /// Gives back segments that nobody can see any more.
    pub(crate) fn release(&self, number: u64) {
        let mut free = self.free();
        self.at(number).set_state(State::Free);
        if number < self.limit {
            free.warm.push(number as u32);
            self.taken.fetch_sub(1, Ordering::Relaxed);
            self.in_limbo.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mut segments = free.taken_runs.remove(&number).expect("a run in use");
        self.taken.fetch_sub(segments, Ordering::Relaxed);
        let mut first = number;
        if let Some(after) = free.runs.remove(&(first + segments)) {
            segments += after;
        }
        if let Some((&before, &length)) = free.runs.range(..first).next_back()
            && before + length == first
        {
            first = before;
            segments += length;
        }
        free.runs.insert(first, segments);
    }

    /// Segments in use, counted one by one.
    #[cfg(feature = "testing")]
    pub(crate) fn recount(&self) -> u64 {
        let ordinary = (0..self.limit).filter(|&number| self.at(number).state() != State::Free).count();
        ordinary as u64 + self.free().taken_runs.values().sum::<u64>()
    }

    /// Takes a segment that has never been used, or was given back, out of the cold list so that its pages can be
    /// populated ahead of use; [`warmed`](Self::warmed) puts it where it is taken from next.
    pub(crate) fn to_warm(&self, want_warm: usize) -> Option<u64> {
        let mut free = self.free();
        if free.warm.len() >= want_warm || self.available(Purpose::Value) <= free.warm.len() as u64 {
            return None;
        }
        free.cold.pop().map(u64::from).or_else(|| {
            let fresh = free.fresh;
            (fresh < self.limit).then(|| {
                free.fresh += 1;
                fresh
            })
        })
    }

    /// All ordinary segments are backed with pages; none has been used.
    pub(crate) fn all_warm(&self) {
        let mut free = self.free();
        free.warm = (0..self.limit as u32).rev().collect();
        free.fresh = self.limit;
    }

    /// The segment's pages are backed now.
    pub(crate) fn warmed(&self, number: u64) {
        self.free().warm.insert(0, number as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn segments() -> Segments {
        Segments::new(64 * 4 * KIB, 4096)
    }

    #[test]
    fn allocate_keeps_the_cleaners_reserve() {
        let segments = segments();
        let mut values = 0;
        while segments.allocate(Purpose::Value).is_some() {
            values += 1;
        }
        assert_eq!(values, 64 - CLEANER_RESERVE);
        for _ in 0..CLEANER_RESERVE {
            assert!(segments.allocate(Purpose::Survivor).is_some());
        }
        assert!(segments.allocate(Purpose::Survivor).is_none());
    }

    #[test]
    fn index_bytes_come_out_of_the_budget() {
        let segments = segments();
        let before = segments.available(Purpose::Value);
        segments.index_grew(4097);
        assert_eq!(segments.available(Purpose::Value), before - 2);
        segments.index_grew(-4097);
        assert_eq!(segments.available(Purpose::Value), before);
    }

    #[test]
    fn runs_are_joined_when_released() {
        let segments = segments();
        let runs: Vec<u64> = (0..4).map(|_| segments.allocate_run(10, |_| ()).unwrap()).collect();
        assert!(segments.allocate_run(30, |_| ()).is_none());
        for &run in [&runs[2], &runs[0], &runs[1], &runs[3]] {
            segments.release(run);
        }
        assert_eq!(segments.free().runs, BTreeMap::from([(64, 256)]));
        assert_eq!(segments.taken_bytes(), 0);
    }

    #[test]
    fn a_run_chills_free_segments() {
        let segments = segments();
        let taken: Vec<u64> = (0..50).map(|_| segments.allocate(Purpose::Value).unwrap()).collect();
        for number in taken {
            segments.emptied(number);
            segments.release(number);
        }
        let mut chilled = 0;
        segments.allocate_run(40, |_| chilled += 1).unwrap();
        assert_eq!(chilled, 50 + 40 - 64);
    }
}
