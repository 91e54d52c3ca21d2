//! Appending to a value in time proportional to the appended bytes, and changing its deadline in constant
//! time.
//!
//! A record never changes, and a reader without a lock sees it whole. So a growing value is outside of its
//! record, in its own run of pages. Appended bytes are written behind what any record covers. Then a record
//! with the new length, the continued checksum and a new version takes the entry: that one store is the
//! write. The previous record is dead, except for its value, which begins the new one.
//!
//! A run has addresses, not memory, for its value to double, and takes free ones behind it. Without free ones
//! the value is copied to another run: over all, each byte a constant number of times. Short values are
//! copied each time: a page of their own would be too much.
//!
//! The cleaner moves the record and leaves the value in place. A value that is set is inside of its record
//! again. So is one that is changed before its end, since a reader without a lock may be reading it.

use crate::bucket::{EntryKind, Word};
use crate::config::OutOfMemory;
use crate::hidden::Hidden;
use crate::interest::Touch;
use crate::large::publish::{self, LargePut};
use crate::log::LogHead;
use crate::record::{Draft, OutsideDraft, Record};
use crate::slot_table::{Counted, Place};
use crate::writer::{SlotGuard, counted};
use sidle_outline::Outline;
use sidle_types::{HashedKey, ValueKind, Version, WallMs};

/// Shorter values are copied when appended to. A run's last page is half empty on average: at most a
/// sixteenth of an outside value.
const OUTSIDE_FROM_BYTES: usize = 32 << 10;

impl SlotGuard<'_> {
    /// Appends `added`, parts to join, to a key's value; the deadline stays. Returns the new version.
    ///
    /// Once the value is longer than some tens of kilobytes, the time is amortised proportional to what is
    /// appended.
    ///
    /// # Panics
    /// When the key has no string, or the new one is longer than the limit.
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
        assert!(old.kind() == ValueKind::String, "only strings grow");
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
            self.write(
                head,
                key,
                &Draft::value(key.bytes(), ValueKind::String, &parts, version, old.expires_at()),
            )?;
            return Ok(version);
        }
        draft.run = self.write_longer(old, bytes, added).inspect_err(|_| head.note_refused(bytes))?;
        let crc = if old.run().is_some() { old.value_crc() } else { crc32c::crc32c(old.value()) };
        draft.value_crc = added.iter().fold(crc, |crc, part| crc32c::crc32c_append(crc, part));
        let written = self.write_outside_record(head, key, (place, word), old, &draft);
        if written.is_err() && old.run() != Some(draft.run) {
            self.data().log.forget_outside(draft.run);
        }
        written
    }

    /// Makes this state of a large collection the key's value, with a deadline or none; returns the new
    /// version. Takes time for what was changed of it. The outline is a new collection, or was made from that
    /// of the key's value, or of another key of this slot, under this lock; the other key has to be removed
    /// under the same lock.
    ///
    /// # Panics
    /// When the outline is empty, or was made from a state that is no longer the collection's.
    pub fn put_large(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<Version, OutOfMemory> {
        self.check(head, key);
        publish::put(self, head, LargePut::new(self, key, kind, outline, expires_at, true))
    }

    /// The outline of a [large](Record::is_large) value that was found under this lock.
    pub fn outline(&self, record: Record<'_>) -> Outline {
        self.data().outline_of(record).expect("K1: the lock is held")
    }

    /// Sets or removes a value's deadline; returns the new version. Of a value outside of its record, and of
    /// a large collection, only the record is rewritten.
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
        if old.is_large() {
            return publish::set_deadline(self, head, key, old, expires_at);
        }
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
        self.write(head, key, &Draft::value(key.bytes(), old.kind(), &[old.value()], version, expires_at))?;
        Ok(version)
    }

    /// Writes a record for an outside value, and replaces the key's value with it.
    fn write_outside_record(
        &self,
        head: &mut LogHead,
        key: HashedKey<'_>,
        (place, word): (Place<'_>, Word<'_>),
        old: Record<'_>,
        draft: &OutsideDraft<'_>,
    ) -> Result<Version, OutOfMemory> {
        let address = head.append_outside(draft)?;
        head.log_change(std::iter::once(self.slot()));
        self.touch(|| key.position(), Touch::Put);
        let kind = EntryKind { is_tombstone: false, has_deadline: draft.expires_at.is_some() };
        self.table().raise_version(draft.version.0);
        if let Some(deadline) = draft.expires_at {
            self.table().note_deadline(deadline);
        }
        let now =
            Counted { kind, hidden: Hidden::No, bytes: draft.shape().total_bytes() + draft.value_bytes };
        place.bucket.store(place.index, Word::new(address, key.hash().0, place.level, kind));
        self.count(key.hash(), Some(counted(word, old)), Some(now));
        if old.run() == Some(draft.run) {
            self.data().log.bury_in_log(word, old)
        } else {
            self.data().log.bury(word, old)
        }
        Ok(draft.version)
    }

    /// Puts the value with the appended bytes into a run; returns the run.
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
