//! A log that others have taken over goes out of the way: it is renamed, and never removed.

use super::folder::Folder;
use sidle_types::LogId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Behind the folder's name, and before a number.
pub(super) const ASIDE: &str = ".taken-over-";

/// Renames this folder, if it has this log, to the first free one of `durable-log.taken-over-1` and so on,
/// whole or not at all. Its new place; nothing if it is gone already.
pub(crate) fn set_aside(path: &Path, log: LogId) -> io::Result<Option<PathBuf>> {
    if !path.exists() {
        return Ok(None);
    }
    let record = Folder::open(path)?.read_record()?;
    let found = record.map_err(|damage| io::Error::other(damage.to_string()))?;
    if found.is_none_or(|set| set.log != log) {
        return Err(io::Error::other(format!("it has another log than {log}, which was taken over")));
    }
    let free = (1..=u32::MAX).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{ASIDE}{number}"));
        PathBuf::from(name)
    });
    let aside = free.into_iter().find(|aside| !aside.exists());
    let aside = aside.ok_or_else(|| io::Error::other("there are too many of them"))?;
    std::fs::rename(path, &aside)?;
    if let Some(above) = path.parent() {
        File::open(above)?.sync_all()?;
    }
    Ok(Some(aside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_log_files::FileSet;

    #[test]
    fn only_the_log_that_was_taken_over_is_renamed_and_none_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("durable-log");
        let log = LogId([7; 16]);
        assert_eq!(set_aside(&path, log).unwrap(), None);
        for number in 1..=2 {
            let mut folder = Folder::open(&path).unwrap();
            folder.record(FileSet { log, first: 1, last: 0 }).unwrap();
            assert!(set_aside(&path, LogId([8; 16])).is_err() && path.exists());
            let aside = dir.path().join(format!("durable-log.taken-over-{number}"));
            assert_eq!(set_aside(&path, log).unwrap(), Some(aside.clone()));
            assert!(aside.join("files").exists() && !path.exists());
        }
        std::fs::create_dir(&path).unwrap();
        assert!(set_aside(&path, log).is_err(), "nobody knows whose it is");
    }
}
