//! A folder for one run's files, removed with the run in every case.
//!
//! A killed run cannot remove its folder. So each run holds a lock on its folder, which the system
//! releases when the process ends, and each start first removes the folders of its kind without a holder. A
//! new folder that is not locked yet may be taken for one of those; its maker then detects that it
//! is gone, and makes another.

use std::ffi::OsStr;
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempDir};

/// A file system in memory, if there is one.
const MEMORY_FILES: &str = "/dev/shm";

/// A run's folder; removed when dropped.
#[derive(Debug)]
pub struct RunFolder {
    folder: TempDir,
    // Released after the folder was removed, so that no other process removes it at the same time.
    _lock: File,
}

impl RunFolder {
    /// A folder whose name starts with `prefix`, in memory unless `TMPDIR` names one. A first commit on disk
    /// waits until the disk has taken all earlier writes of any program, a compiler for example, and that can
    /// take seconds.
    pub fn in_memory(prefix: &str) -> io::Result<RunFolder> {
        if std::env::var_os("TMPDIR").is_none()
            && let Ok(folder) = RunFolder::within(Path::new(MEMORY_FILES), prefix)
        {
            return Ok(folder);
        }
        RunFolder::within(&std::env::temp_dir(), prefix)
    }

    /// A folder whose name starts with `prefix`, in `TMPDIR` or where the system keeps such files: on a disk,
    /// as a rule.
    pub fn on_disk(prefix: &str) -> io::Result<RunFolder> {
        RunFolder::within(&std::env::temp_dir(), prefix)
    }

    /// A folder with a name that starts with `prefix`, in `parent`. Those of earlier, killed runs are removed
    /// first.
    pub fn within(parent: &Path, prefix: &str) -> io::Result<RunFolder> {
        remove_abandoned(parent, prefix);
        loop {
            let folder = Builder::new().prefix(prefix).tempdir_in(parent)?;
            if let Some(lock) = lock(folder.path())? {
                return Ok(RunFolder { folder, _lock: lock });
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks a folder; `None` if another process holds it, or has removed it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let opened = match File::open(folder) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match opened.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let is_same = |now: &Metadata, then: &Metadata| (now.dev(), now.ino()) == (then.dev(), then.ino());
    match folder.symlink_metadata() {
        Ok(now) if is_same(&now, &opened.metadata()?) => Ok(Some(opened)),
        _ => Ok(None),
    }
}

/// Removes the folders of this user's runs without a holder. A failed removal is left to the next
/// start.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = parent.read_dir() else { return };
    let ours = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path: &PathBuf| {
        let has_prefix =
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(prefix));
        has_prefix && path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
    });
    for folder in ours {
        if let Ok(Some(_lock)) = lock(&folder) {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join("sidle-demo-killed");
        std::fs::create_dir_all(abandoned.join("source")).unwrap();
        std::fs::write(abandoned.join("source/log"), "half").unwrap();
        for other in ["sidle-peers-x", "sidle"] {
            std::fs::create_dir(parent.path().join(other)).unwrap();
        }
        std::fs::write(parent.path().join("sidle-demo-file"), "").unwrap();
        std::os::unix::fs::symlink(parent.path().join("sidle"), parent.path().join("sidle-demo-link"))
            .unwrap();
        let first = RunFolder::within(parent.path(), "sidle-demo-").unwrap();
        std::fs::write(first.path().join("log"), "runs").unwrap();
        assert!(!abandoned.exists());
        let second = RunFolder::within(parent.path(), "sidle-demo-").unwrap();
        assert!(first.path().join("log").exists(), "a run that goes on is left alone");
        for other in ["sidle-peers-x", "sidle", "sidle-demo-file", "sidle-demo-link"] {
            assert!(parent.path().join(other).exists(), "{other}");
        }
        let paths = [first.path().to_owned(), second.path().to_owned()];
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn a_folder_that_was_removed_is_not_held() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("sidle-demo-x");
        assert!(lock(&folder).unwrap().is_none());
        std::fs::create_dir(&folder).unwrap();
        let held = lock(&folder).unwrap();
        assert!(held.is_some() && lock(&folder).unwrap().is_none());
        std::fs::remove_dir(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        assert!(lock(&folder).unwrap().is_some(), "another folder of the same name");
    }
}
