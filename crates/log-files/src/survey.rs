//! All files of a log: whether they are all there, and can be read again.

use crate::block::file_name;
use crate::reader::{FileEnd, FileError};
use sidle_types::{CommitNumber, LogId};

/// What was found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyedFile {
    /// Its number.
    pub number: u64,
    /// Its log.
    pub log: LogId,
    /// The first commit that it may have.
    pub first: CommitNumber,
    /// Its last commit, if it has any.
    pub last: Option<CommitNumber>,
    /// How its blocks end.
    pub end: FileEnd,
}

/// A log that cannot be read as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A file does not belong here.
    #[error("{}: {error}", file_name(*.file))]
    File {
        /// The file.
        file: u64,
        /// Why not.
        error: FileError,
    },
    /// A file is not there.
    #[error("{} is missing", file_name(*.0))]
    Missing(u64),
    /// The record of the files does not check.
    #[error("`files`, the record of which files there are, is damaged")]
    FileSet,
    /// Synced bytes do not check.
    #[error(
        "{} is damaged at byte {at}: commits up to {synced} were safe on the disk, and those behind commit {last} \
         cannot be read",
        file_name(*.file)
    )]
    Bytes {
        /// The file.
        file: u64,
        /// Where.
        at: usize,
        /// The last commit before.
        last: u64,
        /// The last that was synced.
        synced: u64,
    },
    /// A file that is not the last ends before the next one begins.
    #[error("{} ends early: it was closed before the next one was begun", file_name(*.0))]
    CutShort(u64),
}

/// What a log's files have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The log; none without files.
    pub log: Option<LogId>,
    /// The last commit.
    pub last: CommitNumber,
    /// Where the last file's torn end starts, if it has one.
    pub torn_at: Option<usize>,
}

/// Judges files in the order of their numbers.
pub fn survey(files: &[SurveyedFile]) -> Result<Survey, Damage> {
    let mut survey = Survey::default();
    for (index, file) in files.iter().enumerate() {
        if index > 0 && files[index - 1].number + 1 != file.number {
            return Err(Damage::Missing(files[index - 1].number + 1));
        }
        if survey.log.is_some_and(|log| log != file.log) {
            return Err(Damage::File { file: file.number, error: FileError::Log });
        }
        survey.log = Some(file.log);
        survey.last = file.last.unwrap_or(CommitNumber(file.first.0.saturating_sub(1))).max(survey.last);
        match file.end {
            FileEnd::Closed => {}
            FileEnd::Damaged { at, synced } => {
                let last = survey.last.0;
                return Err(Damage::Bytes { file: file.number, at, last, synced: synced.0 });
            }
            // G1, G5
            _ if index + 1 < files.len() => {
                if survey.last.0 + 1 < files[index + 1].first.0 {
                    return Err(Damage::CutShort(file.number));
                }
            }
            FileEnd::Open => {}
            FileEnd::Torn { at } => survey.torn_at = Some(at),
        }
    }
    Ok(survey)
}
