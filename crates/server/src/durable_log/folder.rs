//! The files of the durable log.

use sidle_log_files::{Closing, Damage, FILE_SET_NAME, FileSet, Write, file_name, number_of_file};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Padding is written out of this.
const ZEROS: [u8; 4096] = [0; 4096];
/// A file is written again in pieces of this size.
const COPY_BYTES: usize = 1 << 20;
/// What clients stored is for the node's user only.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Whether a folder has a durable log.
pub(crate) fn is_at(path: &Path) -> bool {
    has(path, |name| name == FILE_SET_NAME || number_of_file(name).is_some())
}

/// Whether it has files with records, or is to have some.
pub(crate) fn has_files(path: &Path) -> bool {
    let is_to_have = || {
        let record = std::fs::read(path.join(FILE_SET_NAME));
        record.is_ok_and(|bytes| FileSet::read(&bytes).map_or(true, |set| set.first <= set.last))
    };
    has(path, |name| number_of_file(name).is_some()) || is_to_have()
}

fn has(path: &Path, is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut names = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(&is_wanted))
}

/// The system's call that syncs a file's data; of tests, one that fails.
pub(super) type SyncCall = Arc<dyn Fn(&File) -> io::Result<()> + Send + Sync>;

/// A file that is synced on another thread.
pub(super) struct ToSync {
    file: File,
    call: SyncCall,
}

impl ToSync {
    pub(super) fn sync(&self) -> io::Result<()> {
        (self.call)(&self.file)
    }
}

/// The folder of the log's files.
pub(crate) struct Folder {
    path: PathBuf,
    /// The file that is written, with its number.
    open: Option<(u64, File)>,
    /// Which files there are to be, as last recorded.
    recorded: Option<FileSet>,
    sync: SyncCall,
}

