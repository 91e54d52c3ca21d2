//! What a log's files have, where it is written.

use sidle_types::CommitNumber;
use sidle_wire::Place;
use std::collections::VecDeque;

/// The files of a log, as far as they are written.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    /// Numbers and bytes, oldest first.
    files: VecDeque<(u64, u64)>,
    /// Where each commit ends that not every copy has, and the one before.
    ends: VecDeque<(CommitNumber, Place)>,
    /// What the log had when this process began: its end, and its first file.
    begun_with: Option<(Place, u64)>,
}

impl OwnFiles {
    /// A log that goes on behind these files, with numbers and lengths.
    pub fn new(files: impl IntoIterator<Item = (u64, u64)>) -> OwnFiles {
        let mut own = OwnFiles { files: files.into_iter().collect(), ..OwnFiles::default() };
        own.begun_with = own.first().map(|first| (own.end(), first));
        own
    }

    /// What the log had when this process began: its end, and its first file.
    pub(crate) fn begun_with(&self) -> Option<(Place, u64)> {
        self.begun_with
    }

    /// Where everything ends that is written.
    pub fn end(&self) -> Place {
        self.files.back().map_or(Place::default(), |&(file, at)| Place { file, at })
    }

    /// The first file, if there is one.
    pub fn first(&self) -> Option<u64> {
        self.files.front().map(|&(file, _)| file)
    }

    /// Everything that is written belongs to this commit, or to earlier ones.
    pub(crate) fn begin_with(&mut self, commit: CommitNumber) {
        self.ends.push_back((commit, self.end()));
    }

    /// What follows a place, if anything is written behind it: where, and how many bytes.
    pub(crate) fn behind(&self, place: Place) -> Option<(Place, u64)> {
        let index = self.files.iter().position(|&(file, _)| file >= place.file)?;
        let (file, bytes) = self.files[index];
        if file == place.file && place.at < bytes {
            return Some((place, bytes - place.at));
        }
        let next = if file == place.file { index + 1 } else { index };
        self.files.get(next).map(|&(file, bytes)| (Place { file, at: 0 }, bytes))
    }

    /// A file was written up to this byte; with the commit that ends there, if one does. Whether the file was
    /// begun again.
    pub(crate) fn written(&mut self, to: Place, commit: Option<CommitNumber>) -> bool {
        let is_again = self.end() >= to;
        if is_again {
            self.files.retain(|&(file, _)| file < to.file);
            self.ends.retain(|&(_, end)| end.file < to.file);
        }
        match self.files.back_mut() {
            Some((file, bytes)) if *file == to.file => *bytes = to.at,
            _ => self.files.push_back((to.file, to.at)),
        }
        // What was given up is written again: an older commit may be the last once more.
        if let Some(commit) = commit {
            while self.ends.back().is_some_and(|&(last, _)| last >= commit) {
                self.ends.pop_back();
            }
            self.ends.push_back((commit, to));
        }
        is_again
    }

    /// No commit behind the last one that ends here, up to this one, has any records: whoever has that one
    /// has this one.
    pub(crate) fn safe_here(&mut self, commit: CommitNumber) {
        if let Some((last, _)) = self.ends.back_mut() {
            *last = commit.max(*last);
        }
    }

    /// The oldest file is gone.
    pub(crate) fn removed(&mut self, file: u64) {
        self.files.retain(|&(other, _)| other > file);
    }

    /// The last commit that ends before this place, or at it; 0 if that is not known any more.
    pub(crate) fn commit_at(&self, place: Place) -> CommitNumber {
        let reached = self.ends.iter().take_while(|&&(_, end)| end <= place);
        reached.last().map_or(CommitNumber(0), |&(commit, _)| commit)
    }

    /// All copies have everything up to this commit. The last end of those is kept: a copy that reaches it
    /// has them, too.
    pub(crate) fn forget_ends(&mut self, up_to: CommitNumber) {
        while self.ends.get(1).is_some_and(|&(commit, _)| commit <= up_to) {
            self.ends.pop_front();
        }
    }
}
