//! The cleaner: makes room by copying live records out of mostly dead segments.
//!
//! Purpose: the log only appends, and overwritten and removed records leave holes. The cleaner takes segments
//! by cost and benefit (RAMCloud: free share times age, over the cost of reading and copying). It copies
//! their live records to a head of its own, and retires them.
//!
//! Invariants:
//! - C1 A record is copied, and its entry pointed to the copy, under its slot's lock: no write is lost.
//! - C2 A segment is retired when none of its records has an entry, by the thread that kills the last one; it
//!   is released an epoch later. A thread that unlinks a record counts it dead before it unpins. So a
//!   released segment's counters no longer change.
//! - C3 The cleaner never waits for a lock while it holds one. Exceptions: the locks of the free segments, of
//!   the list of struck-out values and of a collection's cell, under which nothing else is locked.
//! - C4 Of a struck-out value only a tombstone is copied; large ones come first.
//! - C5 A mark of absence is never copied: it goes with its segment.
//! - C6 A chunk is copied, and its outline pointed to the copy, under its slot's lock; none of a doomed
//!   collection is. A segment is retired with chunks that are not counted as dead only by a thread that is
//!   pinned and about to count them: while any collection is doomed, a cleaned segment waits.
//!
//! Realises: Kulkarni, chapter 2, and the RAMCloud papers cited there. Deviations: one level (memory only);
//! survivors are not sorted by age, a survivor segment takes the age of the segment that it was opened for.
//!
//! Ownership: one background thread calls [`Cleaner::step`] in a loop; a writer short of memory helps, before
//! it locks its slot. The stepping thread holds the lock of [`Cleaning`].

use crate::address::Address;
use crate::bucket::Word;
use crate::config::OutOfMemory;
use crate::data::{Data, Guard};
use crate::large::relocate::{head_moved, relocate_chunk};
use crate::log::{LogHead, SEGMENT_START};
use crate::record::Record;
use crate::segment::{MOST_LIVE_PERCENT, Purpose, State};
use crate::writer::SlotGuard;
use sidle_types::{HashedKey, SLOT_COUNT, Slot};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Victims chosen in one pass over all segments.
const VICTIMS_PER_CHOICE: usize = 8;
/// Records whose buckets are loaded together.
const RECORDS_TOGETHER: usize = 24;
/// Bytes of a victim that a helping writer visits in one step.
const HELP_BYTES: usize = 64 << 10;
/// Steps after which a helping writer stops and tries to write.
const HELP_STEPS: usize = 256;
/// A helping writer whose emptied memory still has readers yields this often, then rests for this long each
/// time, at most this many times; then it tries to write. A reader is pinned for one command: for longer only
/// if its thread does not run.
const HELP_YIELDS: usize = 64;
const HELP_REST: Duration = Duration::from_micros(200);
const HELP_RESTS: usize = 10_000;
/// While nothing is worth cleaning, one in so many helpers checks again.
const HELPERS_TURNED_AWAY: u32 = 64;

/// Tables checked when no segment is worth cleaning, and how often one of them is locked to move a few
/// buckets.
const SLOTS_PER_LOOK: usize = 2048;
const SHRINKING_STEPS: usize = 256;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanOutcome {
    /// There is nothing to do; call again later.
    Idle,
    /// Work was done; call again soon.
    Progress,
    /// Emptied memory still has readers; call again shortly.
    Waiting,
}

/// What is being cleaned.
#[derive(Default)]
pub(crate) struct Cleaning {
    head: Option<LogHead>,
    /// Chosen segments, best last.
    victims: Vec<u64>,
    current: Option<Victim>,
    /// The next slot whose table is checked.
    next_slot: usize,
    /// The prospects when no segment was worth cleaning.
    hopeless_at: Option<(u64, u64)>,
    /// Helpers turned away since.
    turned_away: u32,
}

/// A segment half cleaned.
struct Victim {
    number: u64,
    /// Where the walk continues, in bytes from the segment's start.
    at: u64,
}

