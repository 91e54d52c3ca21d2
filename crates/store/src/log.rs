//! The log: segments of one reserved range, and the heads that append to them.
//!
//! Invariants:
//! - L1 A record is immutable from its publication in the index until its segment is released.
//! - L2 Only its head writes to an open segment, and only behind the last record appended.
//! - L3 A segment is closed only when every record in it has been published (or counted dead): the cleaner
//!   takes records without an entry for dead.
//! - L4 A segment is released only when nothing in the index refers into it and an epoch has passed since.
//! - L5 A run with a growing value belongs to one key. Its bytes that a record in the index ever covered are
//!   never written again. The holder of the slot's lock writes those behind, or, before the first record, the
//!   assembly that began the run. It is released like a segment, after its last record has lost its entry.
//!
//! Ownership: each worker and each replay slot owns a head; the cleaner owns one; segments change owners
//! under the lock in [`Segments`].
#![allow(unsafe_code)] // slices of the region, by the invariants above

use crate::address::Address;
use crate::bucket::Word;
use crate::commit::{Commits, Logging};
use crate::config::{OutOfMemory, StoreConfig, StoreError};
use crate::epoch::{Epochs, Limbo, Pinned};
use crate::memory::Region;
use crate::record::{Draft, NEVER, OutsideDraft, Record, Shape};
use crate::segment::{Purpose, Segment, Segments, State};
use sidle_types::{KeyHash, Position, Slot, Version, WallMs};
use std::sync::Arc;

/// The first unit of a segment is unused, so that no record has address 0.
pub(crate) const SEGMENT_START: u64 = 8;

/// The log of one store.
pub(crate) struct Log {
    region: Region,
    pub(crate) segments: Segments,
    segment_shift: u32,
    warm_segments: usize,
    /// Whether free segments keep their pages.
    is_preallocated: bool,
    pub(crate) epochs: Epochs,
    /// Empty pieces that wait for readers.
    limbo: Limbo<u64>,
    /// If everything written is also for a durable log: its commits.
    pub(crate) commits: Option<Commits>,
    /// Runs whose bytes are still arriving, for the audit.
    #[cfg(feature = "testing")]
    begun: std::sync::Mutex<Vec<u64>>,
}

impl Log {
    pub(crate) fn new(config: &StoreConfig) -> Result<Log, StoreError> {
        let segments = Segments::new(config.memory_bytes, config.segment_bytes);
        let bytes = segments.space_bytes();
        // A huge page would back a run's neighbours as well, uncounted.
        let huge_bytes = if config.huge_pages { segments.ordinary() * segments.segment_bytes() } else { 0 };
        let region =
            Region::reserve(bytes, huge_bytes).map_err(|source| StoreError::Reserve { bytes, source })?;
        if config.preallocate {
            segments.all_warm();
            // SAFETY: the region is new and exclusive.
            unsafe { region.populate(0, segments.limit_bytes() as usize) }
        }
        Ok(Log {
            region,
            segments,
            segment_shift: config.segment_bytes.trailing_zeros(),
            warm_segments: config.warm_segments,
            is_preallocated: config.preallocate,
            epochs: Epochs::new(),
            limbo: Limbo::new(),
            commits: config.is_durable.then(Commits::new),
            #[cfg(feature = "testing")]
            begun: std::sync::Mutex::default(),
        })
    }

    /// The record at an address that was loaded from the index under the pin.
    #[inline(always)]
    pub(crate) fn record<'p>(&'p self, address: Address, _pin: Pinned<'p>) -> Record<'p> {
        let offset = address.offset();
        // SAFETY: an address in the index is that of a published record (L1), whose segment outlives the pin
        // (L4).
        unsafe {
            let shape = Shape::read(self.region.bytes(offset, 12));
            self.record_of(offset, shape)
        }
    }

    /// The shape of the record at an address that was loaded from the index under the pin, if it has this
    /// key: all that a look-up needs of the records that it passes.
    #[inline]
    pub(crate) fn shape_with_key(&self, address: Address, key: &[u8], _pin: Pinned<'_>) -> Option<Shape> {
        let offset = address.offset();
        // SAFETY: as in `record`.
        unsafe {
            let shape = Shape::read(self.region.bytes(offset, 12));
            let has_key = shape.key_bytes() == key.len()
                && self.region.bytes(offset + shape.key_start() as u64, key.len()) == key;
            has_key.then_some(shape)
        }
    }

