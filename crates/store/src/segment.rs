//! Segments: who owns each piece of the log's range, its fill, and how much may be taken.
//!
//! The range has two areas. Ordinary segments are in the first. A record over a quarter of a segment takes
//! its own run of pages in the second. Both have more addresses than memory: only backed pages count. A
//! segment closed before a record that did not fit returns its tail (at most a quarter), so the first area is
//! a third larger than the limit. The second has room for fragmentation. One budget, in bytes, covers both
//! and the index.
//!
//! A piece is named by its offset in the range: a segment, or a run.

use crate::config::OutOfMemory;
use crate::record::NEVER;
use crate::runs::Runs;
use sidle_types::WallMs;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Segments reserved for the cleaner: it needs room for copies before it can free.
const CLEANER_RESERVE: u64 = 3;
/// The address space for large records, in multiples of the memory limit.
const LARGE_AREA_FACTOR: u64 = 4;
/// A record over a segment's size by this is large; also the largest tail that a closed segment returns.
const LARGE_SHARE: u64 = 4;
/// A tail shorter than a segment's size by this is not worth returning.
const TAIL_SHARE: u64 = 64;

/// Segments with a larger live share are not worth cleaning.
pub(crate) const MOST_LIVE_PERCENT: u64 = 97;

/// The purpose of an allocation, which decides whether it may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A record that is written or replayed.
    Value,
    /// A record that the store had before it was started again. The index may be larger than it was.
    Recovered,
    /// A small record of a change that frees memory.
    Freeing,
    /// A record that the cleaner moves.
    Survivor,
}

/// A segment's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// In a free list, or never used.
    Free = 0,
    /// A head appends to it; never cleaned.
    Open = 1,
    /// Full, or its head is gone: may be cleaned.
    Closed = 2,
    /// The cleaner moves its live records, or it waits in limbo for readers.
    Leaving = 3,
}

/// The accounts of one segment.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Segment {
    state: AtomicU8,
    /// Bytes appended; set when it is closed.
    used: AtomicU64,
    /// Bytes of unreferenced records.
    dead: AtomicU64,
    /// Referenced bytes that are not worth keeping: marks of absence, and struck-out values up to a
    /// tombstone's size.
    spare: AtomicU64,
    /// The age of its contents: how many segments had been opened before.
    age: AtomicU64,
    /// Milliseconds: no live record in it has an earlier deadline, except those that must stay. Set when it
    /// is closed.
    earliest: AtomicU64,
    /// Its bytes that count in the budget while it is in use, and are backed while it is warm.
    backed: AtomicU64,
}

