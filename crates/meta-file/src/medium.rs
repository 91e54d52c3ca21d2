//! Where a metadata store lies.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A place that holds one store under a name, and can take a new one in its stead. Each call is one step: a
/// crash may come between any two, and none but the two syncs makes anything durable.
///
/// [`io::ErrorKind::WouldBlock`] says that another process uses the store.
pub trait Medium: Debug {
    /// What the store is called in messages.
    fn name(&self) -> String;

    /// All bytes of the store, or `None` where there is none. No other process can use it from now on.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;

    /// Opens an empty file beside the store, which no other process can use. Refused where a store has
    /// appeared that was never read.
    fn create_aside(&mut self) -> io::Result<()>;

    /// Writes the bytes of the file aside.
    fn write_aside(&mut self, content: &[u8]) -> io::Result<()>;

    /// Makes the bytes of the file aside durable.
    fn sync_aside(&mut self) -> io::Result<()>;

    /// Gives the file aside the store's name, in place of the store that had it.
    fn rename_aside(&mut self) -> io::Result<()>;

    /// Makes the name durable.
    fn sync_name(&mut self) -> io::Result<()>;

    /// Removes the file aside, if there is one.
    fn discard_aside(&mut self) -> io::Result<()>;

    /// What lies where the next start looks for the store.
    fn whereabouts(&self) -> io::Result<Whereabouts>;

    /// Makes the place where a store lies anew, if it has gone with the store.
    fn restore(&mut self) -> io::Result<()>;
}

/// What lies where a store belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The store that was read or named last.
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
    aside_path: PathBuf,
    /// The store, which this process has locked.
    store: Option<LockedFile>,
    /// The file aside, locked as well: it keeps its lock when it becomes the store.
    aside: Option<LockedFile>,
}

/// A file that no other process can lock.
#[derive(Debug)]
struct LockedFile {
    file: File,
    key: FileKey,
}

/// A file system's number and a file's number in it: what a file is, whatever it is called.
type FileKey = (u64, u64);

fn key_of(file: &Metadata) -> FileKey {
    (file.dev(), file.ino())
}

/// What has this name, if anything has.
fn key_at(path: &Path) -> io::Result<Option<FileKey>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(key_of(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl LockedFile {
    /// Locks a file that was opened under this name; `None` if it has lost the name meanwhile, as a store
    /// does when another process replaces it.
    fn lock(file: File, path: &Path) -> io::Result<Option<LockedFile>> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            // Where files cannot be locked the data directory's lock has to do.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let key = key_of(&file.metadata()?);
        let locked = LockedFile { file, key };
        Ok((key_at(path)? == Some(key)).then_some(locked))
    }
}

impl Drop for LockedFile {
    /// Closing the file would not do: a process that this one is just starting still has it, until it runs
    /// its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl FileMedium {
    /// The file with this path, or the one that it is a link to.
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
        let aside = loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&self.aside_path)?;
            if let Some(aside) = LockedFile::lock(file, &self.aside_path)? {
                break aside;
            }
        };
        // Only who has the file aside gives it the name, so what has the name now stays.
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

    /// Makes the folder, and only on the file system that the store lay on: an empty folder on another one is
    /// where a volume was mounted, and what is written there would come back as an old record one day.
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