    /// The record of known shape at such an address.
    #[inline(always)]
    pub(crate) fn record_with_shape<'p>(
        &'p self,
        address: Address,
        shape: Shape,
        _pin: Pinned<'p>,
    ) -> Record<'p> {
        // SAFETY: as in `record`.
        unsafe { self.record_of(address.offset(), shape) }
    }

    /// The record of this shape at an offset.
    ///
    /// # Safety
    /// It is in the log and is not released while `'l` lasts.
    #[inline(always)]
    unsafe fn record_of(&self, offset: u64, shape: Shape) -> Record<'_> {
        // SAFETY: by the contract.
        let record = Record::of_shape(unsafe { self.region.bytes(offset, shape.total_bytes()) }, shape, &[]);
        match record.run() {
            None => record,
            // SAFETY: by the contract.
            Some(run) => unsafe { self.with_outside(record, shape, run) },
        }
    }

    /// A record with its value in a run. A separate function, to keep look-ups short.
    ///
    /// # Safety
    /// As for [`record_of`](Self::record_of).
    #[cold]
    unsafe fn with_outside<'l>(&'l self, record: Record<'l>, shape: Shape, run: u64) -> Record<'l> {
        // SAFETY: a run is retired when its last record is, and its published bytes are never written again
        // (L5).
        let value = unsafe { self.region.bytes(run, shape.value_bytes()) };
        Record::of_shape(record.in_log(), shape, value)
    }

    /// The records of a segment that the caller has exclusive access to ([`State::Leaving`]). The walk starts
    /// at a record, `at` bytes from the segment's start.
    pub(crate) fn records_of(&self, number: u64, at: u64) -> SegmentRecords<'_> {
        debug_assert_eq!(self.segments.at(number).state(), State::Leaving);
        let start = number << self.segment_shift;
        let end = start + self.segments.at(number).used_bytes();
        SegmentRecords { log: self, offset: start + at, end }
    }

    /// The free bytes that certainly fit records of so many bytes in all, except for losses between them.
    pub(crate) fn room_for(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.segments.segment_bytes())
    }

    /// Where a record of the log is; any number for another one.
    pub(crate) fn offset_of(&self, record: Record<'_>) -> u64 {
        self.region.offset_of(record.in_log())
    }

    /// Starts loading a record.
    #[inline]
    pub(crate) fn prefetch(&self, address: Address) {
        self.region.prefetch(address.offset());
    }

    /// Starts loading the rest of a record whose beginning is loaded, to read all of it.
    #[inline]
    pub(crate) fn prefetch_rest(&self, address: Address, record: Record<'_>) {
        self.region.prefetch_rest(address.offset(), record.in_log().len());
    }

    /// Counts the bytes not worth keeping of a record whose entry is about to become a tombstone, so that the
    /// cleaner knows its gain.
    pub(crate) fn note_spare(&self, address: Address, record: Record<'_>) {
        if !self.is_large(address) {
            self.segment_of(address).add_spare(record.spare_bytes() as u64);
        }
    }

    /// The tombstone goes, or is copied.
    pub(crate) fn forget_spare(&self, address: Address, record: Record<'_>) {
        if !self.is_large(address) {
            self.segment_of(address).remove_spare(record.spare_bytes() as u64);
        }
    }

    /// Whether a record has a run of its own.
    pub(crate) fn is_large(&self, address: Address) -> bool {
        self.segments.is_large(address.offset())
    }

    fn segment_of(&self, address: Address) -> &Segment {
        self.segments.at(address.offset() >> self.segment_shift)
    }

    /// Counts a record as dead whose entry the caller has just unlinked from the index.
    #[inline(always)]
    pub(crate) fn bury(&self, word: Word<'_>, record: Record<'_>) {
        if let Some(run) = record.run() {
            self.retire(run);
        }
        self.bury_in_log(word, record);
    }

    /// The same, except for an outside value: another record has it now.
    #[inline]
    pub(crate) fn bury_in_log(&self, word: Word<'_>, record: Record<'_>) {
        let offset = word.address().offset();
        if self.segments.is_large(offset) {
            return self.retire(offset);
        }
        if word.kind().is_tombstone {
            self.forget_spare(word.address(), record);
        }
        self.add_dead(offset, record.in_log().len() as u64);
    }

    /// Counts a chunk of so many bytes as dead, which is in no outline of the store any more. The caller is
    /// pinned since before that, or has the chunk's collection from the list of doomed ones (K3).
    pub(crate) fn bury_chunk(&self, address: Address, bytes: usize) {
        match self.is_large(address) {
            true => self.retire(address.offset()),
            false => self.add_dead(address.offset(), bytes as u64),
        }
    }

    /// Counts a record of a segment as dead.
    #[inline]
    fn add_dead(&self, offset: u64, bytes: u64) {
        let number = offset >> self.segment_shift;
        let segment = self.segments.at(number);
        debug_assert!(segment.state() != State::Free, "C2, C6: it is released after all in it is counted");
        let ripens = segment.add_dead(bytes);
        if segment.state() == State::Closed {
            if ripens {
                self.segments.ripen();
            }
            self.retire_if_dead(number);
        }
    }

    /// Leaves a segment to the cleaner: all its records are published (L3).
    fn close_segment(&self, number: u64, used_bytes: u64) {
        let participant = self.epochs.participant();
        self.epochs.pin(participant);
        self.segments.at(number).close(used_bytes);
        self.retire_if_dead(number);
        participant.unpin();
    }

    /// Retires a closed segment whose last record has died, without waiting for the cleaner. (If a record
    /// dies just as the segment is closed, both may miss it; then the cleaner finds it.) The caller is
    /// pinned, so the segment cannot be reused meanwhile.
    fn retire_if_dead(&self, number: u64) {
        let segment = self.segments.at(number);
        if segment.live_bytes() == 0 && segment.try_leave() {
            self.retire_emptied(number);
        }
    }

    /// Returns a closed segment that the caller has taken to later cleaning, or retires it if nothing is
    /// left.
    pub(crate) fn stay_or_retire(&self, number: u64) {
        let segment = self.segments.at(number);
        match segment.live_bytes() {
            0 => self.retire_emptied(number),
            _ => segment.set_state(State::Closed),
        }
    }

    /// Takes a segment that nothing in the index refers into.
    pub(crate) fn retire_emptied(&self, number: u64) {
        debug_assert_eq!(self.segments.at(number).state(), State::Leaving);
        self.retire(number << self.segment_shift);
    }

    /// Takes a piece that nothing in the index refers into.
    #[cold]
    pub(crate) fn retire(&self, piece: u64) {
        self.segments.emptied(piece);
        self.limbo.retire(&self.epochs, piece);
    }

    /// Releases pieces without readers; returns how many.
    pub(crate) fn collect(&self) -> usize {
        let free = self.limbo.collect(&self.epochs);
        for &piece in &free {
            if self.segments.is_large(piece) {
                self.chill(piece, self.segments.piece_bytes(piece));
            }
            self.segments.release(piece);
        }
        free.len()
    }

    /// Passes the pieces that wait for readers to `f`.
    #[cfg(feature = "testing")]
    pub(crate) fn each_in_limbo(&self, mut f: impl FnMut(u64)) {
        self.limbo.each(|&piece| f(piece));
    }

    fn chill(&self, offset: u64, bytes: u64) {
        // SAFETY: nothing refers into these bytes (L4), and the caller has exclusive access.
        unsafe { self.region.release(offset, bytes as usize) }
    }

    fn chill_segment(&self, number: u64) {
        self.chill(number << self.segment_shift, self.segments.segment_bytes());
    }

    /// Backs one free segment with pages ahead of its use; whether there was one.
    pub(crate) fn warm_one(&self) -> bool {
        let Some(number) = self.segments.to_warm(self.warm_segments) else { return false };
        // SAFETY: a free segment, in no list while this thread has it.
        unsafe { self.region.populate(number << self.segment_shift, 1 << self.segment_shift) }
        self.segments.warmed(number);
        true
    }

    /// Returns the pages of one free segment, but not of those kept ready; whether there was one.
    pub(crate) fn chill_one(&self) -> bool {
        !self.is_preallocated
            && self.segments.chill_beyond(self.warm_segments, |number| self.chill_segment(number))
    }

    /// The bytes that [`chill_one`](Self::chill_one) would return, step by step.
    pub(crate) fn purgeable_bytes(&self) -> u64 {
        if self.is_preallocated { 0 } else { self.segments.idle_bytes_beyond(self.warm_segments) }
    }

    /// Takes a segment, collecting limbo when none seems free; returns its offset.
    fn allocate(&self, purpose: Purpose) -> Result<u64, OutOfMemory> {
        let allocate = || self.segments.allocate(purpose, |number| self.chill_segment(number));
        let number = allocate().or_else(|| {
            self.collect();
            allocate()
        });
        number.map(|number| number << self.segment_shift).ok_or(OutOfMemory)
    }

    /// Takes a run for so many bytes, with addresses to grow to `room`, like [`allocate`](Self::allocate);
    /// returns its offset.
    fn allocate_run(&self, bytes: u64, room: u64, purpose: Purpose) -> Result<u64, OutOfMemory> {
        let run = self.take_run(bytes, room, purpose)?;
        self.back_run(run, 0, bytes);
        Ok(run)
    }

    /// The same, without the pages, which count as taken.
    fn take_run(&self, bytes: u64, room: u64, purpose: Purpose) -> Result<u64, OutOfMemory> {
        let allocate =
            || self.segments.allocate_run(bytes, room, purpose, |number| self.chill_segment(number));
        let run = allocate().or_else(|| {
            self.collect();
            allocate()
        });
        if run.is_none() {
            self.segments.want(self.segments.run_bytes(bytes));
        }
        run.ok_or(OutOfMemory)
    }

    /// Backs the pages that begin between these bytes of a run: one call costs less than a fault for each.
    /// The caller owns the run, and has written nothing from `from` on.
    fn back_run(&self, run: u64, from: u64, end: u64) {
        let [from, end] = [from, end].map(|at| self.segments.run_bytes(at));
        // SAFETY: the caller owns these pages, and nothing is written to them yet.
        unsafe { self.region.populate(run + from, (end - from) as usize) }
    }
}

