//! What the durable log knows of the imports of ranges.
//!
//! A node that restarts in the middle of an import goes on with what its log has of the range. So the log has
//! to say how far it is: before anybody is answered, what lies in the range is copies that may be outdated.
//! When all is here, nothing is pulled again. In between, tombstones of the range are needed (M6), so they
//! are recovered as entries.
//!
//! Nobody is answered from a stage before the log is safe up to its note: the note counts as a change of
//! every slot of the range.

use crate::commit::Commits;
use crate::range_key::{key_of, range_of};
use crate::record::{CLEARED_KEY_BYTES, Draft, IMPORT_KEY_BYTES};
use sidle_types::{MigrationId, PositionRange, fault};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far an import is, as the durable log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportStage {
    /// Requests in the range are answered, and its records arrive.
    Serving,
    /// All of it is here, or was flushed.
    Complete,
    /// The migration is over.
    Over,
}

/// A note of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The migration.
    pub id: MigrationId,
    /// What arrives.
    pub range: PositionRange,
    /// How far it is.
    pub stage: ImportStage,
}

impl ImportNote {
    fn key(&self) -> [u8; IMPORT_KEY_BYTES] {
        let mut key = [0; IMPORT_KEY_BYTES];
        key[..CLEARED_KEY_BYTES].copy_from_slice(&key_of(self.range));
        key[CLEARED_KEY_BYTES..IMPORT_KEY_BYTES - 1].copy_from_slice(&self.id.0.to_le_bytes());
        key[IMPORT_KEY_BYTES - 1] = self.stage as u8;
        key
    }

    /// The note with this key; of one that no writer made, some note.
    pub(crate) fn of_key(key: &[u8]) -> ImportNote {
        let id = key[CLEARED_KEY_BYTES..IMPORT_KEY_BYTES - 1].try_into().expect("eight bytes");
        let stage = match key[IMPORT_KEY_BYTES - 1] {
            0 => ImportStage::Serving,
            1 => ImportStage::Complete,
            _ => ImportStage::Over,
        };
        ImportNote { id: MigrationId(u64::from_le_bytes(id)), range: range_of(key), stage }
    }
}

/// Imports that are not over, by migration.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<BTreeMap<MigrationId, ImportNote>>);

impl Imports {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<MigrationId, ImportNote>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a note in; an earlier stage than the known one counts for nothing. Whether it is news.
    pub(crate) fn take(&self, note: ImportNote) -> bool {
        let mut notes = self.notes();
        let is_news = notes.get(&note.id).is_none_or(|known| known.stage < note.stage);
        if is_news {
            notes.insert(note.id, note);
        }
        is_news
    }

    /// Takes a note in, and enters it into the durable log, if it is news; whether it is. An end is none
    /// where nothing was noted.
    pub(crate) fn enter(&self, note: ImportNote, commits: &Commits) -> bool {
        let is_noted = note.stage < ImportStage::Over || self.notes().contains_key(&note.id);
        if !is_noted || !self.take(note) {
            return false;
        }
        self.forget_ended();
        let mut change = Vec::new();
        Draft::import(&note.key()).append_to(&mut change);
        commits.enter_unlocked(&mut change);
        true
    }

    /// Forgets those that are over.
    pub(crate) fn forget_ended(&self) {
        self.notes().retain(|_, note| note.stage < ImportStage::Over);
    }

    /// Whether the durable log still needs the note.
    pub(crate) fn is_current(&self, note: &ImportNote) -> bool {
        self.notes().get(&note.id).is_some_and(|known| known.stage == note.stage)
    }

    pub(crate) fn all(&self) -> Vec<ImportNote> {
        self.notes().values().copied().collect()
    }

    /// The parts of a range where tombstones are not needed.
    pub(crate) fn outside_serving(&self, range: PositionRange) -> Vec<PositionRange> {
        let is_serving =
            |note: &ImportNote| note.stage == ImportStage::Serving && !fault!(RecoveredWithoutTombstones);
        let serving = self.all().into_iter().filter(is_serving);
        serving.fold(vec![range], |left, note| {
            let outside =
                |part: PositionRange| <[_; 2]>::from(part.without(note.range)).into_iter().flatten();
            left.into_iter().flat_map(outside).collect()
        })
    }
}
