//! The data directory while the node runs: it may be removed, or its file system may fill up.
//!
//! A directory removed while in use is gone at the next start, and nothing fails until then. So the node
//! checks it, writes its identity anew, and reports what it cannot mend.

use super::{DataDir, DataDirError, FOLDER_MODE, IDENTITY_FILE, Identity, LOCK_FILE, locked, refused};
use rustix::fs::{Access, access, statvfs};
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// A file system's number and a file's number in it: the file's identity under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
}

impl FileKey {
    /// The file with this metadata.
    pub(super) fn of(file: &Metadata) -> FileKey {
        FileKey { device: file.dev(), inode: file.ino() }
    }
}

/// Where the identity was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In its place.
    InPlace,
    /// Nowhere; it has been written anew.
    WrittenAnew,
}

impl DataDir {
    /// Ensures that the identity is where the next start looks for it.
    pub(crate) fn keep(&self, identity: &Identity) -> Result<Kept, DataDirError> {
        let path = self.path.join(IDENTITY_FILE);
        match fs::metadata(&path) {
            Ok(found) if self.known_file() == Some(FileKey::of(&found)) => return Ok(Kept::InPlace),
            Ok(_) => {
                let what =
                    "was replaced while the node runs, which will replace it again: stop the node first";
                return Err(DataDirError::Disturbed { path, what });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&path)(error)),
        }
        self.restore_folder()?;
        self.save(identity)?;
        Ok(Kept::WrittenAnew)
    }

    /// What keeps the node from writing to the directory, now or soon.
    pub(crate) fn trouble(&self) -> Option<String> {
        let path = self.path.display();
        if let Err(error) = access(&self.path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            return Some(format!("the data directory {path} cannot be read and written: {error}"));
        }
        let is_full = statvfs(&self.path).is_ok_and(|system| system.f_blocks > 0 && system.f_bavail == 0);
        is_full.then(|| format!("the file system of the data directory {path} is full"))
    }

    /// The folder and its lock, on their first file system: a folder on another one is the mount point of
    /// a volume.
    fn restore_folder(&self) -> Result<(), DataDirError> {
        let is_here = |folder: &Path| match fs::metadata(folder) {
            Ok(found) if self.known_file().is_none_or(|known| known.device == found.dev()) => Ok(true),
            Ok(_) => {
                let what = "is on another file system now: is a volume not mounted?";
                Err(DataDirError::Disturbed { path: folder.to_owned(), what })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(refused(folder)(error)),
        };
        if !is_here(&self.path)? {
            let above = self.path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
            is_here(above)?;
            DirBuilder::new().mode(FOLDER_MODE).create(&self.path).map_err(refused(&self.path))?;
        }
        let lock_path = self.path.join(LOCK_FILE);
        if fs::exists(&lock_path).unwrap_or(false) {
            return Ok(());
        }
        let lock = File::create(&lock_path).map_err(refused(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => *locked(&self.lock) = lock,
            Err(TryLockError::WouldBlock) => return Err(DataDirError::InUse(self.path.clone())),
            Err(TryLockError::Error(error)) => return Err(refused(&lock_path)(error)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_removed_is_made_anew_and_locked() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("data");
        let dir = DataDir::open(&path).unwrap();
        let identity = dir.begin_life().unwrap();
        dir.keep_folder();
        assert_eq!(dir.keep(&identity).unwrap(), Kept::InPlace);
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(dir.keep(&identity).unwrap(), Kept::WrittenAnew);
        assert_eq!(dir.keep(&identity).unwrap(), Kept::InPlace);
        assert!(matches!(DataDir::open(&path), Err(DataDirError::InUse(_))));
        drop(dir);
        let next = DataDir::open(&path).unwrap().begin_life().unwrap();
        assert_eq!((next.node, next.starts), (identity.node, identity.starts + 1));
    }

    #[test]
    fn an_identity_that_was_replaced_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let identity = dir.begin_life().unwrap();
        let (path, copy) = (folder.path().join(IDENTITY_FILE), folder.path().join("copy"));
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        let error = dir.keep(&identity).unwrap_err().to_string();
        assert!(error.contains("node.json was replaced"), "{error}");
        // The directory holds what is written next.
        dir.save(&identity).unwrap();
        assert_eq!(dir.keep(&identity).unwrap(), Kept::InPlace);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_reported_until_it_can() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("data");
        let dir = DataDir::open(&path).unwrap();
        let identity = dir.begin_life().unwrap();
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "in the way").unwrap();
        assert!(dir.keep(&identity).unwrap_err().to_string().contains("cannot use"));
        assert!(dir.trouble().is_some());
        fs::remove_file(&path).unwrap();
        assert_eq!(dir.keep(&identity).unwrap(), Kept::WrittenAnew);
        assert_eq!(dir.trouble(), None);
    }
}