/// Lets readers run that hold up a writer, which has waited for them so many times.
#[expect(
    clippy::disallowed_methods,
    reason = "a spinning thread takes processor time from readers; no result depends on the time"
)]
fn give_way(waits: usize) {
    if waits < HELP_YIELDS { std::thread::yield_now() } else { std::thread::sleep(HELP_REST) }
}

/// Makes room in the borrowed data: the handle for the background thread's steps and for writers' help.
#[derive(Clone, Copy)]
pub struct Cleaner<'s> {
    data: &'s Data,
    cleaning: &'s Mutex<Cleaning>,
}

impl<'s> Cleaner<'s> {
    pub(crate) fn new(data: &'s Data, cleaning: &'s Mutex<Cleaning>) -> Cleaner<'s> {
        Cleaner { data, cleaning }
    }

    /// One piece of work: visits about `budget_bytes` of log. Also frees memory without readers, and backs
    /// free segments with pages ahead of their use.
    pub fn step(&mut self, budget_bytes: usize) -> CleanOutcome {
        self.collect_arrays();
        let outcome = self.clean(&mut self.lock(), budget_bytes);
        if outcome != CleanOutcome::Progress && self.data.log.warm_one() {
            return CleanOutcome::Progress;
        }
        outcome
    }

    fn lock(self) -> MutexGuard<'s, Cleaning> {
        self.cleaning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the index's arrays without readers.
    pub(crate) fn collect_arrays(self) {
        self.data.index.collect(&self.data.log.epochs, &self.data.log.segments);
    }

    /// See [`Store::make_room`](crate::Store::make_room).
    pub(crate) fn make_room(self, bytes: usize) -> bool {
        let room = self.data.log.room_for(bytes as u64 + crate::record::OVERHEAD_ALLOWANCE_BYTES);
        let fits = || self.data.log.segments.available(Purpose::Value) >= room;
        if fits() || self.data.log.epochs.participant().is_pinned() {
            return fits();
        }
        self.data.log.segments.want(room);
        self.help((room / self.data.log.segments.segment_bytes()) as usize * HELP_STEPS);
        fits()
    }

    /// See [`Store::has_room`](crate::Store::has_room).
    pub(crate) fn has_room(self, bytes: usize) -> bool {
        let is_hopeless = self.lock().is_hopeless(self.data);
        if is_hopeless {
            self.collect_arrays();
        }
        let room = self.data.log.room_for(bytes as u64 + crate::record::OVERHEAD_ALLOWANCE_BYTES);
        if is_hopeless {
            self.data.log.segments.available(Purpose::Value) >= room
        } else {
            self.make_room(bytes)
        }
    }

    /// Cleans until memory is no longer short. The caller neither holds a slot's lock nor is pinned.
    #[cold]
    pub(crate) fn relieve(self) {
        let is_hopeless = self.lock().is_hopeless(self.data);
        if is_hopeless || self.data.log.segments.is_overdrawn() {
            self.collect_arrays();
        }
        if !is_hopeless {
            self.help(HELP_STEPS);
        }
    }

    fn help(self, steps: usize) {
        debug_assert!(!self.data.log.epochs.participant().is_pinned(), "a pinned thread waits for itself");
        // Arrays are usually left to the background thread: freeing a large one takes longer than a write
        // should.
        let (mut steps, mut waits) = (steps, 0);
        while steps != 0 && self.data.log.segments.is_short() {
            let mut cleaning = self.lock();
            let outcome = self.clean(&mut cleaning, HELP_BYTES);
            drop(cleaning);
            match outcome {
                CleanOutcome::Progress => steps -= 1,
                CleanOutcome::Waiting if waits < HELP_YIELDS + HELP_RESTS => {
                    give_way(waits);
                    waits += 1;
                }
                CleanOutcome::Waiting | CleanOutcome::Idle => return,
            }
        }
    }

    /// Puts back what is being cleaned, and what was chosen: to be walked through from the start.
    pub(crate) fn begin_anew(self) {
        let mut cleaning = self.lock();
        if let Some(victim) = cleaning.current.take() {
            let _pinned = self.data.pin();
            self.data.log.stay_or_retire(victim.number);
        }
        cleaning.put_back(self.data);
    }

    /// Closes the cleaner's own head, so that every record lies in a closed segment.
    #[cfg(feature = "testing")]
    pub(crate) fn close_own_head(self) {
        self.lock().head = None;
    }

    fn clean(self, cleaning: &mut Cleaning, budget_bytes: usize) -> CleanOutcome {
        let freed = self.data.log.collect() != 0;
        let waiting = || {
            if self.data.log.segments.is_limbo_empty() { CleanOutcome::Idle } else { CleanOutcome::Waiting }
        };
        if !self.data.collections.doomed.is_empty() {
            let _pinned = self.data.pin();
            if self.data.collections.doomed.bury_slice(&self.data.log) {
                return CleanOutcome::Progress;
            }
        }
        if !self.data.pending_tombstones.is_empty()
            && self.shrink_large(cleaning.head.get_or_insert_with(|| self.data.cleaners_head())).is_ok()
        {
            return CleanOutcome::Progress;
        }
        if cleaning.current.is_none() {
            if self.data.log.segments.is_plenty() {
                cleaning.put_back(self.data);
                return if freed { CleanOutcome::Progress } else { waiting() };
            }
            let prospects = self.data.log.segments.prospects();
            if cleaning.victims.is_empty() {
                cleaning.victims = self.choose_victims();
            }
            let Some(number) = cleaning.victims.pop() else {
                self.collect_arrays();
                if self.shrink_tables(&mut cleaning.next_slot) {
                    return CleanOutcome::Progress;
                }
                self.data.log.segments.want(0);
                cleaning.hopeless_at = Some(prospects);
                return if freed { CleanOutcome::Progress } else { waiting() };
            };
            cleaning.current = Some(Victim { number, at: SEGMENT_START });
        }
        match self.clean_current(cleaning, budget_bytes as u64) {
            Ok(()) if cleaning.waits_for_chunks(self.data) => waiting(),
            Ok(()) => CleanOutcome::Progress,
            Err(OutOfMemory) => waiting(),
        }
    }

    /// Frees the memory of struck-out large values, if there is room for their tombstones.
    fn shrink_large(self, head: &mut LogHead) -> Result<(), OutOfMemory> {
        let pending = &self.data.pending_tombstones;
        while let Some(large) = pending.take() {
            let slot = SlotGuard::lock(self.data, large.slot);
            let is_it = |word: Word<'_>| word.address() == large.address && word.kind().is_tombstone;
            let Some((place, word)) = slot.table().find(large.hash.0, slot.pinned(), is_it) else { continue };
            let record = slot.record(word);
            if let Err(out) = slot.shrink(head, place, word, record) {
                pending.add(large);
                return Err(out);
            }
            self.data.log.bury(word, record);
        }
        Ok(())
    }

    /// Continues to shrink oversized tables of some slots: those whose new array found no room when entries
    /// were removed, and those without writes since. Returns whether there was any.
    fn shrink_tables(self, next_slot: &mut usize) -> bool {
        let mut steps = 0;
        for _ in 0..SLOTS_PER_LOOK {
            let slot = Slot::new(*next_slot as u16).expect("below the number of slots");
            while steps < SHRINKING_STEPS
                && self.data.index.slot(slot).is_to_shrink()
                && SlotGuard::lock(self.data, slot).shrink_table()
            {
                steps += 1;
            }
            if steps == SHRINKING_STEPS {
                return true;
            }
            *next_slot = (*next_slot + 1) % usize::from(SLOT_COUNT);
        }
        steps != 0
    }

    /// Takes the closed segments that are best to clean, best last.
    fn choose_victims(self) -> Vec<u64> {
        let segments = &self.data.log.segments;
        let clock = segments.clock();
        let mut best: Vec<(f64, u64)> = Vec::with_capacity(VICTIMS_PER_CHOICE + 1);
        for number in 0..segments.ordinary() {
            let segment = segments.at(number);
            if segment.state() != State::Closed {
                continue;
            }
            let live = segment.live_bytes();
            let kept = segment.kept_bytes();
            let used = segment.used_bytes();
            // An end too short for the next record would recur in the copy: it counts only where it is more
            // than that.
            let is_cut_short = segments.segment_bytes() - used > segments.largest_ordinary();
            let whole = if is_cut_short { segments.segment_bytes() } else { used };
            if kept * 100 > whole * MOST_LIVE_PERCENT {
                continue;
            }
            let live_share = kept as f64 / whole as f64;
            let age = clock.saturating_sub(segment.age()) + 1;
            let score = (1.0 - live_share) * age as f64 / (1.0 + live_share);
            let score = if live == 0 { f64::INFINITY } else { score };
            let place = best.partition_point(|&(other, _)| other < score);
            if best.len() < VICTIMS_PER_CHOICE || place > 0 {
                best.insert(place, (score, number));
                if best.len() > VICTIMS_PER_CHOICE {
                    best.remove(0);
                }
            }
        }
        let taken =
            best.into_iter().map(|(_, number)| number).filter(|&number| segments.at(number).try_leave());
        taken.collect()
    }

    /// Continues through the current victim; retires it at its end.
    fn clean_current(self, cleaning: &mut Cleaning, budget_bytes: u64) -> Result<(), OutOfMemory> {
        let victim = cleaning.current.as_mut().expect("there is a current victim");
        let head = cleaning.head.get_or_insert_with(|| self.data.cleaners_head());
        let segment = self.data.log.segments.at(victim.number);
        let until = victim.at + budget_bytes;
        let mut records = self.data.log.records_of(victim.number, victim.at);
        let mut batch: [Option<(Address, Record<'_>, Option<HashedKey<'_>>)>; RECORDS_TOGETHER] =
            [None; RECORDS_TOGETHER];
        while segment.live_bytes() != 0 && victim.at < until {
            let guard = self.data.pin();
            for (place, next) in
                batch.iter_mut().zip(records.by_ref().map(Some).chain(std::iter::repeat(None)))
            {
                *place = next.map(|(address, record)| {
                    let key = (!record.is_chunk()).then(|| record.hashed_key());
                    key.iter().for_each(|key| self.data.index.prefetch(key.slot()));
                    (address, record, key)
                });
            }
            let keys = batch.iter().flatten().filter_map(|(_, _, key)| *key);
            keys.for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
            let mut moved_bytes = 0;
            let mut result = Ok(());
            for (address, record, key) in batch.iter().copied().flatten() {
                let open = head.open_segment();
                let relocated = match key {
                    Some(key) => self.relocate(&guard, head, address, record, key),
                    None => relocate_chunk(self.data, head, address, record),
                };
                if head.open_segment() != open
                    && let Some(number) = head.open_segment()
                {
                    self.data.log.segments.at(number).set_age(segment.age());
                }
                result = relocated.map(|moved| {
                    let bytes = record.in_log().len() as u64;
                    moved_bytes += if moved { bytes } else { 0 };
                    victim.at += bytes;
                });
                if result.is_err() {
                    break;
                }
            }
            segment.add_dead(moved_bytes);
            result?;
            if batch[RECORDS_TOGETHER - 1].is_none() {
                break;
            }
        }
        let is_at_its_end = || victim.at >= segment.used_bytes() && self.data.collections.doomed.is_empty();
        if segment.live_bytes() == 0 || is_at_its_end() {
            self.data.log.retire_emptied(victim.number);
            cleaning.current = None;
        }
        Ok(())
    }

    /// Moves a record to the cleaner's head if it is still referenced (C1); whether it was. The caller counts
    /// the old copy as dead. A mark of absence is dropped instead, and counted (C5).
    fn relocate(
        self,
        guard: &Guard<'_>,
        head: &mut LogHead,
        address: Address,
        record: Record<'_>,
        key: HashedKey<'_>,
    ) -> Result<bool, OutOfMemory> {
        let table = self.data.index.slot(key.slot());
        let is_it = |word: Word<'_>| word.address() == address;
        // An address without an entry never gets one again: skipping dead records needs no lock.
        if table.find(key.hash().0, guard.pinned(), is_it).is_none() {
            return Ok(false);
        }
        let lock = SlotGuard::lock(self.data, key.slot());
        let Some((place, word)) = table.find(key.hash().0, lock.pinned(), is_it) else { return Ok(false) };
        if record.is_absence() {
            lock.clear(place, word);
            lock.shrink_table();
            return Ok(false);
        }
        if word.kind().is_tombstone && !record.is_tombstone() {
            lock.shrink(head, place, word, lock.record(word))?;
            self.data.log.forget_spare(address, record);
            if let Some(run) = record.run() {
                self.data.log.retire(run);
            }
        } else {
            let copy = head.append_copy(record.in_log(), Purpose::Survivor)?;
            if !word.kind().is_tombstone {
                head_moved(self.data, record, address, copy);
            }
            place.bucket.store(place.index, word.moved_to(copy));
        }
        Ok(true)
    }
}

