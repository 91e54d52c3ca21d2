//! The records of commits that are not known to be synced. If a sync fails they are written again.

use sidle_types::CommitNumber;
use std::collections::VecDeque;

/// The records, in the order of their commits. As long as a file at most, and a commit: a file follows
/// another only when that is synced.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    records: Vec<u8>,
    /// Where each commit's records end.
    ends: VecDeque<(CommitNumber, usize)>,
}

impl Kept {
    /// Where the next commit's records are to be appended.
    pub(crate) fn records(&mut self) -> &mut Vec<u8> {
        &mut self.records
    }

    /// The bytes of all records.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Where the last commit's records end.
    pub(crate) fn end_of_last(&self) -> usize {
        self.ends.back().map_or(0, |(_, end)| *end)
    }

    /// What was appended is this commit's.
    pub(crate) fn end(&mut self, commit: CommitNumber) {
        debug_assert!(self.ends.back().is_none_or(|(last, _)| *last < commit), "commits are in order");
        self.ends.push_back((commit, self.records.len()));
    }

    /// The records from here on.
    pub(crate) fn from(&self, start: usize) -> &[u8] {
        &self.records[start..]
    }

    /// The last commit that has records here.
    pub(crate) fn last(&self) -> Option<CommitNumber> {
        self.ends.back().map(|(commit, _)| *commit)
    }

    /// Everything up to this commit is synced.
    pub(crate) fn synced(&mut self, commit: CommitNumber) {
        let mut synced = 0;
        while let Some(&(_, end)) = self.ends.front().filter(|(number, _)| *number <= commit) {
            synced = end;
            self.ends.pop_front();
        }
        match self.ends.is_empty() {
            true => self.records.clear(),
            false => {
                self.records.drain(..synced);
                self.ends.iter_mut().for_each(|(_, end)| *end -= synced);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_synced_is_let_go_and_the_rest_kept_in_order() {
        let mut kept = Kept::default();
        for number in [3, 4, 7] {
            let start = kept.end_of_last();
            kept.records().extend_from_slice(&[number as u8; 10]);
            kept.end(CommitNumber(number));
            assert_eq!(kept.from(start), [number as u8; 10]);
        }
        kept.synced(CommitNumber(2));
        assert_eq!((kept.last(), kept.bytes()), (Some(CommitNumber(7)), 30));
        kept.synced(CommitNumber(4));
        assert_eq!((kept.last(), kept.from(0)), (Some(CommitNumber(7)), &[7; 10][..]));
        let start = kept.end_of_last();
        kept.records().extend_from_slice(&[9; 5]);
        kept.end(CommitNumber(9));
        assert_eq!(kept.from(start), [9; 5]);
        kept.synced(CommitNumber(9));
        assert_eq!((kept.last(), kept.bytes()), (None, 0));
    }
}
