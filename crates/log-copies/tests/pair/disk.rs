//! A disk with one log's files, as they were written, and as they are for certain.

use sidle_log_copies::{BackupStep, Found};
use sidle_log_files::{FILE_HEAD_BYTES, FileEnd, FileSet, LogFile, Step, SurveyedFile, survey};
use sidle_types::{CommitNumber, LogId};
use sidle_wire::Place;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, Default)]
struct Kept {
    written: Vec<u8>,
    synced: usize,
    /// Tells it from an earlier file of this number.
    begun: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<u64, Kept>,
    /// The file that was written last.
    open: u64,
    recorded: Option<FileSet>,
    pub(crate) epoch: u64,
    files_begun: u64,
    /// Syncs under way: the file, and how much of it they sync.
    syncs: VecDeque<(u64, u64, usize)>,
}

/// What is found of each key: the highest version.
pub(crate) type Versions = BTreeMap<u64, u64>;

/// A key and its version.
pub(crate) const RECORD_BYTES: usize = 16;

pub(crate) fn record(key: u64, version: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    bytes
}

pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(RECORD_BYTES).map(move |one| (number(&one[..8]), number(&one[8..])))
}

impl Disk {
    pub(crate) fn write(&mut self, at: Place, bytes: &[u8]) {
        if at.at == 0 {
            self.files.remove(&at.file);
        }
        if !self.files.contains_key(&at.file) {
            self.files_begun += 1;
        }
        let begun = self.files_begun;
        let file = self.files.entry(at.file).or_insert_with(|| Kept { begun, ..Kept::default() });
        assert_eq!(file.written.len() as u64, at.at, "nothing is written twice, and there is no gap");
        file.written.extend_from_slice(bytes);
        self.open = at.file;
    }

    fn sync(&mut self) {
        if let Some(file) = self.files.get_mut(&self.open) {
            file.synced = file.written.len();
        }
    }

    /// The writer's step. Where it wrote to, and whether that was a block.
    pub(crate) fn carry_out(&mut self, step: Step<'_>) -> Option<(Place, bool)> {
        match step {
            Step::Record(set) => self.recorded = Some(set),
            Step::Write(write) => {
                let mut bytes = [&write.head[..], write.records].concat();
                bytes.resize(bytes.len() + write.padding, 0);
                self.write(Place { file: write.file, at: write.at }, &bytes);
                let to = Place { file: write.file, at: write.at + bytes.len() as u64 };
                return Some((to, !write.records.is_empty()));
            }
            Step::Sync | Step::EndSync => self.sync(),
            Step::Remove(file) => drop(self.files.remove(&file)),
            Step::SyncNames | Step::BeginSync | Step::Check(_) => {}
        }
        None
    }

    /// The first file, as recorded.
    pub(crate) fn first(&self) -> Option<u64> {
        self.recorded.filter(|set| set.first <= set.last).map(|set| set.first)
    }

    /// A backup's step.
    pub(crate) fn carry_out_copy(&mut self, step: &BackupStep) {
        match step {
            BackupStep::KeepEpoch(epoch) => self.epoch = *epoch,
            BackupStep::Record(set) => self.recorded = Some(*set),
            BackupStep::Write(at, bytes) => self.write(*at, bytes),
            BackupStep::WriteAgain(file) => {
                self.open = *file;
                self.sync();
            }
            BackupStep::Sync => self.sync(),
            BackupStep::BeginSync => {
                let file = &self.files[&self.open];
                self.syncs.push_back((self.open, file.begun, file.written.len()));
            }
            BackupStep::SyncNames => {}
            BackupStep::Remove(file) => drop(self.files.remove(file)),
        }
    }

    /// The oldest sync under way ends. Whether there is one.
    pub(crate) fn end_sync(&mut self) -> bool {
        let Some((number, begun, bytes)) = self.syncs.pop_front() else { return false };
        if let Some(file) = self.files.get_mut(&number).filter(|file| file.begun == begun) {
            file.synced = file.synced.max(bytes);
        }
        true
    }

    /// The process dies, and with it its syncs.
    pub(crate) fn forget_syncs(&mut self) {
        self.syncs.clear();
    }

    /// The power fails: of what was not synced, some is there, and perhaps as zeros.
    pub(crate) fn fail(&mut self, mut random: impl FnMut(usize) -> usize) {
        for file in self.files.values_mut() {
            let kept = file.synced + random(file.written.len() - file.synced + 1);
            file.written.truncate(kept);
            if random(3) == 0 {
                let zeros = file.synced + random(kept - file.synced + 1);
                file.written[zeros..].fill(0);
            }
            file.synced = file.written.len();
        }
    }

