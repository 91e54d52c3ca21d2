//! From the files of the durable log to the store's content.

use super::folder::Folder;
use crate::data_dir::random_bytes;
use sidle_log_files::{
    Block, Closing, Damage, FileEnd, FileError, FileSet, LogFile, SurveyedFile, file_name, is_torn_beginning,
    survey,
};
use sidle_node::{Loading, TakingOver};
use sidle_store::{Recovered, Recovery, RecoveryError, RecoveryPart, Repeated, Store};
use sidle_types::words::counted;
use sidle_types::{CommitNumber, LogId, PositionRange};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Why the durable log cannot be read. The message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The system refused.
    #[error("the durable log in {} cannot be used: {error}", path.display())]
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
    /// There is not the memory to read it, also in the most stretches.
    #[error(
        "the durable log in {} needs more than {memory} of memory to be read. Nothing was changed. Set more \
         with --max-memory (`[memory] max_memory`) for the start",
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
    /// A copy shows that others write the log, or have taken it over.
    #[error(
        "this node's durable log is another's by now: other nodes have taken over what this one had (`sidle takeover`), \
         or an older state of the data directory was put back. In the first case rename {} to durable-log.taken-over-1 and start \
         the node again: it joins as an empty member. In the other put the newest state back",
        path.display()
    )]
    Deposed {
        /// The folder.
        path: PathBuf,
        /// The log.
        log: LogId,
    },
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
    /// Where the files have what the log has elsewhere.
    pub(crate) repeated: Repeated,
}

/// Who is told how far a log is read.
pub(super) trait ReadProgress: Sync {
    /// So many bytes are to be read from here on.
    fn note_left(&self, bytes: u64);
    /// So many more have been read.
    fn note_loaded(&self, bytes: u64);
}

impl ReadProgress for Loading {
    fn note_left(&self, bytes: u64) {
        let loaded = self.progress().map_or(0, |progress| progress.loaded_bytes);
        self.note_total(loaded + bytes);
    }

    fn note_loaded(&self, bytes: u64) {
        Loading::note_loaded(self, bytes);
    }
}

impl ReadProgress for TakingOver {
    fn note_left(&self, bytes: u64) {
        TakingOver::note_left(self, bytes);
    }

    fn note_loaded(&self, bytes: u64) {
        self.note_read(bytes);
    }
}

/// Reads the log in a folder into an empty store.
pub(super) struct Reader<'r> {
    pub(super) path: &'r Path,
    pub(super) store: &'r Store,
    pub(super) salvages: bool,
    /// How many threads replay.
    pub(super) threads: usize,
    /// Set when the node ends: what is read is given up.
    pub(super) stop: &'r AtomicBool,
    pub(super) progress: &'r dyn ReadProgress,
}

/// How much one thread replays before it asks for more, at least.
const PIECE_BYTES: usize = 256 << 10;
/// In so many stretches the log is read, one try after the other, if it needs more memory than there is.
const STRETCHES: [u16; 3] = [4, 32, 256];
/// How many pieces are ready for each thread.
const PIECES_AHEAD: usize = 4;

/// Adjacent blocks of a file, for one thread to replay.
struct Piece {
    file: u64,
    bytes: Arc<Vec<u8>>,
    /// Where their records are, the newest first.
    blocks: Vec<Range<usize>>,
}

/// Why records could not be replayed, and of which file they were.
type Wrong = Mutex<Option<(u64, RecoveryError)>>;

/// What was found in a file.
struct ReadFile {
    surveyed: SurveyedFile,
    bytes: u64,
    /// What closes it, and where that belongs, if it is not closed.
    closing: Option<Closing>,
}