impl Folder {
    /// Opens the folder, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        if !path.exists() {
            DirBuilder::new().mode(FOLDER_MODE).create(path)?;
            if let Some(above) = path.parent() {
                File::open(above)?.sync_all()?;
            }
        }
        Ok(Folder { path: path.to_owned(), open: None, recorded: None, sync: Arc::new(File::sync_data) })
    }

    #[cfg(test)]
    pub(super) fn sync_with(&mut self, call: SyncCall) {
        self.sync = call;
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file.
    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        self.path.join(file_name(number))
    }

    /// The numbers of the files, in order. Other files are left alone.
    pub(crate) fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            numbers.extend(entry?.file_name().to_str().and_then(number_of_file));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// How many bytes a file has.
    pub(crate) fn bytes_of(&self, number: u64) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path_of(number))?.len())
    }

    /// All bytes of a file.
    pub(crate) fn read(&self, number: u64) -> io::Result<Vec<u8>> {
        std::fs::read(self.path_of(number))
    }

    /// Writes. May be repeated after an error.
    pub(crate) fn write(&mut self, write: &Write<'_>) -> io::Result<()> {
        let padding = &ZEROS[..write.padding];
        self.write_bytes(write.file, write.at, &[&write.head, write.records, padding])
    }

    /// Writes these bytes, one piece behind the other. At byte 0 the file is new. May be repeated after an
    /// error.
    pub(super) fn write_bytes(&mut self, number: u64, mut at: u64, pieces: &[&[u8]]) -> io::Result<()> {
        let file = match &self.open {
            Some((open, file)) if *open == number && at > 0 => file,
            _ => {
                if at == 0 {
                    // One that could not be synced is never written again.
                    self.remove(number)?;
                }
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(at == 0).mode(FILE_MODE);
                let file = options.open(self.path_of(number))?;
                &self.open.insert((number, file)).1
            }
        };
        for bytes in pieces {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes a whole file again, and syncs it: an earlier process may have failed to.
    pub(super) fn write_file_again(&mut self, number: u64) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(self.path_of(number))?;
        write_again(&file, file.metadata()?.len() as usize)?;
        (self.sync)(&file)?;
        self.open = Some((number, file));
        Ok(())
    }

    /// What is behind this byte of a file goes.
    pub(super) fn cut_off(&self, number: u64, at: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path_of(number))?;
        if file.metadata()?.len() > at { file.set_len(at) } else { Ok(()) }
    }

    /// Another handle of the file that was written last, to read it.
    pub(super) fn reading_handle(&self) -> Option<File> {
        self.open.as_ref().and_then(|(_, file)| file.try_clone().ok())
    }

    /// Syncs the file that was written last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match &self.open {
            Some((_, file)) => (self.sync)(file),
            None => Ok(()),
        }
    }

    /// Another handle of the file that was written last, to sync it on another thread.
    pub(super) fn handle(&self) -> io::Result<ToSync> {
        let (_, file) = self.open.as_ref().ok_or_else(|| io::Error::other("no file was written yet"))?;
        Ok(ToSync { file: file.try_clone()?, call: Arc::clone(&self.sync) })
    }

    /// Syncs which files there are.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Closes a file, and syncs it.
    pub(crate) fn close(&self, number: u64, closing: &Closing) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(self.path_of(number))?;
        file.set_len(closing.at as u64)?;
        if closing.writes_again {
            write_again(&file, closing.at)?;
        }
        if closing.syncs_before {
            file.sync_all()?;
        }
        file.write_all_at(&closing.bytes, closing.at as u64)?;
        file.sync_all()
    }

    /// Puts other bytes in the place of a file, which keeps its bytes under another name.
    pub(crate) fn replace(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let path = self.path_of(number);
        let (aside, kept) = (path.with_extension("new"), path.with_extension("damaged"));
        write_aside(&aside, bytes)?;
        match std::fs::rename(&path, kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::rename(aside, path)?,
        }
        self.sync_names()
    }

    /// Which files there are to be, if that is recorded: logs of older versions have no record.
    pub(super) fn read_record(&mut self) -> io::Result<Result<Option<FileSet>, Damage>> {
        let Some(bytes) = self.kept(FILE_SET_NAME)? else { return Ok(Ok(None)) };
        Ok(FileSet::read(&bytes).map(|set| {
            self.recorded = Some(set);
            self.recorded
        }))
    }

    /// Records which files there are to be, whole or not at all (G6).
    pub(super) fn record(&mut self, set: FileSet) -> io::Result<()> {
        if self.recorded == Some(set) {
            return Ok(());
        }
        // Until it is synced it may be either.
        self.recorded = None;
        self.keep(FILE_SET_NAME, &set.to_bytes())?;
        self.recorded = Some(set);
        Ok(())
    }

    /// The same of a record that was read: an earlier process, or sync, may have failed to.
    pub(super) fn record_again(&mut self, set: FileSet) -> io::Result<()> {
        self.recorded = None;
        self.record(set)
    }

    /// Puts these bytes in the place of a file, whole or not at all, and for good.
    pub(super) fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let aside = path.with_extension("new");
        write_aside(&aside, bytes)?;
        std::fs::rename(aside, path)?;
        self.sync_names()
    }

    /// The same for a file of the log, which is among those that there are to be from then on.
    pub(super) fn keep_file(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        self.keep(&file_name(number), bytes)?;
        match self.recorded {
            Some(set) if set.last < number => self.record(FileSet { last: number, ..set }),
            _ => Ok(()),
        }
    }

    /// What was kept under a name, if anything was.
    pub(super) fn kept(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the files of this set are where the next start looks for them, the one that is written among
    /// them.
    pub(super) fn check(&self, set: FileSet) -> io::Result<()> {
        let mut paths: Vec<PathBuf> = (set.first..=set.last).map(|number| self.path_of(number)).collect();
        paths.extend(self.recorded.map(|_| self.path.join(FILE_SET_NAME)));
        for path in &paths {
            let gone = |error: io::Error| io::Error::new(error.kind(), gone(path, &error.to_string()));
            std::fs::metadata(path).map_err(gone)?;
        }
        let Some((number, open)) = &self.open else { return Ok(()) };
        let (path, open) = (self.path_of(*number), open.metadata()?);
        let found = std::fs::metadata(&path)?;
        match (found.dev(), found.ino()) == (open.dev(), open.ino()) {
            true => Ok(()),
            false => Err(io::Error::other(gone(&path, "another file lies in its place"))),
        }
    }

    /// The same of the set that was recorded last.
    pub(super) fn check_recorded(&self) -> io::Result<()> {
        self.recorded.filter(|set| set.first <= set.last).map_or(Ok(()), |set| self.check(set))
    }

    /// Syncs a file that was closed, and its name: its process may have died before it did either.
    pub(crate) fn sync_closed(&self, number: u64) -> io::Result<()> {
        File::open(self.path_of(number))?.sync_all()?;
        self.sync_names()
    }

    /// Removes a file for good: after the machine's crash, no later one is missing before it is.
    pub(crate) fn remove(&mut self, number: u64) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == number) {
            self.open = None;
        }
        match std::fs::remove_file(self.path_of(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync_names(),
        }
    }
}

/// Writes the first bytes of a file in their own place.
fn write_again(file: &File, bytes: usize) -> io::Result<()> {
    let mut piece = vec![0; COPY_BYTES.min(bytes)];
    for at in (0..bytes).step_by(COPY_BYTES) {
        let piece = &mut piece[..COPY_BYTES.min(bytes - at)];
        file.read_exact_at(piece, at as u64)?;
        file.write_all_at(piece, at as u64)?;
    }
    Ok(())
}

/// What an operator is told of a file that is not in its place.
fn gone(path: &Path, why: &str) -> String {
    format!("{} was moved or removed while the node runs ({why}): put it back", path.display())
}

/// Writes and syncs a file that takes another one's place.
fn write_aside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).field("open", &self.open).finish_non_exhaustive()
    }
}
