//! What the durable log knows of the imports of ranges.
//!
//! A node that restarts in the middle of an import goes on with what its log has of the range. So the log has
//! to say how far it is: before anybody is answered, what lies in the range is copies that may be outdated.
//! When all is here, nothing is pulled again. In between, tombstones of the range are needed (M6), so they
//! are recovered as entries.
//!
//! Of a range that is given bit by bit it says which positions are this node's. At the others lie copies that
//! no command has seen.
//!
//! Only tombstones are recovered that are younger than the note: an earlier stay of the range here may have
//! left removals in the log, and what they removed may have come back elsewhere.
//!
//! Nobody is answered because of a note before the log is safe up to it: the note counts as a change of every
//! slot that it is about.

use crate::commit::Commits;
use crate::range_key::{key_of, range_of};
use crate::record::{CLEARED_KEY_BYTES, Draft, IMPORT_KEY_BYTES};
use sidle_types::{ImportId, Position, PositionRange, Version, fault};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far an import is, as the durable log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportStage {
    /// Of a range that is given bit by bit: requests for what was given are answered.
    Taking,
    /// Requests in the range are answered, and its records arrive.
    Serving,
    /// All of it is here, or was flushed.
    Complete,
    /// The migration is over.
    Over,
}

/// What a log has of an import that is not over: another node may go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedImport {
    /// Which one.
    pub id: ImportId,
    /// How far it is, once it is further than [`ImportStage::Taking`].
    pub stage: Option<ImportStage>,
    /// What was given of it bit by bit, until it is complete.
    pub given: Vec<PositionRange>,
}

impl NotedImport {
    /// What of these parts of its range is more than copies that nobody was answered from.
    pub fn answered_in(&self, parts: &[PositionRange]) -> Vec<PositionRange> {
        if self.stage >= Some(ImportStage::Serving) || fault!(SucceededWithCopies) {
            return parts.to_vec();
        }
        let all = parts.iter().flat_map(|part| self.given.iter().map(move |given| given.intersection(*part)));
        all.flatten().collect()
    }

    /// Whether tombstones hide what is still to arrive (M6).
    pub fn needs_tombstones(&self) -> bool {
        self.stage == Some(ImportStage::Serving) && !fault!(SucceededWithoutTombstones)
    }
}

impl ImportStage {
    fn number(self) -> u8 {
        match self {
            ImportStage::Serving => 0,
            ImportStage::Complete => 1,
            ImportStage::Over => 2,
            ImportStage::Taking => 3,
        }
    }
}

/// A note of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// Which import.
    pub id: ImportId,
    /// What arrives; of a range that is given bit by bit, a part that was given.
    pub range: PositionRange,
    /// How far it is.
    pub stage: ImportStage,
}

impl ImportNote {
    fn key(&self) -> [u8; IMPORT_KEY_BYTES] {
        let mut key = [0; IMPORT_KEY_BYTES];
        key[..CLEARED_KEY_BYTES].copy_from_slice(&key_of(self.range));
        key[CLEARED_KEY_BYTES..IMPORT_KEY_BYTES - 1].copy_from_slice(&self.id.0.to_le_bytes());
        key[IMPORT_KEY_BYTES - 1] = self.stage.number();
        key
    }

    /// The note with this key; of one that no writer made, some note.
    pub(crate) fn of_key(key: &[u8]) -> ImportNote {
        let id = key[CLEARED_KEY_BYTES..IMPORT_KEY_BYTES - 1].try_into().expect("eight bytes");
        let stage = match key[IMPORT_KEY_BYTES - 1] {
            0 => ImportStage::Serving,
            1 => ImportStage::Complete,
            3 => ImportStage::Taking,
            _ => ImportStage::Over,
        };
        ImportNote { id: ImportId(u64::from_le_bytes(id)), range: range_of(key), stage }
    }
}

/// What is known of one import.
#[derive(Debug, Default)]
struct Known {
    /// How far it is, once it is further than taking.
    furthest: Option<ImportNote>,
    /// What is no younger than this was here before it was served.
    since: Version,
    /// What was given of it, joined where it is adjacent: each part's last position by its first.
    given: BTreeMap<Position, Position>,
}

impl Known {
    /// Whether it is news.
    fn take(&mut self, note: ImportNote, since: Version) -> bool {
        let stage = self.furthest.map(|furthest| furthest.stage);
        if note.stage == ImportStage::Taking {
            let is_news = stage < Some(ImportStage::Complete) && !self.was_given(note.range);
            if is_news {
                self.give(note.range);
            }
            return is_news;
        }
        let is_news = stage < Some(note.stage);
        if is_news {
            (self.furthest, self.since) = (Some(note), since);
        }
        if self.furthest.is_some_and(|furthest| furthest.stage >= ImportStage::Complete) {
            self.given.clear();
        }
        is_news
    }

    fn was_given(&self, range: PositionRange) -> bool {
        let before = self.given.range(..=range.first()).next_back();
        before.is_some_and(|(_, &last)| last >= range.last())
    }

    fn give(&mut self, range: PositionRange) {
        let (mut first, mut last) = (range.first(), range.last());
        let before = self.given.range(..=first).next_back().map(|(&first, &last)| (first, last));
        let reaches = |end: &Position| end.next().is_none_or(|next| next >= range.first());
        if let Some((from, to)) = before.filter(|(_, to)| reaches(to)) {
            (first, last) = (from, to.max(last));
        }
        // What begins in it, or right behind it.
        while let Some((&from, &to)) = self.given.range(first..=last.next().unwrap_or(last)).next() {
            self.given.remove(&from);
            last = last.max(to);
        }
        self.given.insert(first, last);
    }