impl Reader<'_> {
    /// Reads the log; a new one, if there is none. Only a whole log is changed: its torn end is cut off.
    pub(super) fn recover(&self) -> Result<Resumed, RecoverError> {
        let mut folder = Folder::open(self.path).map_err(|error| self.refused(error))?;
        let FilesThere { numbers, leftover, recorded } = self.files_there(&mut folder)?;
        let lengths = numbers.iter().map(|&number| folder.bytes_of(number));
        let bytes = lengths.sum::<io::Result<u64>>().map_err(|error| self.refused(error))?;
        self.progress.note_left(bytes);
        let mut recovery = Recovery::begin(self.store);
        let files_there = (numbers.as_slice(), recorded);
        let mut stretches = STRETCHES.iter();
        let (files, torn) = loop {
            match (self.read_log(&folder, files_there, &mut recovery), stretches.next()) {
                (Err(RecoverError::TooMuch { .. }), Some(&stretches)) => {
                    tracing::info!(
                        "memory is scarce: the durable log is read again, in {stretches} stretches"
                    );
                    self.progress.note_left(recovery.begin_again(stretches) as u64 * bytes);
                }
                (read, _) => break read?,
            }
        };
        let repeated = recovery.take_repeated();
        let Judged { log, last, recovered } = self.judge((&files, recorded), recovery)?;
        self.end_files(&mut folder, &files, torn).map_err(|error| self.refused(error))?;
        let mut ended = || {
            leftover.iter().try_for_each(|&number| folder.remove(number))?;
            let numbers = files.first().zip(files.last());
            let (first, last) =
                numbers.map_or((1, 0), |(first, last)| (first.surveyed.number, last.surveyed.number));
            // Also what is recorded already: a folder that cannot be written is noticed now. And a log
            // without files has its name from here on.
            folder.record_again(FileSet { log, first, last })
        };
        ended().map_err(|error| self.refused(error))?;
        let files = files.iter().map(|file| (file.surveyed.number, file.bytes)).collect();
        Ok(Resumed { folder, log, files, last, recovered, repeated })
    }

    /// Reads what a copy of this log has at these positions. Nothing in the folder is changed: its torn end
    /// is only passed over.
    pub(super) fn read_copy(&self, log: LogId, ranges: &[PositionRange]) -> Result<Recovered, RecoverError> {
        if !self.path.is_dir() {
            return Err(self.refused(io::ErrorKind::NotFound.into()));
        }
        let mut folder = Folder::open(self.path).map_err(|error| self.refused(error))?;
        let FilesThere { mut numbers, recorded, .. } = self.files_there(&mut folder)?;
        let Some(set) = recorded.filter(|set| set.first <= set.last) else {
            return Err(self.refused(io::Error::new(io::ErrorKind::NotFound, "it has no files yet")));
        };
        if set.log != log {
            return Err(self.damaged(Damage::File { file: set.first, error: FileError::Log }));
        }
        // What no record names is none of the copy.
        numbers.retain(|number| *number <= set.last);
        let lengths = numbers.iter().map(|&number| folder.bytes_of(number));
        let bytes = lengths.sum::<io::Result<u64>>().map_err(|error| self.refused(error))?;
        let mut recovery = Recovery::begin_at(self.store, ranges);
        let (files, _) = loop {
            self.progress.note_left(bytes);
            let read = self.read_files(&folder, (&numbers, recorded), &mut recovery)?;
            if !recovery.reads_on() {
                break read;
            }
        };
        Ok(self.judge((&files, recorded), recovery)?.recovered)
    }

    /// Reads the log as often as its recovery asks for.
    fn read_log(
        &self,
        folder: &Folder,
        files: (&[u64], Option<FileSet>),
        recovery: &mut Recovery<'_>,
    ) -> Result<(Vec<ReadFile>, Option<u64>), RecoverError> {
        loop {
            let read = self.read_files(folder, files, recovery)?;
            if !recovery.reads_on() {
                return Ok(read);
            }
        }
    }

    /// Which files are to be read. With `--salvage`, those that are missing are replaced by empty ones.
    fn files_there(&self, folder: &mut Folder) -> Result<FilesThere, RecoverError> {
        let refused = |error| self.refused(error);
        let mut numbers = folder.numbers().map_err(refused)?;
        let recorded = match folder.read_record().map_err(refused)? {
            Ok(recorded) => recorded,
            Err(damage) if !self.salvages => return Err(self.damaged(damage)),
            Err(damage) => {
                tracing::warn!("{damage}: it is written anew, by the files that are there");
                None
            }
        };
        let Some(set) = recorded else {
            return Ok(FilesThere { numbers, leftover: Vec::new(), recorded });
        };
        // A death came between the record of a removal and the removal.
        let leftover = numbers.iter().copied().filter(|number| *number < set.first).collect();
        numbers.retain(|number| *number >= set.first);
        while let Some(number) = set.missing(&numbers) {
            if !self.salvages {
                return Err(self.damaged(Damage::Missing(number)));
            }
            let empty = LogFile::without_head(&[], number, set.log).salvaged();
            folder.replace(number, &empty).map_err(refused)?;
            tracing::warn!(
                "{} is missing: an empty one takes its place, and all that it had is given up",
                file_name(number)
            );
            numbers.push(number);
        }
        numbers.sort_unstable();
        Ok(FilesThere { numbers, leftover, recorded })
    }

    /// Replays all files; and the number of one that was only being begun. One thread reads and checks them,
    /// the newest first, and several replay what it found, so that little memory is written twice.
    fn read_files(
        &self,
        folder: &Folder,
        numbers: (&[u64], Option<FileSet>),
        recovery: &mut Recovery<'_>,
    ) -> Result<(Vec<ReadFile>, Option<u64>), RecoverError> {
        let threads = if recovery.is_for_threads() { self.threads.max(1) } else { 1 };
        let parts: Vec<RecoveryPart<'_>> = (0..threads).map(|_| recovery.part()).collect();
        let (pieces, queue) = sync_channel(PIECES_AHEAD * parts.len());
        let (queue, wrong) = (Mutex::new(queue), Wrong::default());
        let (queue, wrong) = (&queue, &wrong);
        // It owns the pieces' sender, at whose end the threads end.
        let (files, parts) = thread::scope(move |scope| {
            let start = |part| {
                let builder = thread::Builder::new().name("log-replay".to_owned());
                builder.spawn_scoped(scope, move || self.replay_pieces(part, queue, wrong))
            };
            let started = parts.into_iter().map(start).collect::<io::Result<Vec<_>>>();
            let started = started.map_err(RecoverError::Threads)?;
            let files = self.check_files(folder, numbers, pieces, wrong);
            // A panic goes on in this thread, whose end is the node's.
            let parts = started.into_iter().map(|thread| thread.join().expect("it replays"));
            Ok::<_, RecoverError>((files, parts.collect::<Vec<_>>()))
        })?;
        if self.is_stopped() {
            return Err(RecoverError::Stopped);
        }
        if let Some((file, why)) = wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(self.not_replayed(sidle_log_files::file_name(file), why));
        }
        parts.into_iter().for_each(|part| recovery.add(part));
        files
    }

    /// Replays pieces until there are no more. After an error, or the node's end, the rest is let go.
    fn replay_pieces<'s>(
        &self,
        mut part: RecoveryPart<'s>,
        queue: &Mutex<Receiver<Piece>>,
        wrong: &Wrong,
    ) -> RecoveryPart<'s> {
        let wrong = || wrong.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(piece) = next else { return part };
            if self.is_stopped() || wrong().is_some() {
                continue;
            }
            for place in piece.blocks {
                if let Err(error) = part.replay_of(piece.file, place.start, &piece.bytes[place.clone()]) {
                    wrong().get_or_insert((piece.file, error));
                }
                self.progress.note_loaded(place.len() as u64);
            }
        }
    }

    /// Reads and checks the files, and hands out what they have.
    fn check_files(
        &self,
        folder: &Folder,
        (numbers, recorded): (&[u64], Option<FileSet>),
        pieces: SyncSender<Piece>,
        wrong: &Wrong,
    ) -> Result<(Vec<ReadFile>, Option<u64>), RecoverError> {
        let (mut files, mut torn) = (Vec::new(), None);
        for &number in numbers.iter().rev() {
            if self.is_stopped() || wrong.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                break;
            }
            match self.check_file(folder, number, recorded, &pieces)? {
                Some(file) => files.push(file),
                None if Some(&number) == numbers.last() => torn = Some(number),
                None => return Err(self.damaged(Damage::File { file: number, error: FileError::NoHead })),
            }
        }
        files.reverse();
        Ok((files, torn))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn not_replayed(&self, file: String, why: RecoveryError) -> RecoverError {
        let path = self.path.to_owned();
        match why {
            RecoveryError::OutOfMemory(_) => {
                RecoverError::TooMuch { path, memory: crate::config::Size(self.store.memory().limit) }
            }
            why => RecoverError::Replay { path, file, why },
        }
    }

    fn refused(&self, error: io::Error) -> RecoverError {
        RecoverError::Refused { path: self.path.to_owned(), error }
    }

    fn damaged(&self, damage: Damage) -> RecoverError {
        RecoverError::Damaged { path: self.path.to_owned(), damage }
    }

    /// Reads and checks a file, and hands out what it has; nothing if it was only being begun.
    fn check_file(
        &self,
        folder: &Folder,
        number: u64,
        recorded: Option<FileSet>,
        pieces: &SyncSender<Piece>,
    ) -> Result<Option<ReadFile>, RecoverError> {
        let mut bytes = folder.read(number).map_err(|error| self.refused(error))?;
        let file = match LogFile::open(&bytes, number, recorded.map(|set| set.log)) {
            Ok(file) => file,
            // G6: the head of a file that is recorded was synced.
            Err(_)
                if is_torn_beginning(bytes.len() as u64) && recorded.is_none_or(|set| number > set.last) =>
            {
                return Ok(None);
            }
            Err(error) if self.salvages && !matches!(error, FileError::Format(_)) && recorded.is_some() => {
                let log = recorded.map_or(LogId([0; 16]), |set| set.log);
                let salvaged = LogFile::without_head(&bytes, number, log).salvaged();
                folder.replace(number, &salvaged).map_err(|error| self.refused(error))?;
                tracing::warn!(
                    "{}: {error}. The blocks of it that check take its place, and it is kept as .damaged. {}",
                    file_name(number),
                    given_up(&bytes, &salvaged)
                );
                bytes = salvaged;
                LogFile::open(&bytes, number, None).expect("it has a head")
            }
            Err(error) => return Err(self.damaged(Damage::File { file: number, error })),
        };
        let (log, first) = (file.log(), file.first());
        let mut found = Found::default();
        let (mut end, closing) = file.blocks_and_closing(|block| found.note(&block));
        if let FileEnd::Damaged { at, synced } = end {
            if !self.salvages {
                let last = found.last.unwrap_or(CommitNumber(first.0.saturating_sub(1))).0;
                return Err(self.damaged(Damage::Bytes { file: number, at, last, synced: synced.0 }));
            }
            let salvaged = file.salvaged();
            folder.replace(number, &salvaged).map_err(|error| self.refused(error))?;
            let given_up = given_up(&bytes, &salvaged);
            bytes = salvaged;
            let before = found.last.unwrap_or(CommitNumber(first.0.saturating_sub(1)));
            let salvaged = LogFile::open(&bytes, number, None).expect("it has the head of the other");
            found = Found::default();
            let mut behind = None;
            end = salvaged.blocks(|block| {
                behind = behind.or(Some(block.commit).filter(|commit| *commit > before));
                found.note(&block);
            });
            let until = behind.map_or(synced.0, |behind| behind.0 - 1);
            tracing::warn!(
                "{} is damaged at byte {at}: what can be read of it takes its place. {given_up}, which had commits \
                 {} to {until}",
                file_name(number),
                before.0 + 1
            );
        }
        let surveyed = SurveyedFile { number, log, first, last: found.last, end };
        let file = match end {
            FileEnd::Closed => ReadFile { surveyed, bytes: bytes.len() as u64, closing: None },
            _ => {
                let bytes = (closing.at + closing.bytes.len()) as u64;
                ReadFile { surveyed, bytes, closing: Some(closing) }
            }
        };
        found.hand_out(number, bytes, pieces);
        Ok(Some(file))
    }

    /// Whether the log is whole; then the store is as it says.
    fn judge(
        &self,
        (files, recorded): (&[ReadFile], Option<FileSet>),
        recovery: Recovery<'_>,
    ) -> Result<Judged, RecoverError> {
        let mut surveyed: Vec<SurveyedFile> = files.iter().map(|file| file.surveyed).collect();
        let survey = loop {
            match survey(&surveyed) {
                Ok(survey) => break survey,
                Err(Damage::CutShort(number)) if self.salvages => {
                    tracing::warn!("{}: it is read as far as it goes", Damage::CutShort(number));
                    let cut = surveyed.iter_mut().filter(|file| file.number == number);
                    cut.for_each(|file| file.end = FileEnd::Closed);
                }
                Err(damage) => return Err(self.damaged(damage)),
            }
        };
        if let Some(at) = survey.torn_at {
            tracing::info!(
                "the durable log ended in a commit that was not whole, at byte {at}: nothing behind it shows that it was ever synced"
            );
        }
        let count = &|kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        let all = || counted(files.len(), "file");
        let recovered = recovery.finish(count).map_err(|why| self.not_replayed(all(), why))?;
        let log = match survey.log.or(recorded.map(|set| set.log)) {
            Some(log) => log,
            None => LogId(random_bytes().map_err(|error| self.refused(error))?),
        };
        if self.is_stopped() {
            return Err(RecoverError::Stopped);
        }
        Ok(Judged { log, last: survey.last, recovered })
    }

    /// Cuts torn ends off, so that the log can go on behind these files.
    fn end_files(&self, folder: &mut Folder, files: &[ReadFile], torn: Option<u64>) -> io::Result<()> {
        for file in files {
            if let Some(closing) = &file.closing {
                folder.close(file.surveyed.number, closing)?;
            }
        }
        // G1: what closed the last file may not be on the disk yet.
        if let Some(last) = files.last() {
            folder.sync_closed(last.surveyed.number)?;
        }
        // Now that the file before it is closed.
        torn.map_or(Ok(()), |number| folder.remove(number))
    }
}

