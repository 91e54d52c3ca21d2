//! The files of the durable log.

use sidle_log_files::{Write, file_name, number_of_file};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Padding is written out of this.
const ZEROS: [u8; 4096] = [0; 4096];

/// Whether a folder has files of a durable log.
pub(crate) fn is_at(path: &Path) -> bool {
    let names = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_str().and_then(number_of_file).is_some())
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
    sync: SyncCall,
}

impl Folder {
    /// Opens the folder, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        if !path.exists() {
            std::fs::create_dir(path)?;
            if let Some(above) = path.parent() {
                File::open(above)?.sync_all()?;
            }
        }
        Ok(Folder { path: path.to_owned(), open: None, sync: Arc::new(File::sync_data) })
    }

    #[cfg(test)]
    pub(super) fn sync_with(&mut self, call: SyncCall) {
        self.sync = call;
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
        let file = match &self.open {
            Some((number, file)) if *number == write.file => file,
            _ => {
                let path = self.path_of(write.file);
                if write.at == 0 {
                    // One that could not be synced is never written again.
                    self.remove(write.file)?;
                }
                let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
                &self.open.insert((write.file, file)).1
            }
        };
        let mut at = write.at;
        let padding = &ZEROS[..write.padding];
        for bytes in [&write.head[..], write.records, padding] {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Syncs the file that was written last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match &self.open {
            Some((_, file)) => (self.sync)(file),
            None => Ok(()),
        }
    }

    /// Another handle of the file that was written last, to sync it on another thread.
    pub(super) fn handle(&self) -> io::Result<Option<ToSync>> {
        let handle = |file: &File| Ok(ToSync { file: file.try_clone()?, call: Arc::clone(&self.sync) });
        self.open.as_ref().map(|(_, file)| handle(file)).transpose()
    }

    /// Syncs which files there are.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Ends a file at this length with these bytes, and syncs it.
    pub(crate) fn close(&self, number: u64, at: u64, end: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path_of(number))?;
        file.set_len(at)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(at))?;
        file.write_all(end)?;
        file.sync_all()
    }

    /// Puts other bytes in the place of a file, which keeps its bytes under another name.
    pub(crate) fn replace(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let path = self.path_of(number);
        let (aside, kept) = (path.with_extension("new"), path.with_extension("damaged"));
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&path, kept)?;
        std::fs::rename(aside, path)?;
        self.sync_names()
    }

    /// Lets go of the file that was written last: it is opened anew if it is written again.
    pub(super) fn forget_open(&mut self) {
        self.open = None;
    }

    /// Syncs a file that was closed, perhaps just before its process died.
    pub(crate) fn sync_closed(&self, number: u64) -> io::Result<()> {
        File::open(self.path_of(number))?.sync_all()
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

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).field("open", &self.open).finish_non_exhaustive()
    }
}
