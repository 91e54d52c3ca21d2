//! Whether the log that a start finds is the one with which the node's last start went on.
//!
//! A folder that is not mounted, was moved or was exchanged looks as one of a node without data, or has
//! another log. To go on would acknowledge reads that do not show what was acknowledged.

use super::folder::{Folder, is_at};
use sidle_log_files::LogFile;
use sidle_types::LogId;
use std::fs::read_dir;
use std::io;
use std::path::Path;

/// What a start finds in the place of the log that the node's identity knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundLog {
    /// That log, or one whose name only its reader learns.
    Known,
    /// It was set aside, since others have taken over what it had.
    SetAside,
    /// No log.
    Missing,
    /// Another one.
    Other(LogId),
}

/// What is in this folder, where the log `known` is to be.
pub(crate) fn find(path: &Path, known: &str) -> io::Result<FoundLog> {
    let found = match log_in(path)? {
        Named::No => FoundLog::Missing,
        Named::Somehow => return Ok(FoundLog::Known),
        Named::As(log) if log.to_string() == known => return Ok(FoundLog::Known),
        Named::As(log) => FoundLog::Other(log),
    };
    Ok(if is_set_aside(path, known)? { FoundLog::SetAside } else { found })
}

/// The log in a folder.
enum Named {
    /// There is none.
    No,
    /// There is one, and it is damaged.
    Somehow,
    As(LogId),
}

fn log_in(path: &Path) -> io::Result<Named> {
    if !is_at(path) {
        return Ok(Named::No);
    }
    let mut folder = Folder::open(path)?;
    match folder.read_record()? {
        Ok(Some(set)) => return Ok(Named::As(set.log)),
        Err(_) => return Ok(Named::Somehow),
        // Of an older version.
        Ok(None) => {}
    }
    let Some(first) = folder.numbers()?.first().copied() else { return Ok(Named::No) };
    let bytes = folder.read(first)?;
    let named = LogFile::open(&bytes, first, None).map(|file| Named::As(file.log()));
    Ok(named.unwrap_or(Named::Somehow))
}

/// Whether a folder beside this one has the log: `durable-log.taken-over-1` and so on.
fn is_set_aside(path: &Path, known: &str) -> io::Result<bool> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(false);
    };
    let begins = format!("{name}{}", super::set_aside::ASIDE);
    for entry in read_dir(above)? {
        let entry = entry?;
        let is_aside = entry.file_name().to_str().is_some_and(|name| name.starts_with(&begins));
        if is_aside && matches!(log_in(&entry.path())?, Named::As(log) if log.to_string() == known) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::set_aside::set_aside;
    use super::*;
    use sidle_log_files::FileSet;

    const LOG: LogId = LogId([7; 16]);

    #[test]
    fn a_log_that_is_missing_or_exchanged_is_told_from_one_that_was_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("durable-log");
        let find = || find(&path, &LOG.to_string()).unwrap();
        let begin = |log| Folder::open(&path).unwrap().record(FileSet { log, first: 1, last: 0 }).unwrap();
        assert_eq!(find(), FoundLog::Missing);
        assert!(!path.exists(), "it is only looked at");
        // As an empty mount point.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(find(), FoundLog::Missing);
        begin(LOG);
        assert_eq!(find(), FoundLog::Known);
        begin(LogId([8; 16]));
        assert_eq!(find(), FoundLog::Other(LogId([8; 16])));
        std::fs::write(path.join("files"), "nonsense").unwrap();
        assert_eq!(find(), FoundLog::Known, "its reader says what is damaged");
        begin(LOG);
        set_aside(&path, LOG).unwrap();
        assert_eq!(find(), FoundLog::SetAside);
        // A death behind that: the new log is there, and the identity does not know it.
        begin(LogId([9; 16]));
        assert_eq!(find(), FoundLog::SetAside);
    }
}
