//! The store itself: the data, and who makes room in it. It has the calls for other crates, except those in
//! [slices](crate::Store::discard) that let writers clean in between.

#[cfg(feature = "testing")]
use crate::audit;
use crate::beside::Beside;
use crate::cleaner::{Cleaner, Cleaning};
use crate::commit::Commits;
use crate::config::{StoreConfig, StoreError};
use crate::data::{Data, Guard};
use crate::expiry::{Expiring, Expiry, ExpirySweep};
use crate::imports::{ImportNote, ImportStage, Imports, NotedImport};
use crate::index::{Index, slots_of};
use crate::interest::Interest;
use crate::large::pack;
use crate::large::patch::{self, Holds, PackedPatch};
use crate::log::{Log, LogHead};
use crate::logged::logged_records;
use crate::pending_tombstones::PendingTombstones;
use crate::record::Record;
use crate::scan::{self, Image, Packed, ScanEnd};
use crate::writer::SlotGuard;
use crate::{current, partition, rebuild, together};
use sidle_types::{HashedKey, ImportId, Position, PositionRange, Slot, ValueKind, Version, WallMs};
use std::sync::{Arc, Mutex};

/// Log-structured memory with a hash index per slot; shared by all threads.
pub struct Store {
    pub(crate) data: Data,
    cleaning: Mutex<Cleaning>,
}

/// The use of memory. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The limit of log and index together.
    pub limit: u64,
    /// The log's memory: segments, except for returned tails, and the pages of large records.
    pub log_used: u64,
    /// Referenced records, chunks of large collections included.
    pub log_live: u64,
    /// The memory of the index, and of the outlines of large collections, beyond its fixed part.
    pub index: u64,
}

impl MemoryUse {
    /// How many bytes of values fit beside those that are there: a tenth of the memory is the cleaner's.
    pub fn room(&self) -> u64 {
        (self.limit / 10 * 9).saturating_sub(self.log_live + self.index)
    }
}

impl Store {
    /// Reserves the memory and makes an empty store.
    pub fn new(config: StoreConfig) -> Result<Store, StoreError> {
        config.validate()?;
        let data = Data {
            log: Arc::new(Log::new(&config)?),
            index: Index::new(),
            pending_tombstones: PendingTombstones::default(),
            interest: Interest::default(),
            collections: Arc::default(),
            imports: Imports::default(),
            beside: Beside::default(),
        };
        Ok(Store { data, cleaning: Mutex::default() })
    }

    /// Whether memory is short: writers clean before they write, and marks of absence make way.
    pub fn is_short(&self) -> bool {
        self.data.log.segments.is_short()
    }

