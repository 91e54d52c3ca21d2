//! From the files of the durable log to the store's content.

use super::folder::Folder;
use crate::data_dir::random_bytes;
use sidle_log_files::{Block, Damage, FileEnd, LogFile, LogId, SurveyedFile, is_torn_beginning, survey};
use sidle_store::{Recovered, Recovery, RecoveryError, Store};
use sidle_types::CommitNumber;
use sidle_types::words::counted;
use std::io;
use std::path::{Path, PathBuf};

/// Why the durable log cannot be read. The message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The system refused.
    #[error("cannot read the durable log in {}: {error}", path.display())]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// What was safe on the disk cannot be read.
    #[error(
        "the durable log in {} is damaged: {damage}. Nothing was changed. Put the file back from a copy; or start \
         once with --salvage, to go on with what can be read",
        path.display()
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is damaged.
        damage: Damage,
    },
    /// A file's records are damaged, though its checksums are right.
    #[error("the durable log in {} cannot be replayed: {why} in {file}", path.display())]
    Replay {
        /// The folder.
        path: PathBuf,
        /// The file.
        file: String,
        /// What is wrong.
        why: RecoveryError,
    },
    /// The data does not fit.
    #[error(
        "the durable log in {} holds more than {memory} of memory: set more with --max-memory (`[memory] max_memory`)",
        path.display()
    )]
    TooMuch {
        /// The folder.
        path: PathBuf,
        /// The limit.
        memory: crate::config::Size,
    },
}

/// A log that goes on.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) folder: Folder,
    pub(crate) log: LogId,
    /// Its files, with their bytes.
    pub(crate) files: Vec<(u64, u64)>,
    /// The last commit.
    pub(crate) last: CommitNumber,
    pub(crate) recovered: Recovered,
}

/// Reads the log in a folder into the empty store; a new log, if there is none.
pub(crate) fn recover(path: &Path, store: &Store, salvages: bool) -> Result<Resumed, RecoverError> {
    let refused = |error| RecoverError::Refused { path: path.to_owned(), error };
    let folder = Folder::open(path).map_err(refused)?;
    let mut reading = Reading { path, folder, store, salvages, surveyed: Vec::new(), files: Vec::new() };
    let mut recovery = Recovery::begin(store);
    let numbers = reading.folder.numbers().map_err(refused)?;
    let mut torn = None;
    // Newest first: no memory is written twice.
    for (place, &number) in numbers.iter().rev().enumerate() {
        let bytes = reading.folder.read(number).map_err(refused)?;
        let log = reading.surveyed.last().map(|file: &SurveyedFile| file.log);
        match LogFile::open(&bytes, number, log) {
            Ok(file) => {
                let end = reading.read(&mut recovery, &file, number, bytes.len())?;
                let is_last = place == usize::from(torn.is_some());
                match end.filter(|_| is_last) {
                    Some(end) => reading.folder.close(number, end.0, &end.1).map_err(refused)?,
                    // G1: what closed it may not be on the disk yet.
                    None if is_last => reading.folder.sync_closed(number).map_err(refused)?,
                    None => {}
                }
            }
            Err(_) if place == 0 && is_torn_beginning(bytes.len() as u64) => torn = Some(number),
            Err(error) => return Err(reading.damaged(Damage::File { file: number, error })),
        }
    }
    if let Some(number) = torn {
        reading.folder.remove(number).map_err(refused)?;
    }
    reading.finish(recovery)
}

struct Reading<'r> {
    path: &'r Path,
    folder: Folder,
    store: &'r Store,
    salvages: bool,
    /// Newest first.
    surveyed: Vec<SurveyedFile>,
    files: Vec<(u64, u64)>,
}

impl Reading<'_> {
    fn refused(&self, error: io::Error) -> RecoverError {
        RecoverError::Refused { path: self.path.to_owned(), error }
    }

    fn damaged(&self, damage: Damage) -> RecoverError {
        RecoverError::Damaged { path: self.path.to_owned(), damage }
    }

    /// Replays a file; what closes it, if it is not closed.
    fn read(
        &mut self,
        recovery: &mut Recovery<'_>,
        file: &LogFile<'_>,
        number: u64,
        mut length: usize,
    ) -> Result<Option<(u64, Vec<u8>)>, RecoverError> {
        let (mut last, mut wrong) = (None, None);
        let mut replay = |block: Block<'_>| {
            last = last.max(Some(block.commit));
            if wrong.is_none() {
                wrong = recovery.replay(block.records).err();
            }
        };
        let mut end = file.blocks(&mut replay);
        if let FileEnd::Damaged { at, synced } = end {
            if !self.salvages {
                let last = last.unwrap_or(CommitNumber(file.first().0.saturating_sub(1))).0;
                return Err(self.damaged(Damage::Bytes { file: number, at, last, synced: synced.0 }));
            }
            let bytes = file.salvaged();
            self.folder.replace(number, &bytes).map_err(|error| self.refused(error))?;
            let name = sidle_log_files::file_name(number);
            tracing::warn!("{name} is damaged at byte {at}: what can be read of it takes its place");
            let salvaged = LogFile::open(&bytes, number, None).expect("it has the head of the other");
            // Again, since a block's place among the others decides nothing.
            end = salvaged.blocks(&mut replay);
            length = bytes.len();
        }
        match wrong {
            Some(RecoveryError::OutOfMemory(_)) => {
                let memory = crate::config::Size(self.store.memory().limit);
                return Err(RecoverError::TooMuch { path: self.path.to_owned(), memory });
            }
            Some(why) => {
                let file = sidle_log_files::file_name(number);
                return Err(RecoverError::Replay { path: self.path.to_owned(), file, why });
            }
            None => {}
        }
        let closing = file.closing();
        let is_closed = end == FileEnd::Closed;
        let bytes = if is_closed { length } else { closing.0 + closing.1.len() };
        self.surveyed.push(SurveyedFile { number, log: file.log(), first: file.first(), last, end });
        self.files.push((number, bytes as u64));
        Ok((!is_closed).then_some((closing.0 as u64, closing.1)))
    }

    fn finish(mut self, recovery: Recovery<'_>) -> Result<Resumed, RecoverError> {
        self.surveyed.reverse();
        self.files.reverse();
        let survey = survey(&self.surveyed).map_err(|damage| self.damaged(damage))?;
        if let Some(at) = survey.torn_at {
            tracing::info!(
                "the durable log ended in a commit that was not whole, at byte {at}: it was not acknowledged as synced"
            );
        }
        let count = &|kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        let recovered = recovery.finish(count).map_err(|why| RecoverError::Replay {
            path: self.path.to_owned(),
            file: counted(self.files.len(), "file"),
            why,
        })?;
        let log = match survey.log {
            Some(log) => log,
            None => LogId(
                random_bytes()
                    .map_err(|error| RecoverError::Refused { path: self.path.to_owned(), error })?,
            ),
        };
        Ok(Resumed { folder: self.folder, log, files: self.files, last: survey.last, recovered })
    }
}