/// How much of a file is lost.
fn given_up(bytes: &[u8], salvaged: &[u8]) -> String {
    let lost = bytes.len().saturating_sub(salvaged.len());
    format!("Given up are {lost} of its {} bytes", bytes.len())
}

/// The files of a log.
struct FilesThere {
    /// Those to be read, in order.
    numbers: Vec<u64>,
    /// Those that a death left, and nobody needs.
    leftover: Vec<u64>,
    recorded: Option<FileSet>,
}

/// What a whole log says.
struct Judged {
    log: LogId,
    last: CommitNumber,
    recovered: Recovered,
}

/// The blocks of a file.
#[derive(Default)]
struct Found {
    /// Where their records are.
    blocks: Vec<Range<usize>>,
    /// The last commit.
    last: Option<CommitNumber>,
}

impl Found {
    fn note(&mut self, block: &Block<'_>) {
        self.last = self.last.max(Some(block.commit));
        self.blocks.push(block.place());
    }

    /// Hands out pieces of so many bytes or more, the newest first.
    fn hand_out(self, file: u64, bytes: Vec<u8>, pieces: &SyncSender<Piece>) {
        let bytes = Arc::new(bytes);
        let mut left = self.blocks;
        while !left.is_empty() {
            let mut piece_bytes = 0;
            let is_needed = |place: &&Range<usize>| {
                let is_needed = piece_bytes < PIECE_BYTES;
                piece_bytes += place.len();
                is_needed
            };
            let count = left.iter().rev().take_while(is_needed).count();
            let mut blocks = left.split_off(left.len() - count);
            blocks.reverse();
            // The threads end after this one has.
            let _ = pieces.send(Piece { file, bytes: Arc::clone(&bytes), blocks });
        }
    }
}