    /// Pins the calling thread: records it finds stay readable until the guard is dropped. Hold it briefly,
    /// for a batch of commands at most: memory is not freed meanwhile. Nests.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.data.pin()
    }

    /// A log head for a worker or a replay slot.
    pub fn log_head(&self) -> LogHead {
        self.data.log_head()
    }

    /// The number of values. Expired ones count until they are removed.
    pub fn len(&self) -> u64 {
        self.data.index.len()
    }

    /// How many of them users do not see when they walk over keys.
    pub fn hidden_len(&self) -> u64 {
        self.data.index.occupied_tables().map(|slot| slot.hidden()).sum()
    }

    /// Whether a slot has values that users do not see.
    #[inline]
    pub fn has_hidden(&self, slot: Slot) -> bool {
        self.data.index.slot(slot).hidden() != 0
    }

    /// Where in this range something is beside keys that transactions have there.
    pub fn positions_with_locks(&self, range: PositionRange) -> Vec<Position> {
        self.data.beside.positions_in(range)
    }

    /// Whether any key has something beside it that transactions have there.
    pub fn has_locks(&self) -> bool {
        self.data.beside.is_any()
    }

    /// How many keys have something beside them that transactions have there.
    pub fn locks_len(&self) -> u64 {
        self.data.beside.len()
    }

    /// Appends what transactions have at keys in this range as a batch; the keys' own values are not in it.
    pub fn pack_locks(&self, range: PositionRange, batch: &mut Vec<u8>) {
        for position in self.positions_with_locks(range) {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let rest = self.visit(position, position, usize::MAX, &mut |record| {
                if record.kind() == ValueKind::Locks {
                    keys.push(record.key().to_vec());
                }
            });
            assert_eq!(rest, None, "without a budget everything is visited");
            keys.iter().for_each(|key| {
                self.pack(HashedKey::new(key), batch);
            });
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.data.index.occupied_tables().all(|slot| slot.live() == 0)
    }

    /// Starts loading the key's slot. In a pipelined batch: this for every key, then
    /// [`Guard::prefetch_bucket`] for every key, then [`Guard::prefetch_record`], then [`Guard::get`]: each
    /// step waits for the loads of the one before.
    #[inline]
    pub fn prefetch_slot(&self, slot: Slot) {
        self.data.index.prefetch(slot);
    }

    /// Forgets a slot's table, and builds it anew from what its records say of themselves. Look-ups in the
    /// slot wait. Returns how many entries there are.
    ///
    /// # Panics
    /// If a record is damaged, or lies in the wrong slot.
    pub fn rebuild(&self, slot: Slot) -> usize {
        rebuild::rebuild(&self.lock_slot(slot))
    }

    /// How many values of a slot users see when they walk over keys.
    pub fn shown_in_slot(&self, slot: Slot) -> u64 {
        let table = self.data.index.slot(slot);
        table.live().saturating_sub(table.hidden())
    }

    /// How many values have a deadline.
    pub fn expiring_len(&self) -> u64 {
        self.data.index.occupied_tables().map(|slot| slot.expiring()).sum()
    }

    /// How many tombstones there are in the slots of the range.
    pub fn tombstones_in(&self, range: PositionRange) -> u64 {
        self.data.index.occupied_in(range).map(|slot| self.data.index.slot(slot).tombstones()).sum()
    }

    /// The highest version given or seen in the slots of the range.
    pub fn highest_version(&self, range: PositionRange) -> Version {
        let highest = slots_of(range).map(|slot| self.data.index.slot(slot).version()).max();
        Version(highest.unwrap_or(0))
    }

    /// From here on, versions given in the slots of the range are higher than `floor`.
    pub fn raise_version_floor(&self, range: PositionRange, floor: Version) {
        for slot in slots_of(range) {
            let table = self.data.index.slot(slot);
            table.lock.acquire();
            table.raise_version(floor.0);
            table.lock.release();
        }
    }

    /// The use of memory.
    pub fn memory(&self) -> MemoryUse {
        let segments = &self.data.log.segments;
        MemoryUse {
            limit: segments.limit_bytes(),
            log_used: segments.taken_bytes(),
            log_live: self.data.index.occupied_tables().map(|slot| slot.bytes()).sum(),
            index: segments.index_bytes(),
        }
    }

    /// The memory of data and index, cheap to read: `log_used` and `index` of [`memory`](Self::memory)
    /// together.
    pub fn used_bytes(&self) -> u64 {
        self.data.log.segments.taken_bytes() + self.data.log.segments.index_bytes()
    }

    /// The pages of the log's free segments, in bytes: the process holds them, and they have nothing.
    pub fn idle_bytes(&self) -> u64 {
        self.data.log.segments.idle_bytes()
    }

    /// What of it [`purge`](Self::purge) would return: not what is kept ready for writes.
    pub fn purgeable_bytes(&self) -> u64 {
        self.data.log.purgeable_bytes()
    }

    /// Returns pages of free segments to the kernel, of about `most_bytes`; whether there may be more.
    /// Segments that are populated ahead of use keep theirs, and so do all if they were taken at the start.
    pub fn purge(&self, most_bytes: u64) -> bool {
        self.data.log.collect();
        let most = most_bytes.div_ceil(self.data.log.segments.segment_bytes());
        (0..most).all(|_| self.data.log.chill_one())
    }

    /// Appends the values from `from` to `last` to `batch`, as in the log, until another position would make
    /// the batch longer than `max_bytes`. Ends between two positions and always makes progress: at least one
    /// position's records are packed, however large. Tombstones are not packed.
    pub fn scan(&self, from: Position, last: Position, max_bytes: usize, batch: &mut Vec<u8>) -> ScanEnd {
        self.scan_to_large(from, last, max_bytes, usize::MAX, batch)
    }

    /// As [`scan`](Self::scan), but ends before a position with more than `large_bytes`.
    pub fn scan_to_large(
        &self,
        from: Position,
        last: Position,
        max_bytes: usize,
        large_bytes: usize,
        batch: &mut Vec<u8>,
    ) -> ScanEnd {
        scan::scan_to_large(&self.data, from, last, max_bytes, large_bytes, batch)
    }

    /// Appends one key's record to `batch`; whether it has a value.
    pub fn pack(&self, key: HashedKey<'_>, batch: &mut Vec<u8>) -> bool {
        self.pack_unless_large(key, usize::MAX, batch) == Packed::Whole
    }

    /// Appends one key's record to `batch`, if it is no larger than `large_bytes`.
    pub fn pack_unless_large(&self, key: HashedKey<'_>, large_bytes: usize, batch: &mut Vec<u8>) -> Packed {
        scan::pack_unless_large(&self.data, key, large_bytes, batch)
    }

    /// Appends at most `most` bytes of a position's records to `batch`, starting at `from`. Returns their
    /// image and their start in it; nothing for an empty position.
    pub fn pack_piece(
        &self,
        position: Position,
        from: impl FnOnce(Image) -> usize,
        most: usize,
        batch: &mut Vec<u8>,
    ) -> Option<(Image, usize)> {
        scan::pack_piece(&self.data, position, from, most, batch)
    }

    /// Appends a part of a patch of a position's large collection to `out`: about `most` bytes, for a node
    /// that holds this of it. None if something else stands there, or a collection with a chunk or a key that
    /// is too long for that.
    pub fn pack_patch(
        &self,
        position: Position,
        holds: Holds,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<PackedPatch> {
        patch::pack_patch(&self.data, position, holds, most, out)
    }

    /// The positions of large collections in the range whose chunks have more than so many bytes, with
    /// these bytes. Looks at some of the store's collections, from a number on; returns from which one to
    /// continue, none at the end. What becomes large meanwhile may be left out.
    pub fn large_collections(
        &self,
        range: PositionRange,
        more_than_bytes: u64,
        (from, looks_at): (u32, u32),
    ) -> (Vec<(Position, u64)>, Option<u32>) {
        pack::large_collections(&self.data, range, more_than_bytes, (from, looks_at))
    }

    /// The length of what stands at a position, packed.
    pub fn packed_bytes_at(&self, position: Position) -> usize {
        scan::packed_bytes_at(&self.data, position)
    }

    /// Passes about `budget` values from `from` to `last` to `f` in the order of positions: fewer where the
    /// table is sparse, more where many share a [stretch](sidle_types::ScanCursor). Returns where to
    /// continue, always the start of a stretch. A value that exists throughout the visits of a range is
    /// visited; no locks are held meanwhile.
    pub fn visit(
        &self,
        from: Position,
        last: Position,
        budget: usize,
        f: &mut dyn FnMut(Record<'_>),
    ) -> Option<Position> {
        scan::visit(&self.data, from, last, budget, f)
    }

    /// Passes the keys of about `budget` tombstones from `from` to `last` to `f`; returns where to continue.
    /// Some may come twice, unless nobody writes meanwhile.
    pub fn visit_tombstones(
        &self,
        from: Position,
        last: Position,
        budget: usize,
        f: &mut dyn FnMut(&[u8]),
    ) -> Option<Position> {
        scan::visit_tombstones(&self.data, from, last, budget, f)
    }

    /// How many values a range has.
    pub fn len_in(&self, range: PositionRange) -> u64 {
        partition::len_in(&self.data, range)
    }

    /// How many of them users see when they walk over keys.
    pub fn shown_in(&self, range: PositionRange) -> u64 {
        self.len_in(range).saturating_sub(partition::hidden_in(&self.data, range))
    }

    /// Log bytes of the records in a range; where the range cuts a slot, in proportion to its positions.
    pub fn bytes_in(&self, range: PositionRange) -> u64 {
        partition::bytes_in(&self.data, range)
    }

    /// Cuts a range into at most `n` parts that tile it, with about equally many values: exact to a bucket.
    pub fn partition(&self, range: PositionRange, n: usize) -> Vec<PositionRange> {
        partition::partition(&self.data, range, n)
    }

    /// The result of `count` for the whole store at one moment. It may be called more than once, and locks
    /// nothing. Costs a check of each slot with entries, before and after. If writes never pause, all slots
    /// are held up once.
    pub fn at_one_moment<T>(&self, count: impl Fn() -> T) -> T {
        together::at_one_moment(&self.data, count)
    }

    /// Removes expired values from `from` on, until about `budget` values with a deadline have been visited.
    /// Slots where nothing can have expired cost a check each.
    pub fn expire(
        &self,
        head: &mut LogHead,
        from: Position,
        now: WallMs,
        budget: usize,
        expiring: &mut dyn Expiring,
    ) -> ExpirySweep {
        Expiry { data: &self.data, head, now, expiring }.expire(from, budget)
    }

    /// Removes the expired values of one closed segment: the oldest that may have any. None if there is no
    /// such segment.
    pub fn expire_segment(
        &self,
        head: &mut LogHead,
        now: WallMs,
        expiring: &mut dyn Expiring,
    ) -> Option<ExpirySweep> {
        Expiry { data: &self.data, head, now, expiring }.expire_segment()
    }

    /// The cleaner, to be stepped by one background thread. A store without one fills up.
    #[inline]
    pub fn cleaner(&self) -> Cleaner<'_> {
        Cleaner::new(&self.data, &self.cleaning)
    }

    /// The commits of the durable log, if there is one.
    pub fn commits(&self) -> Option<&Commits> {
        self.data.log.commits.as_ref()
    }

    /// Judges records of the durable log, about `most` bytes of them, and appends those that are what this
    /// store has for their key, or for their chunk. A record of a removal is not. Returns how many bytes were
    /// judged. For the log writer, before it [takes](Commits::take) the commit that has them again.
    ///
    /// # Panics
    /// If these are no records.
    pub fn survivors_of(&self, records: &[u8], most: usize, into: &mut Vec<u8>) -> usize {
        let mut judged = 0;
        for record in logged_records(records) {
            let record = record.expect("the block's checksum was right");
            if current::is_current(&self.data, &record) {
                into.extend_from_slice(record.bytes());
            }
            judged += record.bytes().len();
            if judged >= most {
                break;
            }
        }
        judged
    }

    /// Cleans until values of this many bytes in all, with their keys, fit; false if it fails. For large
    /// requests: smaller ones find room by themselves. With a guard or a lock it only checks. The result is
    /// no reservation: other writers may take the room.
    pub fn make_room(&self, bytes: usize) -> bool {
        self.cleaner().make_room(bytes)
    }

    /// Whether values of so many bytes fit by now: for a write that was refused while it held a guard, which
    /// prevented cleaning, and that may run again. Cleans unless that is known to be useless.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.cleaner().has_room(bytes)
    }

    /// Notes in the durable log, if there is one, how far an import is. Call it before anybody is answered
    /// because of that: replies about the range then wait for the note.
    pub fn note_import(&self, note: ImportNote) {
        self.note_imports(&[note]);
    }

    /// Notes in the durable log, if there is one, what was given of a range that is given bit by bit, with
    /// its records. Call it before anybody is answered because of that: replies about it then wait.
    pub fn note_given(&self, id: ImportId, given: impl IntoIterator<Item = PositionRange>) {
        if self.commits().is_some() {
            let note = |range| ImportNote { id, range, stage: ImportStage::Taking };
            self.note_imports(&given.into_iter().map(note).collect::<Vec<_>>());
        }
    }

    fn note_imports(&self, notes: &[ImportNote]) {
        let Some(commits) = self.commits() else { return };
        let begins = notes.iter().find(|note| note.stage == ImportStage::Serving);
        let since = begins.map_or(Version(0), |note| {
            // What is removed from here on has a later version.
            let since = self.highest_version(note.range);
            self.raise_version_floor(note.range, since);
            since
        });
        for note in self.data.imports.enter(notes, since, commits) {
            if note.stage < ImportStage::Over {
                slots_of(note.range).for_each(|slot| commits.note_step(self.lock_slot(slot).slot()));
            }
        }
    }

    /// What the durable log knows to have been given of an import that is not complete.
    pub fn noted_as_given(&self, id: ImportId) -> Vec<PositionRange> {
        self.data.imports.given(id)
    }

    /// What the durable log knows of one import.
    pub fn noted_import(&self, id: ImportId) -> NotedImport {
        self.data.imports.noted(id)
    }

    /// Notes, before anybody is answered, that this node goes on with an import of this range as `id`, as far
    /// as another node had come that died.
    pub fn note_succession(&self, id: ImportId, range: PositionRange, noted: &NotedImport) {
        self.note_given(id, noted.given.iter().copied());
        if let Some(stage) = noted.stage {
            self.note_import(ImportNote { id, range, stage });
        }
    }

    /// The imports that the durable log knows, and that are not over.
    pub fn noted_imports(&self) -> Vec<ImportNote> {
        self.data.imports.all()
    }

    /// Locks a slot for writing. Readers continue. Locking a slot twice in one thread waits for ever.
    ///
    /// When memory is short and the calling thread holds no [`Guard`] and no lock, it first helps the
    /// cleaner.
    #[inline]
    pub fn lock_slot(&self, slot: Slot) -> SlotGuard<'_> {
        if self.data.log.segments.is_short() && !self.data.log.epochs.participant().is_pinned() {
            self.cleaner().relieve();
        }
        SlotGuard::lock(&self.data, slot)
    }
}

#[cfg(feature = "testing")]
impl Store {
    /// Passes every entry in the range to `f`: its record, and whether it is a tombstone. Slots are in order,
    /// entries within a slot are not.
    pub fn each_entry(&self, range: PositionRange, f: &mut dyn FnMut(Record<'_>, bool)) {
        audit::each_entry(&self.data, range, f);
    }

    /// Recounts everything and compares; the error names the wrong count.
    pub fn check_accounting(&self) -> Result<(), String> {
        audit::check_accounting(&self.data)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("memory", &self.memory()).finish_non_exhaustive()
    }
}
