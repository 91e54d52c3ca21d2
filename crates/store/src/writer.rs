//! Writing: the lock of a slot, and the changes under it.

use crate::address::Address;
use crate::bucket::{EntryKind, Word};
use crate::config::OutOfMemory;
use crate::data::{Data, Entry, Guard};
use crate::epoch::Pinned;
use crate::hidden::Hidden;
use crate::interest::Touch;
use crate::log::LogHead;
use crate::pending_tombstones::Large;
use crate::record::{Draft, Record};
use crate::segment::Purpose;
use crate::slot_table::{Counted, Place, SlotTable};
use sidle_outline::Chunks;
use sidle_types::{HashedKey, KeyHash, Position, Slot, ValueKind, Version, WallMs, fault};
use std::cell::Cell;

/// What a removal leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing: the key is absent and its memory is free.
    Nothing,
    /// A tombstone, even without an entry: replay must not restore the key.
    Tombstone,
}

/// The lock of one slot. Held for one command only; dropping it unlocks.
#[derive(Debug)]
pub struct SlotGuard<'s> {
    guard: Guard<'s>,
    slot: Slot,
    /// The deadline of the last value that another one replaced, if it had one.
    replaced_deadline: Cell<Option<WallMs>>,
}

impl<'s> SlotGuard<'s> {
    /// Locks a slot without helping the cleaner.
    #[inline(always)]
    pub(crate) fn lock(data: &'s Data, slot: Slot) -> SlotGuard<'s> {
        let guard = data.pin();
        data.index.slot(slot).lock.acquire();
        SlotGuard { guard, slot, replaced_deadline: Cell::new(None) }
    }

    /// The slot that is locked.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Takes the deadline of a value that another one replaced since the last call, if it had one: it has not
    /// been counted as expired. A removal counts for itself.
    #[inline]
    pub fn take_replaced_deadline(&self) -> Option<WallMs> {
        self.replaced_deadline.take()
    }

    pub(crate) fn data(&self) -> &'s Data {
        self.guard.data
    }

