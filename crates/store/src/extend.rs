//! Adding to the end of a value in time that is in proportion to what is added, and changing its deadline in
//! a time that does not depend on it.
//!
//! A record never changes, and a reader without a lock sees it whole: so a value that grows lies outside of
//! its record, in a run of pages of its own. What is added is written behind what any record covers. Then a
//! record with the new length, the checksum continued and a new version takes the entry: that one store is
//! the write. The record before is dead, but for its value, which is the beginning of the new one.
//!
//! A run has addresses, not memory, for its value to double, and takes those behind it where they are free.
//! When there are none the value is copied to another run: each byte a constant number of times, over all.
//! Short values are copied each time: to them a page of their own would be much.
//!
//! The cleaner moves the record and leaves the value where it is. A value that is set is inside of its record
//! again; so is one that is changed before its end, since a reader without a lock may be looking at it.

use crate::bucket::{EntryKind, Word};
use crate::config::OutOfMemory;
use crate::log::LogHead;
use crate::record::{Draft, OutsideDraft, Record};
use crate::slot_table::{Counted, Place};
use crate::writer::{SlotGuard, counted};
use sidle_types::{HashedKey, Version, WallMs};

/// Values shorter than this are copied when something is added to them. The last page of a run is half empty
/// on average: of what lies outside that is a sixteenth at most.
const OUTSIDE_FROM_BYTES: usize = 32 << 10;

impl SlotGuard<'_> {
    /// Adds to the end of a key's value, `added` being the parts to join; the deadline stays. Returns the new
    /// version.
    ///
    /// The time is in proportion to what is added, over many calls, once the value is longer than some tens
    /// of kilobytes.
    ///
    /// # Panics
    /// When the key has no value, or the new one is longer than the limit.
    pub fn extend(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        added: &[&[u8]],
    ) -> Result<Version, OutOfMemory> {
        self.check(head, key);
        let (place, word) =
            self.find(key).filter(|(_, word)| !word.kind().is_tombstone).expect("a value to extend");
        let old = self.record(word);
        let version = self.next_version();
        let bytes = old.value().len() + added.iter().map(|part| part.len()).sum::<usize>();
        let mut draft = OutsideDraft {
            key: key.bytes(),
            version,
            expires_at: old.expires_at(),
            run: 0,
            value_bytes: bytes,
            value_crc: 0,
        };
        if bytes < OUTSIDE_FROM_BYTES || !head.is_ordinary(draft.shape().total_bytes()) {
            let parts: Vec<&[u8]> = std::iter::once(old.value()).chain(added.iter().copied()).collect();
            self.write(head, key, &Draft::value(key.bytes(), &parts, version, old.expires_at()))?;
            return Ok(version);
        }
        draft.run = self.write_longer(old, bytes, added)?;
        let crc = if old.run().is_some() { old.value_crc() } else { crc32c::crc32c(old.value()) };
        draft.value_crc = added.iter().fold(crc, |crc, part| crc32c::crc32c_append(crc, part));
        let written = self.write_outside_record(head, key, (place, word), old, &draft);
        if written.is_err() && old.run() != Some(draft.run) {
            self.data().log.forget_outside(draft.run);
        }
        written
    }

    /// Gives a key's value another deadline, or none; returns the new version. Where the value lies outside
    /// of its record, only that is written anew.
    ///
    /// # Panics
    /// When the key has no value.
    pub fn set_deadline(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        expires_at: Option<WallMs>,
    ) -> Result<Version, OutOfMemory> {
        self.check(head, key);
        let (place, word) =
            self.find(key).filter(|(_, word)| !word.kind().is_tombstone).expect("a value that may expire");
        let old = self.record(word);
        let version = self.next_version();
        if let Some(run) = old.run() {
            let draft = OutsideDraft {
                key: key.bytes(),
                version,
                expires_at,
                run,
                value_bytes: old.value().len(),
                value_crc: old.value_crc(),
            };
            if head.is_ordinary(draft.shape().total_bytes()) {
                return self.write_outside_record(head, key, (place, word), old, &draft);
            }
        }
        self.write(head, key, &Draft::value(key.bytes(), &[old.value()], version, expires_at))?;
        Ok(version)
    }

    /// Writes a record of a value that lies outside, and has it take the place of the key's value.
    fn write_outside_record(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        (place, word): (Place<'_>, Word<'_>),
        old: Record<'_>,
        draft: &OutsideDraft<'_>,
    ) -> Result<Version, OutOfMemory> {
        let address = head.append_outside(draft)?;
        let kind = EntryKind { is_tombstone: false, has_deadline: draft.expires_at.is_some() };
        self.table().raise_version(draft.version.0);
        if let Some(deadline) = draft.expires_at {
            self.table().note_deadline(deadline);
        }
        let now = Counted { kind, bytes: draft.shape().total_bytes() + draft.value_bytes };
        place.bucket.store(place.index, Word::new(address, key.hash().0, place.level, kind));
        self.table().count(Some(counted(word, old)), Some(now));
        if old.run() == Some(draft.run) {
            self.data().log.bury_in_log(word, old)
        } else {
            self.data().log.bury(word, old)
        }
        Ok(draft.version)
    }

    /// Has the value with what is added lie in a run; returns which one.
    fn write_longer(&self, old: Record<'_>, bytes: usize, added: &[&[u8]]) -> Result<u64, OutOfMemory> {
        let log = &self.data().log;
        if let Some(run) = old.run()
            && log.extend_outside(run, old.value().len(), bytes, added)?
        {
            return Ok(run);
        }
        let parts: Vec<&[u8]> = std::iter::once(old.value()).chain(added.iter().copied()).collect();
        log.write_outside(bytes, &parts)
    }
}