impl Cleaning {
    /// Whether all of the current victim is walked through, and it waits for its chunks to be counted (C6).
    fn waits_for_chunks(&self, data: &Data) -> bool {
        let victim = self.current.as_ref();
        victim.is_some_and(|victim| victim.at >= data.log.segments.at(victim.number).used_bytes())
    }

    /// Whether helping is useless: no segment was worth cleaning, and since then none has been opened or has
    /// lost enough of its records. One helper in some checks again: marks of absence, and short ends, are not
    /// counted.
    fn is_hopeless(&mut self, data: &Data) -> bool {
        if self.current.is_some() || self.hopeless_at != Some(data.log.segments.prospects()) {
            return false;
        }
        self.turned_away = (self.turned_away + 1) % HELPERS_TURNED_AWAY;
        self.turned_away != 0
            && data.pending_tombstones.is_empty()
            && data.collections.doomed.is_empty()
            && data.log.segments.is_limbo_empty()
    }

    /// Returns the chosen segments that were not begun.
    fn put_back(&mut self, data: &Data) {
        for number in self.victims.drain(..) {
            data.log.segments.at(number).set_state(State::Closed);
        }
    }
}

impl std::fmt::Debug for Cleaner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleaner").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Leave, Store, StoreConfig};
    use sidle_outline::{Chunk, Order, Outline};
    use sidle_types::ValueKind;

    /// C6: a collection is doomed after the cleaner has passed its chunks, and before they are counted.
    #[test]
    fn a_cleaned_segment_waits_for_the_chunks_of_doomed_collections() {
        let config = StoreConfig { memory_bytes: 1 << 20, segment_bytes: 4 << 10, ..StoreConfig::default() };
        let store = Store::new(config).expect("a valid configuration");
        let (mut head, key, mut outline) = (store.log_head(), HashedKey::new(b"large"), Outline::new(0));
        (0..300).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 100])));
        let put = store.lock_slot(key.slot()).put_large(&mut head, key, ValueKind::Set, outline, None);
        put.expect("there is room");
        let segments = &store.data.log.segments;
        let is_taken = |number: &u64| segments.at(*number).try_leave();
        let number = (0..segments.ordinary()).find(is_taken).expect("a closed segment");
        let at = segments.at(number).used_bytes();
        let mut cleaning = Cleaning { current: Some(Victim { number, at }), ..Cleaning::default() };
        let removed = store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing);
        assert!(removed.expect("it takes no memory"));
        let cleaner = store.cleaner();
        cleaner.clean_current(&mut cleaning, 1).expect("it takes no memory");
        assert!(cleaning.current.is_some(), "C6: its chunks are not counted as dead");
        let guard = store.pin();
        while store.data.collections.doomed.bury_slice(&store.data.log) {}
        drop(guard);
        cleaner.clean_current(&mut cleaning, 1).expect("it takes no memory");
        assert!(cleaning.current.is_none());
        drop((cleaning, head));
        assert_eq!(store.check_accounting(), Ok(()));
    }
}
