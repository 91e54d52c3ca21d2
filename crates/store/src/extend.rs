//! Adding to the end of a value in time that is in proportion to what is added.
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
//! again.

use crate::bucket::Word;
use crate::config::OutOfMemory;
use crate::log::LogHead;
use crate::record::{Draft, OutsideDraft, Record};
use crate::slot_table::Counted;
use crate::writer::{SlotGuard, counted};
use sidle_types::{HashedKey, Version};

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
        &mut self,
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
        let log = &self.store().log;
        let stays = old.run() == Some(draft.run);
        let address = match head.append_outside(&draft) {
            Ok(address) => address,
            Err(out) => {
                if !stays {
                    log.forget_outside(draft.run);
                }
                return Err(out);
            }
        };
        self.table().raise_version(version.0);
        let kind = word.kind();
        let now = Counted { kind, bytes: draft.shape().total_bytes() + bytes };
        place.bucket.store(place.index, Word::new(address, key.hash().0, place.level, kind));
        self.table().count(Some(counted(word, old)), Some(now));
        if stays {
            log.bury_in_log(word, old)
        } else {
            log.bury(word, old)
        }
        Ok(version)
    }

    /// Has the value with what is added lie in a run; returns which one.
    fn write_longer(&self, old: Record<'_>, bytes: usize, added: &[&[u8]]) -> Result<u64, OutOfMemory> {
        let log = &self.store().log;
        if let Some(run) = old.run()
            && log.extend_outside(run, old.value().len(), bytes, added)?
        {
            return Ok(run);
        }
        let parts: Vec<&[u8]> = std::iter::once(old.value()).chain(added.iter().copied()).collect();
        log.write_outside(bytes, &parts)
    }
}
