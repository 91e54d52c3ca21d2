//! Where a metadata store is kept.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Holds one store under a name, and can replace it. Each call is one step: a crash may come between any two.
/// Only the two syncs make anything durable.
///
/// [`io::ErrorKind::WouldBlock`] means that another process uses the store.
pub trait Medium: Debug {
    /// The store's name for messages.
    fn name(&self) -> String;

    /// All bytes of the store, or `None` if there is none. Locks the store against other processes.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;

    /// Creates and locks an empty file beside the store. Fails if a store has appeared that was never read.
    fn create_aside(&mut self) -> io::Result<()>;

    /// Writes the bytes of the file aside.
    fn write_aside(&mut self, content: &[u8]) -> io::Result<()>;

    /// Makes the bytes of the file aside durable.
    fn sync_aside(&mut self) -> io::Result<()>;

    /// Renames the file aside to the store's name, replacing the old store.
    fn rename_aside(&mut self) -> io::Result<()>;

    /// Makes the name durable.
    fn sync_name(&mut self) -> io::Result<()>;

    /// Removes the file aside, if there is one.
    fn discard_aside(&mut self) -> io::Result<()>;

    /// What the next start would find at the store's path.
    fn whereabouts(&self) -> io::Result<Whereabouts>;

    /// Recreates the store's folder if it was removed with the store.
    fn restore(&mut self) -> io::Result<()>;
}

/// What is found at the store's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The store that was last read or renamed.
    InPlace,
    /// Nothing.
    Gone,
    /// Something else.
    Replaced,
}

/// A file in an existing folder of the file system.
#[derive(Debug)]
pub struct FileMedium {
    path: PathBuf,
    aside_path: PathBuf,
    /// The store, locked by this process.
    store: Option<LockedFile>,
    /// The file aside, locked too: it keeps its lock when it becomes the store.
    aside: Option<LockedFile>,
}

/// How often, and how long each time, who has the store waits for one who is about to give up.
const WAITS: u32 = 1000;
const WAIT: std::time::Duration = std::time::Duration::from_millis(1);

#[derive(Debug)]
struct LockedFile {
    file: File,
    key: FileKey,
}

/// Device and inode number: they identify a file whatever its name.
type FileKey = (u64, u64);

fn key_of(file: &Metadata) -> FileKey {
    (file.dev(), file.ino())
}

/// The file with this name, if any.
fn key_at(path: &Path) -> io::Result<Option<FileKey>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(key_of(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl LockedFile {
    /// Locks a file opened under this name; `None` if it has lost the name meanwhile, because another process
    /// replaced the store.
    fn lock(file: File, path: &Path) -> io::Result<Option<LockedFile>> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            // Where files cannot be locked, the data directory's lock must suffice.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let key = key_of(&file.metadata()?);
        let locked = LockedFile { file, key };
        Ok((key_at(path)? == Some(key)).then_some(locked))
    }
}

impl Drop for LockedFile {
    /// Closing the file is not enough: a process that this one is starting shares it until its exec.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl FileMedium {
    /// The file at this path; a symbolic link is followed.
    pub fn new(path: &Path) -> FileMedium {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut aside_path = path.clone().into_os_string();
        aside_path.push(".new");
        FileMedium { aside_path: aside_path.into(), path, store: None, aside: None }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
    }

    fn aside(&mut self) -> io::Result<&mut LockedFile> {
        self.aside.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_on_same_file_system(&self, folder: &Metadata) -> io::Result<()> {
        match &self.store {
            Some(LockedFile { key: (device, _), .. }) if *device != folder.dev() => {
                Err(io::Error::other("its folder is on another file system now: is a volume not mounted?"))
            }
            _ => Ok(()),
        }
    }
}

impl Medium for FileMedium {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        while self.store.is_none() {
            let file = match File::open(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            self.store = LockedFile::lock(file, &self.path)?;
        }
        let Some(LockedFile { file, .. }) = &mut self.store else { return Ok(None) };
        let mut content = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut content)?;
        Ok(Some(content))
    }

    fn create_aside(&mut self) -> io::Result<()> {
        self.aside = None;
        let mut waits = 0;
        let aside = loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&self.aside_path)?;
            match LockedFile::lock(file, &self.aside_path) {
                Ok(Some(aside)) => break aside,
                Ok(None) => {}
                // Another process found no store, and is about to find this one.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && self.store.is_some() && waits < WAITS =>
                {
                    waits += 1;
                    std::thread::sleep(WAIT);
                }
                Err(error) => return Err(error),
            }
        };
        // Only the owner of the file aside renames it, so the file with the name now stays.
        let found = key_at(&self.path)?;
        if found.is_some() && found != self.store.as_ref().map(|store| store.key) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        aside.file.set_len(0)?;
        self.aside = Some(aside);
        Ok(())
    }

    fn write_aside(&mut self, content: &[u8]) -> io::Result<()> {
        self.aside()?.file.write_all(content)
    }

    fn sync_aside(&mut self) -> io::Result<()> {
        self.aside()?.file.sync_all()
    }

    fn rename_aside(&mut self) -> io::Result<()> {
        self.aside()?;
        fs::rename(&self.aside_path, &self.path)?;
        self.store = self.aside.take();
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        File::open(self.folder())?.sync_all()
    }

    fn discard_aside(&mut self) -> io::Result<()> {
        match self.aside.take() {
            Some(_) => fs::remove_file(&self.aside_path),
            None => Ok(()),
        }
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(match key_at(&self.path)? {
            None => Whereabouts::Gone,
            found if found == self.store.as_ref().map(|store| store.key) => Whereabouts::InPlace,
            Some(_) => Whereabouts::Replaced,
        })
    }

    /// Recreates the folder, but only on the store's own file system. An empty folder on another one is an
    /// unmounted volume's mount point: a store written there would return one day as an old one.
    fn restore(&mut self) -> io::Result<()> {
        let folder = self.folder();
        if let Err(error) = fs::metadata(folder) {
            let above = folder.parent().filter(|_| error.kind() == io::ErrorKind::NotFound).ok_or(error)?;
            self.is_on_same_file_system(&fs::metadata(above)?)?;
            DirBuilder::new().create(folder)?;
        }
        self.is_on_same_file_system(&fs::metadata(folder)?)
    }
}