impl Segment {
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Open,
            2 => State::Closed,
            _ => State::Leaving,
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Bytes appended, once it is closed.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes still referenced. Exact for a closed segment that cannot be released meanwhile (the caller is
    /// pinned or has taken it); any number for others.
    pub(crate) fn live_bytes(&self) -> u64 {
        let dead = self.dead.load(Ordering::Acquire);
        self.used_bytes().saturating_sub(dead)
    }

    /// Bytes that a cleaner would have to copy; as exact as [`live_bytes`](Self::live_bytes).
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.spare_bytes())
    }

    /// Referenced bytes that are not worth keeping.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare.load(Ordering::Relaxed)
    }

    /// Counts the bytes not worth keeping of a tombstone that is about to be published.
    pub(crate) fn add_spare(&self, bytes: u64) {
        self.spare.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A tombstone has been unlinked; it is counted as dead separately.
    pub(crate) fn remove_spare(&self, bytes: u64) {
        self.spare.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a record as dead. It has been unlinked before (the cleaner relies on that). Returns whether the
    /// segment has just become worth cleaning once it is closed.
    #[inline]
    pub(crate) fn add_dead(&self, bytes: u64) -> bool {
        let before = self.dead.fetch_add(bytes, Ordering::Release);
        let worth = (self.used_bytes() * (100 - MOST_LIVE_PERCENT)).div_ceil(100);
        before < worth && worth <= before + bytes
    }

    /// The age of its contents.
    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    pub(crate) fn set_age(&self, age: u64) {
        self.age.store(age, Ordering::Relaxed);
    }

    /// No removable record has an earlier deadline; set once it is closed.
    pub(crate) fn earliest(&self) -> WallMs {
        WallMs(self.earliest.load(Ordering::Relaxed))
    }

    pub(crate) fn set_earliest(&self, deadline: WallMs) {
        self.earliest.store(deadline.0, Ordering::Relaxed);
    }

    fn backed_bytes(&self) -> u64 {
        self.backed.load(Ordering::Relaxed)
    }

    /// Takes a closed segment to empty it; false if it is not closed or already taken.
    pub(crate) fn try_leave(&self) -> bool {
        let (closed, leaving) = (State::Closed as u8, State::Leaving as u8);
        self.state.compare_exchange(closed, leaving, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn close(&self, used_bytes: u64) {
        self.used.store(used_bytes, Ordering::Relaxed);
        self.set_state(State::Closed);
    }
}

/// All segments and runs, used and free.
pub(crate) struct Segments {
    all: Vec<Segment>,
    segment_bytes: u64,
    page_bytes: u64,
    /// The area for large records.
    large: std::ops::Range<u64>,
    /// The budget. All of these are bytes.
    limit: u64,
    /// Only the cleaner may take this.
    reserve: u64,
    /// Writers help the cleaner at this much free memory or less.
    short: u64,
    /// The cleaner rests above this much free memory.
    plenty: u64,
    /// The last refused request of a large record, or of a growing table; 0 for none.
    wanted: AtomicU64,
    /// The index's part of the budget.
    index_bytes: AtomicU64,
    /// The bytes of segments and runs, those in limbo included. Grows under the lock only, read anywhere.
    taken: AtomicU64,
    /// Of that, the bytes in limbo: free once their readers are gone.
    in_limbo: AtomicU64,
    /// How many segments have been opened: the clock of ages.
    opened: AtomicU64,
    /// How many closed segments have become worth cleaning through removals.
    ripened: AtomicU64,
    free: Mutex<Free>,
}

struct Free {
    /// Segments with backed pages, except for returned tails.
    warm: Vec<u32>,
    /// Their backed bytes.
    warm_bytes: u64,
    /// Used segments whose pages were returned.
    cold: Vec<u32>,
    /// Segments from here on have never been used.
    fresh: u64,
    runs: Runs,
}

impl Free {
    /// A segment without pages.
    fn unbacked(&mut self, ordinary: u64) -> Option<u64> {
        self.cold.pop().map(u64::from).or_else(|| {
            let fresh = self.fresh;
            (fresh < ordinary).then(|| {
                self.fresh += 1;
                fresh
            })
        })
    }
}

impl Segments {
    pub(crate) fn new(memory_bytes: u64, segment_bytes: u32) -> Segments {
        let segment_bytes = u64::from(segment_bytes);
        let page_bytes = crate::memory::page_bytes();
        let limit = memory_bytes / segment_bytes;
        // A used segment takes at least what its tail leaves; and one is being warmed.
        let ordinary = (limit * LARGE_SHARE).div_ceil(LARGE_SHARE - 1) + 2;
        let mut all = Vec::new();
        all.resize_with(ordinary as usize, Segment::default);
        let start = (ordinary * segment_bytes).next_multiple_of(page_bytes);
        let limit_bytes = limit * segment_bytes;
        let pages = (limit_bytes * LARGE_AREA_FACTOR).min(crate::address::SPACE_BYTES - start) / page_bytes;
        Segments {
            all,
            segment_bytes,
            page_bytes,
            large: start..start + pages * page_bytes,
            limit: limit_bytes,
            reserve: CLEANER_RESERVE * segment_bytes,
            short: (limit / 128).clamp(1, 8) * segment_bytes,
            plenty: (limit / 32).clamp(3, 64) * segment_bytes,
            wanted: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            in_limbo: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            ripened: AtomicU64::new(0),
            free: Mutex::new(Free {
                warm: Vec::new(),
                warm_bytes: 0,
                cold: Vec::new(),
                fresh: 0,
                runs: Runs::new(start / page_bytes, pages),
            }),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all address space.
    pub(crate) fn space_bytes(&self) -> u64 {
        self.large.end
    }

    /// Whether the offset is in the area for large records.
    #[inline]
    pub(crate) fn is_large(&self, offset: u64) -> bool {
        offset >= self.large.start
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The longest record that shares a segment.
    #[inline]
    pub(crate) fn largest_ordinary(&self) -> u64 {
        self.segment_bytes / LARGE_SHARE
    }

    /// The run bytes of a large record of this size.
    pub(crate) fn run_bytes(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.page_bytes)
    }

    /// The segment with this number.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> &Segment {
        &self.all[number as usize]
    }

    /// The number of segments: more than the limit's worth.
    pub(crate) fn ordinary(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// The index took or freed memory.
    pub(crate) fn index_grew(&self, bytes: i64) {
        self.index_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the index may take so many bytes at once; if not, the cleaner should free as many.
    pub(crate) fn has_index_room(&self, bytes: u64) -> bool {
        let has_room = self.available(Purpose::Value) >= bytes;
        if has_room {
            // The request has been met.
            let _ = self.wanted.compare_exchange(bytes, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.want(bytes);
        }
        has_room
    }

    /// Bytes still available for the purpose.
    #[inline]
    pub(crate) fn available(&self, purpose: Purpose) -> u64 {
        let reserve = match purpose {
            Purpose::Value => self.reserve,
            // The cleaner can go on.
            Purpose::Recovered | Purpose::Freeing => self.segment_bytes,
            Purpose::Survivor => 0,
        };
        self.limit.saturating_sub(self.taken_bytes() + self.index_bytes() + reserve)
    }

    /// Whether more is taken than values may take, because of new keys' small index pieces. Values may then
    /// replace others, but not extend the index. Limbo counts as free: an allocation may have to wait for it,
    /// but is not refused.
    #[inline]
    pub(crate) fn is_overdrawn(&self) -> bool {
        let taken = self.taken_bytes() + self.index_bytes() + self.reserve;
        taken > self.limit && taken > self.limit + self.in_limbo.load(Ordering::Relaxed)
    }

    /// Whether writers must help the cleaner.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.available(Purpose::Value) <= self.short.max(self.wanted.load(Ordering::Relaxed))
    }

    /// Whether nothing needs cleaning.
    pub(crate) fn is_plenty(&self) -> bool {
        self.available(Purpose::Value) > self.plenty.max(self.wanted.load(Ordering::Relaxed))
    }

    /// A request for so many bytes at once was refused: the cleaner should free as many.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted.store(bytes.min(self.limit), Ordering::Relaxed);
    }

    /// A closed segment has become worth cleaning.
    #[cold]
    pub(crate) fn ripen(&self) {
        self.ripened.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes whenever a new segment may be worth cleaning.
    pub(crate) fn prospects(&self) -> (u64, u64) {
        (self.clock(), self.ripened.load(Ordering::Relaxed))
    }

    /// The clock of ages.
    pub(crate) fn clock(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn open(&self, number: u64) {
        let segment = self.at(number);
        debug_assert_eq!(segment.state(), State::Free);
        segment.used.store(0, Ordering::Relaxed);
        segment.dead.store(0, Ordering::Relaxed);
        segment.spare.store(0, Ordering::Relaxed);
        segment.set_earliest(NEVER);
        segment.backed.store(self.segment_bytes, Ordering::Relaxed);
        segment.set_age(self.opened.fetch_add(1, Ordering::Relaxed));
        segment.set_state(State::Open);
    }

    /// Takes a segment; returns its number. `chill` returns a free segment's pages.
    pub(crate) fn allocate(&self, purpose: Purpose, chill: impl FnMut(u64)) -> Option<u64> {
        let mut free = self.free();
        if self.available(purpose) < self.segment_bytes {
            return None;
        }
        let number = match free.warm.pop().map(u64::from) {
            Some(number) => {
                free.warm_bytes -= self.at(number).backed_bytes();
                number
            }
            None => free.unbacked(self.ordinary())?,
        };
        self.take(self.segment_bytes, &mut free, chill);
        self.open(number);
        Some(number)
    }

    /// Takes a run for so many bytes, with addresses to grow to `room` if possible; returns its offset.
    /// `chill` returns a free segment's pages.
    pub(crate) fn allocate_run(
        &self,
        bytes: u64,
        room: u64,
        purpose: Purpose,
        chill: impl FnMut(u64),
    ) -> Option<u64> {
        let mut free = self.free();
        let bytes = self.run_bytes(bytes);
        if self.available(purpose) < bytes {
            return None;
        }
        let first = free.runs.allocate(bytes / self.page_bytes, self.run_bytes(room) / self.page_bytes)?;
        self.want(0);
        self.take(bytes, &mut free, chill);
        Some(first * self.page_bytes)
    }

    /// Grows a run to so many bytes in place; false if there are no free addresses behind it.
    pub(crate) fn extend_run(
        &self,
        run: u64,
        bytes: u64,
        chill: impl FnMut(u64),
    ) -> Result<bool, OutOfMemory> {
        let mut free = self.free();
        let (first, bytes) = (run / self.page_bytes, self.run_bytes(bytes));
        let added = bytes.saturating_sub(free.runs.backed(first) * self.page_bytes);
        if added == 0 {
            return Ok(true);
        }
        if self.available(Purpose::Value) < added {
            self.want(added);
            return Err(OutOfMemory);
        }
        let is_there = free.runs.extend(first, bytes / self.page_bytes);
        if is_there {
            self.take(added, &mut free, chill);
        }
        Ok(is_there)
    }

    /// Counts bytes as taken. Free segments' pages that no longer fit beside them are returned.
    fn take(&self, bytes: u64, free: &mut Free, mut chill: impl FnMut(u64)) {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes + self.index_bytes();
        while taken + free.warm_bytes > self.limit && self.chill_one(free, &mut chill) {}
    }

    /// Returns a free segment's pages; whether there was one.
    fn chill_one(&self, free: &mut Free, mut chill: impl FnMut(u64)) -> bool {
        let Some(number) = free.warm.pop() else { return false };
        free.warm_bytes -= self.at(u64::from(number)).backed_bytes();
        chill(u64::from(number));
        free.cold.push(number);
        true
    }

    /// Returns a free segment's pages, unless so few have any; whether there was one.
    pub(crate) fn chill_beyond(&self, kept: usize, chill: impl FnMut(u64)) -> bool {
        let mut free = self.free();
        free.warm.len() > kept && self.chill_one(&mut free, chill)
    }

    /// The part of these pages that [`chill_beyond`](Self::chill_beyond) would return.
    pub(crate) fn idle_bytes_beyond(&self, kept: usize) -> u64 {
        let free = self.free();
        let beyond = free.warm.get(kept..).unwrap_or_default();
        beyond.iter().map(|&number| self.at(u64::from(number)).backed_bytes()).sum()
    }

    /// The pages of free segments, in bytes.
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.free().warm_bytes
    }

    /// The part of an open segment's tail, from this many bytes on, to return if it is closed now: offset and
    /// length, in whole pages.
    pub(crate) fn tail(&self, number: u64, used_bytes: u64) -> Option<(u64, u64)> {
        let tail = self.segment_bytes - used_bytes;
        // A tail this large means an early end: the cleaner joins such segments' records.
        if tail > self.largest_ordinary() || tail < self.segment_bytes / TAIL_SHARE {
            return None;
        }
        let start = number * self.segment_bytes;
        let (from, end) = (self.run_bytes(start + used_bytes), start + self.segment_bytes);
        (from < end && end.is_multiple_of(self.page_bytes)).then(|| (from, end - from))
    }

    /// The pages of an open segment's tail were returned.
    pub(crate) fn cut_off(&self, number: u64, bytes: u64) {
        self.at(number).backed.fetch_sub(bytes, Ordering::Relaxed);
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes of a used piece.
    pub(crate) fn piece_bytes(&self, piece: u64) -> u64 {
        match self.is_large(piece) {
            true => self.free().runs.backed(piece / self.page_bytes) * self.page_bytes,
            false => self.at(piece / self.segment_bytes).backed_bytes(),
        }
    }

    /// Whether no piece is in limbo, or leaving it.
    pub(crate) fn is_limbo_empty(&self) -> bool {
        self.in_limbo.load(Ordering::Acquire) == 0
    }

    /// The piece goes to limbo.
    pub(crate) fn emptied(&self, piece: u64) {
        self.in_limbo.fetch_add(self.piece_bytes(piece), Ordering::Relaxed);
    }

    /// Returns an unused piece.
    pub(crate) fn give_back(&self, piece: u64) {
        self.emptied(piece);
        self.release(piece);
    }

    /// Returns a piece without readers. A run's pages are returned already.
    pub(crate) fn release(&self, piece: u64) {
        let bytes = self.piece_bytes(piece);
        let mut free = self.free();
        if self.is_large(piece) {
            free.runs.release(piece / self.page_bytes);
        } else {
            let number = piece / self.segment_bytes;
            self.at(number).set_state(State::Free);
            free.warm.push(number as u32);
            free.warm_bytes += bytes;
        }
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.in_limbo.fetch_sub(bytes, Ordering::Release);
    }

    /// Removes an unbacked segment from the free ones, to be populated ahead of use; [`warmed`](Self::warmed)
    /// puts it where it is taken next.
    pub(crate) fn to_warm(&self, want_warm: usize) -> Option<u64> {
        let mut free = self.free();
        let is_enough = self.available(Purpose::Value) < free.warm_bytes + self.segment_bytes;
        if free.warm.len() >= want_warm || is_enough {
            return None;
        }
        free.unbacked(self.ordinary())
    }

    /// As many segments as the limit allows are backed; none has been used.
    pub(crate) fn all_warm(&self) {
        let mut free = self.free();
        free.fresh = self.limit / self.segment_bytes;
        free.warm = (0..free.fresh as u32).rev().collect();
        free.warm_bytes = self.limit;
        self.all.iter().for_each(|segment| segment.backed.store(self.segment_bytes, Ordering::Relaxed));
    }

    /// The segment is backed now.
    pub(crate) fn warmed(&self, number: u64) {
        let mut free = self.free();
        self.at(number).backed.store(self.segment_bytes, Ordering::Relaxed);
        free.warm_bytes += self.segment_bytes;
        free.warm.insert(0, number as u32);
    }
}

#[cfg(feature = "testing")]
impl Segments {
    /// Bytes of everything in use, recounted.
    pub(crate) fn recount(&self) -> u64 {
        let in_use = self.all.iter().filter(|segment| segment.state() != State::Free);
        let runs: u64 = self.free().runs.taken().map(|(_, pages)| pages * self.page_bytes).sum();
        in_use.map(Segment::backed_bytes).sum::<u64>() + runs
    }

    /// Offsets of the used runs, those in limbo included.
    pub(crate) fn runs(&self) -> Vec<u64> {
        self.free().runs.taken().map(|(first, _)| first * self.page_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// 64 segments of 64 KiB.
    fn segments() -> Segments {
        Segments::new(64 * 64 * KIB, 64 << 10)
    }

    fn allocate(segments: &Segments, purpose: Purpose) -> Option<u64> {
        segments.allocate(purpose, |_| panic!("nothing is warm"))
    }

    #[test]
    fn allocate_keeps_the_cleaners_reserve() {
        let segments = segments();
        let values = (0..).take_while(|_| allocate(&segments, Purpose::Value).is_some()).count() as u64;
        assert_eq!(values, 64 - CLEANER_RESERVE);
        let survivors = (0..).take_while(|_| allocate(&segments, Purpose::Survivor).is_some()).count() as u64;
        assert_eq!(survivors, CLEANER_RESERVE);
    }

    #[test]
    fn index_bytes_come_out_of_the_budget() {
        let segments = segments();
        let before = segments.available(Purpose::Value);
        segments.index_grew(4097);
        assert_eq!(segments.available(Purpose::Value), before - 4097);
        segments.index_grew(-4097);
        assert_eq!(segments.available(Purpose::Value), before);
    }

    #[test]
    fn a_run_takes_whole_pages_and_gives_them_back() {
        let segments = segments();
        let run = segments.allocate_run(17 * KIB, 0, Purpose::Value, |_| ()).unwrap();
        assert!(segments.is_large(run) && !segments.is_large(run - 1));
        assert_eq!(segments.taken_bytes(), segments.run_bytes(17 * KIB));
        segments.give_back(run);
        assert_eq!(segments.taken_bytes(), 0);
        assert!(segments.allocate_run(61 * 64 * KIB + 1, 0, Purpose::Value, |_| ()).is_none());
        assert!(segments.allocate_run(61 * 64 * KIB, 0, Purpose::Value, |_| ()).is_some());
    }

    #[test]
    fn free_segments_are_chilled_for_what_does_not_fit_beside_them() {
        let segments = segments();
        let taken: Vec<u64> = (0..50).map(|_| allocate(&segments, Purpose::Value).unwrap()).collect();
        taken.into_iter().for_each(|number| segments.give_back(number * 64 * KIB));
        let mut chilled = 0;
        segments.allocate_run(40 * 64 * KIB, 0, Purpose::Value, |_| chilled += 1).unwrap();
        assert_eq!(chilled, 50 + 40 - 64);
        // None of the remaining ones has to make way for their successors.
        segments.allocate(Purpose::Value, |_| chilled += 1).unwrap();
        segments.index_grew(64 * KIB as i64);
        segments.allocate(Purpose::Value, |_| chilled += 1).unwrap();
        assert_eq!(chilled, 50 + 40 - 64 + 1);
    }

    #[test]
    fn free_segments_are_chilled_on_request_but_for_some() {
        let segments = segments();
        let taken: Vec<u64> = (0..10).map(|_| allocate(&segments, Purpose::Value).unwrap()).collect();
        assert!(!segments.chill_beyond(0, |_| panic!("none is free")));
        taken.into_iter().for_each(|number| segments.give_back(number * 64 * KIB));
        assert_eq!(segments.idle_bytes(), 10 * 64 * KIB);
        assert_eq!((segments.idle_bytes_beyond(3), segments.idle_bytes_beyond(11)), (7 * 64 * KIB, 0));
        let mut chilled = Vec::new();
        while segments.chill_beyond(3, |number| chilled.push(number)) {}
        chilled.sort_unstable();
        chilled.dedup();
        assert_eq!((chilled.len(), segments.idle_bytes()), (7, 3 * 64 * KIB));
        // All can be taken again.
        let values = (0..).take_while(|_| allocate(&segments, Purpose::Value).is_some()).count() as u64;
        assert_eq!(values, 64 - CLEANER_RESERVE);
    }

    /// However little of each is kept, there is always a segment for what the budget allows.
    #[test]
    fn a_tail_that_was_cut_off_is_taken_by_others() {
        let segments = segments();
        let mut cut = 0;
        while let Some(number) = allocate(&segments, Purpose::Value) {
            let (from, bytes) = segments.tail(number, 48 * KIB).expect("a quarter");
            assert_eq!(from + bytes, (number + 1) * 64 * KIB);
            segments.cut_off(number, bytes);
            segments.at(number).close(48 * KIB);
            cut += 1;
        }
        assert!(cut > 61 * 4 / 3 - 3, "{cut}");
        assert!(segments.taken_bytes() + 3 * 64 * KIB <= 64 * 64 * KIB);
        assert_eq!(segments.tail(0, 47 * KIB), None, "the cleaner joins these");
        assert_eq!(segments.tail(0, 64 * KIB - 8), None, "not worth it");
        for number in 0..cut {
            segments.give_back(number * 64 * KIB);
        }
        assert_eq!(segments.taken_bytes(), 0);
        let mut chilled = 0;
        while segments.allocate(Purpose::Survivor, |_| chilled += 1).is_some() {}
        // Each was warm except for its tail, and there are pages for 64 whole ones.
        assert_eq!((segments.free().warm_bytes, segments.taken_bytes()), (0, 64 * 64 * KIB));
        assert!(chilled > 0);
    }
}