    fn parts(&self) -> impl Iterator<Item = PositionRange> {
        self.given.iter().filter_map(|(&first, &last)| PositionRange::new(first, last))
    }

    fn is_over(&self) -> bool {
        self.furthest.is_some_and(|furthest| furthest.stage == ImportStage::Over)
    }
}

/// Imports that are not over, by migration.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<BTreeMap<ImportId, Known>>);

impl Imports {
    fn known(&self) -> MutexGuard<'_, BTreeMap<ImportId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a note in; an earlier stage than the known one counts for nothing. `since`: what is no younger
    /// was here before. Whether it is news.
    pub(crate) fn take(&self, note: ImportNote, since: Version) -> bool {
        self.known().entry(note.id).or_default().take(note, since)
    }

    /// Takes notes in, and enters those that are news into the durable log, in one change; these. An end is
    /// none where nothing was noted.
    pub(crate) fn enter(&self, notes: &[ImportNote], since: Version, commits: &Commits) -> Vec<ImportNote> {
        let is_news = |note: &ImportNote| {
            let is_noted = note.stage < ImportStage::Over || self.known().contains_key(&note.id);
            is_noted && self.take(*note, since)
        };
        let news: Vec<_> = notes.iter().copied().filter(is_news).collect();
        self.forget_ended();
        if !news.is_empty() {
            let mut change = Vec::new();
            news.iter().for_each(|note| Draft::import(&note.key(), since).append_to(&mut change));
            commits.enter_unlocked(&mut change);
        }
        news
    }

    /// Forgets those that are over.
    pub(crate) fn forget_ended(&self) {
        self.known().retain(|_, known| !known.is_over());
    }

    /// Whether the durable log still needs the note.
    pub(crate) fn is_current(&self, note: &ImportNote) -> bool {
        self.known().get(&note.id).is_some_and(|known| match note.stage {
            ImportStage::Taking => known.was_given(note.range),
            _ => known.furthest.is_some_and(|furthest| furthest.stage == note.stage),
        })
    }

    /// How far each is. One of which parts were given, and no more, has a part as its range.
    pub(crate) fn all(&self) -> Vec<ImportNote> {
        let note = |(&id, known): (&ImportId, &Known)| {
            let taking = || Some(ImportNote { id, range: known.parts().next()?, stage: ImportStage::Taking });
            known.furthest.or_else(taking)
        };
        self.known().iter().filter_map(note).collect()
    }

    /// What is known of one import.
    pub(crate) fn noted(&self, id: ImportId) -> NotedImport {
        let known = self.known();
        let known = known.get(&id);
        let stage = known.and_then(|known| known.furthest).map(|furthest| furthest.stage);
        NotedImport { id, stage, given: known.map_or_else(Vec::new, |known| known.parts().collect()) }
    }

    /// What was given of an import that is not complete.
    pub(crate) fn given(&self, id: ImportId) -> Vec<PositionRange> {
        self.known().get(&id).map_or_else(Vec::new, |known| known.parts().collect())
    }

    /// Ranges that are served, and since which version: older tombstones are not needed there.
    pub(crate) fn serving(&self) -> Vec<(PositionRange, Version)> {
        let is_serving = |note: &ImportNote| note.stage == ImportStage::Serving;
        let serving = |known: &Known| Some((known.furthest.filter(is_serving)?.range, known.since));
        self.known().values().filter_map(serving).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> PositionRange {
        PositionRange::new(Position(first), Position(last)).unwrap()
    }

    fn note(first: u64, last: u64, stage: ImportStage) -> ImportNote {
        ImportNote { id: ImportId(7), range: range(first, last), stage }
    }

    #[test]
    fn a_key_says_what_the_note_says() {
        for stage in [ImportStage::Taking, ImportStage::Serving, ImportStage::Complete, ImportStage::Over] {
            let note = note(3, u64::MAX, stage);
            assert_eq!(ImportNote::of_key(&note.key()), note);
        }
    }

    #[test]
    fn what_was_given_is_joined() {
        let imports = Imports::default();
        let given = |first, last| imports.take(note(first, last, ImportStage::Taking), Version(0));
        assert!(given(10, 19) && given(30, 30) && given(50, u64::MAX));
        assert!(!given(12, 19), "it is known");
        assert!(given(20, 25) && given(31, 49) && given(0, 5) && given(4, 11));
        assert_eq!(imports.given(ImportId(7)), [range(0, 25), range(30, u64::MAX)]);
        for (first, last, is_needed) in [(10, 19, true), (0, 25, true), (20, 30, false), (26, 26, false)] {
            assert_eq!(imports.is_current(&note(first, last, ImportStage::Taking)), is_needed, "{first}");
        }
        assert_eq!(imports.all(), [note(0, 25, ImportStage::Taking)]);
    }

    /// In whatever order they are read.
    #[test]
    fn what_was_given_counts_until_all_is_here() {
        let imports = Imports::default();
        assert!(imports.take(note(10, 19, ImportStage::Taking), Version(0)));
        assert!(imports.take(note(0, 99, ImportStage::Serving), Version(0)));
        assert!(imports.take(note(30, 39, ImportStage::Taking), Version(0)));
        assert_eq!(imports.given(ImportId(7)), [range(10, 19), range(30, 39)]);
        assert!(imports.take(note(0, 99, ImportStage::Complete), Version(0)));
        assert!(!imports.take(note(50, 59, ImportStage::Taking), Version(0)));
        assert_eq!(imports.given(ImportId(7)), []);
        assert_eq!(imports.all(), [note(0, 99, ImportStage::Complete)]);
    }
}