    /// What is there for certain.
    pub(crate) fn synced(&self) -> Versions {
        let mut disk = self.clone();
        disk.fail(|_| 0);
        disk.versions().expect("a copy can be read at any time")
    }

    /// Bytes of a file, for its copies.
    pub(crate) fn read(&self, at: Place, bytes: u64) -> Vec<u8> {
        let file = &self.files[&at.file].written;
        file[at.at as usize..(at.at + bytes) as usize].to_vec()
    }

    /// Whether a file begins with bytes of this checksum.
    pub(crate) fn begins_with(&self, to: Place, check: u32) -> bool {
        let file = self.files.get(&to.file).and_then(|file| file.written.get(..to.at as usize));
        file.is_some_and(|bytes| crc32c::crc32c(bytes) == check)
    }

    pub(crate) fn bytes_of(&self, file: u64) -> Vec<u8> {
        self.files[&file].written.clone()
    }

    /// What a process that starts here finds of a copy.
    pub(crate) fn found(&mut self) -> Option<Found> {
        let files = self.recorded.filter(|set| set.first <= set.last)?;
        self.files.retain(|&number, _| (files.first..=files.last).contains(&number));
        let last = &self.files.get(&files.last)?.written;
        assert_eq!(self.files.len() as u64, files.last - files.first + 1, "a recorded file is gone");
        Some(Found { files, last: (last.len() as u64, crc32c::crc32c(last)) })
    }

    /// The files with their lengths, once the last is closed: for a writer that goes on with them.
    pub(crate) fn close(&mut self, log: LogId) -> (Vec<(u64, u64)>, CommitNumber) {
        let set = self.recorded.expect("a log has files");
        self.files.retain(|&number, _| (set.first..=set.last).contains(&number));
        let mut last = CommitNumber(0);
        for (&number, file) in &mut self.files {
            let bytes = file.written.clone();
            let open = LogFile::open(&bytes, number, Some(log)).expect("its head is synced");
            last = last.max(CommitNumber(open.first().0 - 1));
            let (end, closing) = open.blocks_and_closing(|block| last = last.max(block.commit));
            if number == set.last && end != FileEnd::Closed {
                file.written.truncate(closing.at);
                file.written.extend_from_slice(&closing.bytes);
            }
            file.synced = file.written.len();
        }
        (self.files.iter().map(|(&number, file)| (number, file.written.len() as u64)).collect(), last)
    }

    /// Where the last whole block of the log ends.
    pub(crate) fn end(&self, log: LogId) -> Place {
        let number = self.recorded.expect("a log has files").last;
        let bytes = &self.files[&number].written;
        let open = LogFile::open(bytes, number, Some(log)).expect("its head is synced");
        let mut at = FILE_HEAD_BYTES;
        let end = open.blocks(|block| at = block.place().end);
        Place { file: number, at: if end == FileEnd::Closed { bytes.len() } else { at } as u64 }
    }

    /// All files count, and all are synced: they came from a copy.
    pub(crate) fn record_all(&mut self, log: LogId) {
        let number = |entry: Option<(&u64, &Kept)>| *entry.expect("a log has files").0;
        let (first, last) = (number(self.files.first_key_value()), number(self.files.last_key_value()));
        let first = self.recorded.map_or(first, |set| set.first.max(first));
        self.recorded = Some(FileSet { log, first, last });
        self.files.values_mut().for_each(|file| file.synced = file.written.len());
    }

    /// What a log that is read here has. The error: why it cannot be read.
    pub(crate) fn versions(&self) -> Result<Versions, String> {
        let mut versions = Versions::new();
        let Some(set) = self.recorded.filter(|set| set.first <= set.last) else { return Ok(versions) };
        let numbers: Vec<u64> = self.files.keys().copied().collect();
        if let Some(missing) = set.missing(&numbers) {
            return Err(format!("file {missing} of {set:?} is missing"));
        }
        let mut surveyed = Vec::new();
        for number in set.first..=set.last {
            let bytes = &self.files[&number].written;
            let file = LogFile::open(bytes, number, Some(set.log)).map_err(|error| error.to_string())?;
            let mut last = None;
            let end = file.blocks(|block| {
                last = Some(block.commit);
                for (key, version) in records(block.records) {
                    let known = versions.entry(key).or_default();
                    *known = version.max(*known);
                }
            });
            surveyed.push(SurveyedFile { number, log: set.log, first: file.first(), last, end });
        }
        survey(&surveyed).map(|_| versions).map_err(|damage| damage.to_string())
    }
}
