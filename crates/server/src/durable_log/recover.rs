//! From the files of the durable log to the store's content.

use super::folder::Folder;
use crate::data_dir::random_bytes;
use sidle_log_files::{
    Block, Damage, FileEnd, FileError, LogFile, LogId, SurveyedFile, is_torn_beginning, survey,
};
use sidle_node::Loading;
use sidle_store::{Recovered, Recovery, RecoveryError, Store};
use sidle_types::CommitNumber;
use sidle_types::words::counted;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The system refused a thread for it.
    #[error("the operating system refused a thread: {0}")]
    Threads(io::Error),
    /// The node ends.
    #[error("the node ended while it read its durable log")]
    Stopped,
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

/// Reads the log in a folder into an empty store.
pub(super) struct Reader<'r> {
    pub(super) path: &'r Path,
    pub(super) store: &'r Store,
    pub(super) salvages: bool,
    /// Set when the node ends: what is read is given up.
    pub(super) stop: &'r AtomicBool,
    pub(super) loading: &'r Loading,
}

/// What was found in a file.
struct ReadFile {
    surveyed: SurveyedFile,
    bytes: u64,
    /// What closes it, and where that belongs, if it is not closed.
    closing: Option<(usize, Vec<u8>)>,
}

impl Reader<'_> {
    /// Reads the log; a new one, if there is none. Only a whole log is changed: its torn end is cut off.
    pub(super) fn recover(&self) -> Result<Resumed, RecoverError> {
        let mut folder = Folder::open(self.path).map_err(|error| self.refused(error))?;
        let mut numbers = folder.numbers().map_err(|error| self.refused(error))?;
        let lengths = numbers.iter().map(|&number| folder.bytes_of(number));
        self.loading.note_total(lengths.sum::<io::Result<u64>>().map_err(|error| self.refused(error))?);
        let mut recovery = Recovery::begin(self.store);
        let mut torn = None;
        let mut files = Vec::new();
        // Newest first: no memory is written twice.
        while let Some(number) = numbers.pop() {
            match self.read_file(&folder, number, &mut recovery)? {
                Some(file) => files.push(file),
                None if files.is_empty() && torn.is_none() => torn = Some(number),
                None => return Err(self.damaged(Damage::File { file: number, error: FileError::NoHead })),
            }
        }
        files.reverse();
        let Judged { log, last, recovered } = self.judge(&files, recovery)?;
        self.end_files(&mut folder, &files, torn).map_err(|error| self.refused(error))?;
        let files = files.iter().map(|file| (file.surveyed.number, file.bytes)).collect();
        Ok(Resumed { folder, log, files, last, recovered })
    }

    fn refused(&self, error: io::Error) -> RecoverError {
        RecoverError::Refused { path: self.path.to_owned(), error }
    }

    fn damaged(&self, damage: Damage) -> RecoverError {
        RecoverError::Damaged { path: self.path.to_owned(), damage }
    }

    /// Replays a file; nothing if it was only being begun.
    fn read_file(
        &self,
        folder: &Folder,
        number: u64,
        recovery: &mut Recovery<'_>,
    ) -> Result<Option<ReadFile>, RecoverError> {
        let bytes = folder.read(number).map_err(|error| self.refused(error))?;
        let file = match LogFile::open(&bytes, number, None) {
            Ok(file) => file,
            Err(_) if is_torn_beginning(bytes.len() as u64) => return Ok(None),
            Err(error) => return Err(self.damaged(Damage::File { file: number, error })),
        };
        let mut replay = Replaying { reader: self, recovery, last: None, wrong: None };
        let (mut end, closing) = file.blocks_and_closing(|block| replay.take(&block));
        let mut length = bytes.len();
        if let FileEnd::Damaged { at, synced } = end {
            if !self.salvages {
                let last = replay.last.unwrap_or(CommitNumber(file.first().0.saturating_sub(1))).0;
                return Err(self.damaged(Damage::Bytes { file: number, at, last, synced: synced.0 }));
            }
            let bytes = file.salvaged();
            folder.replace(number, &bytes).map_err(|error| self.refused(error))?;
            let name = sidle_log_files::file_name(number);
            tracing::warn!("{name} is damaged at byte {at}: what can be read of it takes its place");
            let salvaged = LogFile::open(&bytes, number, None).expect("it has the head of the other");
            // Again, since a block's place among the others decides nothing.
            end = salvaged.blocks(|block| replay.take(&block));
            length = bytes.len();
        }
        let last = replay.end(number)?;
        let surveyed = SurveyedFile { number, log: file.log(), first: file.first(), last, end };
        Ok(Some(match end {
            FileEnd::Closed => ReadFile { surveyed, bytes: length as u64, closing: None },
            _ => ReadFile { surveyed, bytes: (closing.0 + closing.1.len()) as u64, closing: Some(closing) },
        }))
    }

    /// Whether the log is whole; then the store is as it says.
    fn judge(&self, files: &[ReadFile], recovery: Recovery<'_>) -> Result<Judged, RecoverError> {
        let surveyed: Vec<SurveyedFile> = files.iter().map(|file| file.surveyed).collect();
        let survey = survey(&surveyed).map_err(|damage| self.damaged(damage))?;
        if let Some(at) = survey.torn_at {
            tracing::info!(
                "the durable log ended in a commit that was not whole, at byte {at}: it was not acknowledged as synced"
            );
        }
        let count = &|kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        let recovered = recovery.finish(count).map_err(|why| RecoverError::Replay {
            path: self.path.to_owned(),
            file: counted(files.len(), "file"),
            why,
        })?;
        let log = match survey.log {
            Some(log) => log,
            None => LogId(random_bytes().map_err(|error| self.refused(error))?),
        };
        if self.stop.load(Ordering::Relaxed) {
            return Err(RecoverError::Stopped);
        }
        Ok(Judged { log, last: survey.last, recovered })
    }

    /// Cuts the torn end off, so that the log can go on behind these files.
    fn end_files(&self, folder: &mut Folder, files: &[ReadFile], torn: Option<u64>) -> io::Result<()> {
        if let Some((number, (at, bytes))) =
            files.last().and_then(|file| Some((file.surveyed.number, file.closing.as_ref()?)))
        {
            folder.close(number, *at as u64, bytes)?;
        }
        // Now that the file before it is closed.
        torn.map_or(Ok(()), |number| folder.remove(number))
    }
}