    #[inline]
    pub(crate) fn table(&self) -> &'s SlotTable {
        self.guard.data.index.slot(self.slot)
    }

    #[inline]
    pub(crate) fn pinned(&self) -> Pinned<'_> {
        self.guard.pinned()
    }

    #[inline]
    pub(crate) fn check(&self, head: &LogHead, key: HashedKey<'_>) {
        assert!(key.slot() == self.slot, "the key lies in slot {}, not {}", key.slot(), self.slot);
        assert!(head.belongs_to(&self.guard.data.log), "the head belongs to another store");
    }

    /// The entry of a key of this slot.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>) -> Entry<'_> {
        debug_assert_eq!(key.slot(), self.slot);
        self.guard.data.look_up(key, self.pinned())
    }

    /// The key's entry, tombstones included.
    #[inline]
    pub(crate) fn find(&self, key: HashedKey<'_>) -> Option<(Place<'_>, Word<'_>)> {
        self.find_hashed(key.hash(), key.bytes())
    }

    /// The entry of a key of this slot, tombstones included.
    #[inline]
    pub(crate) fn find_hashed(&self, hash: KeyHash, key: &[u8]) -> Option<(Place<'_>, Word<'_>)> {
        let (data, pin) = (self.guard.data, self.pinned());
        self.table().find(hash.0, pin, |word| data.log.shape_with_key(word.address(), key, pin).is_some())
    }

    /// Sets a key's value to a string, `value` being the parts to join, and its deadline or none; returns the
    /// new version.
    ///
    /// The parts may be in the store itself when they were found through a [`Guard`] of this thread.
    #[inline]
    pub fn put(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<Version, OutOfMemory> {
        self.put_typed(head, key, ValueKind::String, value, expires_at)
    }

    /// As [`put`](Self::put), for a value of any type.
    #[inline]
    pub fn put_typed(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<Version, OutOfMemory> {
        self.check(head, key);
        let version = self.next_version();
        let draft = Draft::value(key.bytes(), kind, value, version, expires_at);
        self.write(head, key, &draft)?;
        Ok(version)
    }

    /// Removes a key; whether it had a value.
    ///
    /// Removing an existing entry cannot fail. Leaving nothing takes no memory. A tombstone is written like a
    /// value. Without room for it, the value's own record serves as its tombstone, until the cleaner makes it
    /// small. Only a tombstone for a key without an entry is refused, like a value.
    pub fn remove(&self, head: &mut LogHead, key: HashedKey<'_>, leave: Leave) -> Result<bool, OutOfMemory> {
        self.check(head, key);
        let found = self.find(key);
        self.remove_found(head, key, leave, found)
    }

    /// The deadline of an entry's value, if it has one.
    pub(crate) fn deadline_of(&self, word: Word<'_>) -> Option<WallMs> {
        if word.kind().has_deadline { self.record(word).expires_at() } else { None }
    }

    /// As [`remove`](Self::remove), of the entry that was found for the key.
    #[inline]
    pub(crate) fn remove_found(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        leave: Leave,
        found: Option<(Place<'_>, Word<'_>)>,
    ) -> Result<bool, OutOfMemory> {
        match (leave, found) {
            (Leave::Nothing, None) => {}
            (Leave::Nothing, Some((place, word))) => {
                // The key's versions keep growing if it returns.
                let version = self.next_version();
                self.log_removal(head, key, version);
                self.clear(place, word);
                self.table().raise_version(version.0);
                self.shrink_table();
            }
            (Leave::Tombstone, None) => {
                self.write(head, key, &Draft::tombstone(key.bytes(), self.next_version()))?
            }
            // It already hides what a tombstone would hide.
            (Leave::Tombstone, Some((_, word))) if word.kind().is_tombstone => {}
            (Leave::Tombstone, Some((place, word))) => {
                let draft = Draft::tombstone(key.bytes(), self.record(word).version());
                head.note_order(|| self.given_version());
                if self.write(head, key, &draft).is_err() {
                    self.log_removal(head, key, self.given_version());
                    self.strike_out(key.hash(), place, word);
                }
            }
        }
        Ok(found.is_some_and(|(_, word)| !word.kind().is_tombstone))
    }

    /// Notes for the durable log that a key is about to lose its value.
    fn log_removal(&self, head: &mut LogHead, key: HashedKey<'_>, version: Version) {
        if fault!(RemovalNotLogged) {
            return;
        }
        head.note(|log| Draft::tombstone(key.bytes(), version).append_to(log));
        head.log_change(std::iter::once(self.slot));
    }

    /// Notes that another node reported a key without an entry here as absent. That reads as a tombstone of
    /// version 0 until the cleaner visits it and drops it. A dropped mark costs one more question, and memory
    /// must not fill up with absent keys. A key that has an entry keeps it.
    pub fn mark_absent(&self, head: &mut LogHead, key: HashedKey<'_>) -> Result<(), OutOfMemory> {
        self.check(head, key);
        if self.find(key).is_some() {
            return Ok(());
        }
        self.write(head, key, &Draft::tombstone(key.bytes(), Version(0)))
    }

    /// The version that a record gets here which another node wrote with this one. For a durable log it is
    /// one that nothing else in the slot has: the record may have been here before, with the same version.
    #[inline]
    pub(crate) fn version_of_arrival(&self, version: Version) -> Version {
        if self.guard.data.log.commits.is_none() {
            return version;
        }
        self.table().raise_version(version.0);
        self.given_version()
    }

    /// A version that nothing else in this slot has.
    pub(crate) fn given_version(&self) -> Version {
        let version = self.next_version();
        self.table().raise_version(version.0);
        version
    }

    pub(crate) fn next_version(&self) -> Version {
        Version(self.table().version() + 1)
    }

    /// Appends the record and makes it the key's entry.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        draft: &Draft<'_>,
    ) -> Result<(), OutOfMemory> {
        self.admit(|| self.find(key).is_some())?;
        let address = head.append(draft, Purpose::Value)?;
        head.log_change(std::iter::once(self.slot));
        if self.publish(key, draft, address) {
            head.made_entry(key.position());
        }
        Ok(())
    }

    /// Whether the index allows the write: while it uses the cleaner's reserve, only existing keys may be
    /// written.
    #[inline]
    pub(crate) fn admit(&self, has_entry: impl FnOnce() -> bool) -> Result<(), OutOfMemory> {
        match self.guard.data.log.segments.is_overdrawn() && !has_entry() {
            true => Err(OutOfMemory),
            false => Ok(()),
        }
    }

    /// Makes the record at this address the entry of a key without one.
    pub(crate) fn enter(&self, hash: KeyHash, record: Record<'_>, address: Address) {
        let kind = EntryKind { is_tombstone: false, has_deadline: record.expires_at().is_some() };
        self.table().raise_version(record.version().0);
        if let Some(deadline) = record.expires_at() {
            self.table().note_deadline(deadline);
        }
        let hidden = Hidden::of(record.kind());
        self.insert(hash.0, address, Counted { kind, hidden, bytes: record.in_log().len() });
    }

    /// Makes a record that was just appended the key's entry; whether it is new.
    #[inline(always)]
    pub(crate) fn publish(&self, key: HashedKey<'_>, draft: &Draft<'_>, address: Address) -> bool {
        let kind = EntryKind { is_tombstone: draft.is_tombstone(), has_deadline: draft.expires_at.is_some() };
        let added = Counted { kind, hidden: draft.hidden(), bytes: draft.shape().total_bytes() };
        self.table().raise_version(draft.version.0);
        if let Some(deadline) = draft.expires_at {
            self.table().note_deadline(deadline);
        }
        if draft.is_absence() {
            self.guard.data.log.note_spare(address, self.guard.data.log.record(address, self.pinned()));
        }
        if !draft.is_tombstone() {
            self.touch(|| key.position(), Touch::Put);
        }
        match self.find(key) {
            Some((place, old)) => {
                if draft.is_tombstone() && !old.kind().is_tombstone {
                    self.touch(|| key.position(), Touch::Removed);
                }
                let record = self.record(old);
                let removed = counted(old, record);
                if old.kind().has_deadline && !draft.is_tombstone() {
                    self.replaced_deadline.set(record.expires_at());
                }
                place.bucket.store(place.index, Word::new(address, key.hash().0, place.level, kind));
                self.count(key.hash(), Some(removed), Some(added));
                self.doom(old, record);
                self.guard.data.log.bury(old, record);
                false
            }
            None => {
                self.insert(key.hash().0, address, added);
                true
            }
        }
    }

    /// Makes index room for so many keys, if the slot has none yet.
    pub(crate) fn reserve(&self, keys: usize) {
        self.table().reserve(keys, &self.guard.data.index_memory());
    }

    /// Adds the entry of a key that has none.
    pub(crate) fn insert(&self, hash: u64, address: Address, added: Counted) {
        let (data, pin) = (self.guard.data, self.pinned());
        if self.table().entries() == 0 {
            data.index.occupancy.fill(self.slot);
        }
        self.table().insert(
            hash,
            |level| Word::new(address, hash, level, added.kind),
            pin,
            &data.index_memory(),
            |word| data.hash_of(word, pin),
        );
        self.count(KeyHash(hash), None, Some(added));
    }

    /// Counts an entry removed, added or replaced.
    #[inline]
    pub(crate) fn count(&self, hash: KeyHash, removed: Option<Counted>, added: Option<Counted>) {
        self.table().count(removed, added);
        let has_locks =
            |counted: Option<Counted>| counted.is_some_and(|counted| counted.hidden == Hidden::Locks);
        if has_locks(removed) != has_locks(added) {
            self.guard.data.beside.count(Position::new(self.slot, hash), has_locks(added));
        }
    }

    #[inline]
    pub(crate) fn record(&self, word: Word<'_>) -> Record<'_> {
        self.guard.data.log.record(word.address(), self.pinned())
    }

    /// Removes an entry.
    pub(crate) fn clear(&self, place: Place<'_>, word: Word<'_>) {
        let record = self.record(word);
        if !word.kind().is_tombstone {
            self.touch(|| record.position(), Touch::Removed);
        }
        place.bucket.clear(place.index);
        self.count(record.hashed_key().hash(), Some(counted(word, record)), None);
        if self.table().entries() == 0 {
            self.guard.data.index.occupancy.empty(self.slot);
        }
        self.doom(word, record);
        self.guard.data.log.bury(word, record);
    }

    /// What this entry named is no longer its key's value. A large collection without a key is doomed, in
    /// constant time.
    #[inline]
    fn doom(&self, word: Word<'_>, record: Record<'_>) {
        if record.is_large() && !word.kind().is_tombstone {
            let id = record.collection().expect("a head names its collection");
            let doomed = self.guard.data.collections.doom(id, word.address());
            self.table().count_bytes(-(doomed.unwrap_or(0) as i64));
        }
    }

    /// Turns a value's entry into a tombstone; the record stays where it is.
    #[cold]
    pub(crate) fn strike_out(&self, hash: KeyHash, place: Place<'_>, word: Word<'_>) {
        let (data, record, struck_out) = (self.guard.data, self.record(word), word.struck_out());
        self.touch(|| record.position(), Touch::Removed);
        data.log.note_spare(word.address(), record);
        place.bucket.store(place.index, struck_out);
        self.count(hash, Some(counted(word, record)), Some(counted(struck_out, record)));
        self.doom(word, record);
        if data.log.is_large(word.address()) || record.run().is_some() {
            data.pending_tombstones.add(Large { slot: self.slot(), hash, address: word.address() });
        }
    }

    /// Gives a struck-out value its own tombstone, in the cleaner's head. The caller counts the value's
    /// record as dead.
    pub(crate) fn shrink(
        &self,
        head: &mut LogHead,
        place: Place<'_>,
        word: Word<'_>,
        record: Record<'_>,
    ) -> Result<(), OutOfMemory> {
        let tombstone = Draft::tombstone(record.key(), record.version());
        let shrunk = word.moved_to(head.append(&tombstone, Purpose::Survivor)?);
        place.bucket.store(place.index, shrunk);
        self.table().count(Some(counted(word, record)), Some(counted(shrunk, self.record(shrunk))));
        Ok(())
    }

    /// Shrinks an oversized table, and frees one without entries; the smallest is kept for the next key.
    /// After removals, without a place of the table in hand. Returns whether anything was done.
    pub(crate) fn shrink_table(&self) -> bool {
        let (data, table, pin) = (self.guard.data, self.table(), self.pinned());
        if table.entries() == 0 {
            let is_large = table.level().is_some_and(|level| level > 0);
            if is_large {
                table.drop_table(&data.index_memory());
            }
            return is_large;
        }
        table.is_to_shrink() && table.shrink(pin, &data.index_memory(), |word| data.hash_of(word, pin))
    }
}

/// An entry's share of its slot's counters.
pub(crate) fn counted(word: Word<'_>, record: Record<'_>) -> Counted {
    let kind = word.kind();
    let hidden = if kind.is_tombstone { Hidden::No } else { Hidden::of(record.kind()) };
    Counted { kind, hidden, bytes: record.live_bytes() }
}

impl Chunks for SlotGuard<'_> {
    /// As that of [`Guard`].
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.guard.bytes_at(address)
    }
}

impl Drop for SlotGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.table().lock.release();
    }
}