/// Values outside of their records (L5).
impl Log {
    /// Takes a run and writes a value's parts to it. It has addresses for the value to double.
    pub(crate) fn write_outside(&self, bytes: usize, parts: &[&[u8]]) -> Result<u64, OutOfMemory> {
        let run = self.allocate_run(bytes as u64, 2 * bytes as u64, Purpose::Value)?;
        self.write_parts(run, parts);
        Ok(run)
    }

    /// Writes behind a run's value with so many published bytes; false if the run cannot grow in place. The
    /// caller has the slot's lock. It publishes a record with the longer value, or does this again.
    pub(crate) fn extend_outside(
        &self,
        run: u64,
        published: usize,
        bytes: usize,
        parts: &[&[u8]],
    ) -> Result<bool, OutOfMemory> {
        let chill = |number| self.chill_segment(number);
        let is_same_page = self.segments.run_bytes(bytes as u64) == self.segments.run_bytes(published as u64);
        if is_same_page || self.segments.extend_run(run, bytes as u64, chill)? {
            self.write_parts(run + published as u64, parts);
            return Ok(true);
        }
        Ok(false)
    }

    /// A run whose value was not published.
    pub(crate) fn forget_outside(&self, run: u64) {
        self.chill(run, self.segments.piece_bytes(run));
        self.segments.give_back(run);
    }

