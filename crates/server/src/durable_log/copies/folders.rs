//! The files of the copies of other nodes' logs: `DIR/log-backups/LOG/`, each a folder as a log's own.

use super::copy_syncs::{CopySyncs, Opened};
use crate::durable_log::folder::Folder;
use sidle_log_copies::{BackupStep, Found, check_of, whole_end};
use sidle_log_files::FileSet;
use sidle_node::CopyFiles;
use sidle_types::LogId;
use sidle_wire::Place;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The file with a copy's epoch.
const EPOCH_NAME: &str = "epoch";

/// The folders of all copies.
pub(super) struct CopyFolders {
    path: PathBuf,
    /// Each with the number of its opening.
    folders: BTreeMap<LogId, (u64, Folder)>,
    opened: u64,
    syncs: CopySyncs,
}

impl CopyFolders {
    /// Those in this folder, which is made with the first of them.
    pub(super) fn new(path: PathBuf, syncs: CopySyncs) -> CopyFolders {
        CopyFolders { path, folders: BTreeMap::new(), opened: 0, syncs }
    }

    fn folder(&mut self, log: LogId) -> io::Result<&mut Folder> {
        if !self.folders.contains_key(&log) {
            Folder::open(&self.path)?;
            let folder = Folder::open(&self.path.join(log.to_string()))?;
            self.opened += 1;
            self.folders.insert(log, (self.opened, folder));
        }
        Ok(&mut self.folders.get_mut(&log).expect("it is there now").1)
    }

    /// Carries a step out.
    pub(super) fn carry_out(&mut self, log: LogId, step: &BackupStep) -> io::Result<()> {
        let folder = self.folder(log)?;
        match step {
            BackupStep::KeepEpoch(epoch) => folder.keep(EPOCH_NAME, format!("{epoch}\n").as_bytes()),
            BackupStep::Record(set) => folder.record(*set),
            BackupStep::Write(Place { file, at }, bytes) => folder.write_bytes(*file, *at, &[bytes]),
            BackupStep::WriteAgain(file) => folder.write_file_again(*file),
            BackupStep::Sync => folder.sync(),
            BackupStep::BeginSync => {
                let file = folder.handle()?;
                let (opened, _) = self.folders[&log];
                self.syncs.begin((log, opened), file)
            }
            BackupStep::SyncNames => folder.sync_names(),
            BackupStep::Remove(file) => folder.remove(*file),
        }
    }

    /// Whether the files are still those that were opened then.
    pub(super) fn is_current(&self, (log, opened): Opened) -> bool {
        self.folders.get(&log).is_some_and(|(current, _)| *current == opened)
    }

    /// The copies whose files are not in their place any more.
    pub(super) fn misplaced(&self) -> Vec<(LogId, io::Error)> {
        let checked = self.folders.iter().map(|(&log, (_, folder))| (log, folder.check_recorded()));
        checked.filter_map(|(log, result)| Some((log, result.err()?))).collect()
    }

    /// A step has failed: what is left of the copy is to be found anew.
    pub(super) fn forget(&mut self, log: LogId) {
        self.folders.remove(&log);
    }
}

fn damaged(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The epoch that a copy has seen, which is certainly on the disk then.
fn epoch_of(folder: &Folder) -> io::Result<u64> {
    let Some(bytes) = folder.kept(EPOCH_NAME)? else { return Ok(0) };
    folder.keep(EPOCH_NAME, &bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    text.trim()
        .parse()
        .map_err(|_| damaged(format!("its file {EPOCH_NAME} has no number, but '{}'", text.trim())))
}

/// What there is of a copy. What no record names goes, and what is torn: once the record is certainly on the
/// disk, which else may name what is gone.
fn find_copy(folder: &mut Folder) -> io::Result<Option<Found>> {
    let set = folder.read_record()?.map_err(|damage| damaged(damage.to_string()))?;
    set.map_or(Ok(()), |set| folder.record_again(set))?;
    let numbers = folder.numbers()?;
    let is_in = |set: &FileSet, number: u64| (set.first..=set.last).contains(&number);
    for &number in numbers.iter().filter(|number| set.is_none_or(|set| !is_in(&set, **number))) {
        folder.remove(number)?;
    }
    let Some(files) = set.filter(|set| set.first <= set.last) else { return Ok(None) };
    if let Some(number) = files.missing(&numbers) {
        return Err(damaged(format!("file {number} of it is missing")));
    }
    let last = folder.read(files.last)?;
    let end = whole_end(&last, files.last, files.log);
    let end = end.ok_or_else(|| damaged(format!("the head of file {} does not check", files.last)))?;
    folder.cut_off(files.last, end)?;
    Ok(Some(Found { files, last: (end, check_of(&last[..end as usize])) }))
}

impl CopyFiles for CopyFolders {
    fn find(&mut self, log: LogId) -> io::Result<(u64, Option<Found>)> {
        self.forget(log);
        let found = self.folder(log).and_then(|folder| Ok((epoch_of(folder)?, find_copy(folder)?)));
        if let Err(error) = &found {
            self.forget(log);
            tracing::warn!("the copy of durable log {log} cannot be used: {error}");
        }
        found
    }

    fn size(&mut self, log: LogId) -> io::Result<u64> {
        let folder = self.folder(log)?;
        folder.numbers()?.into_iter().map(|number| folder.bytes_of(number)).sum()
    }

    fn read(&mut self, log: LogId, from: Place, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let folder = self.folder(log)?;
        let file = File::open(folder.path_of(from.file))?;
        let length = file.metadata()?.len();
        let left = length.checked_sub(from.at).ok_or(io::ErrorKind::InvalidInput)?;
        let mut bytes = vec![0; left.min(most as u64) as usize];
        file.read_exact_at(&mut bytes, from.at)?;
        let ends_file = left <= most as u64 && folder.path_of(from.file + 1).exists();
        Ok((bytes, ends_file))
    }
}