/// What a whole log says.
struct Judged {
    log: LogId,
    last: CommitNumber,
    recovered: Recovered,
}

/// A file that is replayed.
struct Replaying<'r, 's> {
    reader: &'r Reader<'r>,
    recovery: &'r mut Recovery<'s>,
    /// The last commit.
    last: Option<CommitNumber>,
    wrong: Option<RecoveryError>,
}

impl Replaying<'_, '_> {
    fn take(&mut self, block: &Block<'_>) {
        self.last = self.last.max(Some(block.commit));
        if self.wrong.is_none() && !self.reader.stop.load(Ordering::Relaxed) {
            self.wrong = self.recovery.replay(block.records).err();
            self.reader.loading.note_loaded(block.records.len() as u64);
        }
    }

    /// The last commit of the file with this number.
    fn end(self, number: u64) -> Result<Option<CommitNumber>, RecoverError> {
        let path = self.reader.path.to_owned();
        match self.wrong {
            _ if self.reader.stop.load(Ordering::Relaxed) => Err(RecoverError::Stopped),
            None => Ok(self.last),
            Some(RecoveryError::OutOfMemory(_)) => {
                let memory = crate::config::Size(self.reader.store.memory().limit);
                Err(RecoverError::TooMuch { path, memory })
            }
            Some(why) => Err(RecoverError::Replay { path, file: sidle_log_files::file_name(number), why }),
        }
    }
}