    /// Takes a run for bytes that arrive in pieces.
    pub(crate) fn begin_run(&self, bytes: usize) -> Result<u64, OutOfMemory> {
        let run = self.take_run(bytes as u64, bytes as u64, Purpose::Value)?;
        #[cfg(feature = "testing")]
        self.begun().push(run);
        Ok(run)
    }

    /// Writes the next bytes of such a run behind those that have arrived. Only the pages for them are
    /// backed: to back all of a long run at once takes long.
    pub(crate) fn append_to_run(&self, run: u64, arrived: usize, piece: &[u8]) {
        self.back_run(run, arrived as u64, (arrived + piece.len()) as u64);
        self.write_parts(run + arrived as u64, &[piece]);
    }

    /// Its bytes have arrived: it is about to become a record's, or free, and then may begin anew.
    #[cfg(feature = "testing")]
    pub(crate) fn end_run(&self, run: u64) {
        self.begun().retain(|&begun| begun != run);
    }

    #[cfg(feature = "testing")]
    fn begun(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Passes the runs whose bytes are arriving to `f`.
    #[cfg(feature = "testing")]
    pub(crate) fn each_begun(&self, f: impl FnMut(&u64)) {
        self.begun().iter().for_each(f);
    }

    /// The first bytes of a run that only the caller writes to.
    pub(crate) fn written(&self, run: u64, bytes: usize) -> &[u8] {
        // SAFETY: the caller owns it, and writes behind these bytes only (L5).
        unsafe { self.region.bytes(run, bytes) }
    }

    pub(crate) fn write_parts(&self, mut offset: u64, parts: &[&[u8]]) {
        for part in parts {
            // SAFETY: behind what is published of the run (L5), by its only writer: the holder of its slot's
            // lock, or the assembly that has it before anything of it is published.
            unsafe { self.region.bytes_mut(offset, part.len()) }.copy_from_slice(part);
            offset += part.len() as u64;
        }
    }
}

/// Walks the records of one segment. Outside values are not read: they appear empty.
pub(crate) struct SegmentRecords<'l> {
    log: &'l Log,
    offset: u64,
    end: u64,
}

