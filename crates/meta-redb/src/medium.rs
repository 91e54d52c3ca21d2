//! Where a metadata store lies.

use redb::StorageBackend;
use redb::backends::FileBackend;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A place that holds one store under a name, and can take a new one in its stead, whole or not at all.
pub trait Medium: Debug {
    /// How the bytes of a store are read and written.
    type Backend: StorageBackend;

    /// What the store is called in messages.
    fn name(&self) -> String;

    /// All bytes of the store, or `None` where there is none. [`io::ErrorKind::WouldBlock`] says that another process
    /// uses it.
    fn content(&self) -> io::Result<Option<Vec<u8>>>;

    /// Lays a store with this content beside the one that is there, in place of any that was laid before.
    fn lay(&self, content: &[u8]) -> io::Result<Self::Backend>;

    /// What was laid is the store from now on, durably, with every byte of it. A crash before this returns, or an error,
    /// leaves the one or the other.
    fn publish(&self) -> io::Result<()>;

    /// What was laid is not wanted.
    fn discard(&self) -> io::Result<()>;
}

/// A file in a folder of the file system. The folder must be there.
#[derive(Debug)]
pub struct FileMedium {
    path: PathBuf,
    laid: PathBuf,
}

impl FileMedium {
    /// The file with this path, or the one that it is a link to.
    pub fn new(path: &Path) -> FileMedium {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        FileMedium { laid: path.with_extension("redb.new"), path }
    }
}

impl Medium for FileMedium {
    type Backend = FileBackend;

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn content(&self) -> io::Result<Option<Vec<u8>>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            // Where files cannot be locked the data directory's lock has to do.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(Some(content))
    }

    fn lay(&self, content: &[u8]) -> io::Result<FileBackend> {
        self.discard()?;
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&self.laid)?;
        file.write_all(content)?;
        FileBackend::new(file).map_err(io::Error::other)
    }

    fn publish(&self) -> io::Result<()> {
        File::open(&self.laid)?.sync_all()?;
        fs::rename(&self.laid, &self.path)?;
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }

    fn discard(&self) -> io::Result<()> {
        match fs::remove_file(&self.laid) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
