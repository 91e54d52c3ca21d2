//! Where a metadata store lies.

use redb::StorageBackend;
use redb::backends::FileBackend;
use std::cell::Cell;
use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A place that holds one store under a name, and can take a new one in its stead, whole or not at all.
pub trait Medium: Debug {
    /// How the bytes of a store are read and written.
    type Backend: StorageBackend;

    /// What the store is called in messages.
    fn name(&self) -> String;

    /// All bytes of the store, or `None` where there is none. [`io::ErrorKind::WouldBlock`] says that another
    /// process uses it.
    fn content(&self) -> io::Result<Option<Vec<u8>>>;

    /// Lays a store with this content beside the one that is there, in place of any that was laid before.
    fn lay(&self, content: &[u8]) -> io::Result<Self::Backend>;

    /// What was laid is the store from now on, durably, with every byte of it. A crash before this returns,
    /// or an error, leaves the one or the other.
    fn publish(&self) -> io::Result<()>;

    /// What was laid is not wanted.
    fn discard(&self) -> io::Result<()>;

    /// What lies where [`Medium::content`] looks for the store.
    fn whereabouts(&self) -> io::Result<Whereabouts>;

    /// Makes the place where a store lies anew, if it has gone with the store.
    fn restore(&self) -> io::Result<()>;
}

/// What lies where a store belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The store that was published last.
    InPlace,
    /// Nothing.
    Gone,
    /// Something else.
    Replaced,
}

/// A file in a folder of the file system. The folder must be there.
#[derive(Debug)]
pub struct FileMedium {
    path: PathBuf,
    laid: PathBuf,
    /// The file that was published last.
    published: Cell<Option<FileKey>>,
}

/// A file system's number and a file's number in it: what a file is, whatever it is called.
type FileKey = (u64, u64);

fn key_of(file: &Metadata) -> FileKey {
    (file.dev(), file.ino())
}

impl FileMedium {
    /// The file with this path, or the one that it is a link to.
    pub fn new(path: &Path) -> FileMedium {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        FileMedium { laid: path.with_extension("redb.new"), path, published: Cell::new(None) }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
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
        let laid = File::open(&self.laid)?;
        laid.sync_all()?;
        let key = key_of(&laid.metadata()?);
        fs::rename(&self.laid, &self.path)?;
        self.published.set(Some(key));
        File::open(self.folder())?.sync_all()
    }

    fn discard(&self) -> io::Result<()> {
        match fs::remove_file(&self.laid) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        match fs::metadata(&self.path) {
            Ok(found) if self.published.get() == Some(key_of(&found)) => Ok(Whereabouts::InPlace),
            Ok(_) => Ok(Whereabouts::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Whereabouts::Gone),
            Err(error) => Err(error),
        }
    }

    /// Makes the folder, and only on the file system that the store lay on: an empty folder on another one is
    /// where a volume was mounted, and what is written there would come back as an old record one day.
    fn restore(&self) -> io::Result<()> {
        let folder = self.folder();
        if let Err(error) = fs::metadata(folder) {
            let above = folder.parent().filter(|_| error.kind() == io::ErrorKind::NotFound).ok_or(error)?;
            self.is_on_same_file_system(&fs::metadata(above)?)?;
            DirBuilder::new().create(folder)?;
        }
        self.is_on_same_file_system(&fs::metadata(folder)?)
    }
}

impl FileMedium {
    fn is_on_same_file_system(&self, folder: &Metadata) -> io::Result<()> {
        match self.published.get() {
            Some((device, _)) if device != folder.dev() => {
                Err(io::Error::other("its folder is on another file system now: is a volume not mounted?"))
            }
            _ => Ok(()),
        }
    }
}