impl<'l> Iterator for SegmentRecords<'l> {
    type Item = (Address, Record<'l>);

    fn next(&mut self) -> Option<(Address, Record<'l>)> {
        if self.offset >= self.end {
            return None;
        }
        // SAFETY: a closed segment holds records without gaps up to its end (L2, L3). The walker has
        // exclusive access, and releases it after the walk.
        let shape = Shape::read(unsafe { self.log.region.bytes(self.offset, 12) });
        // SAFETY: as above. An outside value may be gone already, if its entry did not wait for the walk: it
        // is not read here.
        let bytes = unsafe { self.log.region.bytes(self.offset, shape.total_bytes()) };
        let record = Record::of_shape(bytes, shape, &[]);
        let address = Address::from_offset(self.offset);
        self.offset += bytes.len() as u64;
        Some((address, record))
    }
}

/// A record of the batch being replayed.
#[derive(Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) slot: Slot,
    pub(crate) hash: KeyHash,
}

/// Appends records to its own segment: a side log. One per worker and per replay slot.
///
/// `Send`, not `Sync`. Dropping it leaves its segment to the cleaner.
pub struct LogHead {
    log: Arc<Log>,
    /// The open segment; meaningless while `end` is 0.
    segment: u64,
    /// The next record's place, and the segment's end.
    offset: u64,
    end: u64,
    /// No record in the open segment has an earlier deadline.
    earliest: WallMs,
    /// Pieces taken ahead for the next records, in reverse order; empty between two calls.
    prepared: Vec<u64>,
    /// The segments filled since records are [held back](Self::hold_back), each with its bytes; none while
    /// they are published one by one.
    filled: Option<Vec<(u64, u64)>>,
    /// How many bytes the latest write that found no memory would have taken; 0 once that was asked for.
    refused_bytes: usize,
    /// Where new entries were made, while they [are noted](Self::note_new_entries).
    new_entries: Option<Vec<Position>>,
    /// The batch being replayed, kept for its allocation.
    pub(crate) replay: Vec<Incoming>,
    /// What goes to the durable log, if there is one, and this is no cleaner's head.
    logging: Option<Logging>,
    _not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl LogHead {
    /// A head whose records go to the durable log too, if there is one.
    pub(crate) fn new(log: Arc<Log>) -> LogHead {
        let logging = log.commits.as_ref().map(Logging::new);
        let mut head = LogHead::unlogged(log);
        head.logging = logging;
        head
    }

    /// A head for records that the durable log has already.
    pub(crate) fn unlogged(log: Arc<Log>) -> LogHead {
        LogHead {
            log,
            segment: 0,
            offset: 0,
            end: 0,
            earliest: NEVER,
            prepared: Vec::new(),
            filled: None,
            refused_bytes: 0,
            new_entries: None,
            replay: Vec::new(),
            logging: None,
            _not_sync: std::marker::PhantomData,
        }
    }

    /// Whether the head belongs to this log; another store's head is a programming error.
    #[inline]
    pub(crate) fn belongs_to(&self, log: &Arc<Log>) -> bool {
        Arc::ptr_eq(&self.log, log)
    }

    /// Whether a record of so many bytes shares a segment.
    pub(crate) fn is_ordinary(&self, bytes: usize) -> bool {
        bytes as u64 <= self.log.segments.largest_ordinary()
    }

    /// Appends a record; the caller publishes or buries it before the next one (L3), or
    /// [holds back](Self::hold_back).
    #[inline(always)]
    pub(crate) fn append(&mut self, draft: &Draft<'_>, purpose: Purpose) -> Result<Address, OutOfMemory> {
        let shape = draft.shape();
        let total = shape.total_bytes();
        let offset = self.reserve(total, purpose)?;
        // SAFETY: `reserve` gives each byte to one record only, and nothing reads it before it is published
        // (L2).
        let bytes = unsafe { self.log.region.bytes_mut(offset, total) };
        draft.write(shape, bytes);
        if let Some(logging) = &mut self.logging
            && !draft.is_absence()
        {
            logging.add(bytes);
        }
        if let Some(deadline) = draft.expires_at {
            self.earliest = self.earliest.min(deadline);
        }
        Ok(Address::from_offset(offset))
    }

    /// Appends a copy of a record; the caller publishes or buries it before the next one (L3).
    #[inline]
    pub(crate) fn append_copy(&mut self, record: &[u8], purpose: Purpose) -> Result<Address, OutOfMemory> {
        let offset = self.reserve(record.len(), purpose)?;
        // SAFETY: as in `append`.
        unsafe { self.log.region.bytes_mut(offset, record.len()) }.copy_from_slice(record);
        if let Some(logging) = &mut self.logging {
            logging.add(record);
        }
        if let Some(deadline) = Record::trusted(record).expires_at() {
            self.earliest = self.earliest.min(deadline);
        }
        Ok(Address::from_offset(offset))
    }

    /// Appends a record with an outside value; the caller publishes it before the next one (L3).
    pub(crate) fn append_outside(&mut self, draft: &OutsideDraft<'_>) -> Result<Address, OutOfMemory> {
        let shape = draft.shape();
        let total = shape.total_bytes();
        let offset = self.reserve(total, Purpose::Value)?;
        // SAFETY: as in `append`.
        draft.write(shape, unsafe { self.log.region.bytes_mut(offset, total) });
        if let Some(logging) = &mut self.logging {
            // SAFETY: the caller owns the run's value up to here (L5), and the record was just written.
            let record = unsafe { self.log.record_of(offset, shape) };
            if !logging.is_over {
                record.pack(&mut logging.change);
            }
        }
        if let Some(deadline) = draft.expires_at {
            self.earliest = self.earliest.min(deadline);
        }
        Ok(Address::from_offset(offset))
    }

    /// Notes for the durable log what has no record in this one: `write` appends it, if there is a durable
    /// log.
    #[inline]
    pub(crate) fn note(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(logging) = self.logging.as_mut().filter(|logging| !logging.is_over) {
            write(&mut logging.change);
        }
    }

    /// The next record counts in the durable log as if it had another version: the one that `order` gives, if
    /// there is a durable log.
    #[inline]
    pub(crate) fn note_order(&mut self, order: impl FnOnce() -> Version) {
        self.note(|log| Draft::order(order()).append_to(log));
    }

    /// The change under way is whole, and is about to be published in these slots, which the caller has
    /// locked (U1). While records are [held back](Self::hold_back) it is not.
    #[inline]
    pub(crate) fn log_change(&mut self, slots: impl Iterator<Item = Slot>) {
        if self.logging.is_some() && self.filled.is_none() {
            self.log_whole_change(slots);
        }
    }

    /// The same, of records that are held back (U2). What is written before they are
    /// [published](Self::all_published) is part of the change, and was noted.
    #[cold]
    pub(crate) fn log_whole_change(&mut self, slots: impl Iterator<Item = Slot>) {
        if let (Some(logging), Some(commits)) = (&mut self.logging, &self.log.commits) {
            if !logging.change.is_empty() && !logging.is_late() {
                let later = logging.split(self.filled.is_some());
                commits.enter(&logging.buffer, &mut logging.change, slots);
                if !later.is_empty() {
                    logging.change = later;
                }
            }
            logging.is_over = self.filled.is_some();
        }
    }

    /// Takes the segments for records of these sizes: all, or none if fewer than `beside` bytes were left.
    pub(crate) fn prepare(
        &mut self,
        purpose: Purpose,
        sizes: impl Iterator<Item = usize> + Clone,
        beside: u64,
    ) -> Result<(), OutOfMemory> {
        assert!(self.prepared.is_empty(), "earlier prepared pieces were used");
        let taken = self.take_all(purpose, sizes.clone().map(|bytes| bytes as u64));
        if taken.is_err() || self.log.segments.available(purpose) < beside {
            self.prepared.drain(..).for_each(|piece| self.log.segments.give_back(piece));
            self.note_refused(sizes.sum());
            return Err(OutOfMemory);
        }
        self.prepared.reverse();
        Ok(())
    }

    /// A write of so many bytes found no memory.
    #[cold]
    pub(crate) fn note_refused(&mut self, bytes: usize) {
        self.refused_bytes = bytes;
    }

    /// How many bytes the latest write that found no memory would have taken, without what the index needs; 0
    /// if that was asked for before.
    pub fn take_refused_bytes(&mut self) -> usize {
        std::mem::take(&mut self.refused_bytes)
    }

    /// From now on new entries are noted.
    pub fn note_new_entries(&mut self) {
        self.new_entries = Some(Vec::new());
    }

    /// The positions of new entries since noting began, once for each entry; ends the noting.
    pub fn take_new_entries(&mut self) -> Vec<Position> {
        self.new_entries.take().unwrap_or_default()
    }

    /// A record of this head made a new entry.
    #[inline]
    pub(crate) fn made_entry(&mut self, position: Position) {
        if let Some(new) = &mut self.new_entries {
            new.push(position);
        }
    }

    /// From now on records are not published one by one: filled segments stay open until all are published
    /// (L3).
    pub(crate) fn hold_back(&mut self) {
        assert!(self.filled.is_none(), "earlier records held back were published");
        self.filled = Some(Vec::new());
    }

    /// All records held back are published.
    pub(crate) fn all_published(&mut self) {
        self.logging.iter_mut().for_each(|logging| logging.is_over = false);
        for (number, used) in self.filled.take().into_iter().flatten() {
            self.log.close_segment(number, used);
        }
    }

    /// Takes segments for records of these sizes, as many as there are.
    fn take_all(&mut self, purpose: Purpose, sizes: impl Iterator<Item = u64>) -> Result<(), OutOfMemory> {
        let mut room = self.end - self.offset;
        for bytes in sizes {
            if bytes > self.log.segments.largest_ordinary() {
                self.prepared.push(self.log.allocate_run(bytes, bytes, purpose)?);
            } else if bytes <= room {
                room -= bytes;
            } else {
                self.prepared.push(self.log.allocate(purpose)?);
                room = self.log.segments.segment_bytes() - SEGMENT_START - bytes;
            }
        }
        Ok(())
    }

    #[inline]
    fn reserve(&mut self, bytes: usize, purpose: Purpose) -> Result<u64, OutOfMemory> {
        let bytes = bytes as u64;
        if self.offset + bytes > self.end || bytes > self.log.segments.largest_ordinary() {
            return self.reserve_cold(bytes, purpose);
        }
        let offset = self.offset;
        self.offset += bytes;
        Ok(offset)
    }

    #[cold]
    fn reserve_cold(&mut self, bytes: u64, purpose: Purpose) -> Result<u64, OutOfMemory> {
        let is_ordinary = bytes <= self.log.segments.largest_ordinary();
        let allocated = match self.prepared.pop() {
            Some(piece) => Ok(piece),
            None if is_ordinary => self.log.allocate(purpose),
            None => self.log.allocate_run(bytes, bytes, purpose),
        };
        let start = allocated.inspect_err(|_| {
            self.note_refused(bytes as usize);
            // What was noted for this record.
            self.note(Vec::clear);
        })?;
        if !is_ordinary {
            return Ok(start);
        }
        self.close();
        self.segment = start >> self.log.segment_shift;
        self.offset = start + SEGMENT_START + bytes;
        self.end = start + self.log.segments.segment_bytes();
        Ok(start + SEGMENT_START)
    }

    /// Leaves the open segment to the cleaner.
    pub(crate) fn close(&mut self) {
        if self.end != 0 {
            let used = self.offset - (self.segment << self.log.segment_shift);
            let segments = &self.log.segments;
            let segment = segments.at(self.segment);
            segment.add_dead(SEGMENT_START);
            if let Some((offset, bytes)) = segments.tail(self.segment, used) {
                self.log.chill(offset, bytes);
                segments.cut_off(self.segment, bytes);
            }
            segment.set_earliest(std::mem::replace(&mut self.earliest, NEVER));
            match &mut self.filled {
                Some(filled) => filled.push((self.segment, used)),
                None => self.log.close_segment(self.segment, used),
            }
            (self.offset, self.end) = (0, 0);
        }
    }

    /// The number of the open segment.
    pub(crate) fn open_segment(&self) -> Option<u64> {
        (self.end != 0).then_some(self.segment)
    }
}

impl Drop for LogHead {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for LogHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHead").field("open_segment", &self.open_segment()).finish_non_exhaustive()
    }
}
